"""Prices of exchanges: which way is dearer, as measured on an H200."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.register_layouts import register_layouts

from tilewright.ir.exchange import Cross, ExchangePlan, Stage, Toggle
from tilewright.layout.answer import NotExpressible
from tilewright.synth.exchange.cost import cost_of
from tilewright.synth.exchange.search import candidate_plans, plan_exchange
from tilewright.targets import target

LAYOUTS = register_layouts(64)
SM_90A = target("sm_90a")


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize(
    ("pair", "shuffles"),
    [
        (("row1", "row2"), True),
        (("wgmma D", "dot A, 8 bits"), True),
        # More bits of the lane turn the words: each costs a selection of every word.
        (("column16", "mma D, warps across"), False),
        (("row8 high warps", "dot A, 8 bits"), False),
    ],
)
def test_shuffles_are_taken_where_few_words_are_selected(
    pair: tuple[str, str], shuffles: bool, element_bytes: int
) -> None:
    plan = plan_exchange(LAYOUTS[pair[0]], LAYOUTS[pair[1]], element_bytes, "sm_90a")
    assert isinstance(plan, ExchangePlan)
    assert (plan.cost.shared_bytes == 0) == shuffles


def test_selections_and_shuffles_go_on_at_the_same_time() -> None:
    plans = candidate_plans(LAYOUTS["row1"], LAYOUTS["row2"], 4, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    plan = next(plan for plan in plans if plan.kind == "shuffles")
    selected = tuple(step for step in plan.steps if isinstance(step, Toggle))
    shuffled = tuple(step for step in plan.steps if not isinstance(step, Toggle))
    assert selected and shuffled
    parts = [cost_of(steps, plan.elements_in, 4, plan.warps, SM_90A).cycles for steps in (selected, shuffled)]
    assert max(parts) <= plan.cost.cycles < sum(parts)


def test_a_wide_store_of_packed_bytes_waits_for_more_words() -> None:
    """The same words at the same places, sixteen bytes at a time and four."""
    plans = candidate_plans(LAYOUTS["row1"], LAYOUTS["column16"], 1, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    for plan in plans:
        stage = next(step for step in plan.steps if isinstance(step, Stage))
        # The bytes of every word the other way round, so that each is packed.
        backwards = tuple(tuple(each ^ 3 for each in moved) for moved in stage.store.elements)
        wide = replace(stage.store, elements=backwards)
        if wide.form != "vector" or len(wide.elements[0]) != 16 or any(isinstance(step, Cross) for step in plan.steps):
            continue
        words = tuple(moved[at : at + 4] for moved in wide.elements for at in range(0, 16, 4))
        narrow = replace(wide, elements=words, constants=tuple(range(len(words))), wavefronts=1)
        both = [
            cost_of((replace(stage, store=store),), plan.elements_in, 1, plan.warps, SM_90A) for store in (wide, narrow)
        ]
        access = SM_90A.limit("exchange.access_centicycles") * plan.warps * (len(words) - len(wide.elements))
        assert both[0].wavefronts == both[1].wavefronts
        assert both[0].cycles > both[1].cycles - access // 100
        return
    pytest.fail("no plan stores whole rows of packed bytes")
