"""The order of tiles: near-square bands, squares of a curve no larger than the grid, wishes granted or refused."""

import pytest

from tilewright.base.error import TilewrightError
from tilewright.synth.cost.model import rates_of
from tilewright.synth.distribution.tile_order import choose_tile_order, refuse_tile_order
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

RATES = rates_of(target("sm_90a"))


def test_bands_are_grouped_and_near_square_unless_asked_for():
    assert choose_tile_order(RATES, (128, 128), (64, 64), Wanted()) == ("grouped", 11)
    assert choose_tile_order(RATES, (128, 128), (4, 64), Wanted()) == ("grouped", 4)
    assert choose_tile_order(RATES, (128, 128), (64, 64), Wanted(tile_group=7)) == ("grouped", 7)


def test_tiles_of_one_wave_that_read_the_same_of_the_larger_operand_follow_one_another():
    assert choose_tile_order(RATES, (64, 112), (24, 5), Wanted()) == ("grouped", 1)
    assert choose_tile_order(RATES, (112, 64), (5, 24), Wanted()) == ("grouped", 5)
    assert choose_tile_order(RATES, (64, 112), (24, 5), Wanted(tile_group=8)) == ("grouped", 8)
    # Several waves, and one tile along an axis, where orders do not differ.
    assert choose_tile_order(RATES, (64, 112), (24, 5), Wanted(), matrices=2) == ("grouped", 15)
    assert choose_tile_order(RATES, (64, 112), (40, 5), Wanted()) == ("grouped", 15)
    assert choose_tile_order(RATES, (64, 8), (64, 1), Wanted()) == ("grouped", 4)


def test_squares_of_the_curve_hold_a_wave_where_they_fit():
    curve = Wanted(tile_order="hilbert")
    assert choose_tile_order(RATES, (128, 128), (64, 64), curve) == ("hilbert", 16)
    assert choose_tile_order(RATES, (128, 128), (64, 5), curve) == ("hilbert", 4)
    assert choose_tile_order(RATES, (128, 128), (1, 64), curve) == ("hilbert", 1)
    assert choose_tile_order(RATES, (128, 128), (64, 64), Wanted(tile_order="hilbert", tile_group=8)) == ("hilbert", 8)


@pytest.mark.parametrize(
    "wish",
    [
        Wanted(tile_order="hilbert", tile_group=12),
        Wanted(tile_group=0),
        Wanted(tile_group=1 << 13),
        Wanted(tile_order="diagonal"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_no_order_grants_is_refused_with_a_remedy(wish):
    with pytest.raises(TilewrightError) as refused:
        choose_tile_order(RATES, (128, 128), (64, 64), wish)
    assert refused.value.remedy


def test_tiles_that_the_kernel_counts_have_one_order():
    refuse_tile_order(Wanted(tile_order="grouped"))
    for wish in (Wanted(tile_order="hilbert"), Wanted(tile_group=4)):
        with pytest.raises(TilewrightError):
            refuse_tile_order(wish)
