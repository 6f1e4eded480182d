"""Orders of tiles: every tile of any grid once, runs that stay together, and what Hilbert's curve is."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.ir.tile.order import TILE_ORDERS, fits_order, hilbert_point, matrix_of, place_in_order, taken

_COUNTS = st.integers(1, 40)


@settings(max_examples=60)
@given(_COUNTS, _COUNTS, st.integers(1, 48), st.sampled_from(TILE_ORDERS))
def test_every_tile_of_any_grid_is_met_once(tiles_m, tiles_n, group, order):
    if not fits_order(group, order):
        group = 1 << group.bit_length()
    numbers = range(tiles_m * tiles_n)
    places = [place_in_order(number, tiles_m, tiles_n, group, order) for number in numbers]
    assert sorted(places) == [(m, n) for m in range(tiles_m) for n in range(tiles_n)]


def test_the_curve_goes_from_neighbour_to_neighbour_and_ends_beside_the_next_square():
    for side in (1, 2, 4, 8, 16, 32):
        points = [hilbert_point(number, side) for number in range(side * side)]
        steps = [abs(x - u) + abs(y - v) for (x, y), (u, v) in pairwise(points)]
        assert set(steps) <= {1} and len(set(points)) == side * side
        assert points[0] == (0, 0) and points[-1] == (side - 1, 0)
    assert [hilbert_point(number, 2) for number in range(4)] == [(0, 0), (0, 1), (1, 1), (1, 0)]


def test_in_whole_squares_each_tile_is_beside_the_one_before():
    places = [place_in_order(number, 16, 40, 8, "hilbert") for number in range(8 * 40)]
    assert all(abs(m - p) + abs(n - q) == 1 for (m, n), (p, q) in pairwise(places))
    grouped = [place_in_order(number, 16, 40, 8) for number in range(8 * 40)]
    assert places != grouped and set(places) == set(grouped)


def test_what_no_square_covers_is_taken_as_in_the_grouped_order():
    in_squares = 8 * 16
    for number in range(11 * 21):
        both = [place_in_order(number, 11, 21, 8, order) for order in TILE_ORDERS]
        if number >= in_squares:
            assert both[0] == both[1]


def test_only_powers_of_two_are_sides_of_squares():
    assert [group for group in range(-1, 9) if fits_order(group, "hilbert")] == [1, 2, 4, 8]
    assert fits_order(7, "grouped") and not fits_order(0, "grouped") and not fits_order(8, "diagonal")


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 20), st.booleans(), st.integers(1, 20))
def test_ctas_take_every_tile_of_every_matrix_once(tiles, several, matrices, alternates, ctas):
    together = min(several, matrices) if alternates else None
    numbers = [taken(cta, ctas, tiles * matrices, together) for cta in range(ctas)]
    places = [matrix_of(number, tiles, together, matrices) for own in numbers for number in own]
    assert sorted(places) == [(matrix, tile) for matrix in range(matrices) for tile in range(tiles)]


def test_rounds_alternate_and_begin_with_last_tiles():
    assert [taken(cta, 3, 8, 2) for cta in range(3)] == [[0, 5, 6], [1, 4, 7], [2, 3]]
    assert [taken(cta, 3, 8, None) for cta in range(3)] == [[0, 3, 6], [1, 4, 7], [2, 5]]
    first = [(0, 2), (1, 2), (0, 1), (1, 1), (0, 0), (1, 0)]
    assert [matrix_of(number, 3, 2, 4) for number in range(8)] == [*first, (2, 2), (3, 2)]
    assert [matrix_of(number, 3, 2, 3) for number in range(9)] == [*first, (2, 2), (2, 1), (2, 0)]
    assert [matrix_of(number, 3, None, 2) for number in range(4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]
