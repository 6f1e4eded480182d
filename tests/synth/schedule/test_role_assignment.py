"""Do warpgroups go together where nothing is won by turns, and take turns where it is?"""

from __future__ import annotations

import pytest
from tests.synth.graphs import attention_body, gemm_body

from tilewright.base.error import TilewrightError
from tilewright.synth.schedule.role_assignment import schedule_body
from tilewright.targets import target

TARGET = target("sm_90a")


def test_a_product_alone_is_shared_and_attention_takes_turns() -> None:
    assert {role.name for role in schedule_body(gemm_body(), TARGET)[0].roles} == {"producer", "consumers"}
    graph, schedule = schedule_body(attention_body(), TARGET)
    assert "consumer 1" in {role.name for role in graph.roles}
    together = schedule_body(attention_body(), TARGET, "heuristic", "cooperative")[1]
    assert schedule.price_cycles < together.price_cycles


def test_an_assignment_asked_for_is_kept() -> None:
    graph, _ = schedule_body(gemm_body(), TARGET, "heuristic", "ping-pong")
    assert {role.name for role in graph.roles} == {"producer", "consumer 0", "consumer 1"}


def test_one_consumer_has_no_turns_to_take() -> None:
    assert len(schedule_body(attention_body(64, consumers=1), TARGET)[0].roles) == 2


@pytest.mark.parametrize("helpers", [-1, 5])
def test_helpers_are_few(helpers: int) -> None:
    with pytest.raises(TilewrightError, match="helpers"):
        schedule_body(attention_body(), TARGET, helpers=helpers)
