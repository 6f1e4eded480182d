"""How is a roofline drawn as inline SVG? A roof for each memory, and the kernel's point under each.

Both axes are logarithmic: operations for each byte, and operations a second. A memory's roof is its bandwidth times the
intensity at that memory, up to the rate of the units. The kernel has one point for each memory, at its intensity there
and at the speed that is predicted; the roof that bounds it is drawn strong. Source: Williams, Waterman and Patterson,
"Roofline: an insightful visual performance model" (2009); Yang, Kurth and Williams, "Hierarchical roofline analysis for
GPUs" (2020).

Not handled: roofs of units beside the fastest one. Checked by: tests/report/figures/test_roofline_figure.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilewright.report.figures.text_width import text_width

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 400, 90, 20, 24, 44
_DECADES_BELOW = 3.0
"""Decades shown below the highest rate."""
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Roof:
    """A memory: bytes a second, and the kernel's operations for each byte of it. bounds: it bounds the kernel."""

    name: str
    bytes_per_second: float
    intensity: float
    bounds: bool = False


@dataclass(frozen=True, slots=True)
class RooflinePlot:
    """units: what computes, and its operations a second; bounds: whether the units bound the kernel; achieved:
    operations a second as predicted, None where nothing is; words: what is said of the prediction."""

    units: str
    peak: float
    roofs: tuple[Roof, ...]
    bounds: bool = False
    achieved: float | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class _Axes:
    """Logarithms of ten: least and greatest intensity, least and greatest rate."""

    low: float
    high: float
    bottom: float
    top: float

    def x(self, intensity: float) -> float:
        return _LEFT + (math.log10(intensity) - self.low) / (self.high - self.low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        return _TOP + (self.top - math.log10(rate)) / (self.top - self.bottom) * (_HEIGHT - _TOP - _BOTTOM)


def draw_roofline(plot: RooflinePlot) -> str:
    """The plot as an `<svg>` element for use inside a page."""
    roofs = [each for each in plot.roofs if math.isfinite(each.intensity) and each.intensity > 0]
    axes = _axes(plot, roofs)
    parts = _grid(axes)
    parts += [_drop(axes, plot, each) for each in roofs]
    parts += [_slope(axes, plot, each) for each in sorted(roofs, key=lambda each: each.bounds)]
    parts.append(_ceiling(axes, plot, roofs))
    if plot.achieved:
        parts += [_point(axes, plot.achieved, each, plot.words) for each in roofs]
        parts.append(_prediction(axes, plot.achieved, roofs, plot.words))
    at = f'x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end"'
    parts.append(f'<text class="tick" {at}>operations per byte of each memory</text>')
    label = "roofline: operations per second over operations per byte"
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _axes(plot: RooflinePlot, roofs: Sequence[Roof]) -> _Axes:
    ridges = [math.log10(plot.peak / each.bytes_per_second) for each in roofs] or [0.0]
    at = [math.log10(each.intensity) for each in roofs] or [0.0]
    bottom = math.log10(plot.peak) - _DECADES_BELOW
    if plot.achieved:
        bottom = min(bottom, math.log10(plot.achieved) - 0.6)
    least = min(bottom - math.log10(each.bytes_per_second) for each in roofs) if roofs else -1.0
    return _Axes(
        min(max(least, min(ridges) - _DECADES_BELOW), min(at) - 0.3),
        max(max(ridges) + 1.2, max(at) + 0.3),
        bottom,
        math.log10(plot.peak) + 0.1,
    )


def _grid(axes: _Axes) -> list[str]:
    parts: list[str] = []
    for decade in range(math.ceil(axes.low), math.floor(axes.high) + 1):
        place = axes.x(10.0**decade)
        parts.append(_line("rule", (place, _TOP), (place, _HEIGHT - _BOTTOM)))
        at = f'x="{place:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle"'
        parts.append(f'<text class="tick" {at}>{10.0**decade:g}</text>')
    for decade in range(math.ceil(axes.bottom), math.floor(axes.top) + 1):
        place = axes.y(10.0**decade)
        parts.append(_line("rule", (_LEFT, place), (_WIDTH - _RIGHT, place)))
        words = f"{_rate_words(10.0**decade)}op/s"
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{place + 4:.1f}" text-anchor="end">{words}</text>')
    return parts


def _slope(axes: _Axes, plot: RooflinePlot, roof: Roof) -> str:
    """A memory's roof up to the units', with its name along it, above."""
    begin = max(10**axes.low, 10**axes.bottom / roof.bytes_per_second)
    ridge = plot.peak / roof.bytes_per_second
    start = axes.x(begin), axes.y(begin * roof.bytes_per_second)
    end = axes.x(ridge), axes.y(plot.peak)
    angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
    words = f"{roof.name} {_rate_words(roof.bytes_per_second)}B/s"
    length = math.hypot(end[0] - start[0], end[1] - start[1])
    # Names stand at different places of their lines, the fastest memory's lowest, so that they do not meet.
    faster = sum(each.bytes_per_second > roof.bytes_per_second for each in plot.roofs)
    share = min(0.12 + 0.24 * faster, max(0.0, 1 - text_width(words) / length))
    place = start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])
    bound = " bound" if roof.bounds else ""
    turn = f'transform="rotate({angle:.1f} {place[0]:.1f} {place[1]:.1f})"'
    text = f'<text class="halo{bound}" x="{place[0]:.1f}" y="{place[1] - 5:.1f}" {turn}>{escape(words)}</text>'
    return f"<g><title>{escape(words)}</title>{_line(f'roof{bound}', start, end)}{text}</g>"


