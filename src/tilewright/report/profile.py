"""What did a profiler measure of a kernel, and how is it shown, as text, as JSON and as a page?

Plain values, filled by whoever ran the profiler. A reading is a number with its unit and one line on what it means; a
stall is a reason for which warps could not issue. Where a model predicted something, the prediction stands beside.
Checked by: tests/report/test_profile.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from tilewright.report.figures.figure import Bar, Lane, LaneChart
from tilewright.report.page import Badge, Block, Items, Page, Section, Table

_SHOWN_STALLS = 8


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured number; value: None where the profiler did not give it."""

    name: str
    value: float | None
    unit: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class Stall:
    """warps: how many warps of a scheduler wait for this reason, on the average, each time that one issues."""

    reason: str
    warps: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Compared:
    """What a model predicted beside what was measured."""

    name: str
    predicted: float
    measured: float | None
    unit: str
    model: str


@dataclass(frozen=True, slots=True)
class Roofline:
    """Where a kernel stands under its roof. operations: of the whole launch; peaks: a second."""

    operations: float
    dram_bytes: float
    seconds: float
    peak_operations: float
    peak_bytes: float

    @property
    def intensity(self) -> float:
        """Operations for each byte that DRAM moved."""
        return self.operations / self.dram_bytes if self.dram_bytes else float("inf")

    @property
    def achieved(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds

    @property
    def roof(self) -> float:
        """What a second could hold at this intensity."""
        return min(self.peak_operations, self.intensity * self.peak_bytes)

    @property
    def bound_by(self) -> str:
        return "tensor cores" if self.intensity * self.peak_bytes >= self.peak_operations else "DRAM"


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One kernel of a program, the median over its launches. stalls: most first; roofline: None where its operations
    are not known."""

    entry: str
    launches: int
    groups: tuple[Group, ...]
    stalls: tuple[Stall, ...]
    compared: tuple[Compared, ...]
    roofline: Roofline | None


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """name: of the program; cache: whether caches were flushed before each pass; notes: what limits the numbers."""

    name: str
    target: str
    tool: str
    cache: str
    kernels: tuple[KernelProfile, ...]
    notes: tuple[str, ...]


def number_words(value: float | None, unit: str = "") -> str:
    """A number for a reader: thousands apart, bytes and seconds in a fitting multiple."""
    if value is None:
        return "not measured"
    if unit == "bytes":
        for size, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
            if abs(value) >= size:
                return f"{value / size:.2f} {word}"
        return f"{value:.0f} bytes"
    digits = 0 if abs(value) >= 100 or value == int(value) else 2 if abs(value) >= 1 else 3
    text = f"{value:,.{digits}f}"
    return f"{text}{unit}" if unit == "%" else f"{text} {unit}".rstrip()


def waits_for(kernel: KernelProfile) -> str:
    """One sentence on what the kernel's warps wait for."""
    waiting = [stall for stall in kernel.stalls if stall.reason not in ("selected", "not selected")]
    total = sum(stall.warps for stall in waiting)
    if not waiting or not total:
        return "no stall was sampled"
    first = waiting[0]
    words = f"{100 * first.warps / total:.0f} % of waiting warps stand at {first.reason} ({first.meaning})"
    if len(waiting) > 1:
        second = waiting[1]
        words += f", {100 * second.warps / total:.0f} % at {second.reason} ({second.meaning})"
    return words


def roofline_words(roofline: Roofline) -> str:
    """Where the kernel stands under its roof, in a sentence."""
    return (
        f"{roofline.achieved / 1e12:.1f} Tera-operations a second at {roofline.intensity:.1f} operations for a byte of "
        f"DRAM: {100 * roofline.achieved / roofline.roof:.0f} % of the roof of {roofline.roof / 1e12:.1f}, "
        f"which is that of the {roofline.bound_by}"
    )


def profile_lines(report: ProfileReport) -> Iterator[str]:
    """The report as lines of text."""
    yield f"{report.name} for {report.target}: {report.tool}, {report.cache}"
    for kernel in report.kernels:
        yield ""
        yield f"{kernel.entry} ({kernel.launches} launch{'es' if kernel.launches > 1 else ''})"
        if kernel.roofline is not None:
            yield f"  {roofline_words(kernel.roofline)}"
        yield f"  {waits_for(kernel)}"
        for group in kernel.groups:
            yield f"  {group.title}"
            for reading in group.readings:
                meaning = f"  {reading.meaning}" if reading.meaning else ""
                yield f"    {reading.name:<34}{number_words(reading.value, reading.unit):>18}{meaning}"
        if kernel.stalls:
            yield "  warps of a scheduler that wait, each time that one issues"
            for stall in kernel.stalls[:_SHOWN_STALLS]:
                yield f"    {stall.reason:<34}{stall.warps:>18.2f}  {stall.meaning}"
        if kernel.compared:
            yield "  predicted and measured"
            for row in kernel.compared:
                predicted, measured = number_words(row.predicted, row.unit), number_words(row.measured, row.unit)
                yield f"    {row.name:<34}{predicted:>18}  {measured:>18}  {_ratio_words(row)}"
    for note in report.notes:
        yield ""
        yield f"note: {note}"


def _ratio_words(row: Compared) -> str:
    if row.measured is None or not row.predicted:
        return row.model
    return f"measured {row.measured / row.predicted:.2f} of it; {row.model}"


def profile_to_json(report: ProfileReport) -> dict[str, object]:
    """The report as JSON, with what is computed of each roofline."""
    document = asdict(report)
    for kernel, written in zip(report.kernels, document["kernels"], strict=True):
        if kernel.roofline is not None:
            finite = kernel.roofline.dram_bytes > 0
            written["roofline"] |= {
                "intensity": kernel.roofline.intensity if finite else None,
                "achieved": kernel.roofline.achieved,
                "roof": kernel.roofline.roof,
                "share_of_roof": kernel.roofline.achieved / kernel.roofline.roof,
                "bound_by": kernel.roofline.bound_by,
            }
        written["waits_for"] = waits_for(kernel)
    return document


def profile_page(report: ProfileReport) -> Page:
    """The report as a page."""
    sections = [_section(kernel) for kernel in report.kernels]
    if report.notes:
        sections.append(Section("Notes", (Items(report.notes),)))
    return Page(
        f"Profile of {report.name}",
        f"{report.tool} on {report.target}; {report.cache}",
        tuple(_badges(report.kernels)),
        tuple(sections),
    )


def _badges(kernels: Sequence[KernelProfile]) -> Iterator[Badge]:
    for kernel in kernels:
        if kernel.roofline is not None:
            share = kernel.roofline.achieved / kernel.roofline.roof
            yield Badge(f"{kernel.entry}: {100 * share:.0f} % of its roof", "good" if share > 0.7 else "doubt")


def _section(kernel: KernelProfile) -> Section:
    blocks: list[Block] = []
    if kernel.stalls:
        blocks.append(stall_chart(kernel))
    for group in kernel.groups:
        rows = tuple((each.name, number_words(each.value, each.unit), each.meaning) for each in group.readings)
        blocks.append(Table((group.title, "measured", "what it means"), rows, (1,)))
    if kernel.compared:
        rows = tuple(
            (row.name, number_words(row.predicted, row.unit), number_words(row.measured, row.unit), _ratio_words(row))
            for row in kernel.compared
        )
        blocks.append(Table(("model", "predicted", "measured", "ratio"), rows, (1, 2)))
    lead = waits_for(kernel)
    if kernel.roofline is not None:
        lead = f"{roofline_words(kernel.roofline)}. {lead}"
    return Section(kernel.entry, tuple(blocks), lead)


def stall_chart(kernel: KernelProfile) -> LaneChart:
    """How many warps wait for what, as bars."""
    lanes = tuple(
        Lane(
            stall.reason,
            (Bar(0.0, stall.warps, f"{stall.warps:.2f}", 0 if stall.reason == "selected" else 1, stall.meaning),),
        )
        for stall in kernel.stalls[:_SHOWN_STALLS]
    )
    return LaneChart("Why warps wait", "warps", lanes, ("issuing", "waiting"), "Each time that a scheduler issues.")
