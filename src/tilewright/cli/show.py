"""How the command line shows a compilation, a verdict and the demo on a terminal, by rich."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.driver.compile import Compilation
from tilewright.ir.decisions import ElementwiseDecisions, OperandDecision, PipelineDecisions

console = Console(highlight=False, soft_wrap=True)


def show_compilation(compilation: Compilation, written: Iterable[str] = ()) -> None:
    """Decisions, proof, sizes and times."""
    console.print(f"[bold]{compilation.name}[/bold] for {compilation.target}")
    console.print(decision_table(compilation))
    console.print("[bold]proof[/bold]")
    for line in proof_lines(compilation):
        console.print(f"  {line}")
    console.print("[bold]sizes and times[/bold]")
    for line in size_lines(compilation):
        console.print(f"  {line}")
    steps = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in compilation.seconds.items())
    console.print(f"  {steps}")
    for path in written:
        console.print(f"wrote {path}")


def decision_table(compilation: Compilation) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    for name, value in decision_rows(compilation):
        table.add_row(f"[cyan]{name}[/cyan]", value)
    return table


def decision_rows(compilation: Compilation) -> list[tuple[str, str]]:
    """What was decided, as (name, words)."""
    decisions = compilation.decisions
    match decisions:
        case ElementwiseDecisions():
            rows = [("grid", f"{decisions.ctas} CTAs of {decisions.threads} threads")]
        case PipelineDecisions():
            d = decisions
            rows = [
                ("tile", f"{d.tile_m} x {d.tile_n} x {d.tile_k} ({d.rows} x {d.columns} x {d.contracted})"),
                ("stages", f"{d.stages} slots of {_stage_bytes(d)} bytes in a ring of full and empty mbarriers"),
                (
                    "roles",
                    f"1 producer thread ({d.producer_registers} registers), {d.consumers} consumer "
                    f"warpgroup{'s' if d.consumers > 1 else ''} ({d.consumer_registers} registers)",
                ),
                ("cluster", f"{d.cluster_m} x {d.cluster_n}"),
                ("grid", f"{d.ctas} persistent CTAs, tiles in groups of {d.raster_group} along {d.rows}"),
                ("operand a", _operand_words(d.a)),
                ("operand b", _operand_words(d.b)),
            ]
            for store in d.stores:
                if store.path == "tma":
                    box = " x ".join(map(str, store.map.box))
                    words = f"bulk stores of {box} boxes, swizzle {store.map.swizzle}, {d.staging_slots} staging slots"
                else:
                    words = "plain stores with bounds checks"
                rows.append((f"store {store.parameter}", words))
            rows.append(("shared memory", f"{d.smem_bytes} bytes"))
    rows.extend(("because" if number == 0 else "", reason) for number, reason in enumerate(decisions.reasons))
    return rows


def _stage_bytes(d: PipelineDecisions) -> int:
    return (d.tile_m + d.tile_n) * d.tile_k * d.a.map.tensor_map().element.bytes


def _operand_words(operand: OperandDecision) -> str:
    source = f"copied to workspace {operand.buffer}, then " if operand.materialized else f"{operand.buffer}, "
    box = " x ".join(map(str, operand.map.box))
    return f"{source}{operand.major}-major, boxes of {box} {operand.map.element}, swizzle {operand.map.swizzle}"


def proof_lines(compilation: Compilation) -> list[str]:
    lines = [f"[green]proven[/green] for {compilation.proof.scope}: no hang, no race"]
    lines.extend(compilation.proof.claims)
    if compilation.text_proof is not None:
        lines.append("[green]proven again[/green] on the emitted text, parsed afresh and run at a small size")
    return lines


def size_lines(compilation: Compilation) -> list[str]:
    lines = [f"PTX {len(compilation.ptx.encode())} bytes"]
    assembly = compilation.assembly
    if assembly is not None:
        lines[0] += f", cubin {len(assembly.cubin)} bytes"
        lines.append(
            f"{assembly.registers} registers at launch, {assembly.spill_bytes} bytes spilled, ptxas {assembly.version}"
        )
        lines.extend(f"[yellow]{warning}[/yellow]" for warning in assembly.warnings)
    return lines


def show_verdict(verdict: Verdict) -> None:
    """A verdict with its findings."""
    match verdict:
        case Proven(scope):
            console.print(f"[green]proven[/green] for {scope}")
        case Refuted(findings):
            for finding in findings[:3]:
                show_finding(finding)
        case Unknown(reasons):
            console.print(f"[yellow]unknown[/yellow]: {'; '.join(reasons)}")


def show_finding(finding: Diagnostic) -> None:
    """Code, message, places, interleaving, rule and repair."""
    console.print(f"[red]refuted[/red] {finding.code} {finding.name}: {finding.message}")
    for label, span in (("at", finding.primary), ("against", finding.conflicts_with)):
        if span is not None:
            console.print(f"    {label} {span}  {span.text.strip()[:120]}", markup=False)
    for step in finding.interleaving:
        console.print(f"      {step}", markup=False)
    if finding.source:
        console.print(f"    rule: {finding.source}", markup=False)
    if finding.repair is not None:
        console.print(f"    repair: {finding.repair.title}", markup=False)


