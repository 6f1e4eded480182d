"""How is a program's roofline shown: as text with a plot, as JSON, and as a page with the plot drawn?

Both axes are logarithmic: operations for each byte of device memory, and operations a second. The roof is the rate of
memory up to the ridge and that of the units beyond; a cross stands for the program where the model predicts its time.
Checked by: tests/cli/test_roofline_command.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from tilewright.report.page import Badge, Items, Page, RooflineChart, Section, Table

_COLUMNS, _ROWS = 64, 14
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 960, 360, 90, 40
_DECADES_BELOW = 3.0
"""Decades shown below the highest rate."""


@dataclass(frozen=True, slots=True)
class ResourceLine:
    """A unit or tier: amount in `unit` ("operations" or "bytes"), its rate a second, and the microseconds of both.
    intensity: operations for each byte, None for units."""

    name: str
    unit: str
    amount: float
    per_second: float
    microseconds: float
    intensity: float | None


@dataclass(frozen=True, slots=True)
class RooflineReport:
    """resources: units first. intensity: at device memory. predicted_microseconds: of the chosen kernel, None where the
    model has no word; notes: further sentences."""

    name: str
    shape: str
    kernel: str
    resources: tuple[ResourceLine, ...]
    dominant: str
    least_microseconds: float
    predicted_microseconds: float | None
    operations: float
    intensity: float
    peak_operations: float
    peak_bytes: float
    notes: tuple[str, ...]

    @property
    def achieved(self) -> float | None:
        """Operations a second at the predicted time."""
        return None if self.predicted_microseconds is None else 1e6 * self.operations / self.predicted_microseconds

    @property
    def ridge(self) -> float:
        """The intensity from which on the units are the roof."""
        return self.peak_operations / self.peak_bytes


def roofline_lines(report: RooflineReport) -> Iterator[str]:
    """The report as text."""
    yield f"{report.name} of {report.shape}: {report.kernel}"
    yield ""
    width = max(len(line.name) for line in report.resources)
    for line in report.resources:
        intensity = f"{line.intensity:8.1f} operations/byte" if line.intensity is not None else ""
        mark = "  <- dominates" if line.name == report.dominant else ""
        amount = f"{_scaled(line.amount)}{'B' if line.unit == 'bytes' else 'op'}"
        yield (
            f"  {line.name:{width}}  {amount:>10} at {_scaled(line.per_second)}/s  {line.microseconds:10.2f} us"
            f"  {intensity:24}{mark}".rstrip()
        )
    yield ""
    dominant = f"{report.dominant} dominate{_s(report.dominant)}"
    yield f"at these rates no such kernel takes less than {report.least_microseconds:.2f} us: {dominant}"
    if report.predicted_microseconds is not None:
        share = 100 * report.least_microseconds / report.predicted_microseconds
        yield f"predicted {report.predicted_microseconds:.2f} us, {share:.0f} % of which is that bound"
    yield from report.notes
    if report.operations:
        yield ""
        yield from plot_lines(report)


def _s(name: str) -> str:
    return "" if name.endswith(("cores", "functions")) else "s"


def _scaled(value: float) -> str:
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f} {prefix}"
    return f"{value:.0f} "


@dataclass(frozen=True, slots=True)
class _Axes:
    """Logarithms of ten: least and greatest intensity, least and greatest rate."""

    low: float
    high: float
    bottom: float
    top: float

    def across(self, intensity: float) -> float:
        """0 at the left edge, 1 at the right one."""
        return min(1.0, max(0.0, (math.log10(intensity) - self.low) / (self.high - self.low)))

    def up(self, rate: float) -> float:
        """0 at the bottom, 1 at the top."""
        return min(1.0, max(0.0, (math.log10(rate) - self.bottom) / (self.top - self.bottom)))


def _axes(report: RooflineReport) -> _Axes:
    top = math.log10(report.peak_operations) + 0.2
    low = min(math.log10(report.ridge) - _DECADES_BELOW, math.log10(report.intensity) - 0.3)
    high = max(math.log10(report.ridge) + 1.2, math.log10(report.intensity) + 0.3)
    bottom = math.log10(report.peak_operations) - _DECADES_BELOW - 0.2
    if report.achieved:
        bottom = min(bottom, math.log10(report.achieved) - 0.3)
    return _Axes(low, high, bottom, top)


def _roof(report: RooflineReport, intensity: float) -> float:
    return min(report.peak_operations, intensity * report.peak_bytes)


def plot_lines(report: RooflineReport) -> Iterator[str]:
    """The plot in characters: `*` the roof, `|` the program's intensity, `X` the prediction."""
    axes = _axes(report)
    grid = [[" "] * _COLUMNS for _ in range(_ROWS)]

    def put(across: float, up: float, character: str) -> None:
        grid[_ROWS - 1 - round(up * (_ROWS - 1))][round(across * (_COLUMNS - 1))] = character

    place = axes.across(report.intensity)
    for row in range(_ROWS):
        if row / (_ROWS - 1) <= axes.up(_roof(report, report.intensity)):
            put(place, row / (_ROWS - 1), "|")
    for column in range(_COLUMNS):
        intensity = 10 ** (axes.low + column / (_COLUMNS - 1) * (axes.high - axes.low))
        if math.log10(_roof(report, intensity)) >= axes.bottom:
            put(column / (_COLUMNS - 1), axes.up(_roof(report, intensity)), "*")
    if report.achieved:
        put(place, axes.up(report.achieved), "X")
    for number, row in enumerate(grid):
        rate = 10 ** (axes.top - number / (_ROWS - 1) * (axes.top - axes.bottom))
        yield f"{_scaled(rate) + 'op/s' if number % 3 == 0 else '':>12} |{''.join(row).rstrip()}"
    yield f"{'':>12} +{'-' * _COLUMNS}"
    ends = f"{10**axes.low:.2g}", f"{10**axes.high:.2g} operations/byte"
    yield f"{'':>14}{ends[0]}{ends[1]:>{_COLUMNS - len(ends[0])}}"
    yield f"{'':>14}* roof   | this program   X predicted"


