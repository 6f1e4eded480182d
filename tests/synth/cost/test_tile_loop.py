"""Are shared tiles and tiles taken in turn as long as the closed forms say, and are both schedules proven?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.contract.schedule.schedule_check import check_schedule
from tilewright.synth.cost.tile_loop import TileCosts, loop_cycles, schedule_tiles, tile_loop
from tilewright.targets import target

TARGET = target("sm_90a")
TAIL = TARGET.limit("latency.product_cycles")
TURN = TARGET.limit("pipeline.turn_cycles_of_16_bits")


@settings(max_examples=40, deadline=None)
@given(products=st.integers(200, 20000), epilogue=st.integers(0, 8000))
def test_the_scheduler_finds_the_closed_forms(products: int, epilogue: int) -> None:
    costs = TileCosts(products, epilogue, 128, 2, 232, 16)
    found = {each.assignment: each for each in schedule_tiles("pipe", costs, TARGET, "optimal")}
    assert found["cooperative"].cycles_of_a_tile == products + TAIL + epilogue
    turns = max(2 * (products + TURN), products + TAIL + epilogue, 2 * epilogue)
    assert found["ping-pong"].cycles_of_a_tile == turns / 2
    for each in found.values():
        assert isinstance(check_schedule(each.graph, each.schedule), Proven)
        assert each.schedule.certificate is not None


def test_turns_are_worth_most_where_epilogues_are_long() -> None:
    long, short = (schedule_tiles("pipe", TileCosts(4096, cycles, 128, 2, 232, 16), TARGET) for cycles in (3000, 200))
    assert long[0].assignment == "ping-pong" and short[0].assignment == "ping-pong"
    gains = [each[1].cycles_of_a_tile / each[0].cycles_of_a_tile for each in (long, short)]
    assert gains[0] > 1.5 > 1.05 > gains[1] > 1


def test_epilogues_shorter_than_passing_a_turn_are_not_hidden() -> None:
    best, _ = schedule_tiles("pipe", TileCosts(4096, 20, 128, 2, 232, 16), TARGET)
    assert best.assignment == "cooperative"


def test_a_cta_s_tiles_take_as_long_as_their_schedule_and_the_last_epilogue_shows() -> None:
    costs = TileCosts(8192, 1000, 128, 2, 232, 5)
    assert loop_cycles(costs, TARGET, "cooperative") == 5 * (8192 + TAIL + 1000)
    assert loop_cycles(costs, TARGET, "ping-pong") == 5 * (8192 + TURN) + 1000


def test_a_tile_too_wide_for_one_consumer_is_shared() -> None:
    (only,) = schedule_tiles("pipe", TileCosts(16384, 3000, 256, 2, 232, 16), TARGET)
    assert only.assignment == "cooperative"
    with pytest.raises(TilewrightError):
        schedule_tiles("pipe", TileCosts(16384, 3000, 512, 2, 232, 16), TARGET)


def test_one_consumer_has_nobody_to_take_turns_with() -> None:
    assert [each.assignment for each in schedule_tiles("pipe", TileCosts(4096, 100, 64, 1, 232, 4), TARGET)] == [
        "cooperative"
    ]


@pytest.mark.parametrize(
    "costs", [TileCosts(0, 1, 1, 1, 1, 1), TileCosts(1, -1, 1, 1, 1, 1), TileCosts(1, 1, 1, 0, 1, 1)]
)
def test_senseless_costs_are_one_clear_error(costs: TileCosts) -> None:
    with pytest.raises(TilewrightError, match="without products"):
        tile_loop("pipe", costs, TARGET, "ping-pong")
