"""How the command line says what it is doing: one changing line on a terminal; on anything else a line for each step,
or nothing. All of it goes to standard error, so that results can be piped."""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType


class Progress:
    """Use as a context: the changing line is gone at its end. `step` names what begins, `share` how much of it is done.

    wanted: False shows nothing; plain: print lines where there is no terminal; after_seconds: nothing is shown before;
    every_seconds: where there is no terminal, print the step that begins if the last line is so long ago, 0 for never.
    """

    def __init__(
        self, *, wanted: bool = True, plain: bool = False, after_seconds: float = 0.0, every_seconds: float = 0.0
    ) -> None:
        # A dumb terminal has no line that can be taken back.
        self._terminal = wanted and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._plain = wanted and plain and not self._terminal
        self._words = ""
        self._percent = -1
        self._begin = time.monotonic() + after_seconds
        self._every = every_seconds if wanted and not self._terminal else 0.0
        self._next_line = time.monotonic() + every_seconds

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def step(self, words: str) -> None:
        self._words, self._percent = words, -1
        if self._terminal and time.monotonic() >= self._begin:
            self._show(words)
        elif self._plain or (self._every and time.monotonic() >= self._next_line):
            self._next_line = time.monotonic() + self._every
            print(words, file=sys.stderr, flush=True)

    def share(self, fraction: float) -> None:
        percent = int(100 * fraction)
        if self._terminal and percent != self._percent and time.monotonic() >= self._begin:
            self._percent = percent
            self._show(f"{percent:>3} % {self._words}")

    @staticmethod
    def _show(words: str) -> None:
        # A line that wraps could not be taken back.
        room = max(10, shutil.get_terminal_size().columns - 1)
        print(f"\r\033[K{words.strip()[:room]}", end="", file=sys.stderr, flush=True)
