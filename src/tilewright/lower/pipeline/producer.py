"""The producer role of a pipeline: for each slice of each tile, wait for a free slot, announce its bytes, copy.

In a cluster, the operand that several CTAs need is loaded in parts, one by each, and multicast to all. Operands that
threads copy are `async_copy`'s.
Checked by: tests/lower/test_ptx_text.py and test_values.py, tests/lower/distribution/test_split_product.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import AsyncCopyArriveOp, AsyncCopyWaitOp
from tilewright.ir.decisions import AsyncPlan, OperandDecision, PipelineDecisions
from tilewright.ir.tile import operations as tile
from tilewright.lower.build import Build, affine, counted_loop, new_role, wait_for_launch_before
from tilewright.lower.distribution.split_product import split_index
from tilewright.lower.distribution.stream_product import sections
from tilewright.lower.distribution.team_sum import share_in_tile
from tilewright.lower.distribution.tile_place import TilePlace, open_tiles
from tilewright.lower.pipeline.epilogue import Pipeline
from tilewright.lower.pipeline.slots import RING, advance, start_cursor, wait_for_slot
from tilewright.lower.program import Counts
from tilewright.lower.ptx.async_copy import copy_pieces, source_dimensions


def add_producer(build: Build, program: tile.ProgramOp, d: PipelineDecisions, p: Pipeline, counts: Counts) -> None:
    unit = "warpgroup128" if d.copies_by_threads else "thread1"
    role, _ = new_role(build, "producer", unit, 1, 0, d.producer_registers)
    start = start_cursor(role, p.ring, "empty")
    share = split_index(role, d.split_sum)
    for section in sections(d.stream):
        outer, place, (cursor,) = open_tiles(role, d, counts, [start], section=section)
        if d.filler_waits:
            # At every tile, where it costs nothing any more: before the first it would come before the tile's place.
            wait_for_launch_before(outer)
        inner, loop, loop_op = counted_loop(outer, 0, [cursor], symbol=place.slices)
        k, position = loop.args
        first = share_in_tile(inner, d.team_sum, share, place.team) if place.first is None else place.first
        for slot in range(d.partials):
            # What comes before a part of a tile shifts its slices as the CTA's number shifts those of a shared one.
            _fill(inner, program, d, p, place, (k, slot), position, first)
            position = advance(inner, position)
        inner.add(ac.YieldOp.create(operands=[position]))
        outer.add(ac.YieldOp.create(operands=[loop_op.outputs[0]]))
        (start,) = outer.results()
    if d.copies_by_threads:
        role.add(AsyncCopyWaitOp.create())


def _fill(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: Pipeline,
    place: TilePlace,
    turn: tuple[SSAValue, int],
    position: SSAValue,
    share: SSAValue | None,
) -> None:
    """Announce a slot's bytes and issue its copies. turn: the loop's index, and which of its slots this is."""
    phase = wait_for_slot(build, p.ring, position, "empty")
    total = d.announced_bytes
    tx = build.value(
        ac.ArriveExpectOp.create(
            operands=[phase],
            properties={"bytes": IntAttr(total)} | _elected(d),
            result_types=[ac.TransactionType(RING, IntAttr(total))],
        )
    )
    left = total
    # CTAs along n share A's rows; along m, B's columns.
    a_step, b_step = d.box_steps
    filled = [
        (d.a, p.a_map, p.a, place.row, (d.row_step, a_step)),
        (d.b, p.b_map, p.b, place.column, (d.column_step, b_step)),
    ]
    k, slot = turn
    # Threads' copies first: what is asked of the copy engine before them holds back a warp of theirs.
    planned = sorted(zip(filled, d.async_plans, strict=False), key=lambda each: each[0][0].piece_bytes == 0)
    for (operand, descriptor, buffer, tile_index, steps), plan in planned:
        indices = (tile_index, k, *place.outermost(operand))
        if operand.piece_bytes:
            arrays = (descriptor, buffer, source_dimensions(program, d, operand))
            tx = copy_pieces(build, d, operand, plan, arrays, indices, slot, steps, share, tx)
            continue
        tx, left = _copies(build, d, operand, plan, descriptor, buffer, indices, slot, steps, share, tx, left)
    closing = AsyncCopyArriveOp if d.copies_by_threads else ac.TransactionCloseOp
    build.add(closing.create(operands=[tx]))


def _elected(d: PipelineDecisions) -> dict[str, Attribute]:
    """What says that a warpgroup's first thread alone executes an operation, where a warpgroup fills the slots."""
    return {"elected": IntAttr(1)} if d.copies_by_threads else {}


def _copies(
    build: Build,
    d: PipelineDecisions,
    operand: OperandDecision,
    plan: AsyncPlan,
    descriptor: SSAValue,
    buffer: SSAValue,
    indices: tuple[SSAValue, ...],
    slot: int,
    steps: tuple[int, int],
    share: SSAValue | None,
    tx: SSAValue,
    left: int,
) -> tuple[SSAValue, int]:
    """Boxes that fill one operand's slot. Where several CTAs issue them, each loads its part and multicasts it.

    indices: of the tile, of the turn of the loop, then coordinates of further dimensions; slot: which of the turn's.
    steps: elements of the outer axis from one tile to the next, and from one box to the next.
    share: which of the CTAs that share the contracted axis this one is."""
    tile_index, k, *further = indices
    outer_dimension = 1 if operand.major == "K" else 0
    (tile_step, box_step), outer_box = steps, operand.outer_box
    boxes, peers = plan.boxes, plan.issuers
    # A K-major slot as deep as several swizzle spans is one matrix a span, beside one another.
    spans = d.tile_k // operand.map.box[0] if operand.major == "K" else 1
    parts = boxes // spans
    shared: dict[str, Attribute] = {}
    if peers > 1:
        # A span of the slot is peers x parts x box; this CTA's rank picks its part.
        shared = {"rank_dimension": IntAttr(outer_dimension), "rank_elements": IntAttr(parts * outer_box)}
    for number in range(boxes):
        span, part = divmod(number, parts)
        outer = affine(build, [(tile_index, tile_step)], part * box_step + operand.outer_shift)
        deep = d.tile_k * d.shares
        slices = [(k, deep * d.partials), *([(share, d.tile_k)] if share is not None else [])]
        depth = affine(build, slices, slot * deep + span * operand.map.box[0])
        coordinates = [*([depth, outer] if operand.major == "K" else [outer, depth]), *further]
        left -= plan.box_bytes * peers
        tx = build.value(
            ac.CopyIssueOp.create(
                operands=[descriptor, buffer, tx, *coordinates],
                properties={
                    "offset_bytes": IntAttr((span * parts * peers + part) * plan.box_bytes),
                    "rank_offset_bytes": IntAttr(parts * plan.box_bytes if peers > 1 else 0),
                    "box_bytes": IntAttr(plan.box_bytes),
                    "multicast": IntAttr(peers),
                    **shared,
                    **_elected(d),
                    **({"evict_first": IntAttr(1)} if operand.read_once else {}),
                },
                result_types=[ac.TransactionType(RING, IntAttr(left))],
            )
        )
    return tx, left
