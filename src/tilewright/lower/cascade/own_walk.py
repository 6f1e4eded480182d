"""Consumers that walk as far as their own rows need, where their tile walks on.

A tile's slots pass all of its consumers, and masks may leave the rows of one nothing of the last of them, as under a
diagonal. Such a consumer ends its walk, its last products and its results before the others. Then it waits for the
slots that are left and gives them back as they are: a ring moves by as many slots for each consumer. No product has
all warps of a consumer there, so they meet before the first of them gives slots back; else one that comes late might
wait for a slot that is filled again. A consumer without rows in a tile passes all slots so.

Where a consumer ends, synth decides (`WalkRange.unit_end`); the proof has it in `contract.typestate.tile_ranges`.

Not handled: walks that begin later for some consumers; consumers that issue in order. Checked by: tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue

from tilewright.base.size import ceil_div, settled
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import OWN, REST, CascadeDecisions
from tilewright.ir.sizes import size_attr
from tilewright.ir.tile import operations as tile
from tilewright.lower.build import Build, counted_loop
from tilewright.lower.cascade.place import Place, line_of
from tilewright.lower.cascade.slots import release
from tilewright.lower.ptx.run_time import WALKED
from tilewright.lower.staged_store import FIRST_BARRIER, synchronized

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


def walked_symbol(d: CascadeDecisions) -> str:
    """What a consumer's loops over the streamed axis count to."""
    return WALKED if d.unit_end is None else OWN


def open_own_walk(build: Build, program: tile.ProgramOp, d: CascadeDecisions, place: Place, unit: SSAValue) -> None:
    """Find how far a consumer walks in a tile, where it may end before the tile does."""
    if d.unit_end is None:
        return
    assert place.begin is not None, "a tile whose walk has ends has a begin"
    build.add(
        ac.UnitRangeOp.create(
            operands=[place.indices[d.row], place.begin, unit],
            properties={
                "symbol": StringAttr(WALKED),
                "own": StringAttr(OWN),
                "rest": StringAttr(REST),
                "tile_units": IntAttr(d.tile_units),
                "units": size_attr(settled(ceil_div(program.sizes[d.row], d.unit_rows), program.run_time)),
                **({"lacking": IntAttr(d.walked[0].lacking)} if d.walked[0].lacking else {}),
                "end": line_of(d.unit_end),
            },
        )
    )


def pass_without_rows(consumer: Consumer, cursors: Mapping[tile.LoadOp, SSAValue]) -> None:
    """Let a consumer that has no rows in the tile pass all of its slots, and do nothing else: what it would compute
    takes the multiprocessor's time from the others. Slots are passed in the order in which a tile waits for them.
    cursors: where the consumer stands at the tile's begin."""
    if not any(each.passing for each in consumer.d.walked):
        return
    (apart,) = (op for op in consumer.build.block.ops if isinstance(op, ac.UnitRangeOp))
    waits = [op.ring for op in consumer.build.block.walk() if isinstance(op, ac.BarrierWaitOp)]
    by_ring = {consumer.rings[load].ring: load for load in cursors}
    order = [by_ring[ring] for ring in dict.fromkeys(waits)]
    order.sort(key=lambda load: not consumer.rings[load].decision.resident)
    op = ac.UnitPassOp.create(
        operands=[consumer.unit, *chain.from_iterable((consumer.rings[load].ring, cursors[load]) for load in order)],
        properties={
            "symbol": StringAttr(WALKED),
            "staying": IntAttr(sum(consumer.rings[load].decision.resident for load in order)),
            "first_barrier": IntAttr(FIRST_BARRIER),
        },
    )
    consumer.build.block.insert_op_after(op, apart)


def pass_rest(consumer: Consumer, loads: Sequence[tile.LoadOp]) -> None:
    """Wait for the slots that a walk of these loads has left, and give them back as they are. Nothing of the walk is
    left to do by then, so that a slot waits for no other."""
    loads = [load for load in loads if not consumer.rings[load].decision.resident]
    if consumer.d.unit_end is None or not loads:
        return
    rings = [consumer.rings[load] for load in loads]
    inner, block, loop = counted_loop(consumer.build, 0, [consumer.cursors[load] for load in loads], symbol=REST)
    cursors = block.args[1:]
    slots = [ring.wait(inner, cursor, "full") for ring, cursor in zip(rings, cursors, strict=True)]
    inner.add(synchronized(consumer.unit))
    for ring, slot in zip(rings, slots, strict=True):
        release(inner, slot, peers=ring.peers)
    following = [ring.advance(inner, cursor) for ring, cursor in zip(rings, cursors, strict=True)]
    inner.add(ac.YieldOp.create(operands=following))
    consumer.cursors |= dict(zip(loads, loop.outputs, strict=True))
