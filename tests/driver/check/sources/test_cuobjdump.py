"""PTX that only cuobjdump can read out of a binary: it is asked, bounded, and its absence is one message. The program
here is a script in its place."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_file
from tilewright.driver.check.sources import cuobjdump, embedded

TEXT = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n"
CUBIN = b"\x7fELF" + bytes(14) + b"\xbe\x00" + bytes(500)
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a script in the program's place; what it does is the argument."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(script: str) -> Path:
        path = folder / "cuobjdump"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return put


def cubin(tmp_path: Path, content: bytes = CUBIN) -> str:
    path = tmp_path / "code.cubin"
    path.write_bytes(content)
    return str(path)


def test_what_it_extracts_is_checked_in_its_order(tmp_path: Path, program) -> None:
    lines = "\n".join(f"printf '%s' '{TEXT.replace(' k(', f' k{n}(')}' > code.{n}.sm_90a.ptx" for n in (10, 2))
    program(f'test "$1 $2" = "--extract-ptx all" && test -f "$3" || exit 1\n{lines}')
    path = cubin(tmp_path)
    assert embedded.names_of(path) == (f"{path}::1", f"{path}::2")
    assert [check_file(f"{path}::{number}").kernels[0].name for number in (1, 2)] == ["k2", "k10"]


def test_a_cubin_without_ptx_is_one_message(tmp_path: Path, program) -> None:
    found = program("exit 255")
    report = check_file(cubin(tmp_path))
    assert "is a cubin without PTX" in report.error and f"{found} finds none either" in report.error
    assert "compute_90a" in report.remedy and "install" not in report.remedy


def test_its_absence_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuobjdump, "find_cuobjdump", lambda: None)
    report = check_file(cubin(tmp_path))
    assert "without PTX" in report.error and "nvidia-cuda-cuobjdump" in report.remedy


def test_it_is_bounded(tmp_path: Path, program, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cubin(tmp_path)
    monkeypatch.setattr(cuobjdump, "SECONDS_MAX", 0.2)
    slow = program("exec sleep 20")
    with pytest.raises(TilewrightError, match="took more than"):
        cuobjdump.extracted(slow, path)
    monkeypatch.setattr(cuobjdump, "SECONDS_MAX", 20)
    monkeypatch.setattr(cuobjdump, "TEXT_BYTES_MAX", 1 << 20)
    large = program("head -c 2000000 /dev/zero > code.1.sm_90.ptx")
    with pytest.raises(TilewrightError, match="more than 1 MiB of PTX"):
        cuobjdump.extracted(large, path)
    with pytest.raises(TilewrightError, match="can't be run"):
        cuobjdump.extracted(tmp_path, path)


def test_a_binary_that_can_be_read_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError

    monkeypatch.setattr(cuobjdump, "find_cuobjdump", never)
    path = Path(__file__).parents[3] / "data" / "fatbin" / "none.fatbin"
    assert embedded.names_of(str(path))


def test_a_text_that_can_not_be_decompressed_is_asked_for(tmp_path: Path, program) -> None:
    content = bytearray((Path(__file__).parents[3] / "data" / "fatbin" / "speed.fatbin").read_bytes())
    changed = (
        bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        for place in range(100, len(content))
    )
    damaged = next(each for each in changed if embedded.texts_in(each)[1])
    program(f"printf '%s' '{TEXT}' > code.1.sm_90a.ptx")
    path = tmp_path / "damaged.fatbin"
    path.write_bytes(damaged)
    assert check_file(str(path)).kernels[0].name == "k"
