"""Are grid, cluster and CTA of an `ac` kernel such as the proof understands, and do all roles take tiles in one order?

Checked by: tests/contract/typestate/test_typestate*.py.
"""

from __future__ import annotations

from math import prod

from tilewright.base.size import Size, bounds
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import Operations, integers
from tilewright.contract.typestate.run_time_sizes import is_multiple, least_each, most_each, ranges_at
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_of, sizes_of
from tilewright.ir.tile.order import fits_order
from tilewright.targets import Target

_MOST_TILES = (1 << 31) - 1
"""A CTA's next tile is found by an addition of 32 bits, without sign, and a grid may be as large again."""


def check_extents(op: ac.KernelOp, operations: Operations, facts: Target, findings: Findings) -> None:
    """The shape of the launch, and the order of its tiles."""
    extents, ranges = [least_each(op.grid, op), integers(op.cluster), integers(op.block)], ranges_at(op)
    if any(len(extent) != 3 or min(extent) < 1 for extent in extents):
        findings.doubt("grid, cluster and block are not three positive integers each", op)
    elif not all(
        is_multiple(grid, cluster, ranges) for grid, cluster in zip(sizes_of(op.grid), extents[1], strict=True)
    ):
        findings.doubt(f"a grid of {extents[0]} is no multiple of the cluster {extents[1]}", op)
    elif sizes_of(op.grid)[1:] != extents[1][1:] or extents[2][1:] != (1, 1):
        # Tiles are dealt out to clusters along x and to a cluster's CTAs in x and y, roles to threads along x: others
        # would share them. CTAs along z share a tile, and `store_places` asks that their stores differ.
        findings.doubt("clusters, or threads, beside one another in y or z", op)
    elif prod(extents[1]) > facts.limit("cluster.ctas_max"):
        findings.doubt(f"a cluster of {prod(extents[1])} CTAs", op)
    elif (threads := prod(extents[2])) > facts.limit("cta.threads_max") or threads % 32:
        findings.doubt(f"a CTA of {threads} threads", op)
    _check_tile_orders(op, operations, findings)


def _check_tile_orders(op: ac.KernelOp, operations: Operations, findings: Findings) -> None:
    """All roles must go through the tiles in one order, or they would disagree about which tile a slot belongs to."""
    orders: dict[str, tuple[tuple[Size, ...], tuple[Size, ...], str]] = {}
    ranges, alone = operations.of(ac.RangeOp), prod(integers(op.cluster)) == 1
    for tiles in operations.of(ac.TilesOp, ac.TurnTilesOp):
        order = (size_of(tiles.tiles_m), size_of(tiles.tiles_n), tiles.raster_group.data, tiles.matrices)
        sides = [bounds(size, ranges_at(tiles)) for size in (*order[:2], *tiles.batches)]
        most = prod(side[1] for side in sides)
        if min(tiles.raster_group.data, *(side[0] for side in sides)) < 1:
            findings.doubt(
                f"an order of {order[0]} x {order[1]} tiles in groups of {order[2]} in {order[3]} matrices", tiles
            )
        elif most > _MOST_TILES:
            findings.doubt(f"{most} tiles, more than are counted in 32 bits", tiles)
        together = tiles.matrices_together if isinstance(tiles, ac.TilesOp) else None
        if together is not None:
            # Of tiles that only the launch counts, all groups of a number of matrices are whole.
            known = all(isinstance(size, int) for size in (*order[:2], *tiles.batches))
            least, largest = bounds(together, ranges_at(tiles))
            fewest = prod(side[0] for side in sides[2:])
            fits = not isinstance(together, int) or (
                together <= fewest and (known or is_multiple(tiles.matrices, together, ranges_at(tiles)))
            )
            if least < 1 or not (fits and ranges and alone) or tiles.first:
                findings.doubt(f"tiles of {together} of {tiles.matrices} matrices together", tiles)
            elif max(most, largest * prod(side[1] for side in sides[:2])) + 2 * prod(most_each(op.grid, op)) > 1 << 32:
                findings.doubt("tiles together on so many CTAs that a number passes what 32 bits hold", tiles)
        named = "grouped" if tiles.order is None else tiles.order.data
        if not fits_order(tiles.raster_group.data, named):
            findings.doubt(f"tiles in groups of {order[2]} in the order {named!r}", tiles)
        found = ((*order, together or 0), tiles.batches, named)
        if orders.setdefault(tiles.symbol.data, found) != found:
            findings.doubt("goes through the tiles in another order than another role", tiles)
