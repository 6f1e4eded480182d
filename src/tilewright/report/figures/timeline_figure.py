"""How is a timeline drawn as inline SVG? One row a role, marks in the order of the run, arrows from cause to effect.

Time is not to scale: it counts events. A label is shown where there is room and is always in the tooltip, with the line
of PTX. The conflict of a finding is a thick arrow.
Checked by: tests/report/test_check_report.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilewright.base.timeline import Arrow, Mark, MarkKind, Timeline
from tilewright.report.figures.text_width import text_width
from tilewright.report.operand_lists import cut_operands

LEGEND: dict[MarkKind, tuple[int, str]] = {
    "finding": (4, "the finding"),
    "copy": (0, "copies"),
    "matrix": (1, "matrix products"),
    "signal": (2, "signals"),
    "wait": (3, "waits"),
    "access": (5, "loads and stores"),
    "work": (6, "else"),
}
"""Colour class and words of each kind of mark."""

_LABEL_WIDTH = 190
_MARGIN = 12
_BAR = 20
_GAP = 14
"""Between the marks of two lanes; marks of one lane that overlap in time stand one below the other, 2 apart."""
_TRACKS_MAX = 4
_WIDTH_MIN = 960
_UNIT_MIN, _UNIT_MAX = 9.0, 60.0
"""Width of a unit of time."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """tops: the upper edge of each mark; middles: of each lane; rooms: units until the next mark on the same height."""

    tops: tuple[float, ...]
    middles: tuple[float, ...]
    rooms: tuple[int, ...]
    height: float


def draw_timeline(timeline: Timeline, title: str) -> str:
    """The timeline as an `<svg>` element, as wide as its marks need."""
    last = max((mark.end for mark in timeline.marks), default=1)
    unit = min(_UNIT_MAX, max(_UNIT_MIN, (_WIDTH_MIN - _LABEL_WIDTH - _MARGIN) / max(last, 1)))
    width = _LABEL_WIDTH + _MARGIN + last * unit
    layout = _layout(timeline)
    parts = [_arrow_heads()]
    for middle, lane in zip(layout.middles, timeline.lanes, strict=True):
        parts.append(
            f'<line class="rule" x1="{_LABEL_WIDTH}" x2="{width:.0f}" y1="{middle:g}" y2="{middle:g}"/>'
            f'<text x="{_LABEL_WIDTH - 10}" y="{middle + 4:g}" text-anchor="end">{escape(lane)}</text>'
        )
    # Findings last, so that nothing covers them.
    for index, mark in sorted(enumerate(timeline.marks), key=lambda pair: pair[1].kind == "finding"):
        parts.append(_mark(mark, unit, layout.tops[index], layout.rooms[index]))
    for arrow in timeline.arrows:
        parts.append(_arrow(timeline, arrow, unit, layout))
    parts.append(_legend(timeline, layout.height))
    return (
        f'<svg class="timeline" viewBox="0 0 {width:.0f} {layout.height + 34:.0f}" style="width: {width:.0f}px" '
        f'role="img" aria-label="{escape(title, quote=True)}">{"".join(parts)}</svg>'
    )


def _layout(timeline: Timeline) -> _Layout:
    """Where marks stand: each lane has as many tracks as marks overlap in it, up to a few."""
    tracks = [0] * len(timeline.marks)
    ends: list[list[int]] = [[] for _ in timeline.lanes]
    for index, mark in sorted(enumerate(timeline.marks), key=lambda pair: pair[1].begin):
        busy = ends[mark.lane]
        free = next((track for track, end in enumerate(busy) if end <= mark.begin), len(busy))
        if free == len(busy) and len(busy) < _TRACKS_MAX:
            busy.append(0)
        free = min(free, _TRACKS_MAX - 1)
        busy[free] = max(busy[free], mark.end)
        tracks[index] = free
    edges: list[float] = []
    middles: list[float] = []
    height = float(_GAP)  # an arrow between marks of the first lane bends above them
    for busy in ends:
        tall = max(len(busy), 1) * (_BAR + 2) - 2
        edges.append(height)
        middles.append(height + tall / 2)
        height += tall + _GAP
    tops = tuple(edges[mark.lane] + track * (_BAR + 2) for mark, track in zip(timeline.marks, tracks, strict=True))
    return _Layout(tops, tuple(middles), _rooms(timeline, tracks), height)


def _rooms(timeline: Timeline, tracks: Sequence[int]) -> tuple[int, ...]:
    """For each mark the units until the next mark of its track, in which its label may stand."""
    next_begin: dict[tuple[int, int], int] = {}
    last = max((mark.end for mark in timeline.marks), default=1)
    rooms = [0] * len(timeline.marks)
    for index, mark in sorted(enumerate(timeline.marks), key=lambda pair: -pair[1].begin):
        track = (mark.lane, tracks[index])
        rooms[index] = next_begin.get(track, last) - mark.begin
        next_begin[track] = mark.begin
    return tuple(rooms)


def _mark(mark: Mark, unit: float, top: float, room: int) -> str:
    x = _LABEL_WIDTH + mark.begin * unit
    width = max((mark.end - mark.begin) * unit - 1, 3)
    detail = mark.label
    if mark.span is not None:
        detail += f"\n{mark.span}\n{cut_operands(mark.span.text.strip())}"
    shown = min(width, room * unit)
    text = ""
    label = _cut_to(mark.label, shown - 5)
    if label:
        text = f'<text x="{x + 3:.1f}" y="{top + 14:g}">{escape(label)}</text>'
    kind = LEGEND[mark.kind][0]
    return (
        f'<g><title>{escape(detail)}</title><rect class="k{kind}" x="{x:.1f}" y="{top:g}" width="{width:.1f}" '
        f'height="{_BAR}" rx="2"/>{text}</g>'
    )


def _cut_to(label: str, width: float) -> str:
    """As much of a label as there is room for, with an ellipsis where it is cut; nothing where that says nothing."""
    if text_width(label) <= width:
        return label
    most = next((most for most in range(len(label) - 1, 0, -1) if text_width(f"{label[:most]}…") <= width), 0)
    return f"{label[:most].rstrip()}…" if most > 1 else ""


def _arrow(timeline: Timeline, arrow: Arrow, unit: float, layout: _Layout) -> str:
    source, target = timeline.marks[arrow.source], timeline.marks[arrow.target]
    begin_x = _LABEL_WIDTH + source.end * unit - 2
    end_x = _LABEL_WIDTH + max(target.begin, target.end - 1) * unit + 2
    begin_top, end_top = layout.tops[arrow.source], layout.tops[arrow.target]
    if begin_top == end_top:
        bend = begin_top - _GAP
        middle = (begin_x + end_x) / 2
        path = f"M{begin_x:.1f},{begin_top:g} Q{middle:.1f},{bend:g} {end_x:.1f},{end_top:g}"
    else:
        down = end_top > begin_top
        begin_y, end_y = (begin_top + _BAR, end_top) if down else (begin_top, end_top + _BAR)
        path = f"M{begin_x:.1f},{begin_y:g} L{end_x:.1f},{end_y:g}"
    label, conflict = arrow.label, arrow.conflict
    kind = "conflict" if conflict else "order"
    return (
        f'<g><title>{escape(label)}</title><path class="arrow {kind}" d="{path}" marker-end="url(#head-{kind})"/></g>'
    )


def _arrow_heads() -> str:
    return "".join(
        f'<marker id="head-{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path class="head {kind}" d="M0,0 L8,4 L0,8 z"/></marker>'
        for kind in ("order", "conflict")
    )


def _legend(timeline: Timeline, height: float) -> str:
    used = {mark.kind for mark in timeline.marks}
    parts: list[str] = []
    place = float(_LABEL_WIDTH)
    for kind, (colour, words) in LEGEND.items():
        if kind in used:
            parts.append(f'<rect class="k{colour}" x="{place:.1f}" y="{height + 8:g}" width="12" height="12" rx="2"/>')
            parts.append(f'<text x="{place + 17:.1f}" y="{height + 18:g}">{escape(words)}</text>')
            place += 17 + text_width(words) + 16
    return "".join(parts)
