"""Where in the result does tile number t lie, and what does finding that out cost?

Tiles are numbered in bands of `group` tiles along m; within a band m runs fastest, so that tiles which run at the same
time lie near each other and share what they load. Both divisors are known when the text is written, or passed with
their reciprocals by the launch (`lower.ptx.run_time`), but for the height of the last band, which is one of two
numbers. The assembler divides by an immediate as by any register, some forty
dependent instructions at the start of every tile in every role; here a quotient is a high product with the divisor's
reciprocal, at most one too small, and one correction.

In Hilbert's order (`ir.tile.order`) the places of tiles in whole squares of a band are found besides, from the bits of
the number inside the square, and chosen where the tile lies in one: ten instructions for each bit of a side.

Arithmetic: with r = floor(2^32 / d) (2^32 - 1 for d = 1) and n < 2^32, n r / 2^32 > n / d - 1, so floor(n r / 2^32) is
the quotient or one less. Checked by: tests/lower/distribution/test_raster.py, and `contract` runs the text at small
extents.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.base.size import Size, computed, number_of
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import StreamPart
from tilewright.ir.tile.order import TILE_ORDERS, TileOrder
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.run_time import (
    BAND,
    BAND_RECIPROCAL,
    LAST_RECIPROCAL,
    NONE_PASSED,
    OF_GROUP,
    OF_MATRIX,
    SQUARED,
    TILES_M,
    PassedSizes,
    RasterSizes,
    reciprocal,
    together_sizes,
)

_MASK = (1 << 32) - 1


def order_of(op: ac.TilesOp | ac.TurnTilesOp | ac.PrefetchOp | StreamPart) -> TileOrder:
    """The order that an operation names. Raises TilewrightError for one that nothing is known of."""
    name = "grouped" if op.order is None else op.order.data
    for order in TILE_ORDERS:
        if order == name:
            return order
    raise TilewrightError(f"no order of tiles {name!r}", remedy=f"use one of {', '.join(TILE_ORDERS)}")


def raster_quantities(tiles_m: int, tiles_n: int, group: int) -> tuple[int, ...]:
    """Immediates that `raster` writes and that depend on extents."""
    return tuple(number_of(size) for size in RasterSizes.of(tiles_m, tiles_n, group).named("hilbert").values())


def raster(
    text: Text,
    tile: str,
    tiles_m: Size,
    tiles_n: Size,
    group: int,
    order: TileOrder = "grouped",
    passed: PassedSizes = NONE_PASSED,
) -> tuple[str, str]:
    """Registers (m, n) of the tile whose number is in register `tile`. group: a power of two for Hilbert's order;
    passed: the sizes that are the launch's."""
    sizes = RasterSizes.of(tiles_m, tiles_n, group)
    divisor = _Divisor(
        passed.register(text, BAND, sizes.band), passed.register(text, BAND_RECIPROCAL, sizes.band_reciprocal)
    )
    band = _divide(text, tile, divisor)
    first = text.into("b32", "mul.lo.u32", band.quotient, group)
    left = text.into("b32", "sub.u32", passed.operand(text, TILES_M, sizes.tiles_m), first)
    height = text.into("b32", "min.u32", left, group)
    whole = text.into("pred", "setp.ge.u32", left, group)
    last = passed.register(text, LAST_RECIPROCAL, sizes.last_reciprocal)
    factor = text.into("b32", "selp.b32", number_of(sizes.height_reciprocal), last, whole)
    within = _divide(text, band.remainder, _Divisor(height, factor))
    m, n = within.remainder, within.quotient
    if order == "hilbert" and group > 1:
        squared = text.into("pred", "setp.lt.u32", n, passed.operand(text, SQUARED, sizes.squared))
        inside = text.into("pred", "and.pred", whole, squared)
        across, up = _hilbert_point(text, band.remainder, group)
        square = text.into("b32", "and.b32", n, _MASK - (group - 1))
        n = text.into("b32", "selp.b32", text.into("b32", "add.u32", square, across), n, inside)
        m = text.into("b32", "selp.b32", up, m, inside)
    return text.into("b32", "add.u32", first, m), n


def quotient_and_rest(
    text: Text, number: str, divisor: Size, passed: PassedSizes = NONE_PASSED, names: tuple[str, str] = ("", "")
) -> tuple[str, str]:
    """Registers with the quotient of an unsigned register by a size, and what is left. names: under which the launch
    passes the divisor and its reciprocal, where it does."""
    value, by_value = map(passed.register, (text, text), names, (divisor, reciprocal(divisor)))
    found = _divide(text, number, _Divisor(value, by_value))
    return found.quotient, found.remainder


