"""What a finding is: code, message, places, interleaving, the rule's source, and a repair that was re-checked.

The same value is rendered by `report` as text, JSON, SARIF and HTML. Nothing here formats for a terminal.
"""

from __future__ import annotations

from enum import Enum

from tilewright.base.span import Span
from tilewright.base.value import dataclass


class Level(Enum):
    ERROR = "error"
    REVIEW = "review"


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line of the program that a text was compiled from.

    function: which the line belongs to, as its author calls it, empty where the text does not say; certain: false for
    a caller that is only the likeliest of several that the text names.
    """

    span: Span
    function: str = ""
    certain: bool = True

    @property
    def words(self) -> str:
        """`kernel.cu:12:3 (load)`."""
        return f"{self.span} ({self.function})" if self.function else str(self.span)


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """What an edit of a text means in the program that the text was compiled from. place: the program's line; words:
    what to do there, or why it cannot be done there."""

    place: Span
    words: str


@dataclass(frozen=True, slots=True)
class Repair:
    """An edit that fixes a finding."""

    title: str
    edits: tuple[tuple[Span, str], ...] = ()
    """Places, and the text that stands there afterwards."""
    cost: str = ""
    rechecked: bool = False
    """The edited input was checked again, and the finding is gone."""
    in_source: tuple[SourceEdit, ...] = ()
    """The same in terms of the program, which was not checked again."""
    remaining: int = 0
    """Errors that the check of the edited input still found; 0 if it came out clean."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding."""

    code: str
    """Family and number, such as `TX001`."""
    name: str
    """The rule's name in kebab case."""
    message: str
    """What is wrong, in one line."""
    primary: Span | None = None
    """Where."""
    conflicts_with: Span | None = None
    """The other place, if the finding is a conflict of two."""
    interleaving: tuple[str, ...] = ()
    """The steps of a short run that shows it."""
    source: str = ""
    """Document and section of the hardware rule."""
    repair: Repair | None = None
    """An edit that fixes it, if one was found."""
    level: Level = Level.ERROR
    """Whether it refutes, or is for review."""
    origin: Span | None = None
    """The line of the program that the text was compiled from, where the text says so."""
    contested: str = ""
    """The contested points of the ISA that decide its level, with " or " between several."""
    stack: tuple[SourcePlace, ...] = ()
    """The calls that lead to `origin`, the innermost inlined function first; empty where there is but one."""
    other_origin: Span | None = None
    """`origin` of the other place."""
    other_stack: tuple[SourcePlace, ...] = ()
    """`stack` of the other place."""
