"""A compilation in words: what was decided, proved, emitted, and how long it took. Terminal and page show the same."""

from __future__ import annotations

from tilewright.base.plural import counted
from tilewright.driver.compile.compile import Compilation
from tilewright.driver.views.demo import RELATIVE_ERROR_LIMIT, Comparison
from tilewright.driver.views.placement import placement_rows
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import Decisions, ElementwiseDecisions, StoreDecision
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.operations import ProgramOp
from tilewright.ir.tile_stream import TileStream

Rows = list[tuple[str, str]]


def decision_rows(compilation: Compilation) -> Rows:
    """What was decided, as (name, words); reasons have the name "because". Of several programs one after the other."""
    rows: Rows = [] if compilation.parts else [("kernels", "none: no result has an element, so nothing is launched")]
    for part in compilation.parts:
        rows += [("kernel", " and ".join(part.entries))] if len(compilation.parts) > 1 else []
        rows += _decided_rows(the_program(part.module), part.decisions)
    return rows


def _decided_rows(program: ProgramOp, decisions: Decisions) -> Rows:
    match decisions:
        case ElementwiseDecisions():
            rows = [("grid", f"{decisions.ctas} CTAs of {decisions.threads} threads")]
        case CascadeDecisions():
            rows = _cascade_rows(decisions)
    rows += [(f"placed {name}", words) for name, words in placement_rows(program, decisions)]
    return [*rows, *(("because", reason) for reason in decisions.reasons)]


def _cascade_rows(d: CascadeDecisions) -> Rows:
    turns = ", ping-pong" if d.turns else ""
    columns = f", {d.column} by {d.tile_columns}" if d.column else ""
    curve = "" if d.tile_order == "grouped" else f", tiles along Hilbert's curve in squares of {d.raster_group}"
    tile = f"{d.tile_rows} rows along {d.row}, {d.streamed} walked by {d.tile_streamed}{columns}"
    if any(slot.joined for slot in d.slots):
        # Of a sum of products: one ring brings all that a product needs.
        tile = f"{d.tile_rows} x {d.tile_columns} x {d.tile_streamed} ({d.row} x {d.column} x {d.streamed})"
    rows = [
        ("tile", f"{tile}{turns}"),
        (
            "roles",
            f"1 producer {'warpgroup' if d.copies_by_threads else 'thread'} ({d.producer_registers} registers), "
            f"{counted(d.consumers, 'consumer warpgroup')} "
            f"({d.consumer_registers} registers)",
        ),
        ("grid", f"{counted(d.ctas, 'persistent CTA')}{curve}"),
    ]
    if any(d.steps):
        rows.insert(1, ("apart", f"{d.row_step} x {d.column_step}: neighbouring tiles overlap in what they load"))
    if d.cluster_ctas > d.split:
        rows.append(("cluster", " x ".join(map(str, d.cluster))))
    for slot in d.slots:
        kept = "kept for a tile of rows" if slot.resident else f"a tile of {d.streamed} each"
        rows.append((f"operand {slot.buffer}", f"{counted(slot.slots, 'slot')} of {slot.slot_bytes} bytes, {kept}"))
        if slot.which:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]}, beside those of the operand before")
        if slot.piece_bytes:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]}, by threads in pieces of {slot.piece_bytes} bytes")
    if d.partials:
        rows.append(("sum", f"in two levels, {counted(d.partials, 'slot')} of an iteration"))
    if d.shares > 1:
        rows.append(("shared", f"each tile's walk by {d.teams} x {d.split} CTAs, which add up"))
    for each in d.grouping:
        rows.append(("groups", f"rows along {d.row} begin and end where {each.limits} says"))
    if d.stream is not None:
        rows.append(("streamed", _stream_words(d.stream)))
    rows += [(f"store {store.parameter}", _store_words(store, d.staging_slots)) for store in d.stores]
    return [*rows, ("shared memory", f"{d.smem_bytes} bytes")]


def _store_words(store: StoreDecision, staging_slots: int) -> str:
    box = " x ".join(map(str, store.map.box))
    return f"bulk stores of {box} boxes, swizzle {store.map.swizzle}, {counted(staging_slots, 'staging slot')}"


def _stream_words(stream: TileStream) -> str:
    return f"{stream.tiles} tiles, {stream.head_slices} slices of each by the {stream.helpers} CTAs that own none"


def proof_rows(compilation: Compilation) -> Rows:
    """Both proofs, as (verdict, words), then what the first one claims and what they take for granted."""
    if not compilation.parts:
        return [("proven", "as nothing runs")]
    rows = [("proven", f"for {compilation.proof.scope}: no hang, no race")]
    if compilation.text_proof is not None:
        rows.append(("proven again", "on the emitted text, parsed afresh and run at a small size"))
    rows.extend(("", claim) for claim in compilation.proof.claims)
    rows.extend(("assuming" if number == 0 else "", words) for number, words in enumerate(compilation.assumptions))
    return rows


def size_rows(compilation: Compilation) -> Rows:
    """Bytes, registers and the assembler's remarks."""
    rows = [("PTX", f"{len(compilation.ptx.encode())} bytes")]
    assembly = compilation.assembly
    if assembly is not None:
        rows.append(("cubin", f"{len(assembly.cubin)} bytes, by ptxas {assembly.version}"))
        rows.append(("registers", f"{assembly.registers} per thread at launch, {assembly.spill_bytes} bytes spilled"))
        rows.extend(("warning", warning) for warning in assembly.warnings)
    return rows


def time_words(compilation: Compilation) -> str:
    """Milliseconds of every step, in order."""
    return ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in compilation.seconds.items())


def comparison_rows(comparison: Comparison) -> Rows:
    """A run and how it compares with NumPy."""
    m, n, k = comparison.extents
    return [
        ("size", f"{m} x {n} x {k}"),
        ("seconds", f"{comparison.seconds:.2f}, from arrays to result"),
        (
            "against NumPy",
            f"relative error {comparison.relative_error:.2e} in float64 (at most {RELATIVE_ERROR_LIMIT:.0e}), largest "
            f"{comparison.largest_error:.2e}",
        ),
        ("rounding", f"{100 * comparison.rounded_share:.2f} % of elements are the exact product rounded to bfloat16"),
    ]
