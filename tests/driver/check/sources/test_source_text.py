"""Lines of programs are found beside the text, in the working directory and below roots, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.driver.check.sources.source_text import SourceFiles


def test_where_a_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "beside.cu").write_text("one\ntwo\n")
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "here.cu").write_text("here\n")
    (tmp_path / "work" / "src" / "deep.cuh").write_text("deep\r\n")
    monkeypatch.chdir(tmp_path / "work")
    files = SourceFiles(str(tmp_path / "out" / "k.ptx"))
    assert [files.line("beside.cu", number) for number in (1, 2, 3, 0)] == ["one", "two", "", ""]
    assert files.line("here.cu", 1) == "here"
    assert files.line(str(tmp_path / "work" / "src" / "deep.cuh"), 1) == "deep"
    elsewhere = "/build/machine/project/src/deep.cuh"
    assert files.line(elsewhere, 1) == ""
    assert SourceFiles("k.ptx", (str(tmp_path / "work"),)).line(elsewhere, 1) == "deep"
    assert SourceFiles("k.ptx", (str(tmp_path / "absent"),)).line("../x/deep.cuh", 1) == ""


def test_only_programs_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "shadow"
    secret.write_text("secret\n")
    folder = tmp_path / "folder.py"
    folder.mkdir()
    files = SourceFiles()
    assert files.line(str(secret), 1) == "" and files.line(str(folder), 1) == "" and files.line("a\0.py", 1) == ""
    named = tmp_path / "shadow.py"
    named.write_bytes(b"\xff is no text\n")
    assert files.line(str(named), 1).endswith("is no text")
