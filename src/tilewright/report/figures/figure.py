"""What figures can a report hold, and how is each drawn as inline SVG?

A memory map (who owns which bytes) and a chart of lanes (what was where, from when to when). Colours are classes, so
that the page's light and dark styles hold for figures too; every mark has its exact numbers as a tooltip.
Checked by: tests/report/figures/test_figure.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilewright.report.figures.text_width import text_width

KINDS = 8
"""Kinds 0 to 7 have colours of their own."""

_WIDTH = 960
_LABEL_WIDTH = 150
_MARGIN = 10
_ROW = 30
_BAR = 20


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes [begin_byte, end_byte) of a memory, in row `row` of its map. kind: which colour."""

    row: str
    label: str
    begin_byte: int
    end_byte: int
    kind: int


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """Who owns which bytes of [first_byte, end_byte) of a memory; one row for each name of a row, in order of
    appearance."""

    title: str
    end_byte: int
    regions: tuple[Region, ...]
    caption: str = ""
    first_byte: int = 0


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasted from `begin` to `end`, in the chart's unit. kind: which entry of the legend."""

    begin: float
    end: float
    label: str
    kind: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class LaneChart:
    """What happened in each lane over time. legend: words for kind 0, 1, ...; unit: what the axis counts."""

    title: str
    unit: str
    lanes: tuple[Lane, ...]
    legend: tuple[str, ...]
    caption: str = ""


Figure = MemoryMap | LaneChart


def draw(figure: Figure) -> str:
    """The figure as an `<svg>` element for use inside an HTML page."""
    match figure:
        case MemoryMap():
            return _draw_map(figure)
        case LaneChart():
            return _draw_lanes(figure)


def _draw_map(figure: MemoryMap) -> str:
    rows = list(dict.fromkeys(region.row for region in figure.regions))
    span = max(1, figure.end_byte - figure.first_byte)
    scale = (_WIDTH - _LABEL_WIDTH - _MARGIN) / span
    parts: list[str] = []
    for index, row in enumerate(rows):
        parts.append(_row_label(index, row))
    for region in figure.regions:
        top = rows.index(region.row) * _ROW + (_ROW - _BAR) / 2
        size = region.end_byte - region.begin_byte
        detail = f"{region.label}: bytes {region.begin_byte} to {region.end_byte - 1} ({size} bytes)"
        begin = _LABEL_WIDTH + (region.begin_byte - figure.first_byte) * scale
        parts.append(_mark(begin, top, size * scale, region.label, region.kind, detail))
    step = 1 << max(0, (span // 8).bit_length())
    places = [int(place) for place in _ticks(span, step)]
    labels = [figure.first_byte + place for place in places]
    unit = 1024 if all(label % 1024 == 0 for label in labels) else 1
    ticks = [(_LABEL_WIDTH + place * scale, f"{label // unit}") for place, label in zip(places, labels, strict=True)]
    parts.append(_axis(len(rows) * _ROW, ticks, "KiB" if unit > 1 else "bytes"))
    return _svg(figure.title, len(rows) * _ROW + 26, parts)


def _draw_lanes(figure: LaneChart) -> str:
    last = max((bar.end for lane in figure.lanes for bar in lane.bars), default=1.0)
    scale = (_WIDTH - _LABEL_WIDTH - _MARGIN) / max(last, 1e-9)
    parts: list[str] = []
    for index, lane in enumerate(figure.lanes):
        parts.append(_row_label(index, lane.name))
        top = index * _ROW + (_ROW - _BAR) / 2
        for bar in lane.bars:
            words = figure.legend[bar.kind] if bar.kind < len(figure.legend) else ""
            detail = bar.detail or f"{bar.label} {words}: {bar.begin:g} to {bar.end:g}"
            begin = _LABEL_WIDTH + bar.begin * scale
            parts.append(_mark(begin, top, (bar.end - bar.begin) * scale, bar.label, bar.kind, detail))
    height = len(figure.lanes) * _ROW
    ticks = [(_LABEL_WIDTH + place * scale, f"{place:g}") for place in _ticks(last, _step(last))]
    parts.append(_axis(height, ticks, figure.unit))
    place = float(_LABEL_WIDTH)
    for kind, words in enumerate(figure.legend):
        parts.append(f'<rect class="k{kind % KINDS}" x="{place:.1f}" y="{height + 36}" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="{place + 17:.1f}" y="{height + 46}">{escape(words)}</text>')
        place += 17 + text_width(words) + 16
    return _svg(figure.title, height + 56, parts)


def _row_label(index: int, text: str) -> str:
    middle = index * _ROW + _ROW / 2
    line = f'<line class="rule" x1="{_LABEL_WIDTH}" x2="{_WIDTH}" y1="{middle:g}" y2="{middle:g}"/>'
    return f'{line}<text x="{_LABEL_WIDTH - 10}" y="{middle + 4:g}" text-anchor="end">{escape(text)}</text>'


def _mark(begin: float, top: float, width: float, label: str, kind: int, detail: str) -> str:
    """A bar with a tooltip, and its label inside where there is room. Bars too thin to see are drawn two units wide."""
    shown = max(width - 1, 2.0)
    text = ""
    if text_width(label) + 4 <= shown:
        middle = begin + shown / 2
        text = f'<text x="{middle:.1f}" y="{top + 14:g}" text-anchor="middle">{escape(label)}</text>'
    place = f'x="{begin:.1f}" y="{top:g}" width="{shown:.1f}" height="{_BAR}"'
    return f'<g><title>{escape(detail)}</title><rect class="k{kind % KINDS}" {place} rx="2"/>{text}</g>'


def _axis(top: int, ticks: Sequence[tuple[float, str]], unit: str) -> str:
    parts = [f'<line class="rule" x1="{_LABEL_WIDTH}" x2="{_WIDTH}" y1="{top}" y2="{top}"/>']
    for place, text in ticks:
        parts.append(f'<line class="rule" x1="{place:.1f}" x2="{place:.1f}" y1="{top}" y2="{top + 4}"/>')
        anchor = "start" if place < _LABEL_WIDTH + 5 else "middle"
        parts.append(f'<text class="tick" x="{place:.1f}" y="{top + 17}" text-anchor="{anchor}">{escape(text)}</text>')
    if unit:
        place = _LABEL_WIDTH - 10
        parts.append(f'<text class="tick" x="{place}" y="{top + 17}" text-anchor="end">{escape(unit)}</text>')
    return "".join(parts)


def _ticks(last: float, step: float) -> list[float]:
    count = int(last / step + 1e-9)
    # The last tick's words need room before the figure's edge.
    return [number * step for number in range(count + 1) if number * step <= 0.97 * last]


def _step(last: float) -> float:
    """A round step with at most ten ticks."""
    step = 1.0
    while True:
        for factor in (1, 2, 5):
            if last / (step * factor) <= 10:
                return step * factor
        step *= 10


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    body = "".join(parts)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">{body}</svg>'
