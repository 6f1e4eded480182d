"""What stands on the demo's page: the compilation, figures of memory and time, the comparison, the refuted variants."""

from __future__ import annotations

from tilewright import __version__
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.cli.show import first_of_each_rule
from tilewright.cli.words import comparison_rows, decision_rows, proof_rows, size_rows
from tilewright.driver.compile import Compilation
from tilewright.driver.demo import Broken, Demo, Judged
from tilewright.driver.history import History, Interval
from tilewright.ir import ac
from tilewright.ir.tier import MemoryType
from tilewright.report.figure import Bar, Lane, LaneChart, MemoryMap, Region
from tilewright.report.page import (
    Badge,
    Block,
    Column,
    Facts,
    FindingCard,
    Folded,
    Items,
    Mark,
    Page,
    Paragraph,
    Section,
    SideBySide,
    Table,
    excerpt_around,
)

_STATES = ("filling", "full", "read", "issuing", "multiplying", "storing")
_LEGEND = ("copies in flight", "full", "being read", "copies issued", "multiplying", "result leaving")


def demo_page(demo: Demo, seconds: float) -> Page:
    """The page of one demo that took `seconds`."""
    compilation, comparison = demo.compilation, demo.comparison
    refuted = sum(variant.refuted for variant in demo.broken)
    sections = [
        _decisions(compilation),
        Section("Shared memory", (memory_map(compilation),), "Who owns which bytes of a CTA's dynamic shared memory."),
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
    program = Folded("The tile program", str(compilation.tile))
    return Section("Decisions", (chosen, Paragraph("Because:"), reasons, program), "What the compiler chose.")


def memory_map(compilation: Compilation) -> MemoryMap:
    """The shared memory of the program's main kernel (the one that uses most)."""
    kernels = [op for module in compilation.modules.values() for op in module.walk() if isinstance(op, ac.KernelOp)]
    kernel = max(kernels, key=lambda op: op.dynamic_smem_bytes.data)
    regions: list[Region] = []
    kind = 0
    for op in kernel.body.block.ops:
        match op:
            case ac.BufferOp():
                regions += _buffer_regions(op, kind)
                kind += 1
            case ac.RingOp():
                regions += _ring_regions(op)
            case _:
                pass
    total = kernel.dynamic_smem_bytes.data
    caption = f"{total} bytes; slot s of every ring buffer is guarded by full[s] and empty[s], 8 bytes each."
    return MemoryMap(f"Dynamic shared memory of {kernel.sym_name.data}", total, tuple(regions), caption)


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


def _ring_regions(op: ac.RingOp) -> list[Region]:
    stages, address = op.stages.data, op.address.data
    names = [*(f"full[{stage}]" for stage in range(stages)), *(f"empty[{stage}]" for stage in range(stages))]
    row = f"mbarriers of {op.sym_name.data}"
    return [Region(row, name, address + 8 * index, address + 8 * index + 8, 4) for index, name in enumerate(names)]


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
    rows = proof_rows(compilation)
    blocks: list[Block] = [Items(tuple(f"{name} {words}".strip() for name, words in rows))]
    if compilation.proof.assumptions:
        blocks += [Paragraph("It takes for granted:"), Items(compilation.proof.assumptions)]
    text_proof = compilation.text_proof
    if text_proof is not None and text_proof.claims:
        blocks += [Paragraph("Of the text, as run:"), Items(text_proof.claims)]
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