def _ceiling(axes: _Axes, plot: RooflinePlot, roofs: Sequence[Roof]) -> str:
    begin = min([axes.x(plot.peak / each.bytes_per_second) for each in roofs] or [float(_LEFT)])
    top, right = axes.y(plot.peak), _WIDTH - _RIGHT
    bound = " bound" if plot.bounds else ""
    words = f"{plot.units} {_rate_words(plot.peak)}op/s"
    text = f'<text class="halo{bound}" x="{right}" y="{top - 6:.1f}" text-anchor="end">{escape(words)}</text>'
    return f"<g><title>{escape(words)}</title>{_line(f'roof{bound}', (begin, top), (right, top))}{text}</g>"


def _drop(axes: _Axes, plot: RooflinePlot, roof: Roof) -> str:
    """From the roof above the kernel's intensity down to the axis."""
    most = min(plot.peak, roof.intensity * roof.bytes_per_second)
    place = axes.x(roof.intensity)
    words = f"{roof.name}: {roof.intensity:.1f} operations per byte, {_rate_words(most)}op/s at most"
    line = _line("arrow", (place, max(axes.y(most), _TOP)), (place, _HEIGHT - _BOTTOM))
    return f"<g><title>{escape(words)}</title>{line}</g>"


def _point(axes: _Axes, achieved: float, roof: Roof, words: str) -> str:
    bound = " bound" if roof.bounds else ""
    detail = f"{roof.name}: {roof.intensity:.1f} operations per byte; {words}"
    return (
        f'<g><title>{escape(detail)}</title><circle class="point{bound}" cx="{axes.x(roof.intensity):.1f}" '
        f'cy="{axes.y(achieved):.1f}" r="5"/></g>'
    )


def _prediction(axes: _Axes, achieved: float, roofs: Sequence[Roof], words: str) -> str:
    """What is predicted, below the rightmost point: right of the slopes, and moved left only as far as it must be."""
    point = max([axes.x(each.intensity) for each in roofs] or [float(_LEFT)])
    place = min(point + 10, _WIDTH - _RIGHT - text_width(words))
    return f'<text class="halo" x="{place:.1f}" y="{axes.y(achieved) + 22:.1f}">{escape(words)}</text>'


def _line(kind: str, begin: tuple[float, float], end: tuple[float, float]) -> str:
    return f'<line class="{kind}" x1="{begin[0]:.1f}" y1="{begin[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>'


def _rate_words(rate: float) -> str:
    """`16.7 T`, `1 P`: as many digits as there are, at most four."""
    for size, prefix in _PREFIXES:
        if rate >= size:
            return f"{rate / size:.4g} {prefix}" if rate / size >= 100 else f"{rate / size:.3g} {prefix}"
    return f"{rate:.3g} "
