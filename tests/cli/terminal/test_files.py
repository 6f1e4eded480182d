"""Files are written whole, over nothing that is read, and what stood there keeps what it was besides its contents."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.cli.conftest import Tilewright
from tests.docs.pages import ROOT

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.files import require_writable, write_files

BROKEN = ROOT / "docs/bugs/store-without-a-proxy-fence/buggy.ptx"


@pytest.mark.parametrize(
    ("targets", "sources", "message"),
    [
        (("a", "a"), (), "a is to be written twice"),
        (("a", "./b/../a"), (), "written twice"),
        (("a",), ("a",), "a would be written over"),
        (("link",), ("kernel",), "link would be written over"),
        (("b",), (), "b: it is a folder"),
        (("no/such",), (), "there is no folder"),
        (("kernel/such",), (), "there is no folder"),
        (("x" * 300 + "/a",), (), "there is no folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(
    folder: Path, targets: tuple[str, ...], sources: tuple[str, ...], message: str
) -> None:
    Path("kernel").write_text("kernel")
    Path("link").symlink_to("kernel")
    Path("b").mkdir()
    with pytest.raises(TilewrightError, match=message):
        require_writable(targets, sources)


def test_options_that_are_not_given_and_devices_may_be_named_again() -> None:
    require_writable((None, "", os.devnull, os.devnull), (None, "", os.devnull))


def test_links_and_permissions_stay(folder: Path) -> None:
    Path("kernel").write_text("before")
    Path("kernel").chmod(0o640)
    Path("link").symlink_to("kernel")
    assert write_files({Path("link"): b"after"}) == ["link"]
    assert Path("link").is_symlink() and Path("kernel").read_text() == "after"
    assert stat.S_IMODE(Path("kernel").stat().st_mode) == 0o640


def test_a_pipe_is_written_to_and_stays_a_pipe(folder: Path) -> None:
    os.mkfifo("pipe")
    reading = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_files({Path("pipe"): b"report", Path("file"): b"trace"})
    assert os.read(reading, 100) == b"report" and Path("file").read_bytes() == b"trace"
    os.close(reading)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode) and sorted(os.listdir()) == ["file", "pipe", "program.py"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "kernel.ptx", "--output", "kernel.ptx"),
        ("check", "kernel.ptx", "--trace", "./kernel.ptx"),
        ("check", ".", "--output", "kernel.ptx"),
        ("check", "kernel.ptx", "--output", "report", "--trace", "report"),
        ("reduce", "kernel.ptx", "--code", "PX101", "--output", "kernel.ptx"),
    ],
)
def test_no_command_writes_over_what_it_reads(folder: Path, tilewright: Tilewright, arguments: tuple[str, ...]) -> None:
    Path("kernel.ptx").write_bytes(BROKEN.read_bytes())
    answer = tilewright(*arguments)
    assert answer.code == 2 and answer.err.count("error:") == 1 and "name another file" in answer.err
    assert Path("kernel.ptx").read_bytes() == BROKEN.read_bytes() and not Path("report").exists()


def test_a_bundle_is_not_written_over_by_its_results(bundle: Path, tilewright: Tilewright) -> None:
    before = bundle.read_bytes()
    answer = tilewright("run", "scale.twb", "--on", "cpu", "--outputs", "scale.twb")
    assert answer.code == 2 and bundle.read_bytes() == before


def test_a_report_that_cannot_be_written_is_refused_at_once(folder: Path, tilewright: Tilewright) -> None:
    answer = tilewright("demo", "--report", "no/such/demo.html")
    assert answer.code == 2 and answer.out == "" and answer.err.startswith("error:")


def test_a_folder_of_somebody_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as for all but root
    with pytest.raises(TilewrightError, match="is not yours to write to"):
        require_writable(("report",))
