"""What becomes of a command whose output nobody reads, or that cannot be written?

A reader that goes away (`tilewright check kernel.ptx | head -1`) must not change the exit code, which is the verdict:
what is left of the output is dropped, and the command ends as it would have. Standard streams that were closed before
the start count as empty ones. What an output's encoding lacks is written in ASCII: a dash as a dash, other characters
as escapes. An output that fails otherwise, such as a full disk, is an error of the environment: one message, exit code
2. Checked by: tests/cli/terminal/test_streams.py.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from typing import Any, TextIO

from tilewright.base.error import TilewrightError

_ASCII = {
    "\u2026": "...", "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u00d7": "x", "\u2264": "<=", "\u2265": ">=",
    "\u2260": "!=", "\u2192": "->", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " ",
}  # fmt: skip
"""What stands for characters that an encoding may lack."""
_FALLBACK = "tilewright.ascii"


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """As a handler of errors in encoding: the characters in ASCII."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    given = error.object[error.start : error.end]
    return "".join(
        _ASCII.get(each, each.encode("unicode_escape", "surrogatepass").decode("ascii")) for each in given
    ), error.end


codecs.register_error(_FALLBACK, _in_ascii)


class OutputLost(TilewrightError):
    """Standard output cannot be written."""


class Stream:
    """A text stream that drops what its reader no longer takes. All but writing is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As a text stream's. Raises OutputLost where the system refuses the bytes."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """As a text stream's. Raises OutputLost where the system refuses the bytes."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        """What is buffered, and what is written later, goes nowhere; the interpreter's last flush then succeeds."""
        with suppress(UnsupportedOperation):  # a stream in memory has no descriptor
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise OutputLost(
                f"cannot write the output: {error.strerror}", remedy="make room, or send the output elsewhere"
            ) from error


@contextmanager
def lasting_streams() -> Generator[None]:
    """Standard streams as above while a command runs."""
    before = sys.stdin, sys.stdout, sys.stderr
    # A stream whose descriptor is closed is None, whatever its type says.
    streams: list[TextIO | None] = [*before]
    opened: list[TextIO] = []
    for place, stream in enumerate(streams):
        if stream is None:
            mode = "w" if place else "r"
            opened.append(open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 -- closed below
            streams[place] = opened[-1]
    stdin, stdout, stderr = (stream for stream in streams if stream is not None)
    handlers = [(stream, stream.errors) for stream in (stdout, stderr) if hasattr(stream, "reconfigure")]
    for stream, _ in handlers:
        _encode(stream, _FALLBACK)
    sys.stdin, sys.stdout, sys.stderr = stdin, Stream(stdout), Stream(stderr)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream, errors in handlers:
            if not stream.closed:
                _encode(stream, errors)
        for stream in opened:
            stream.close()


def _encode(stream: Any, errors: str | None) -> None:
    """Let a stream of the system handle characters that its encoding lacks by the handler `errors`."""
    stream.reconfigure(errors=errors)
