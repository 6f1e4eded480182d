"""Trips in two rounds: what each round loads was stored by then, and nothing is lost."""

import pytest
from bench.register_layouts import register_layouts
from tests.synth.exchange_steps import follow, holding

from tilewright.ir.exchange import ExchangePlan, Stage
from tilewright.ir.transpose import LOADED, STORED, side_layout
from tilewright.synth.exchange.rounds import dealt, drifts
from tilewright.synth.exchange.search import candidate_plans, plan_exchange
from tilewright.targets import target

LAYOUTS = register_layouts(64)


def stages(source: str, destination: str, element_bytes: int) -> list[tuple[ExchangePlan, Stage]]:
    plans = candidate_plans(LAYOUTS[source], LAYOUTS[destination], element_bytes, "sm_90a")
    assert isinstance(plans, tuple)
    return [(plan, step) for plan in plans for step in plan.steps if isinstance(step, Stage)]


@pytest.mark.parametrize(
    ("source", "destination", "element_bytes", "dealt_here"),
    [
        ("dot A, 8 bits", "ldmatrix x4 transposed", 4, True),
        ("row1", "row4 warps across", 1, True),
        ("row1", "column1", 2, False),
        ("row4", "column8", 4, False),
        # Bytes, but no word is packed.
        ("column8", "dot B, 8 bits", 1, False),
    ],
)
def test_rounds_where_they_pay(source: str, destination: str, element_bytes: int, dealt_here: bool) -> None:
    plan = plan_exchange(LAYOUTS[source], LAYOUTS[destination], element_bytes, "sm_90a")
    assert isinstance(plan, ExchangePlan)
    (stage,) = [step for step in plan.steps if isinstance(step, Stage)]
    assert bool(stage.rounds) == dealt_here
    after = follow(holding(LAYOUTS[source]), plan, "sm_90a")
    assert (after == holding(LAYOUTS[destination])).all()


@pytest.mark.parametrize("pair", [("row4", "column8"), ("wgmma D", "dot A, 8 bits"), ("row8", "mma D, warps apart")])
def test_rounds_cover_every_access_once(pair: tuple[str, str]) -> None:
    seen = 0
    found_stages = [(size, stage) for size in (1, 2, 4) for _, stage in stages(*pair, size)]
    for element_bytes, stage in found_stages:
        two = dealt(stage, element_bytes)
        stored, loaded = zip(*two.parts, strict=True)
        seen += bool(two.rounds)
        for parts, whole in ((stored, stage.store), (loaded, stage.load)):
            found = [each for part in parts for each in zip(part.constants, part.elements, strict=True)]
            assert sorted(found) == sorted(zip(whole.constants, whole.elements, strict=True))
    assert seen


def test_what_needs_everything_goes_in_one_round() -> None:
    """A single store, of which no part can wait."""
    plan = plan_exchange(LAYOUTS["row8"], LAYOUTS["column8"], 2, "sm_90a")
    assert isinstance(plan, ExchangePlan)
    (stage,) = [step for step in plan.steps if isinstance(step, Stage)]
    one = Stage(stage.store.part(0, 1), stage.load.part(0, 1), stage.scope, stage.size_bytes, 8)
    assert dealt(one, 2) == one


def test_warps_that_would_drift_apart_take_narrower_accesses() -> None:
    plan = plan_exchange(LAYOUTS["row4 warps across"], LAYOUTS["column8 high warps"], 4, "sm_90a")
    assert isinstance(plan, ExchangePlan) and plan.cost.barriers == 0
    facts = target("sm_90a")
    found = [(plan.cost.cycles, stage) for plan, stage in stages("row4 warps across", "column8 high warps", 4)]
    drifting = [cycles for cycles, stage in found if drifts(stage, facts)]
    alone = [cycles for cycles, stage in found if not drifts(stage, facts)]
    assert drifting and min(alone) == plan.cost.cycles < min(drifting)
    # In two rounds they keep together, and of half as many wavefronts too.
    for pair, element_bytes in ((("dot A, 8 bits", "ldmatrix x4 transposed"), 4), (("row16", "square2"), 2)):
        plan = plan_exchange(LAYOUTS[pair[0]], LAYOUTS[pair[1]], element_bytes, "sm_90a")
        assert isinstance(plan, ExchangePlan)
        assert not any(isinstance(step, Stage) and drifts(step, facts) for step in plan.steps)


def test_warps_that_wait_for_memory_between_exchanges_do_not_drift() -> None:
    """The tiles of 32 bits that transposes turn, four points at once."""
    facts = target("sm_90a")
    source, destination = side_layout(LOADED, 32, 4, 4), side_layout(STORED, 32, 4, 4)
    drifting: list[bool] = []
    for repeated in (True, False):
        plan = plan_exchange(source, destination, 4, "sm_90a", repeated=repeated)
        assert isinstance(plan, ExchangePlan)
        drifting.append(any(isinstance(step, Stage) and drifts(step, facts) for step in plan.steps))
        assert (follow(holding(source), plan, "sm_90a") == holding(destination)).all()
    assert drifting == [False, True]
