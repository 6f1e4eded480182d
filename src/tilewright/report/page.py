"""What is a report's page made of? Sections of blocks; a block is text, a table, code, a finding or a figure.

Plain values: whoever has results builds a page of them, `html` renders it. Text is plain text everywhere; markup in it
is shown, never interpreted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.timeline import Timeline
from tilewright.report.figures.figure import Figure
from tilewright.report.figures.layout_grid import LayoutGrid

Tone = Literal["good", "bad", "doubt", "plain"]
Mark = Literal["", "primary", "conflict", "removed", "added"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A short word that says how something went."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads elsewhere. address: a URL, or `#` and the anchor of a section."""

    text: str
    address: str


@dataclass(frozen=True, slots=True)
class Words:
    """A text of which parts lead elsewhere."""

    parts: tuple[str | Link, ...]


Cell = str | Badge | Link | Words


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of name and value."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """header: one entry a column; rows: as many cells as the header has; numeric: columns set to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list of statements."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of code with its 1-based number, None for a line that another replaced."""

    number: int | None
    text: str
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a text; a jump in the numbers shows as a gap. Where no line has a number there is no margin for them."""

    title: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class FindingCard:
    """One finding with everything it carries."""

    finding: Diagnostic


@dataclass(frozen=True, slots=True)
class Folded:
    """A long text, closed at first."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    badge: Badge
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Columns beside each other where there is room, else one below the other."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """What the roles of a kernel did, drawn with arrows."""

    title: str
    timeline: Timeline
    caption: str = ""


@dataclass(frozen=True, slots=True)
class RooflineChart:
    """A roofline, drawn already: svg is markup of this package."""

    title: str
    svg: str
    caption: str = ""


Block = (
    Paragraph
    | Facts
    | Table
    | Items
    | Excerpt
    | FindingCard
    | Folded
    | SideBySide
    | TimelineChart
    | RooflineChart
    | LayoutGrid
    | Figure
)


@dataclass(frozen=True, slots=True)
class Section:
    """lead: one sentence under the title; short: what navigation calls it, where the title is not enough; anchor: that
    links lead to, by number if empty."""

    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    badge: Badge | None = None
    short: str = ""
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    subtitle: str
    badges: tuple[Badge, ...]
    sections: tuple[Section, ...]
    footer: str = ""


def excerpt_around(
    title: str, text: str, marks: dict[int, Mark], *, context: int = 2, replaced: dict[int, str] | None = None
) -> Excerpt:
    """The marked lines of `text` (1-based numbers) with `context` lines on either side.

    replaced: for a line number, what stood before it or in its place, shown above it as removed.
    """
    lines = text.splitlines()
    replaced = replaced or {}
    wanted: set[int] = set()
    for number in (*marks, *replaced):  # a line dropped at the end has the number after the last
        wanted.update(range(max(1, number - context), min(len(lines), number + context) + 1))
    shown: list[SourceLine] = []
    for number in sorted(wanted):
        if number in replaced:
            shown.append(SourceLine(None, replaced[number], "removed"))
        shown.append(SourceLine(number, lines[number - 1], marks.get(number, "")))
    shown += [SourceLine(None, text, "removed") for number, text in sorted(replaced.items()) if number > len(lines)]
    return Excerpt(title, tuple(shown))
