"""How loops over tiles become PTX: tiles of a cluster, of units by turns, of groups, and parts of streamed ones.

Checked by: tests/lower/distribution.
"""

from __future__ import annotations

from tilewright.base.size import Size, computed, number_of, product
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.stream import STREAM_INDICES, StreamPart, StreamPartOp, TurnStreamPartOp
from tilewright.ir.sizes import sizes_of
from tilewright.lower.distribution.group_tiles import close_tile, find_next, open_tile, start_walk
from tilewright.lower.distribution.raster import of_matrices_together, order_of, quotient_and_rest, raster
from tilewright.lower.distribution.stream_parts import close_parts, open_parts
from tilewright.lower.distribution.tile_range import pass_tile
from tilewright.lower.distribution.turns import skip_slots, start_turns, wait_for_turn
from tilewright.lower.ptx.carried import carry_back, carry_in, carry_out
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Emitters, Lowering, integers
from tilewright.lower.ptx.places import IndexPlace
from tilewright.lower.ptx.run_time import (
    CLUSTERS,
    OF_MATRIX,
    TILES,
    TWICE_CLUSTERS,
    clusters_launched,
    extent_name,
    tiles_in_all,
    tiles_of_clusters,
)


def _of_cta(text: Text, number: str, axis: str, ctas: int) -> str:
    """This CTA's tile along an axis, of the cluster's `number`th; ctas: of the cluster along it."""
    if ctas == 1:
        return number
    rank = text.into("b32", "mov.u32", f"%cluster_ctaid.{axis}")
    return text.into("b32", "mad.lo.u32", number, ctas, rank)


def _lower_tiles(lowering: Lowering, op: ac.TilesOp) -> None:
    """tile = cluster number; while tile < total: (m, n) = raster(tile); body; tile += number of clusters. Where every
    other round goes in the opposite direction, what is added alternates. Where the hardware hands tiles out, the first
    one is the CTA's own, and what the body takes says which is next (`handed`)."""
    text, kernel, passed = lowering.text, ac.kernel_of(op), lowering.passed
    cluster = integers(kernel.cluster)
    tiles = tiles_of_clusters(op, kernel)
    handed, total, step = is_set(op.handed), "", ""
    if not handed:
        total = passed.operand(text, TILES, tiles_in_all(op, kernel))
        step = passed.register(text, CLUSTERS, clusters_launched(kernel))
    block = op.body.block
    tile = text.register("b32")
    if lowering.cluster_size > 1:
        text.emit("mov.u32", tile, "%clusterid.x")
    else:
        text.emit("mov.u32", tile, "%ctaid.x")
    if op.first:
        text.emit("add.u32", tile, tile, text.into("b32", "mov.u32", op.first))
    both = ""
    if op.together is not None and not handed:
        # From CTA c of C to the mirrored place of the next round, 2 C - 1 - 2 c; from there on, 1 + 2 c.
        both = passed.register(text, TWICE_CLUSTERS, computed("*", clusters_launched(kernel), 2))
        first = text.into("b32", "sub.s32", both, 1)
        step = text.into("b32", "mad.lo.s32", tile, text.into("b32", "mov.s32", -2), first)
    carry_in(lowering, block, op.indices, tuple(op.carried))
    head, end = text.label("tiles"), text.label("tiles_end")
    text.place(head)
    if not handed:
        text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", tile, total))
    of_matrix = tile
    if op.batch is not None or op.together is not None:
        of_matrix = _place_in_batch(lowering, op, tile, product(tiles))
    if op.batch is not None and tiles[1] == 1:
        # Of one column, a number is a row: without so many instructions the first product of a tile begins earlier.
        m, n = of_matrix, text.into("b32", "mov.u32", 0)
    else:
        m, n = raster(text, of_matrix, *tiles, op.raster_group.data, order_of(op), passed)
    lowering.places[block.args[0]] = IndexPlace(_of_cta(text, m, "x", cluster[0]))
    lowering.places[block.args[1]] = IndexPlace(_of_cta(text, n, "y", cluster[1]))
    lowering.emit_block(block)
    carry_back(lowering, block, op.indices)
    left = lowering.left_tiles.get(block)
    if left is not None:
        text.place(left.following)
    if handed:
        following, more = lowering.granted[op]
        text.emit("mov.u32", tile, following)
        text.emit("bra", head, guard=more)
    else:
        text.emit("add.u32", tile, tile, step)
        if both:
            text.emit("sub.u32", step, both, step)
        text.emit("bra", head)
    if left is not None:
        assert not handed, "units of tiles that are handed out read each answer"
        pass_tile(lowering, left)
    text.place(end)
    carry_out(lowering, op, op.indices)


