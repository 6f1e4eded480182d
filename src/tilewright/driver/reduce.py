"""What is the smallest kernel that still shows a finding?

Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input") over the lines of a text:
what the reader ignores goes first (comments, places, debug sections), then other kernels, then halves, quarters, and at
last single instructions, as long as the rest is still a text in which the same rule is broken. Guards are tried away,
too. A removal that makes the kernel do something else that breaks the same rule is kept: the result shows the rule's
violation, not necessarily by the same cause.

Time is bounded: when it is over, the smallest text so far is the result. Checked by: tests/driver/test_reduce.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read

Shows = Callable[[str], bool]
"""Does a text still show the finding?"""

_COMMENT = re.compile(r"\s*//.*$")
_IDLE = re.compile(r"^\s*(\.loc\b.*|\.file\b.*|//.*|)$")
_GUARD = re.compile(r"^(\s*)@!?%?[\w$.]+\s+")


@dataclass(frozen=True, slots=True)
class Reduced:
    """text: the smallest that was found; lines and tries: of it, and how many texts were checked; finished: nothing
    more can be taken away, as opposed to time being over."""

    text: str
    lines: int
    tries: int
    finished: bool


def reduce_text(
    text: str, shows: Shows, *, seconds: float = 120.0, progress: Callable[[float], None] | None = None
) -> Reduced:
    """The smallest text for which `shows` holds, by removal of lines. Raises TilewrightError if `text` does not show
    the finding to begin with."""
    search = _Search(shows, monotonic() + seconds, seconds, progress)
    if not search.shows(text):
        raise TilewrightError("the text does not show this finding", remedy="name a code that check reports for it")
    lines = _without_idle(text, search)
    grain = max(1, len(lines) // 2)
    while True:
        lines, removed = _pass(lines, grain, search)
        if search.over:
            break
        if grain == 1 and not removed:
            break
        grain = max(1, grain // 2) if grain > 1 else 1
    if not search.over:
        lines = _without_guards(lines, search)
    return Reduced("\n".join(lines) + "\n", len(lines), search.tries, not search.over)


@dataclass(slots=True)
class _Search:
    test: Shows
    deadline: float
    seconds: float
    progress: Callable[[float], None] | None
    tries: int = 0

    @property
    def over(self) -> bool:
        return monotonic() > self.deadline

    def shows(self, text: str) -> bool:
        self.tries += 1
        if self.progress is not None:
            self.progress(min(1.0, 1 - max(0.0, self.deadline - monotonic()) / self.seconds))
        return self.test(text)


def _without_idle(text: str, search: _Search) -> list[str]:
    """Without comments, places and empty lines, if the finding survives that."""
    lines = text.split("\n")
    bare = [_COMMENT.sub("", line).rstrip() for line in lines if not _IDLE.match(line)]
    bare = [line for line in bare if line.strip()]
    cut = next((number for number, line in enumerate(bare) if line.lstrip().startswith(".section")), None)
    if cut is not None and search.shows("\n".join(bare[:cut])):
        bare = bare[:cut]
    if search.shows("\n".join(bare)):
        return bare
    return lines


def _pass(lines: list[str], grain: int, search: _Search) -> tuple[list[str], bool]:
    """Take away runs of `grain` removable lines, from the last on: later lines depend on earlier ones."""
    removed = False
    places = _removable(lines)
    at = len(places)
    while at > 0 and not search.over:
        chosen = set(places[max(0, at - grain) : at])
        at -= grain
        fewer = [line for number, line in enumerate(lines) if number not in chosen]
        if chosen and search.shows("\n".join(fewer)):
            lines, removed = fewer, True
            places = [_moved(number, chosen) for number in places if number not in chosen]
    return lines, removed


def _moved(number: int, removed: set[int]) -> int:
    return number - sum(each < number for each in removed)


def _removable(lines: list[str]) -> list[int]:
    """Lines that hold whole statements: everything but braces, entries and what an entry's head needs."""
    found: list[int] = []
    depth = 0
    for number, line in enumerate(lines):
        statement = line.strip()
        opened = line.count("{") - line.count("}")
        inside = depth > 0
        depth += opened
        if inside and opened == 0 and (statement.endswith(";") or statement.endswith(":")):
            found.append(number)
    return found


def _without_guards(lines: list[str], search: _Search) -> list[str]:
    for number, line in enumerate(lines):
        if search.over:
            break
        if _GUARD.match(line):
            changed = [*lines[:number], _GUARD.sub(r"\1", line), *lines[number + 1 :]]
            if search.shows("\n".join(changed)):
                lines = changed
    return lines


def instructions_in(text: str) -> int:
    """How many instructions the kernels of a text have. Raises TilewrightError for what is no PTX."""
    module = read(text, "<reduced>", tolerant=True)
    return sum(isinstance(item, Instruction) for kernel in module.kernels for item in kernel.body)
