"""Tiles whose slices are streamed over the CTAs of a grid, in the asynchronous contract: stream-K.

The first `streamed` tiles of a matrix are cut along the contracted axis. Their slices, tile after tile, are counted in
granules of `granule` slices and dealt out in equal contiguous shares, one for each CTA. With Q granules in a tile,
G = streamed * Q in all and C CTAs, base = G div C and extra = G mod C, the share of CTA c is the granules [lo, hi) with
lo(c) = c * base + min(c, extra) and hi(c) = lo(c + 1). No share is longer than a tile, so that it consists of

- a *head*, where hi is not a tile's end: the granules [max(lo, first of the tile), hi) of tile (hi - 1) div Q. It does
  not reach the tile's end: what it sums to is a partial sum, which the CTA writes into memory;
- a *tail*, where something is left below: granules up to the end of a tile, which the CTA finishes. What the tile's
  earlier granules sum to has been written by the CTAs below, in their heads.

A CTA goes through its head before its tail and waits for no other CTA in between, so that waits lead from tails to
heads of lower CTAs and nowhere else: no circle, as long as all CTAs of the grid can run at once.

Source: Osama, Merrill, Cecka, Garland, Owens, "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", 2023. Checked by: tests/lower/test_stream.py, and by `contract` on every kernel.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from tilewright.ir import ac, ac_async_copy

STREAM_INDICES = 3
"""Region arguments of a loop over a part before the carried ones: the tile's two indices, the part's first slice."""


@irdl_op_definition
class StreamPartOp(IRDLOperation):
    """A CTA's head or tail (`part`): runs its body `symbol` times, once or not at all.

    slices: the symbol that is the part's number of slices, for loops inside. tiles_m, tiles_n, raster_group, order: of
    all tiles, numbered as by `ac.tiles`, the first `streamed` of which are cut into slices, `tile_slices` (a symbol)
    each. Region arguments: the tile's m and n index, the part's first slice within the tile, then the carried values.
    """

    name = "ac.stream_part"
    part = prop_def(StringAttr)
    symbol = prop_def(StringAttr)
    slices = prop_def(StringAttr)
    tiles_m = prop_def(IntAttr)
    tiles_n = prop_def(IntAttr)
    raster_group = prop_def(IntAttr)
    order = opt_prop_def(StringAttr)
    streamed = prop_def(IntAttr)
    granule = prop_def(IntAttr)
    tile_slices = prop_def(StringAttr)
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class TurnStreamPartOp(IRDLOperation):
    """`ac.stream_part` of a role whose two units take work in turn: what the CTA does, heads, tails and whole tiles, is
    numbered from 0 on, and item i is unit i mod 2's. A unit's cursors pass over the slots of the other's items. turns:
    as of `ac.turn_tiles`."""

    name = "ac.turn_stream_part"
    part = prop_def(StringAttr)
    symbol = prop_def(StringAttr)
    slices = prop_def(StringAttr)
    tiles_m = prop_def(IntAttr)
    tiles_n = prop_def(IntAttr)
    raster_group = prop_def(IntAttr)
    order = opt_prop_def(StringAttr)
    streamed = prop_def(IntAttr)
    granule = prop_def(IntAttr)
    tile_slices = prop_def(StringAttr)
    turns = operand_def(ac.RingType)
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


StreamPart = StreamPartOp | TurnStreamPartOp


@irdl_op_definition
class PartialStoreOp(IRDLOperation):
    """In the body of a head: hand the unit's accumulator to the CTA that finishes the tile.

    partials: float32, a slot for each CTA and each unit that has rows of the tile of its own; flags: 32-bit words, one
    for each slot, 0 when the grid begins and when it has ended. The unit's threads write their values, four at a time
    and neighbouring threads side by side, into the unit's slot of this CTA, meet on named barrier `first_barrier` +
    unit, and the first sets the slot's flag to 1: a release at the scope of the GPU.
    """

    name = "ac.partial.store"
    first_barrier = prop_def(IntAttr)
    accumulator = operand_def(ac.AccumulatorType)
    partials = operand_def(ac.GlobalType)
    flags = operand_def(ac.GlobalType)
    unit = operand_def(ac.IndexType)


@irdl_op_definition
class PartialAddOp(IRDLOperation):
    """In the body of a tail: the accumulator plus what the CTAs below have of the tile, the nearest first.

    For each CTA d from the one below down to the one whose head begins the tile: the unit's first thread waits until
    the flag of d's slot is 1 (an acquire at the scope of the GPU) and sets it to 0; the unit's threads meet on named
    barrier `first_barrier` + unit; each reads the values of its own places and adds them, each sum rounded once. A tail
    that is a whole tile waits for nothing.
    """

    name = "ac.partial.add"
    first_barrier = prop_def(IntAttr)
    accumulator = operand_def(ac.AccumulatorType)
    partials = operand_def(ac.GlobalType)
    flags = operand_def(ac.GlobalType)
    unit = operand_def(ac.IndexType)
    sum = result_def(ac.AccumulatorType)


Ac = Dialect(
    "ac",
    [*ac_async_copy.Ac.operations, StreamPartOp, TurnStreamPartOp, PartialStoreOp, PartialAddOp],
    [*ac_async_copy.Ac.attributes],
)
"""The whole dialect: these operations with those of the modules below."""
