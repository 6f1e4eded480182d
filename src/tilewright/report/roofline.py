"""How is a program's roofline shown: as text with a plot, as JSON, and as a page with the plot drawn?

`roofline_figure` draws the page's plot. Of the text's, both axes are logarithmic: operations for each byte of device
memory, and operations a second. The roof is the rate of memory up to the ridge and that of the units beyond; a cross
stands for the program where the model predicts its time.
Checked by: tests/cli/commands/test_roofline_command.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.report.figures.roofline_figure import Roof, RooflinePlot, draw_roofline
from tilewright.report.page import Badge, Items, Page, RooflineChart, Section, Table

_COLUMNS, _ROWS = 64, 14
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
            f"{_scaled(line.per_second)}{'B' if line.unit == 'bytes' else 'op'}/s",
            f"{line.microseconds:.2f}",
            f"{line.intensity:.1f}" if line.intensity is not None else "",
        )
        for line in report.resources
    )
    table = Table(("resource", "amount", "rate", "microseconds", "operations a byte"), rows, (1, 2, 3, 4))
    caption = (
        "Operations per second over operations per byte. A slanted line is the bandwidth of a memory; a point is the "
        "kernel as predicted, at its operations per byte of that memory. The red roof bounds it."
    )
    sections = [
        Section("Resources", (table,), f"At least {report.least_microseconds:.2f} us, by {report.dominant}."),
    ]
    if report.operations:
        sections.insert(0, Section("Plot", (RooflineChart("Roofline", draw_roofline(_plot(report)), caption),)))
    if report.notes:
        sections.append(Section("Choice", (Items(report.notes),)))
    badges = (Badge(f"bound by {report.dominant}", "plain"),)
    return Page(f"Roofline of {report.name}", f"{report.shape}: {report.kernel}", badges, tuple(sections), footer)


def _plot(report: RooflineReport) -> RooflinePlot:
    """What is drawn: a roof for each tier of memory, and the units that compute."""
    computing = [line for line in report.resources if line.unit != "bytes"]
    units = next((line.name for line in computing if line.per_second == report.peak_operations), "units")
    bounds = any(line.name == report.dominant for line in computing)
    roofs = tuple(
        Roof(line.name, line.per_second, line.intensity, line.name == report.dominant)
        for line in report.resources
        if line.intensity is not None
    )
    words = ""
    if report.achieved is not None:
        words = f"predicted {report.predicted_microseconds:.2f} us: {_scaled(report.achieved)}op/s"
    return RooflinePlot(units, report.peak_operations, roofs, bounds, report.achieved, words)
