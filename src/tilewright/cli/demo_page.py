"""What stands on the demo's page: the compilation, figures of memory and time, the comparison, the refuted variants."""

from __future__ import annotations

from tilewright import __version__
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.cli.terminal.show import first_of_each_rule
from tilewright.cli.terminal.words import comparison_rows, decision_rows, size_rows
from tilewright.driver.compile.compile import Compilation
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.views.demo import Broken, Demo, Judged
from tilewright.driver.views.history import History, Interval
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import MemoryType
from tilewright.report.figures.figure import Bar, Lane, LaneChart, MemoryMap, Region
from tilewright.report.page import (
    Badge,
    Block,
    Column,
    Excerpt,
    Facts,
    FindingCard,
    Folded,
    Items,
    Mark,
    Page,
    Paragraph,
    Section,
    SideBySide,
    SourceLine,
    Table,
    excerpt_around,
)

_STATES = ("filling", "full", "read", "issuing", "multiplying", "storing")
_BARRIER_KIND = 4
"""The colour of mbarriers in maps of memory."""
_LEGEND = ("copies in flight", "full", "being read", "copies issued", "multiplying", "result leaving")


def demo_page(demo: Demo, seconds: float) -> Page:
    """The page of one demo that took `seconds`."""
    compilation, comparison = demo.compilation, demo.comparison
    refuted = sum(variant.refuted for variant in demo.broken)
    sections = [
        _decisions(compilation),
        Section("Shared memory", memory_maps(compilation), "Who owns which bytes of a CTA's dynamic shared memory."),
    ]
    if demo.history is not None:
        lead = "How the producer runs ahead of the consumers, and refills the ring while a result leaves."
        sections.append(Section("Pipeline", (history_chart(demo.history),), lead))
    sections += [_proof(compilation), _times(compilation), _comparison(demo)]
    sections += [_broken(variant) for variant in demo.broken]
    return Page(
        "Tilewright demo: a bfloat16 matrix product, compiled and proved",
        f"{compilation.name}, 4096 x 4096 x 4096, for {compilation.target}. Everything below took {seconds:.1f} s.",
        (
            Badge(f"proven for {compilation.proof.scope}", "good"),
            Badge(
                f"relative error {comparison.relative_error:.1e} on the {comparison.where}",
                "good" if comparison.close else "bad",
            ),
            Badge(
                f"{refuted} of {len(demo.broken)} broken variants refuted",
                "good" if refuted == len(demo.broken) else "bad",
            ),
        ),
        tuple(sections),
        f"Tilewright {__version__}",
    )


def _decisions(compilation: Compilation) -> Section:
    rows = decision_rows(compilation)
    chosen = Facts(tuple(row for row in rows if row[0] != "because"))
    reasons = Items(tuple(words for name, words in rows if name == "because"))
    source = [SourceLine(number, line) for number, line in enumerate(matmul_kernel.source.splitlines(), start=1)]
    program = Excerpt("the tile program", tuple(source))
    traced = Folded("The tile program as traced", str(compilation.tile))
    blocks = (program, traced, chosen, Paragraph("Because:"), reasons)
    return Section("Decisions", blocks, "What the author wrote, and what the compiler chose.")


def memory_maps(compilation: Compilation) -> tuple[MemoryMap, ...]:
    """The shared memory of the program's main kernel (the one that uses most), and its mbarriers enlarged."""
    kernels = [op for module in compilation.modules.values() for op in module.walk() if isinstance(op, ac.KernelOp)]
    kernel = max(kernels, key=lambda op: op.dynamic_smem_bytes.data)
    buffers = [op for op in kernel.body.block.ops if isinstance(op, ac.BufferOp)]
    rings = [op for op in kernel.body.block.ops if isinstance(op, ac.RingOp)]
    regions = [region for kind, op in enumerate(buffers) for region in _buffer_regions(op, kind)]
    enlarged: list[MemoryMap] = []
    for op in rings:
        barriers = _ring_regions(op)
        turns = [use.operation for use in op.result.uses if isinstance(use.operation, ac.TurnTilesOp)]
        name = "turns" if turns else f"ring {op.sym_name.data}"
        begin, end = barriers[0].begin_byte, barriers[-1].end_byte
        regions.append(Region(name, "mbarriers", begin, end, _BARRIER_KIND))
        if turns:
            continue  # Two, of which unit 0's is named full[0] and unit 1's empty[0], and nothing to be enlarged.
        caption = "8 bytes each; slot s of every ring buffer is guarded by full[s] and empty[s]."
        enlarged.append(MemoryMap(f"The mbarriers of {name}", end, barriers, caption, begin))
    total = kernel.dynamic_smem_bytes.data
    title = f"Dynamic shared memory of {kernel.sym_name.data}"
    return (MemoryMap(title, total, tuple(regions), f"{total} bytes in all."), *enlarged)