def _place_in_batch(lowering: Lowering, op: ac.TilesOp | ac.TurnTilesOp, tile: str, tiles: Size) -> str:
    """The tile's number in its matrix, of so many tiles, which are known where matrices are taken together; where the
    matrix stands is the loop's further indices."""
    text = lowering.text
    together = op.matrices_together if isinstance(op, ac.TilesOp) else None
    if together is not None:
        matrix, number = of_matrices_together(text, tile, tiles, together, op.matrices, lowering.passed)
    else:
        matrix, number = quotient_and_rest(text, tile, tiles, lowering.passed, OF_MATRIX)
    for place in range(len(op.batches) - 1, -1, -1):
        index = matrix
        if place:
            extent = lowering.passed.operand(text, extent_name(op.batches[place]), op.batches[place])
            index = text.into("b32", "rem.u32", matrix, extent)
            matrix = text.into("b32", "div.u32", matrix, extent)
        lowering.places[op.body.block.args[ac.TILE_INDICES + place]] = IndexPlace(index)
    return number


def _lower_stream_part(lowering: Lowering, op: StreamPart) -> None:
    """The CTA's heads, or its tail, of streamed tiles."""
    text, block = lowering.text, op.body.block
    carry_in(lowering, block, STREAM_INDICES, tuple(op.carried))
    walk = open_parts(lowering, op, block.args[STREAM_INDICES:])
    m, n = raster(text, walk.tile, op.tiles_m.data, op.tiles_n.data, op.raster_group.data, order_of(op))
    places = (m, n, walk.tile, walk.first_slice)
    lowering.places.update(zip(block.args[:STREAM_INDICES], map(IndexPlace, places), strict=True))
    lowering.emit_block(block)
    carry_back(lowering, block, STREAM_INDICES)
    close_parts(lowering, op, walk)
    carry_out(lowering, op, STREAM_INDICES)


def _lower_turn_tiles(lowering: Lowering, op: ac.TurnTilesOp) -> None:
    """This unit's tiles: every second one of the cluster's."""
    text, block, passed, kernel = lowering.text, op.body.block, lowering.passed, ac.kernel_of(op)
    tiles = tiles_of_clusters(op, kernel)
    total = passed.operand(text, TILES, tiles_in_all(op, kernel))
    slots = number_of(lowering.symbols[op.skipped.data])
    walk = start_turns(lowering, op, clusters_launched(kernel))
    carry_in(lowering, block, op.indices, tuple(op.carried))
    for argument in block.args[op.indices :]:
        skip_slots(lowering, argument, slots, walk.ahead)
    head, end = text.label("tiles"), text.label("tiles_end")
    text.place(head)
    text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", walk.tile, total))
    number = walk.tile
    if op.batch is not None:
        number = _place_in_batch(lowering, op, walk.tile, product(tiles))
    places = raster(text, number, *tiles, op.raster_group.data, order_of(op), passed)
    for argument, place, axis, ctas in zip(block.args, places, "xy", integers(kernel.cluster), strict=False):
        lowering.places[argument] = IndexPlace(_of_cta(text, place, axis, ctas))
    wait_for_turn(lowering, walk)
    lowering.emit_block(block)
    carry_back(lowering, block, op.indices)
    for argument in block.args[op.indices :]:
        skip_slots(lowering, argument, slots)
    text.emit("add.u32", walk.tile, walk.tile, walk.step)
    text.emit("bra", head)
    text.place(end)
    carry_out(lowering, op, op.indices)


def _lower_group_tiles(lowering: Lowering, op: ac.GroupLoop) -> None:
    grid, block = sizes_of(ac.kernel_of(op).grid), op.body.block
    ctas, carried = number_of(product(grid)), block.args[ac.GROUP_INDICES :]
    turns = start_turns(lowering, op, ctas) if isinstance(op, ac.TurnGroupTilesOp) else None
    slots = number_of(lowering.symbols[op.skipped.data]) if isinstance(op, ac.TurnGroupTilesOp) else 0
    walk = start_walk(lowering, op, ctas, turns)
    carry_in(lowering, block, ac.GROUP_INDICES, tuple(op.carried))
    if turns is not None:
        for argument in carried:
            skip_slots(lowering, argument, slots, turns.ahead)
    indices = open_tile(lowering, walk)
    lowering.places.update(zip(block.args[: ac.GROUP_INDICES], indices, strict=True))
    if turns is not None:
        wait_for_turn(lowering, turns)
    lowering.emit_block(block)
    if not any(isinstance(inner, ac.NextGroupTileOp) for inner in block.ops):
        find_next(lowering, walk)
    carry_back(lowering, block, ac.GROUP_INDICES)
    if turns is not None:
        for argument in carried:
            skip_slots(lowering, argument, slots)
    close_tile(lowering, walk)
    carry_out(lowering, op, ac.GROUP_INDICES)


def _lower_next_group_tile(lowering: Lowering, op: ac.NextGroupTileOp) -> None:
    block = op.parent_block()
    assert block is not None
    find_next(lowering, lowering.walks[block])


EMITTERS: Emitters = {
    ac.TilesOp: _lower_tiles,
    ac.TurnTilesOp: _lower_turn_tiles,
    ac.GroupTilesOp: _lower_group_tiles,
    ac.TurnGroupTilesOp: _lower_group_tiles,
    ac.NextGroupTileOp: _lower_next_group_tile,
    StreamPartOp: _lower_stream_part,
    TurnStreamPartOp: _lower_stream_part,
}
