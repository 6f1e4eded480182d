"""When warps turn tiles, with which layouts, and by which exchange."""

import numpy as np
import pytest
from tests.synth.exchange_steps import follow, holding

from tilewright.ir.exchange import ExchangePlan
from tilewright.ir.transpose import LOADED, STORED, side_layout
from tilewright.synth.exchange.search import plan_exchange


@pytest.mark.sample(4)
@pytest.mark.parametrize(("element_bytes", "side"), [(1, 64), (2, 64), (4, 32)])
@pytest.mark.parametrize(("loaded_run", "stored_run"), [(1, 1), (4, 4), (4, 1), (2, 4)])
def test_points_arrive_without_conflicts_and_without_other_warps(
    element_bytes: int, side: int, loaded_run: int, stored_run: int
) -> None:
    source, destination = side_layout(LOADED, side, loaded_run, 4), side_layout(STORED, side, stored_run, 4)
    plan = plan_exchange(source, destination, element_bytes, "sm_90a")
    assert isinstance(plan, ExchangePlan) and plan.cost.barriers == 0
    np.testing.assert_array_equal(follow(holding(source), plan, "sm_90a"), holding(destination))
    assert plan.shared_bytes <= 4 * side * side * element_bytes
