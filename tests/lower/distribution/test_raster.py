"""Tile numbers become places: every tile once, in bands, for any numbers of tiles; and no division by register."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.distribution.evaluated_raster import _MASK, evaluated
from tests.lower.lowered_programs import gemm

from tilewright.base.size import Extent, Size, ceil_div, chosen, computed, value_of
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.order import TILE_ORDERS, TileOrder, matrix_of, place_in_order
from tilewright.lower.distribution.raster import (
    of_matrices_together,
    quotient_and_rest,
    raster,
    raster_quantities,
)
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.run_time import OF_MATRIX, PassedSizes, last_height, reciprocal, together_sizes


def _evaluated(tile: int, tiles_m: int, tiles_n: int, group: int, order: TileOrder = "grouped") -> tuple[int, int]:
    """What the emitted instructions compute, interpreted one by one."""
    text = Text()
    number = text.into("b32", "mov.u32", tile)
    return evaluated(text, raster(text, number, tiles_m, tiles_n, group, order), {})


def _expected(tile: int, tiles_m: int, tiles_n: int, group: int) -> tuple[int, int]:
    band, within = divmod(tile, group * tiles_n)
    height = min(group, tiles_m - band * group)
    return band * group + within % height, within // height


@pytest.mark.parametrize(("tiles_m", "tiles_n", "group"), [(1, 1, 1), (7, 5, 3), (6, 4, 3), (3, 9, 3), (5, 1, 4)])
def test_every_tile_is_met_once(tiles_m: int, tiles_n: int, group: int) -> None:
    places = [_evaluated(tile, tiles_m, tiles_n, group) for tile in range(tiles_m * tiles_n)]
    assert places == [_expected(tile, tiles_m, tiles_n, group) for tile in range(tiles_m * tiles_n)]
    assert sorted(places) == [(m, n) for m in range(tiles_m) for n in range(tiles_n)]


@pytest.mark.parametrize(
    ("tiles_m", "tiles_n", "side"), [(1, 1, 1), (5, 9, 2), (11, 21, 8), (16, 16, 16), (4, 3, 4), (7, 3, 4), (3, 8, 1)]
)
def test_every_tile_is_met_once_along_the_curve(tiles_m: int, tiles_n: int, side: int) -> None:
    numbers = range(tiles_m * tiles_n)
    places = [_evaluated(tile, tiles_m, tiles_n, side, "hilbert") for tile in numbers]
    assert places == [place_in_order(tile, tiles_m, tiles_n, side, "hilbert") for tile in numbers]
    assert sorted(places) == [(m, n) for m in range(tiles_m) for n in range(tiles_n)]


@settings(max_examples=50)
@given(st.integers(1, 1 << 16), st.integers(1, 1 << 13), st.integers(0, 6), st.integers(0, 1 << 40))
def test_the_curve_in_large_grids(tiles_m: int, tiles_n: int, level: int, chance: int) -> None:
    for tile in (chance % (tiles_m * tiles_n), tiles_m * tiles_n - 1):
        place = _evaluated(tile, tiles_m, tiles_n, 1 << level, "hilbert")
        assert place == place_in_order(tile, tiles_m, tiles_n, 1 << level, "hilbert")


def test_large_numbers_of_tiles() -> None:
    chance = random.Random(0)
    for _ in range(300):
        tiles_m, tiles_n = chance.randint(1, 1 << 17), chance.randint(1, 1 << 14)
        group = chance.randint(1, min(tiles_m, 64))
        for tile in (0, 1, tiles_m * tiles_n - 1, chance.randrange(tiles_m * tiles_n)):
            assert _evaluated(tile, tiles_m, tiles_n, group) == _expected(tile, tiles_m, tiles_n, group)


def test_reciprocals_are_at_most_one_short() -> None:
    for divisor in (1, 2, 3, 5, 7, 602, 65537, (1 << 31) - 1, 1 << 31, _MASK):
        for number in (0, 1, divisor - 1, divisor, divisor + 1, _MASK - 1, _MASK):
            if 0 <= number <= _MASK:
                assert number // divisor - (number * reciprocal(divisor) >> 32) in (0, 1)


@pytest.mark.parametrize("order", TILE_ORDERS)
def test_what_depends_on_extents_is_named(order: TileOrder) -> None:
    assert last_height(7, 3) == 1 and last_height(6, 3) == 3 and last_height(2, 5) == 2
    names = raster_quantities(7, 5, 4)
    text = Text()
    raster(text, "%r0", 7, 5, 4, order)
    fixed = Text()
    raster(fixed, "%r0", 19, 11, 4, order)
    other = raster_quantities(19, 11, 4)
    pairs = set(zip(names, other, strict=True))
    for one, two in zip(text.lines, fixed.lines, strict=True):
        for mine, theirs in zip(one.split(), two.split(), strict=True):
            if mine != theirs:
                assert (int(mine.strip(",;")), int(theirs.strip(",;"))) in pairs


def test_the_text_divides_by_no_register() -> None:
    (kernel,) = read(gemm(1024, 1024, 1024).ptx).kernels
    divisions = [item for item in kernel.body if getattr(item, "row", "") in ("div", "rem")]
    assert not divisions
    assert any(getattr(item, "row", "") == "mul" for item in kernel.body)


@pytest.mark.parametrize(
    ("tiles", "together", "matrices"), [(1, 1, 1), (4, 3, 10), (8, 44, 100), (5, 4, 8), (3, 7, 7), (2, 6, 7)]
)
def test_tiles_of_matrices_taken_together(tiles: int, together: int, matrices: int) -> None:
    """Whole groups of matrices, and a last one of fewer."""
    for tile in range(tiles * matrices):
        text = Text()
        number = text.into("b32", "mov.u32", tile)
        registers = of_matrices_together(text, number, tiles, together, matrices)
        assert evaluated(text, registers, {}) == matrix_of(tile, tiles, together, matrices)
        depends = {str(each) for each in together_sizes(tiles, together, matrices).values()}
        written = {word for line in text.lines[1:] for word in line.strip(" \t;").replace(",", "").split()[1:]}
        fixed = {"1", str(tiles - 1)}
        assert {word for word in written if word.isdigit()} <= depends | fixed


@pytest.mark.parametrize("matrices", [10, Extent("B")])
def test_tiles_of_matrices_that_a_launch_takes_together(matrices: Size) -> None:
    """Groups of a size that the launch says, of no more or more matrices than there are."""
    tiles, together = ceil_div(Extent("M"), 8), chosen(computed("-", Extent("B"), 1), (2, 1, 5, 3))
    sizes = {**together_sizes(tiles, together, matrices), OF_MATRIX[0]: tiles}
    passed = PassedSizes({what: size for what, size in sizes.items() if not isinstance(size, int)})
    for rows, places in ((1, 1), (9, 2), (30, 3), (8, 7), (40, 6)):
        at = {"M": rows, "B": places}
        numbers = {f"size_{what}": value_of(size, at) for what, size in passed.sizes.items()}
        of_each, taken, several = (value_of(each, at) for each in (tiles, together, matrices))
        for tile in range(of_each * several):
            text = Text()
            registers = of_matrices_together(text, text.into("b32", "mov.u32", tile), tiles, together, matrices, passed)
            assert evaluated(text, registers, numbers) == matrix_of(tile, of_each, taken, several)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 352, (1 << 16) + 1])
def test_quotients_by_a_number(divisor: int) -> None:
    for number in (0, 1, divisor - 1, divisor, 5 * divisor + divisor // 2, 100_003, (1 << 31) - 1):
        text = Text()
        found = quotient_and_rest(text, text.into("b32", "mov.u32", number), divisor)
        assert evaluated(text, found, {}) == divmod(number, divisor)
