"""In which order does a persistent kernel take its tiles, and how high are the bands of that order?

Grouped, unless another order is asked for: a wave of tiles that covers a near-square of the result loads least, and the
next waves find little of it in the cache, since operands that outgrow the cache do so within one wave. Hilbert's curve
keeps every run of tiles compact, of whatever length, at the price of a ragged edge; see `ir.tile.order`.

Where all tiles are one wave, the wave is the result, and what counts is who asks at the same time: CTAs begin in order,
and the L2 cache serves together what neighbours ask for together. So tiles that read the same part of the larger
operand follow one another. 174 rows by 3072 columns of a sum of 3072 take 0.86 of the time so that they take in bands
of 16 tiles, and 0.91 of that in bands of 8 (H200, `python -m bench large-tiles --orders --shape 174,3072,3072`).

Not handled: rows in groups, whose tiles are counted where the sizes stand. Checked by:
tests/synth/distribution/test_tile_order.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.ir.tile.order import TILE_ORDERS, TileOrder, fits_order
from tilewright.synth.cost.model import Rates, raster_group
from tilewright.synth.tile.wanted import Wanted

_MOST_GROUP = 1 << 12


def choose_tile_order(
    rates: Rates, tile: tuple[int, int], tiles: tuple[int, int], wanted: Wanted, *, matrices: int = 1
) -> tuple[str, int]:
    """(order, tiles along m of a band). tile: rows, columns; tiles: how many of them along each; matrices: that have so
    many.

    Raises TilewrightError for a wish that no order grants.
    """
    order: TileOrder = wanted.tile_order or "grouped"
    if order not in TILE_ORDERS:
        raise TilewrightError(f"no order of tiles {order!r}", remedy=f"use one of {', '.join(TILE_ORDERS)}")
    group = wanted.tile_group
    if group is None:
        group = min(raster_group(rates, *tile), tiles[0])
        if order == "hilbert":
            return order, _side(group, tiles)
        if min(tiles) > 1 and tiles[0] * tiles[1] * matrices <= rates.multiprocessors:
            group = 1 if tile[0] * tiles[0] > tile[1] * tiles[1] else tiles[0]
        return order, group
    if not 1 <= group <= _MOST_GROUP or not fits_order(group, order):
        kind = "a power of two" if order == "hilbert" else "a number of tiles"
        raise TilewrightError(
            f"bands of {group} tiles are not taken in the order {order!r}",
            remedy=f"use {kind} from 1 to {_MOST_GROUP}, or leave it to the compiler",
        )
    return order, group


def refuse_tile_order(wanted: Wanted) -> None:
    """Raises TilewrightError where an order is wished for tiles that are counted in the kernel."""
    if wanted.tile_order not in (None, "grouped") or wanted.tile_group is not None:
        raise TilewrightError("tiles of rows in groups have one order", remedy="leave out the order of tiles")


def _side(group: int, tiles: tuple[int, int]) -> int:
    """Of squares at least as large as a wave of tiles, if so large ones fit."""
    least = 1 << (group - 1).bit_length()
    most = 1 << min(tiles).bit_length() - 1
    return min(least, most)
