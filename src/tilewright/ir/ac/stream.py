"""Tiles whose slices are streamed over the CTAs of a grid, in the asynchronous contract: stream-K, in step.

The first `streamed` tiles of a matrix, fewer than there are CTAs, are cut along the contracted axis, all at the same
slice. CTAs from `helpers` on, streamed + helpers of them in all, own a tile each: they sum its last slices, its *tail*,
and finish it. The CTAs before them, the helpers, take the first slices of the tiles, *heads*, several each: helper c
those of tiles c, c + helpers, ... What a head sums to is a partial sum, which goes through memory, a slot for each
tile.

Why at the same slice: CTAs that read the same operand at the same time have their requests joined by the L2 cache,
which is slower than the tensor cores otherwise. Owners go through the contracted axis in step, as CTAs do with whole
tiles, and so do helpers. Shares of equal length that begin anywhere, as stream-K deals them out, are not in step, and
are slower on an H200 than the idle CTAs they are to avoid.

Waits lead from owners to helpers, which have lower numbers and wait for no other CTA before their heads are done: no
circle, as long as all CTAs of the grid can run at once.

Source: Osama, Merrill, Cecka, Garland, Owens, "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", 2023, for the problem. Checked by: tests/lower/test_stream.py, and by `contract` on every
kernel.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import AcOperation

STREAM_INDICES = 4
"""Region arguments of a loop over parts before the carried ones."""


class _PartOfTiles(AcOperation):
    """What loops over parts of tiles have in common."""

    LEAD: ClassVar[tuple[str, ...]] = ("part", "over symbol")
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("m", "n", "tile", "slice")

    part = prop_def(StringAttr)
    symbol = prop_def(StringAttr)
    slices = prop_def(StringAttr)
    first_slice = prop_def(IntAttr)
    tiles_m = prop_def(IntAttr)
    tiles_n = prop_def(IntAttr)
    raster_group = prop_def(IntAttr)
    order = opt_prop_def(StringAttr)
    streamed = prop_def(IntAttr)
    helpers = prop_def(IntAttr)


@irdl_op_definition
class StreamPartOp(_PartOfTiles):
    """The CTA's heads, or its tail (`part`): runs its body `symbol` times.

    Tiles are numbered as by `ac.tiles` with the same tiles_m, tiles_n, raster_group and order; the first `streamed` of
    them are cut. heads: CTA c < helpers takes those of tiles c, c + helpers, ...; others none. tail: CTA c >= helpers
    takes that of tile c - helpers; others none. slices: the symbol that is a part's number of slices, for loops inside;
    first_slice: of the part within its tile. Region arguments: the tile's m and n index, its number, which is that of
    its slot of partial sums, first_slice; then the carried values.
    """

    name = "ac.stream_part"
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class TurnStreamPartOp(_PartOfTiles):
    """`ac.stream_part` of a role whose two units take work in turn: what the CTA does, heads, tail and whole tiles, is
    numbered from 0 on, and item i is unit i mod 2's. A unit's cursors pass over the slots of the other's items. turns:
    as of `ac.turn_tiles`."""

    name = "ac.turn_stream_part"
    turns = operand_def(ac.RingType)
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


StreamPart = StreamPartOp | TurnStreamPartOp


@irdl_op_definition
class PartialStoreOp(AcOperation):
    """In the body of heads: hand the unit's accumulator to the CTA that owns the tile.

    partials: float32, for each streamed tile a slot of every unit that has rows of its own of a tile; flags: a 32-bit
    word for each slot, 0 when the grid begins and when it has ended. slot: the tile's number. The unit's threads write
    their values, four at a time and neighbouring threads side by side, into the unit's slot, meet on named barrier
    `first_barrier` + unit, and the first sets the slot's flag to 1: a release at the scope of the GPU.
    """

    name = "ac.partial.store"
    first_barrier = prop_def(IntAttr)
    accumulator = operand_def(ac.AccumulatorType)
    partials = operand_def(ac.GlobalType)
    flags = operand_def(ac.GlobalType)
    slot = operand_def(ac.IndexType)
    unit = operand_def(ac.IndexType)


@irdl_op_definition
class PartialAddOp(AcOperation):
    """In the body of a tail: the accumulator plus what the tile's helper has summed.

    The unit's first thread waits until the flag of the unit's slot is 1 (an acquire at the scope of the GPU) and sets
    it to 0; the unit's threads meet on named barrier `first_barrier` + unit; each reads the values of its own places
    and adds them, each sum rounded once.
    """

    name = "ac.partial.add"
    first_barrier = prop_def(IntAttr)
    accumulator = operand_def(ac.AccumulatorType)
    partials = operand_def(ac.GlobalType)
    flags = operand_def(ac.GlobalType)
    slot = operand_def(ac.IndexType)
    unit = operand_def(ac.IndexType)
    sum = result_def(ac.AccumulatorType)
