"""How is a timeline drawn as inline SVG? One row a role, marks in the order of the run, arrows from cause to effect.

Time is not to scale: it counts events. A label is shown where there is room and is always in the tooltip, with the line
of PTX. The conflict of a finding is a thick arrow.
Checked by: tests/report/test_timeline_figure.py.
"""

from __future__ import annotations

from html import escape

from tilewright.base.timeline import Mark, MarkKind, Timeline

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
_ROW = 34
_BAR = 20
_CHARACTER = 6.2
_WIDTH_MIN = 960
_UNIT_MIN, _UNIT_MAX = 9.0, 60.0
"""Width of a unit of time."""


def draw_timeline(timeline: Timeline, title: str) -> str:
    """The timeline as an `<svg>` element, as wide as its marks need."""
    last = max((mark.end for mark in timeline.marks), default=1)
    unit = min(_UNIT_MAX, max(_UNIT_MIN, (_WIDTH_MIN - _LABEL_WIDTH - _MARGIN) / max(last, 1)))
    width = _LABEL_WIDTH + _MARGIN + last * unit
    height = len(timeline.lanes) * _ROW
    parts = [_arrow_heads()]
    for row, lane in enumerate(timeline.lanes):
        middle = row * _ROW + _ROW / 2
        parts.append(
            f'<line class="rule" x1="{_LABEL_WIDTH}" x2="{width:.0f}" y1="{middle:g}" y2="{middle:g}"/>'
            f'<text x="{_LABEL_WIDTH - 10}" y="{middle + 4:g}" text-anchor="end">{escape(lane)}</text>'
        )
    rooms = _rooms(timeline)
    # Findings last, so that nothing covers them.
    for index, mark in sorted(enumerate(timeline.marks), key=lambda pair: pair[1].kind == "finding"):
        parts.append(_mark(mark, unit, rooms[index]))
    for arrow in timeline.arrows:
        source, target = timeline.marks[arrow.source], timeline.marks[arrow.target]
        parts.append(_arrow(source, target, unit, arrow.label, arrow.conflict))
    parts.append(_legend(timeline, height))
    return (
        f'<svg class="timeline" viewBox="0 0 {width:.0f} {height + 34}" style="min-width: {width:.0f}px" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(parts)}</svg>'
    )


def _rooms(timeline: Timeline) -> list[int]:
    """For each mark the units until the next mark of its lane, in which its label may stand."""
    next_begin: dict[int, int] = {}
    last = max((mark.end for mark in timeline.marks), default=1)
    rooms = [0] * len(timeline.marks)
    for index, mark in sorted(enumerate(timeline.marks), key=lambda pair: -pair[1].begin):
        rooms[index] = next_begin.get(mark.lane, last) - mark.begin
        next_begin[mark.lane] = mark.begin
    return rooms


def _mark(mark: Mark, unit: float, room: int) -> str:
    x = _LABEL_WIDTH + mark.begin * unit
    top = mark.lane * _ROW + (_ROW - _BAR) / 2
    width = max((mark.end - mark.begin) * unit - 1, 3)
    detail = mark.label
    if mark.span is not None:
        detail += f"\n{mark.span}\n{mark.span.text.strip()}"
    shown = min(width, room * unit)
    text = ""
    if shown > 3 * _CHARACTER:
        fits = int((shown - 4) / _CHARACTER)
        label = mark.label if len(mark.label) <= fits else f"{mark.label[: max(1, fits - 1)]}…"
        text = f'<text x="{x + 3:.1f}" y="{top + 14:g}">{escape(label)}</text>'
    kind = LEGEND[mark.kind][0]
    return (
        f'<g><title>{escape(detail)}</title><rect class="k{kind}" x="{x:.1f}" y="{top:g}" width="{width:.1f}" '
        f'height="{_BAR}" rx="2"/>{text}</g>'
    )


def _arrow(source: Mark, target: Mark, unit: float, label: str, conflict: bool) -> str:
    begin_x = _LABEL_WIDTH + source.end * unit - 2
    end_x = _LABEL_WIDTH + max(target.begin, target.end - 1) * unit + 2
    down = target.lane > source.lane
    half = _BAR / 2
    begin_y = source.lane * _ROW + _ROW / 2 + (half if down else -half)
    end_y = target.lane * _ROW + _ROW / 2 + (-half if down else half)
    if source.lane == target.lane:
        begin_y = end_y = source.lane * _ROW + _ROW / 2 - half
        bend = begin_y - 12
        path = f"M{begin_x:.1f},{begin_y:g} Q{(begin_x + end_x) / 2:.1f},{bend:g} {end_x:.1f},{end_y:g}"
    else:
        path = f"M{begin_x:.1f},{begin_y:g} L{end_x:.1f},{end_y:g}"
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


def _legend(timeline: Timeline, height: int) -> str:
    used = {mark.kind for mark in timeline.marks}
    parts: list[str] = []
    place = float(_LABEL_WIDTH)
    for kind, (colour, words) in LEGEND.items():
        if kind in used:
            parts.append(f'<rect class="k{colour}" x="{place:.1f}" y="{height + 12}" width="12" height="12" rx="2"/>')
            parts.append(f'<text x="{place + 17:.1f}" y="{height + 22}">{escape(words)}</text>')
            place += 17 + len(words) * _CHARACTER + 22
    return "".join(parts)
