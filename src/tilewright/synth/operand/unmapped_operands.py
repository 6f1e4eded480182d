"""Do threads copy what no tensor map describes into the ring, or does a launch before copy it first? By predicted time.

Copied first: the operand is read and written once more before the product begins. By threads: every slice of every tile
costs an instruction of a warp for each 32 pieces, which is hidden only as far as the slice takes as long to multiply
(`synth.cost.time_model`). So tiles are weighed that ask for few pieces: those that the product would have otherwise,
and the largest two, long along either side.

What threads copy comes through the L1 cache, which is what shared memory leaves of one memory, and which bounds the
bytes on their way. So kernels that copy so take the second largest division of that memory, by fewer stages, unless few
would be left and the cache that remains holds what a slot needs. On an H200, all else alike, fewer stages were faster
with one operand so and few rows, or with both; with one of many rows the most stages were (`python -m bench unmapped`
compares numbers of stages).

Not handled: clusters, and groups of rows, for which operands are copied first or refused. Checked by:
tests/synth/operand/test_async_copy.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.ir.decisions import DEFERRED_ARRIVALS, OperandDecision, PipelineDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import dots
from tilewright.synth.cost.time_model import predicted_time
from tilewright.synth.operand.async_copy import copied_bytes, source_of
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_LARGE_TILES = ((128, 256), (256, 128))
_LEAST_STAGES = 2
_FEW_STAGES = 4
_PASS_MICROSECONDS = 2.0
"""What a launch before takes besides its bytes: it begins and ends, and the product waits for it."""
_PASS_SHARE = 0.75
"""Of the memory's rate, what it reads and writes at: by hand to the times of `python -m bench unmapped`, of few rows
and of small products; beside large products the pass takes up to twice as long."""

Decide = Callable[[Wanted], PipelineDecisions]


def choose_unmapped(
    program: tile.ProgramOp, decisions: PipelineDecisions, again: Decide, target: Target, wanted: Wanted
) -> PipelineDecisions:
    """`decisions`, which copies first what no tensor map describes, or others where threads copy it.

    again: decides with other wishes. A wish for either way is kept to, where threads can copy.
    """
    if wanted.unmapped == "threads":
        return _with_room(decisions, again, wanted, target)
    if wanted.unmapped == "workspace" or not _may_go_in_pieces(program, decisions):
        return decisions
    tiles = (None, *_LARGE_TILES) if wanted.tile is None else (None,)
    found: list[PipelineDecisions] = []
    for tile_ in tiles:
        one = replace(wanted, unmapped="threads", **({} if tile_ is None else {"tile": tile_}))
        try:
            found.append(_with_room(again(one), again, one, target))
        except TilewrightError:
            continue  # a tile that suits neither the program's arrays nor the memory
    usable = [each for each in found if each.copies_by_threads and not _demanded(each, wanted)]
    if not usable:
        return decisions
    best = min(usable, key=lambda each: _microseconds(program, each, target))
    first, threads = (_microseconds(program, each, target) for each in (decisions, best))
    if first <= threads:
        why = f"about {first:.1f} us, against {threads:.1f} us if threads copied it in pieces"
        return replace(decisions, reasons=(*decisions.reasons, why))
    why = f"about {threads:.1f} us, against {first:.1f} us with a launch that copies first"
    return replace(best, reasons=(*best.reasons, why))


def _operands(decisions: PipelineDecisions) -> tuple[OperandDecision, ...]:
    return (decisions.a, decisions.b)


def _may_go_in_pieces(program: tile.ProgramOp, decisions: PipelineDecisions) -> bool:
    """Whether an operand is copied first though it is nothing but loaded."""
    products = dots(program)
    loaded = {
        side
        for dot in products
        for side, value in (("left", dot.left), ("right", dot.right))
        if source_of(value) is not None
    }
    return any(each.materialized and each.side in loaded for each in _operands(decisions))


def _demanded(decisions: PipelineDecisions, wanted: Wanted) -> bool:
    """Whether threads would copy what must come by a map."""
    return any(each.piece_bytes and each.buffer in wanted.mapped for each in _operands(decisions))


def _with_room(decisions: PipelineDecisions, again: Decide, wanted: Wanted, target: Target) -> PipelineDecisions:
    """The same with so few stages that the L1 cache has room, unless stages are fixed."""
    *_, second, largest = target.limits("multiprocessor.shared_divisions_bytes")
    most = second - target.limit("cta.shared_reserved_bytes")
    if not decisions.copies_by_threads or wanted.stages is not None or decisions.smem_bytes <= most:
        return decisions
    slot_bytes = sum(plan.stage_bytes for plan in decisions.async_plans if plan.direction == "load")
    too_many = -(-(decisions.smem_bytes - most) // slot_bytes)
    by_threads = sum(plan.stage_bytes for plan in decisions.async_plans if plan.mechanism == DEFERRED_ARRIVALS)
    cache = target.limit("multiprocessor.shared_and_l1_bytes") - largest
    if decisions.stages - too_many < _FEW_STAGES and by_threads <= cache:
        return decisions
    # With the number of stages fixed another tile might be chosen, into whose memory so many do not fit.
    same = replace(
        wanted, tile=(decisions.tile_m, decisions.tile_n), swapped=bool(decisions.swapped),
        turns=bool(decisions.turns), steps=(decisions.step_m, decisions.step_n),
    )  # fmt: skip
    return again(replace(same, stages=max(_LEAST_STAGES, decisions.stages - too_many)))


def _microseconds(program: tile.ProgramOp, decisions: PipelineDecisions, target: Target) -> float:
    """Of all launches."""
    rows, columns, depth = (program.extents[axis] for axis in (decisions.rows, decisions.columns, decisions.contracted))
    extents = (columns, rows, depth) if decisions.swapped else (rows, columns, depth)
    product = predicted_time(decisions, extents, target).microseconds
    moved = 2 * copied_bytes(decisions)
    if not moved:
        return product
    return product + _PASS_MICROSECONDS + 1e6 * moved / (target.limit("device.dram_bytes_per_second") * _PASS_SHARE)