def roofline_to_json(report: RooflineReport) -> dict[str, object]:
    """The report as JSON, with what is computed."""
    return {
        "name": report.name,
        "shape": report.shape,
        "kernel": report.kernel,
        "resources": [
            {
                "name": line.name,
                "unit": line.unit,
                "amount": line.amount,
                "per_second": line.per_second,
                "microseconds": line.microseconds,
                "intensity": line.intensity,
            }
            for line in report.resources
        ],
        "dominant": report.dominant,
        "least_microseconds": report.least_microseconds,
        "predicted_microseconds": report.predicted_microseconds,
        "operations": report.operations,
        "intensity": report.intensity,
        "ridge": report.ridge,
        "achieved": report.achieved,
        "notes": list(report.notes),
    }


def roofline_page(report: RooflineReport, footer: str) -> Page:
    """The report as a page."""
    rows = tuple(
        (
            line.name,
            f"{_scaled(line.amount)}{'B' if line.unit == 'bytes' else 'op'}",
            f"{_scaled(line.per_second)}/s",
            f"{line.microseconds:.2f}",
            f"{line.intensity:.1f}" if line.intensity is not None else "",
        )
        for line in report.resources
    )
    table = Table(("resource", "amount", "rate", "microseconds", "operations a byte"), rows, (1, 2, 3, 4))
    caption = "Operations a second over operations for each byte of device memory."
    sections = [
        Section("Resources", (table,), f"At least {report.least_microseconds:.2f} us, by {report.dominant}."),
    ]
    if report.operations:
        sections.insert(0, Section("Plot", (RooflineChart("Roofline", draw_roofline(report), caption),)))
    if report.notes:
        sections.append(Section("Choice", (Items(report.notes),)))
    badges = (Badge(f"bound by {report.dominant}", "plain"),)
    return Page(f"Roofline of {report.name}", f"{report.shape}: {report.kernel}", badges, tuple(sections), footer)


def draw_roofline(report: RooflineReport) -> str:
    """The plot as SVG."""
    axes = _axes(report)

    def x(intensity: float) -> float:
        return _LEFT + axes.across(intensity) * (_WIDTH - _LEFT - 20)

    def y(rate: float) -> float:
        return 10 + (1 - axes.up(rate)) * (_HEIGHT - 10 - _BOTTOM)

    parts: list[str] = []
    for decade in range(math.ceil(axes.low), math.floor(axes.high) + 1):
        place = x(10.0**decade)
        parts.append(f'<line class="rule" x1="{place:.1f}" x2="{place:.1f}" y1="10" y2="{_HEIGHT - _BOTTOM}"/>')
        parts.append(
            f'<text class="tick" x="{place:.1f}" y="{_HEIGHT - 22}" text-anchor="middle">{10.0**decade:g}</text>'
        )
    for decade in range(math.ceil(axes.bottom), math.floor(axes.top) + 1):
        place = y(10.0**decade)
        parts.append(f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{place:.1f}" y2="{place:.1f}"/>')
        words = f"{_scaled(10.0**decade)}op/s"
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{place + 4:.1f}" text-anchor="end">{words}</text>')
    start = max(10**axes.low, 10**axes.bottom / report.peak_bytes)
    corners = (start, report.ridge, 10**axes.high)
    points = " ".join(f"{x(intensity):.1f},{y(_roof(report, intensity)):.1f}" for intensity in corners)
    parts.append(f'<polyline class="arrow conflict" points="{points}"/>')
    roof = _roof(report, report.intensity)
    place = x(report.intensity)
    bound = f"at {report.intensity:.1f} operations a byte, {_scaled(roof)}op/s at most"
    line = f'<line class="arrow" x1="{place:.1f}" x2="{place:.1f}" y1="{y(roof):.1f}" y2="{_HEIGHT - _BOTTOM}"/>'
    parts.append(f"<g><title>{escape(bound)}</title>{line}</g>")
    if report.achieved:
        words = f"predicted {report.predicted_microseconds:.2f} us: {_scaled(report.achieved)}op/s"
        top = y(report.achieved)
        parts.append(
            f'<g><title>{escape(words)}</title><circle class="k0" cx="{place:.1f}" cy="{top:.1f}" r="6"/></g>'
            f'<text x="{place - 12:.1f}" y="{top + 4:.1f}" text-anchor="end">{escape(words)}</text>'
        )
    parts.append(
        f'<text class="tick" x="{_WIDTH - 20}" y="{_HEIGHT - 6}" text-anchor="end">operations a byte of memory</text>'
    )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="roofline">{"".join(parts)}</svg>'
