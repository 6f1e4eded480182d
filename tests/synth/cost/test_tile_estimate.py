"""What a tile costs more where it reaches past the operands, and where the clock is high; which tiles follow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.synth.walked_products import decided_product, tile_of

from tilewright.synth.cost.model import rates_of
from tilewright.synth.cost.tile_estimate import expected_cycles, facts_of, tile_cycles
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.targets import target

HOPPER = target("sm_90a")
RATES = rates_of(HOPPER)
FACTS = facts_of(HOPPER, 2)
UNDER_LOAD = HOPPER.limit("device.clock_percent_under_load") / 100


def question(m: int, n: int, k: int, element_bytes: int = 2) -> TileQuestion:
    return TileQuestion((m, n, k), element_bytes, 2, (False,), turnable=element_bytes == 2)


def cycles(asked: TileQuestion, shape: TileShape, *, zeros_percent: int, clock_share: float = 1.0) -> float:
    facts = replace(FACTS, zeros_percent=zeros_percent)
    return tile_cycles(RATES, asked, shape, HOPPER, turns=False, facts=facts, clock_share=clock_share)


def test_zeros_cost_where_a_tile_reaches_past_the_operands_and_nothing_hides_them() -> None:
    def more(asked: TileQuestion, shape: TileShape) -> float:
        return cycles(asked, shape, zeros_percent=100) / cycles(asked, shape, zeros_percent=0) - 1

    narrow, whole = TileShape(64, 144, 64, 1), TileShape(64, 128, 64, 1)
    assert more(question(1024, 1024, 1024), whole) == 0
    assert more(question(1024, 1024, 1024), narrow) > 0.1
    # The other way round, it is the product's rows that end inside a tile.
    tall = question(1000, 1024, 1024)
    assert more(tall, whole) > 0 and more(tall, replace(whole, swapped=True)) > 0
    assert more(question(1024, 1000, 1024), replace(whole, swapped=True)) > 0
    # One tile of many, and one whose products take much longer than its fetches.
    assert more(question(1024, 8192 + 16, 1024), narrow) < 0.1
    assert more(question(2032, 2032, 2032), TileShape(128, 256, 64, 2)) < 0.01 < more(question(1008, 1008, 1008), whole)


def test_what_is_bound_by_fetching_takes_more_cycles_at_the_highest_clock() -> None:
    asked = question(4096, 4096, 4096)

    def more(rows: int, columns: int) -> float:
        shape = TileShape(rows, columns, 64, 2)
        high, low = (cycles(asked, shape, zeros_percent=0, clock_share=share) for share in (1.0, UNDER_LOAD))
        return high / low - 1

    assert more(128, 64) > 0.2 > more(128, 128) > 0.02 > more(128, 256) > 0


def test_both_clocks_count_alike() -> None:
    asked, shape = question(4096, 4096, 4096), TileShape(128, 128, 64, 2)
    high, low = (tile_cycles(RATES, asked, shape, HOPPER, turns=True, clock_share=share) for share in (1.0, UNDER_LOAD))
    assert expected_cycles(RATES, asked, shape, HOPPER, turns=True) == pytest.approx((high + low) / 2)
    # The facts of 8-bit operands were fitted to runs of one clock.
    bytes_, rates = question(4096, 4096, 4096, 1), rates_of(HOPPER, 1)
    shape = replace(shape, depth=128)
    alone = tile_cycles(rates, bytes_, shape, HOPPER, turns=True)
    assert expected_cycles(rates, bytes_, shape, HOPPER, turns=True) == alone


@pytest.mark.parametrize(
    ("extents", "tile"),
    [
        # Measured the quickest of their products; one column block less wide, and the last tile is mostly zeros.
        ((896, 896, 896), (64, 112)),
        ((1152, 1152, 1152), (128, 96)),
        # Teams of CTAs take a seventh longer.
        ((256, 5120, 5120), (128, 80)),
    ],
)
def test_tiles_end_where_products_do(extents: tuple[int, int, int], tile: tuple[int, int]) -> None:
    m, n, k = extents
    plan = decided_product(m, n, k, strides=None if m != n else {})
    assert tile_of(plan) == tile and plan.split == plan.teams == 1
