"""PTX out of binaries: fat binaries that nvcc made, alone and inside other files, and files that are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli.main import main
from tilewright.driver.check.check import check_file
from tilewright.driver.check.sources.folder import expand

DATA = Path(__file__).parents[3] / "data" / "fatbin"
FAT = (DATA / "none.fatbin").read_bytes()


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["none", "size", "speed"])
def test_a_fat_binary_is_checked_text_by_text(name: str) -> None:
    path = str(DATA / f"{name}.fatbin")
    names = list(expand((path,)))
    assert names == ([path] if len(names) == 1 else [f"{path}::{number + 1}" for number in range(len(names))])
    for each in names:
        report = check_file(each)
        assert report.kernels and not report.error and report.text.lstrip().startswith(("//", ".version"))


def test_a_library_is_searched_for_fat_binaries(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(b"\x7fELF" + bytes(1000) + b"P\xedU\xba false " + bytes(7) + FAT + bytes(100))
    texts = [check_file(each).text for each in expand((str(path),))]
    assert texts == [check_file(each).text for each in expand((str(DATA / "none.fatbin"),))]


def test_a_number_beyond_the_last_and_a_file_without_ptx_are_errors(tmp_path: Path) -> None:
    path = str(DATA / "none.fatbin")
    assert "PTX text" in check_file(f"{path}::99").error and check_file(f"{path}::0").remedy
    assert "cannot read" in check_file("no_such.so::1").error
    (tmp_path / "code.cubin").write_bytes(b"\x7fELF" + bytes(500))
    report = check_file(str(tmp_path / "code.cubin"))
    assert "without PTX" in report.error and "compute_90a" in report.remedy


@pytest.mark.sample(3)
@pytest.mark.parametrize("cut", [4, 8, 20, 64, 100, len(FAT) // 2, len(FAT) - 1])
def test_a_truncated_or_damaged_binary_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cut: int
) -> None:
    path = tmp_path / "cut.fatbin"
    for data in (FAT[:cut], FAT[:cut] + bytes([FAT[cut] ^ 0xFF]) + FAT[cut + 1 :]):
        path.write_bytes(data)
        code = main(["check", str(path), "--no-cache", "--isolated"])
        out = capsys.readouterr()
        assert code in (0, 1, 2, 3) and "Traceback" not in out.out + out.err
        assert code != 2 or "error:" in out.out


def test_a_binary_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kernel.fatbin"
    path.write_bytes(FAT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tilewright.driver.repair.edits.repaired_text", lambda file: file.text + "// edited")
    for name in ("kernel.fatbin", *expand(("kernel.fatbin",))):
        main(["check", name, "--fix", "--no-cache", "--isolated", "--budget", "2"])
    assert path.read_bytes() == FAT and [each.name for each in tmp_path.iterdir()] == ["kernel.fatbin"]
