"""What is being done: a changing line on a terminal, lines where wanted elsewhere, nothing otherwise."""

from __future__ import annotations

import pytest

from tilewright.cli.terminal.progress import Progress


def shown(capsys: pytest.CaptureFixture[str], *, wanted: bool, plain: bool) -> str:
    with Progress(wanted=wanted, plain=plain) as progress:
        progress.step("compiling")
        progress.step("running")
        for number in range(1001):
            progress.share(number / 1000)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.mark.parametrize(
    ("wanted", "plain", "text"), [(True, True, "compiling\nrunning\n"), (True, False, ""), (False, True, "")]
)
def test_without_a_terminal(capsys: pytest.CaptureFixture[str], wanted: bool, plain: bool, text: str) -> None:
    assert shown(capsys, wanted=wanted, plain=plain) == text


def test_on_a_terminal_the_line_fits_and_is_gone_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "14")
    monkeypatch.setenv("TERM", "xterm")
    text = shown(capsys, wanted=True, plain=True)
    lines = text.split("\r\033[K")
    assert lines[-1] == "" and all(len(line) < 14 for line in lines)
    # Each percentage once, not each of a thousand reports.
    assert len(lines) == 1 + 2 + 101 + 1 and lines[-2] == "100 % running"


def test_a_dumb_terminal_is_told_as_a_file_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert shown(capsys, wanted=True, plain=True) == "compiling\nrunning\n"


def test_without_a_terminal_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Progress(every_seconds=10.0) as progress:
        for number in range(1, 58):
            progress.step(f"checking kernel ({number} of 57)")
            now[0] += 1.0
    assert capsys.readouterr().err.splitlines() == [f"checking kernel ({n} of 57)" for n in (11, 21, 31, 41, 51)]
