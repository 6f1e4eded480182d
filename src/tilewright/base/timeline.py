"""What did each role of a kernel do, in what order? Intervals in lanes over logical time, and arrows between them.

Logical time counts events of one run, so it shows order and overlap as the protocol permits them, and no duration.
Whoever follows a run fills it; `report` draws it (HTML, Chrome trace). Nothing here knows what an event is.
"""

from __future__ import annotations

from typing import Literal

from tilewright.base.span import Span
from tilewright.base.value import dataclass

MarkKind = Literal["work", "copy", "matrix", "signal", "wait", "access", "finding"]
"""work: anything without a kind of its own; copy: by the copy engine; matrix: by the tensor core; signal: arrivals,
commits, fences; wait: until something else has happened; access: ordinary loads and stores; finding: a place that a
finding names."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that a lane did in [begin, end) of logical time. lane: index into the timeline's lanes."""

    lane: int
    begin: int
    end: int
    kind: MarkKind
    label: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one mark to another, by their indices: what a wait waited for, or what conflicts with what."""

    source: int
    target: int
    label: str
    conflict: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """lanes: names of roles ("CTA 0 producer warp 0", "CTA 0 copy engine"); marks in order of their beginning.

    omitted: how many events of the run are not shown.
    """

    lanes: tuple[str, ...]
    marks: tuple[Mark, ...]
    arrows: tuple[Arrow, ...] = ()
    omitted: int = 0
