"""What becomes of the exit code where output has no reader, no room, or no stream at all: nothing, or one message."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

from tilewright.cli.terminal.streams import OutputLost, Stream

BROKEN = "docs/bugs/store-without-a-proxy-fence/buggy.ptx"
MENDED = "docs/bugs/store-without-a-proxy-fence/fixed.ptx"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def shell(line: str) -> subprocess.CompletedProcess[str]:
    line = line.replace("tilewright", f"{sys.executable} -m tilewright")
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=ENVIRONMENT, cwd=ROOT, timeout=60, check=False
    )


def without_reader(arguments: Sequence[str]) -> tuple[int, bytes]:
    """The exit code and standard error of a command whose standard output was closed by its reader at once."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "tilewright", *arguments]
        done = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=ROOT, timeout=60, check=False
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("check", MENDED), 0),
        (("check", "--no-repair", BROKEN), 1),
        (("check", "--format", "json", "missing.ptx"), 2),
        (("explain",), 0),
    ],
)
def test_a_reader_that_goes_away_changes_no_exit_code(arguments: tuple[str, ...], code: int) -> None:
    assert without_reader(arguments) == (code, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_is_one_message(form: str) -> None:
    done = shell(f"tilewright explain TX001 --format {form} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_streams_that_are_closed_are_empty() -> None:
    assert (shell("tilewright explain TX001 >&-").returncode, shell("tilewright explain frob 2>&-").returncode) == (
        0,
        2,
    )
    done = shell("tilewright check - <&-")
    assert done.returncode == 2 and "found the end of the file" in done.stdout and done.stderr == ""


class Failing:
    """A stream in memory whose every write fails."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    def write(self, text: str) -> int:
        raise self.error

    flush = write

    def fileno(self) -> int:
        import io

        raise io.UnsupportedOperation


def test_only_a_reader_that_went_away_is_passed_over() -> None:
    Stream(Failing(BrokenPipeError())).write("words")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OutputLost, match="cannot write the output: why"):
        Stream(Failing(OSError(5, "why"))).write("words")  # pyright: ignore[reportArgumentType]


@pytest.mark.sample(2)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict", "utf-8"])
def test_what_an_encoding_lacks_is_written_in_ascii(tmp_path: Path, encoding: str) -> None:
    text = (ROOT / BROKEN).read_text(encoding="utf-8").replace("// here", "// \u2265 \u03b1 \u2026 \u00fc")
    (tmp_path / "gr\u00fc\u00df.ptx").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "check", "--no-repair", "gr\u00fc\u00df.ptx", "m\u00f6p.ptx"],
        capture_output=True, env={**ENVIRONMENT, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}, cwd=tmp_path,
        timeout=60, check=False,
    )  # fmt: skip
    out = done.stdout.decode(encoding.split(":")[0])
    assert done.returncode == 2 and done.stderr == b"" and "fault" not in out
    if encoding == "utf-8":
        assert "gr\u00fc\u00df.ptx: kernel" in out and "// \u2265 \u03b1 \u2026 \u00fc" in out
    elif encoding == "latin-1":
        assert "gr\u00fc\u00df.ptx: kernel" in out and "// >= \\u03b1 ... \u00fc" in out
    else:
        assert "gr\\xfc\\xdf.ptx: kernel" in out and "// >= \\u03b1 ... \\xfc" in out


def test_no_color_leaves_no_bold_letters_either() -> None:
    terminal = {**ENVIRONMENT, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "tilewright", "check", "--no-repair", BROKEN]
    plain, coloured = (
        subprocess.run(command, capture_output=True, env=env, cwd=ROOT, timeout=60, check=False).stdout
        for env in ({**terminal, "NO_COLOR": "1"}, {key: value for key, value in terminal.items() if key != "NO_COLOR"})
    )
    assert b"\x1b" not in plain and b"refuted" in plain
    assert b"\x1b[1" in coloured
