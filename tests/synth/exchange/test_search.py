"""Plans of exchanges: every element followed through the steps, every access's wavefronts, and what plans cost."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from bench.register_layouts import register_layouts
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synth.exchange_steps import follow, holding

from tilewright.base.error import TilewrightError
from tilewright.ir.exchange import ExchangePlan, Rearrange, Stage, Turn
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, linear_layout
from tilewright.layout.numbers import bit_matrix
from tilewright.synth.exchange.search import candidate_plans, plan_exchange

LAYOUTS = register_layouts(64)


@pytest.mark.sample(2)
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_every_candidate_brings_every_element_and_conflicts_nowhere(element_bytes: int) -> None:
    names = list(LAYOUTS)
    chosen = random.Random(element_bytes).sample(list(itertools.product(names, names)), 6)
    for first, second in chosen:
        source, destination = LAYOUTS[first], LAYOUTS[second]
        plans = candidate_plans(source, destination, element_bytes, "sm_90a")
        assert not isinstance(plans, NotExpressible)
        for plan in (plans[0], plans[-1]):
            reached = follow(holding(source), plan, "sm_90a")
            assert np.array_equal(reached, holding(destination)), (first, second, plan.kind)


def random_layout(generator: random.Random, registers: int, warps: int, free: int) -> LinearLayout:
    """Onto, with `free` columns that repeat others."""
    bits = registers + 5 + warps
    columns: list[int] = []
    while len(columns) < bits - free:
        column = generator.randrange(1, 1 << bits - free)
        if bit_matrix.solve(columns, column) is None:
            columns.append(column)
    columns += [generator.randrange(1 << bits - free) for _ in range(free)]
    generator.shuffle(columns)
    inputs = {"register": columns[:registers], "lane": columns[registers : registers + 5]}
    return linear_layout({**inputs, "warp": columns[registers + 5 :]}, {"place": 1 << bits - free})


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 3), st.sampled_from([1, 2, 4]), st.integers(0, 1))
def test_layouts_of_any_columns(seed: int, free: int, element_bytes: int, warps: int) -> None:
    generator = random.Random(seed)
    source = random_layout(generator, 3 + free, warps, free)
    destination = random_layout(generator, 3 + free, warps, free)
    plans = candidate_plans(source, destination, element_bytes, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    for plan in plans:
        assert np.array_equal(follow(holding(source), plan, "sm_90a"), holding(destination)), plan.kind


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize("registers", [0, 1, 2])
def test_files_of_a_word_and_less(registers: int, element_bytes: int) -> None:
    generator = random.Random(registers)
    for _ in range(4):
        source, destination = (random_layout(generator, registers, 0, 0) for _ in range(2))
        plans = candidate_plans(source, destination, element_bytes, "sm_90a")
        assert not isinstance(plans, NotExpressible)
        for plan in plans:
            assert np.array_equal(follow(holding(source), plan, "sm_90a"), holding(destination)), plan.kind
        if not registers:
            assert plans[0].kind == "shuffles" and plans[0].cost.shuffles == 1


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([1, 2, 4]))
def test_lanes_exchange_words_of_layouts_that_differ_within_warps(seed: int, element_bytes: int) -> None:
    generator = random.Random(seed)
    source = random_layout(generator, 4, 1, 0)
    within = (*source.columns[:9],)
    while True:
        mixed = [bit_matrix.apply(within, generator.randrange(1 << 9)) for _ in range(9)]
        if bit_matrix.rank(mixed) == 9:
            break
    destination = LinearLayout(source.input_bits, source.output_bits, (*mixed, source.columns[9]))
    plans = candidate_plans(source, destination, element_bytes, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    assert plans[0].cost.barriers == 0
    for plan in plans:
        assert np.array_equal(follow(holding(source), plan, "sm_90a"), holding(destination)), plan.kind


def test_nothing_moves_between_equal_layouts_and_a_plan_is_made_once() -> None:
    layout = LAYOUTS["row8"]
    plan = plan_exchange(layout, layout, 2, "sm_90a")
    assert isinstance(plan, ExchangePlan)
    assert plan.steps == () and plan.cost.cycles == 0
    assert plan_exchange(layout, layout, 2, "sm_90a") is plan


def test_a_swap_of_one_lane_bit_takes_half_as_many_shuffles_as_words() -> None:
    columns = {"register": [32, 64], "lane": [1, 2, 4, 8, 16], "warp": []}
    swapped = {"register": [32, 16], "lane": [1, 2, 4, 8, 64], "warp": []}
    source, destination = (linear_layout(each, {"place": 128}) for each in (columns, swapped))
    plans = candidate_plans(source, destination, 4, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    assert min(plan.cost.shuffles for plan in plans if plan.kind == "shuffles") == 2


def test_what_the_source_lacks_is_not_expressible() -> None:
    source = linear_layout({"register": [0], "lane": [1, 2, 4, 8, 16], "warp": [0]}, {"place": 64})
    destination = linear_layout({"register": [32], "lane": [1, 2, 4, 8, 16], "warp": [0]}, {"place": 64})
    assert isinstance(plan_exchange(source, destination, 4, "sm_90a"), NotExpressible)
    assert isinstance(plan_exchange(destination, source, 4, "sm_90a"), ExchangePlan)


@pytest.mark.parametrize(
    ("element_bytes", "lanes", "words"),
    [(8, 5, "elements of 8 bytes"), (2, 4, "16 lanes, where a warp has 32")],
)
def test_other_questions_are_refused(element_bytes: int, lanes: int, words: str) -> None:
    layout = linear_layout({"register": [], "lane": [1 << bit for bit in range(lanes)], "warp": []}, {"place": 32})
    with pytest.raises(TilewrightError, match=words):
        plan_exchange(layout, layout, element_bytes, "sm_90a")


def test_candidates_of_other_sizes_are_refused() -> None:
    with pytest.raises(TilewrightError, match="elements of 8 bytes"):
        candidate_plans(LAYOUTS["row1"], LAYOUTS["row2"], 8, "sm_90a")


@pytest.mark.parametrize("pair", [("wgmma D", "ldmatrix x4 transposed"), ("dot B, 16 bits", "mma D, warps across")])
def test_matrices_are_transposed_in_registers(pair: tuple[str, str]) -> None:
    plans = candidate_plans(LAYOUTS[pair[0]], LAYOUTS[pair[1]], 2, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    (plan,) = [each for each in plans if any(isinstance(step, Turn) for step in each.steps)]
    assert plan.cost.shared_bytes == 0 and plan.cost.barriers == 0
    after = follow(holding(LAYOUTS[pair[0]]), plan)
    assert (after == holding(LAYOUTS[pair[1]])).all()


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize(
    "pair",
    [("column1", "ldmatrix x4 transposed"), ("row1", "wgmma D"), ("column1", "square2"), ("square2", "dot B, 16 bits")],
)
def test_the_way_back_stores_together_what_the_way_there_loads_together(
    pair: tuple[str, str], element_bytes: int
) -> None:
    """So that what one packs the other unpacks, and registers need not be moved between them."""
    first, second = (LAYOUTS[name] for name in pair)
    for source, destination in ((first, second), (second, first)):
        there = plan_exchange(source, destination, element_bytes, "sm_90a")
        back = plan_exchange(destination, source, element_bytes, "sm_90a")
        assert isinstance(there, ExchangePlan) and isinstance(back, ExchangePlan)
        assert loaded_together(there) == stored_together(back)


def loaded_together(plan: ExchangePlan) -> list[tuple[int, ...]]:
    """Elements of the destination, in the order of the bytes of an access."""
    (at,) = [at for at, step in enumerate(plan.steps) if isinstance(step, Stage)]
    stage, *after = plan.steps[at:]
    assert isinstance(stage, Stage) and all(isinstance(step, Rearrange) for step in after)
    order: tuple[int, ...] = tuple(range(stage.elements))
    for step in after:
        assert isinstance(step, Rearrange)
        order = tuple(order[each] for each in step.elements)
    place = {each: number for number, each in enumerate(order)}
    return sorted(tuple(place[each] for each in access) for access in stage.load.elements)


def stored_together(plan: ExchangePlan) -> list[tuple[int, ...]]:
    stage = plan.steps[0]
    assert isinstance(stage, Stage)
    return sorted(stage.store.elements)