def of_matrices_together(
    text: Text, tile: str, tiles: Size, together: Size, matrices: Size, passed: PassedSizes = NONE_PASSED
) -> tuple[str, str]:
    """Registers with the matrix of a tile and its number in it (`ir.tile.order.matrix_of`), where the tiles of so many
    matrices are taken together. tile: the register with its number over all matrices; tiles: of each. Where only the
    launch knows how many there are, and how many are taken together is a number, all groups are whole."""
    if isinstance(together, int) and not (isinstance(tiles, int) and isinstance(matrices, int)):
        number, within = quotient_and_rest(text, tile, computed("*", tiles, together), passed, OF_GROUP)
        back, matrix = quotient_and_rest(text, within, together)
        last = text.into("b32", "sub.u32", passed.register(text, OF_MATRIX[0], tiles), 1)
        first = text.into("b32", "mul.lo.u32", number, text.into("b32", "mov.u32", together))
        return text.into("b32", "add.u32", first, matrix), text.into("b32", "sub.u32", last, back)
    sizes = together_sizes(tiles, together, matrices)
    of_group, by_group, whole, size, by_size, rest, by_rest = (
        passed.register(text, name, each) for name, each in sizes.items()
    )
    group = _divide(text, tile, _Divisor(of_group, by_group))
    is_whole = text.into("pred", "setp.lt.u32", group.quotient, whole)
    width, by_width = (text.into("b32", "selp.b32", *each, is_whole) for each in ((size, rest), (by_size, by_rest)))
    found = _divide(text, group.remainder, _Divisor(width, by_width))
    if isinstance(tiles, int):
        last = text.into("b32", "mov.u32", tiles - 1)
    else:
        last = text.into("b32", "sub.u32", passed.register(text, OF_MATRIX[0], tiles), 1)
    number = text.into("b32", "sub.u32", last, found.quotient)
    return text.into("b32", "mad.lo.u32", group.quotient, size, found.remainder), number


def _hilbert_point(text: Text, number: str, side: int) -> tuple[str, str]:
    """Registers (x, y) of a point of the curve `ir.tile.order.hilbert_point`, found from the finest squares up; of
    `number` the bits inside a square count."""
    x = y = ""
    for level in range(side.bit_length() - 1):
        half = 1 << level
        right = _bit(text, number, 2 * level + 1)
        upper = text.into("b32", "xor.b32", _bit(text, number, 2 * level), right)
        is_upper = text.into("pred", "setp.ne.u32", upper, 0)
        if level:
            # In the lower right quarter the curve runs backwards and turned, in the lower left one turned.
            turned = text.into("b32", "selp.b32", 0, right, is_upper)
            mirror = text.into("b32", "mul.lo.u32", turned, half - 1)
            x, y = (text.into("b32", "xor.b32", each, mirror) for each in (x, y))
            x, y = text.into("b32", "selp.b32", x, y, is_upper), text.into("b32", "selp.b32", y, x, is_upper)
            x = text.into("b32", "mad.lo.u32", right, half, x)
            y = text.into("b32", "mad.lo.u32", upper, half, y)
        else:
            x, y = right, upper
    return x, y


def _bit(text: Text, number: str, place: int) -> str:
    shifted = text.into("b32", "shr.u32", number, place) if place else number
    return text.into("b32", "and.b32", shifted, 1)


@dataclass(frozen=True, slots=True)
class _Divisor:
    """Registers with a divisor and its reciprocal."""

    value: str
    reciprocal: str


@dataclass(frozen=True, slots=True)
class _Division:
    quotient: str
    remainder: str


def _divide(text: Text, number: str, by: _Divisor) -> _Division:
    """Quotient and remainder of an unsigned register."""
    quotient = text.into("b32", "mul.hi.u32", number, by.reciprocal)
    remainder = text.into("b32", "sub.u32", number, text.into("b32", "mul.lo.u32", quotient, by.value))
    short = text.into("pred", "setp.ge.u32", remainder, by.value)
    one_more = text.into("b32", "add.u32", quotient, 1)
    less = text.into("b32", "sub.u32", remainder, by.value)
    return _Division(
        text.into("b32", "selp.b32", one_more, quotient, short), text.into("b32", "selp.b32", less, remainder, short)
    )
