"""In which order are the tiles of a result taken?

Grouped: bands of `group` tiles along m, one after the other; within a band m runs fastest. A wave of tiles then covers
a near-square, and shares what it loads in the L2 cache.

Hilbert: bands of the same height, a power of two. As far as squares of that side fit into a whole band, each square's
tiles, which are the same ones that the grouped order takes there, follow Hilbert's curve, which enters at one corner
and leaves at the next along n; so any run of tiles, of whatever length, covers a compact patch, and the next run begins
beside it. What no square covers (the last columns of a band, a last band that is lower) is taken as in the grouped
order. Both are bijections for any grid: a square's numbers are the same in either, in another order.

Of several matrices one is taken after the other, or the tiles of some of them together (`matrix_of`, `taken`): first
the last tile of each, and CTAs in every other round from the last to the first. Where tiles differ in length along the
order, a CTA that had the longest of a round then has the shortest of the next, and what is left at the end is short.

Source: D. Hilbert, Über die stetige Abbildung einer Linie auf ein Flächenstück, Math. Ann. 38 (1891).
This is what the attributes of `ac.tiles` and its kin mean; `lower.distribution.raster` emits it. Checked by:
tests/ir/tile/test_order.py, and tests/lower/distribution/test_raster.py, which runs what is emitted.
"""

from __future__ import annotations

from typing import Literal

TileOrder = Literal["grouped", "hilbert"]
TILE_ORDERS: tuple[TileOrder, ...] = ("grouped", "hilbert")


def place_in_order(
    number: int, tiles_m: int, tiles_n: int, group: int, order: TileOrder = "grouped"
) -> tuple[int, int]:
    """(m, n) of the tile with this number, of tiles_m x tiles_n. group: a power of two for Hilbert's order."""
    band, within = divmod(number, group * tiles_n)
    height = min(group, tiles_m - band * group)
    n, m = divmod(within, height)
    if order == "hilbert" and height == group and n < tiles_n // group * group:
        square = n // group
        n, m = hilbert_point(within % group**2, group)
        n += square * group
    return band * group + m, n


def matrix_of(number: int, tiles: int, together: int | None, matrices: int) -> tuple[int, int]:
    """(matrix, tile of it) of a number over all matrices, of so many tiles each. together: how many matrices' tiles are
    taken together, as long as there are so many, None for one after the other."""
    if together is None:
        return divmod(number, tiles)
    group, within = divmod(number, together * tiles)
    back, matrix = divmod(within, min(together, matrices - group * together))
    return group * together + matrix, tiles - 1 - back


def taken(cta: int, ctas: int, tiles: int, together: int | None) -> list[int]:
    """The numbers that one of so many CTAs takes, of all tiles of all matrices."""
    if together is None:
        return list(range(cta, tiles, ctas))
    places = (ctas - 1 - cta if turn % 2 else cta for turn in range(-(-tiles // ctas)))
    return [number for turn, place in enumerate(places) if (number := turn * ctas + place) < tiles]


def hilbert_point(number: int, side: int) -> tuple[int, int]:
    """(x, y) of a point of Hilbert's curve, which fills a square from (0, 0) to (side - 1, 0). side: a power of two."""
    x = y = 0
    size = 1
    while size < side:
        right = number >> 1 & 1
        upper = (number ^ right) & 1
        if not upper:
            if right:
                x, y = size - 1 - x, size - 1 - y
            x, y = y, x
        x, y = x + size * right, y + size * upper
        number >>= 2
        size *= 2
    return x, y


def fits_order(group: int, order: str) -> bool:
    """Whether bands of this many tiles can be taken in this order."""
    return group >= 1 and (order == "grouped" or (order == "hilbert" and group & group - 1 == 0))
