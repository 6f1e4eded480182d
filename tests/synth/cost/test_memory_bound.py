# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What memory takes for a result that leaves in chunks, and which tiles that leaves."""

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.synth.walked_products import decided, decided_product, is_swapped, tile_of

from tilewright.frontends.tile import language as tw
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.cost.memory_bound import meeting_cycles, meetings_inside, with_meetings
from tilewright.synth.tile.shape import TileQuestion
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def batched(x: tw.Tensor["B", "M", "K"], w: tw.Tensor["B", "N", "K"], y: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    total = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        total += tw.dot(x[p, i, k], w[p, j, k].T)
    y[p, i, j] = total


@given(st.integers(1, 3000), st.lists(st.integers(1, 300), min_size=1, max_size=4), st.sampled_from([32, 128]))
def test_meetings_are_those_of_the_chunks_themselves(row_bytes: int, chunks: list[int], unit_bytes: int) -> None:
    meetings: list[int] = []
    place = 0
    for length in cycle(chunks):
        place += length
        if place >= row_bytes:
            break
        meetings.append(place)
    assert meetings_inside(row_bytes, tuple(chunks), unit_bytes) == sum(each % unit_bytes != 0 for each in meetings)


def test_whole_lines_cost_their_bytes_and_shared_ones_more() -> None:
    question = TileQuestion((512, 4096, 128), 2, 2, (False, True), batch=32)
    in_rows, whole, of_sectors, split = (
        with_meetings(question, meeting_cycles(question, chunk_bytes, HOPPER), HOPPER)
        for chunk_bytes in ((), (128,), (32,), (80,))
    )
    assert in_rows == whole < of_sectors < split
    moved = 32 * 2 * ((512 + 4096) * 128 + 512 * 4096)
    ideal = moved * HOPPER.limit("device.clock_hertz") / HOPPER.limit("device.dram_bytes_per_second")
    assert ideal < whole < 1.25 * ideal


def _product(m: int, n: int, k: int) -> CascadeDecisions:
    return decided_product(m, n, k)


@pytest.mark.parametrize("k", [128, 192, 256])
def test_a_result_that_memory_waits_for_leaves_in_whole_lines(k: int) -> None:
    plan = _product(16384, 4096, k)
    assert plan.stores[0].map.box[0] * 2 % 128 == 0


def test_where_the_product_takes_longer_any_chunks_do() -> None:
    """128x200 is the quickest either way (measured): the chunks of 80 bytes that leave along its columns are hidden;
    along its rows all boxes are of whole lines."""
    plan = _product(8192, 8192, 8192)
    assert (*tile_of(plan), plan.turns) == (128, 200, 1)
    assert is_swapped(plan) and plan.stores[0].map.box[0] * 2 == 128


def test_a_batch_is_asked_as_its_products_are() -> None:
    plan = decided({"B": 32, "M": 512, "N": 4096, "K": 128}, batched)
    assert plan.stores[0].map.box[0] * 2 % 128 == 0
