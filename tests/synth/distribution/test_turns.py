# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""When consumers may take tiles in turn, what memory that takes, and which tile is chosen in which orientation."""

from dataclasses import replace

import pytest
from tests.synth.decided_products import decided, matmul
from tests.synth.walked_products import is_swapped, ring_slots, slot_along, tile_of

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile import language as tw
from tilewright.synth.cost.model import Rates, rates_of
from tilewright.synth.distribution.turns import choose_turns
from tilewright.synth.tile.shape import TileQuestion, TileShape, held_columns, loaded_columns
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


@tw.kernel
def residual(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], x: tw.Tensor["M", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc + x[i, j]


@tw.kernel
def biased(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc + bias[j]


def test_each_consumer_computes_whole_tiles() -> None:
    plan = decided(matmul, 4096, 4096, 4096, wanted=Wanted(tile=(128, 192), turns=True))
    assert plan.turns and plan.consumers == 2 and plan.unit_rows == plan.tile_rows == 128
    shared = decided(matmul, 4096, 4096, 4096, wanted=Wanted(tile=(128, 192), turns=False))
    assert not shared.turns and shared.unit_rows == 64
    # A staged box has all rows of a unit, and short ones, which leave room for another stage; two barriers of turns
    # stand behind the ring's.
    assert plan.stores[0].map.box == (32, 128) and plan.staging_slot_bytes == 128 * 64
    assert shared.stores[0].map.box == (64, 64) and ring_slots(plan) == ring_slots(shared) == 5
    slots = ring_slots(plan) * ((128 + 192) * 64 * 2 + 16)
    assert plan.smem_bytes == slots + 2 * plan.staging_slots * plan.staging_slot_bytes + 16


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(tile=(128, 256), turns=True), "2 consumers cannot take tiles of 128x256 in ping-pong"),
        (Wanted(tile=(64, 128), turns=True), "1 consumers cannot take tiles of 64x128 in ping-pong"),
        (Wanted(tile=(128, 128), split=2, turns=True), "takes a plain product"),
    ],
)
def test_what_cannot_be_had_is_refused(wanted: Wanted, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        decided(matmul, 4096, 4096, 4096, wanted=wanted, strides={"b": (1, 4096)})


def shape_of(m: int, n: int, k: int) -> tuple[int, int, int]:
    plan = decided(matmul, m, n, k, strides={"b": (1, k)})
    return (*tile_of(plan), plan.turns)


def test_turns_are_taken_where_their_tiles_fill_the_last_wave() -> None:
    assert shape_of(2048, 27648, 5120) == (128, 168, 1)
    assert shape_of(4096, 7168, 2048)[2]
    # No tile fills the last wave better than 128x256, but one of 128x128 hides its epilogue.
    assert shape_of(4096, 4096, 4096) == (128, 128, 1)
    # One small tile for each multiprocessor: no other product could hide its epilogue.
    assert shape_of(1024, 1024, 1024) == (128, 64, 0)


def test_wishes_come_before_the_model() -> None:
    plan = decided(matmul, 2048, 27648, 5120, wanted=Wanted(turns=False), strides={"b": (1, 5120)})
    assert not plan.turns


@pytest.mark.sample(4)
@pytest.mark.parametrize("extent", [1280, 1408, 1664, 1792, 1920, 2176, 2304, 2688, 3328, 3456, 3712])
def test_boxes_across_the_columns_begin_at_lines(extent: int) -> None:
    """Rows of B in memory are fetched from where tiles begin; a row that crosses a line is fetched from two. So tiles
    are as wide as whole lines there, or the product is transposed: then B's lines run along blocks of 64 rows."""
    plan = decided(matmul, extent, extent, extent)
    of_b = slot_along(plan, "N").inner_elements
    assert of_b * 2 % 128 == 0
    assert bool(plan.stores[0].turned) == is_swapped(plan)


def test_products_are_transposed_where_their_results_leave_in_bulk_alone() -> None:
    """1536 = 8 x 192 = 16 x 96: 128 tiles, one for nearly each multiprocessor (measured the quickest)."""
    plan = decided(matmul, 1536, 1536, 1536)
    assert (*tile_of(plan), plan.consumers, is_swapped(plan)) == (192, 96, 3, True)
    assert not is_swapped(decided(matmul, 1536, 1536, 1536, c=Element.F32))
    assert not is_swapped(decided(matmul, 1536, 1536, 1536, wanted=Wanted(swapped=False)))
    assert not is_swapped(decided(matmul, 1536, 1536, 1536, wanted=Wanted(misaligned=("c",))))
    # Another matrix would be read across its rows.
    assert not is_swapped(decided(residual, 1536, 1536, 1536))
    assert is_swapped(decided(biased, 1536, 1536, 1536))


def test_what_is_fetched_grows_with_the_lines_and_sectors_that_boxes_cross() -> None:
    rates = rates_of(target("sm_90a"))

    def factor(columns: int, step: int) -> float:
        question = TileQuestion((4096, 4096, 4096), 2, 2, (False,), (8, step))
        shape = TileShape(128, columns, 64, 2)
        return round(loaded_columns(rates, question, shape) / held_columns(question, shape), 6)

    # Along the contracted axis boxes begin at lines, whatever the tile.
    assert all(factor(columns, 8) == 1 for columns in range(96, 208, 8))
    assert factor(128, 64) == factor(192, 64) == 1
    assert 1 < factor(160, 64) == factor(96, 64) < factor(112, 64) == factor(176, 64) < factor(152, 64)


def test_of_8_bit_operands_other_tiles_are_taken_for_a_clear_gain() -> None:
    """252 tiles of 256x104 fill two waves; the estimate is fitted to others, which come first where they are near."""
    rates = rates_of(target("sm_90a"), 1)
    seed = TileShape(128, 256, 128, 2)
    clear = TileQuestion((926, 7168, 5120), 1, 2, (False,), turnable=True, bulk=True)
    assert tile_taken(rates, clear, seed) == (256, 104, True)
    assert tile_taken(rates, replace(clear, turnable=False), seed)[2] is False
    near = replace(clear, extents=(7025, 3840, 15360))
    assert tile_taken(rates, near, seed) == (128, 160, False)


def tile_taken(rates: Rates, question: TileQuestion, seed: TileShape) -> tuple[int, int, bool]:
    shape = choose_turns(rates, question, seed, target("sm_90a"), Wanted(), [], {}).shape
    return shape.rows, shape.columns, shape.swapped
