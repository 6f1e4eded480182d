"""What a finding is: code, message, places, interleaving, the rule's source, and a repair that was re-checked.

The same value is rendered by `report` as text, JSON, SARIF and HTML. Nothing here formats for a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tilewright.base.span import Span


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
    """An edit that fixes a finding. rechecked: the edited input was checked again, and the finding is gone; remaining:
    errors that the check then still found, 0 if it came out clean; in_source: the same in terms of the program, which
    was not checked again."""

    title: str
    edits: tuple[tuple[Span, str], ...] = ()
    cost: str = ""
    rechecked: bool = False
    in_source: tuple[SourceEdit, ...] = ()
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding.

    stack: the lines of the program at `origin`, from the innermost inlined function to the kernel, each called from the
    next; empty where there is but one; `origin` is the line of these that its author most likely looks for.
    other_origin, other_stack: the same of `conflicts_with`.

    code: family and number, such as `TX001`; name: short kebab-case name of the rule; message: one line;
    primary: where; conflicts_with: the other place, if the finding is a conflict of two; interleaving: steps of a
    short run that shows it; source: document and section of the hardware rule; origin: the place in the program that
    the text was compiled from, where the text says so; contested: the contested points of the ISA that decide its
    level, with " or " between several.
    """

    code: str
    name: str
    message: str
    primary: Span | None = None
    conflicts_with: Span | None = None
    interleaving: tuple[str, ...] = ()
    source: str = ""
    repair: Repair | None = None
    level: Level = Level.ERROR
    origin: Span | None = None
    contested: str = ""
    stack: tuple[SourcePlace, ...] = ()
    other_origin: Span | None = None
    other_stack: tuple[SourcePlace, ...] = ()