def _buffer_regions(op: ac.BufferOp, kind: int) -> list[Region]:
    memory = op.result.type
    assert isinstance(memory, MemoryType)
    size, slots = memory.slot_bytes.data, memory.slots.data
    regions: list[Region] = []
    for index in range(op.instances.data * slots):
        begin = op.address.data + index * size
        label = f"slot {index % slots}" if op.instances.data == 1 else f"{index // slots}.{index % slots}"
        regions.append(Region(op.sym_name.data, label, begin, begin + size, kind))
    return regions


def _ring_regions(op: ac.RingOp) -> tuple[Region, ...]:
    stages, address = op.stages.data, op.address.data
    names = [*(f"full[{stage}]" for stage in range(stages)), *(f"empty[{stage}]" for stage in range(stages))]
    return tuple(
        Region(f"ring {op.sym_name.data}", name, address + 8 * index, address + 8 * index + 8, _BARRIER_KIND)
        for index, name in enumerate(names)
    )


def history_chart(history: History) -> LaneChart:
    """Slots and roles of one CTA in the order of events."""

    def bars(intervals: tuple[Interval, ...], what: str) -> tuple[Bar, ...]:
        return tuple(
            Bar(
                interval.begin,
                interval.end,
                str(interval.number),
                _STATES.index(interval.state),
                f"{what} {interval.number}: {interval.state}, events {interval.begin} to {interval.end}",
            )
            for interval in intervals
        )

    lanes = [Lane("producer", bars(history.producer, "slice"))]
    lanes += [Lane(f"slot {stage}", bars(slot, "slice")) for stage, slot in enumerate(history.slots)]
    lanes += [Lane(f"consumer {index}", bars(role, "tile")) for index, role in enumerate(history.consumers)]
    return LaneChart(
        "Slots and roles of one CTA",
        "events",
        tuple(lanes),
        _LEGEND,
        "From a run of the emitted text at a small size on the CPU machine. The axis counts synchronization events in "
        "the order of that run: it shows order and overlap, not durations. Numbers are slices of the contracted axis, "
        "and for consumers the CTA's tiles.",
    )


def _proof(compilation: Compilation) -> Section:
    proof, text_proof = compilation.proof, compilation.text_proof
    blocks: list[Block] = [Paragraph(f"The program, for {proof.scope}:"), Items(proof.claims)]
    if text_proof is not None:
        blocks += [Paragraph("The emitted text, parsed afresh and run at a small size:"), Items(text_proof.claims)]
    if compilation.assumptions:
        blocks += [Paragraph("Taken for granted:"), Items(compilation.assumptions)]
    return Section("Proof", tuple(blocks), "No interleaving hangs or races.", Badge("proven", "good"))


def _times(compilation: Compilation) -> Section:
    total = sum(compilation.seconds.values())
    rows = [(name, f"{seconds * 1000:.1f}") for name, seconds in compilation.seconds.items()]
    table = Table(("step", "milliseconds"), (*rows, ("all", f"{total * 1000:.1f}")), (1,))
    ptx = Folded("The emitted PTX", compilation.ptx)
    return Section("Sizes and times", (Facts(tuple(size_rows(compilation))), table, ptx))


def _comparison(demo: Demo) -> Section:
    badge = Badge("matches", "good") if demo.comparison.close else Badge("does not match", "bad")
    lead = f"The same kernel, run on the {demo.comparison.where} on random normal numbers, against NumPy."
    return Section("Comparison with NumPy", (Facts(tuple(comparison_rows(demo.comparison))),), lead, badge)


def _broken(variant: Broken) -> Section:
    columns = (
        _judged("program", "matmul.ac.mlir", variant.program),
        _judged("emitted text", "matmul.ptx", variant.ptx),
    )
    badge = Badge("refuted", "good") if variant.refuted else Badge("NOT refuted", "bad")
    lead = f"What it would do: {variant.consequence}."
    return Section(f"Broken: {variant.title}", (SideBySide(columns),), lead, badge)


def _judged(what: str, file: str, judged: Judged) -> Column:
    """The edit, the findings, and the lines they name."""
    findings: list[Diagnostic] = []
    match judged.verdict:
        case Refuted(found):
            findings = first_of_each_rule(found)
        case Proven() | Unknown():
            pass
    marks: dict[int, Mark] = {edit.line: "added" for edit in judged.edits if edit.after}
    for finding in findings[:1]:
        places: tuple[tuple[Span | None, Mark], ...] = (
            (finding.primary, "primary"),
            (finding.conflicts_with, "conflict"),
        )
        for span, mark in places:
            if span is not None and span.file == file:
                marks.setdefault(span.line, mark)
    removed = {edit.line: edit.before for edit in judged.edits}
    blocks: list[Block] = [excerpt_around(file, judged.text, marks, replaced=removed)]
    blocks += [FindingCard(finding) for finding in findings]
    return Column(f"The {what}", _verdict_badge(judged.verdict), tuple(blocks))


def _verdict_badge(verdict: Verdict) -> Badge:
    match verdict:
        case Refuted(findings):
            return Badge(f"refuted, {len(findings)} finding{'s' if len(findings) > 1 else ''}", "good")
        case Proven():
            return Badge("proven", "bad")
        case Unknown():
            return Badge("unknown", "bad")
