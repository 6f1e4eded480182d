"""Which files of a folder are checked, and that the others are counted."""

from __future__ import annotations

from pathlib import Path

from tilewright.driver.check.check import check_file
from tilewright.driver.check.sources.folder import expand, skipped_files


def made(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("", encoding="utf-8")
    return str(folder)


def names(folder: Path) -> list[str]:
    return [Path(path).relative_to(folder).as_posix() for path in expand([str(folder)])]


def test_ptx_files_are_checked_and_other_kernels_counted(tmp_path: Path) -> None:
    folder = made(tmp_path, "b.ptx", "a/c.ptx", "b.ttgir", "a/c.ttgir", "a/c.cubin", "notes.txt", "a/c.json")
    assert names(tmp_path) == ["a/c.ptx", "b.ptx"]
    (skipped,) = skipped_files([folder, str(tmp_path / "b.ptx")])
    assert (skipped.folder, skipped.suffix, skipped.checked) == (folder, ".ptx", 2)
    assert skipped.by_suffix == ((".cubin", 1), (".ttgir", 2))


def test_a_folder_without_ptx_is_checked_by_its_ttgir(tmp_path: Path) -> None:
    folder = made(tmp_path, "k.ttgir", "k.mlir")
    assert names(tmp_path) == ["k.ttgir"]
    (skipped,) = skipped_files([folder])
    assert skipped.by_suffix == ((".mlir", 1),)


def test_a_folder_with_nothing_to_check_is_an_error_and_one_with_nothing_else_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    assert list(expand([str(tmp_path / "none")])) == [str(tmp_path / "none")]
    assert "no .ptx file in it" in check_file(str(tmp_path / "none")).error
    made(tmp_path / "plain", "k.ptx")
    assert skipped_files([str(tmp_path / "none"), str(tmp_path / "plain")]) == ()
    assert list(expand(["missing.ptx", "-"])) == ["missing.ptx", "-"]
