"""Exchanges as PTX: the machine moves every element where it belongs, and the judge proves the kernel.

`make test-full` runs the plans of all pairs of the thirty layouts, in each element size.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from bench.register_layouts import register_layouts
from tests.lower.exchange_runs import expected, ran, tile, verdict

from tilewright.ir.exchange import Cross, ExchangePlan, Shuffle, Stage, Turn
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, equal
from tilewright.legal.descriptor.instruction_layout import instruction_layout
from tilewright.synth.exchange.search import candidate_plans, plan_exchange

LAYOUTS = register_layouts(64)
PAIRS = list(itertools.product(LAYOUTS, LAYOUTS))


def plan_of(source: LinearLayout, destination: LinearLayout, element_bytes: int) -> ExchangePlan:
    plan = plan_exchange(source, destination, element_bytes, "sm_90a")
    assert isinstance(plan, ExchangePlan)
    return plan


def arrives(first: str, second: str, element_bytes: int, plan: ExchangePlan) -> None:
    source, destination = LAYOUTS[first], LAYOUTS[second]
    given = tile(source, element_bytes)
    run = ran(source, destination, plan, given)
    assert not run.findings and run.finished, (first, second, plan.kind, run.findings)
    wanted = expected(destination, given, element_bytes)
    assert np.array_equal(run.arrays["tile_out"], wanted), (first, second, plan.kind)


@pytest.mark.sample(2)
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_the_cheapest_plan_and_another_bring_the_tile(element_bytes: int) -> None:
    generator = random.Random(element_bytes)
    for first, second in generator.sample(PAIRS, 4):
        plans = candidate_plans(LAYOUTS[first], LAYOUTS[second], element_bytes, "sm_90a")
        assert not isinstance(plans, NotExpressible)
        arrives(first, second, element_bytes, plans[0])
        arrives(first, second, element_bytes, generator.choice(plans))


@pytest.mark.parametrize(
    ("first", "second", "element_bytes", "step"),
    [
        ("row8", "slice, lanes repeat", 2, Stage),
        ("row8", "column8", 1, Cross),
        ("column4 lanes across", "ldmatrix x4 transposed", 4, Shuffle),
        ("wgmma D", "ldmatrix x4 transposed", 2, Turn),
    ],
)
def test_each_kind_of_step(first: str, second: str, element_bytes: int, step: type) -> None:
    plans = candidate_plans(LAYOUTS[first], LAYOUTS[second], element_bytes, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    plan = next(plan for plan in plans if any(isinstance(each, step) for each in plan.steps))
    arrives(first, second, element_bytes, plan)


@pytest.mark.parametrize(
    ("first", "second", "element_bytes"),
    [("dot A, 8 bits", "ldmatrix x4 transposed", 4), ("row1", "row4 warps across", 1)],
)
def test_trips_in_two_rounds(first: str, second: str, element_bytes: int) -> None:
    plan = plan_of(LAYOUTS[first], LAYOUTS[second], element_bytes)
    (stage,) = [step for step in plan.steps if isinstance(step, Stage)]
    assert len(stage.rounds) == 2
    arrives(first, second, element_bytes, plan)
    back = plan_of(LAYOUTS[second], LAYOUTS[first], element_bytes)
    assert verdict(LAYOUTS[first], LAYOUTS[second], plan, back) == "proven"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("first", "second", "element_bytes"),
    [
        ("row8", "column8", 2),
        ("wgmma D", "row8", 2),
        ("square2", "slice, warps repeat", 4),
        ("row1", "row16", 1),
        # Matrices stored by some of the warps.
        ("dot B, 16 bits", "dot B, 8 bits", 1),
        # One way within warps, the other through all of them.
        ("column4 lanes across", "dot A, 16 bits", 2),
    ],
)
def test_the_judge_proves_the_kernel_there_and_back(first: str, second: str, element_bytes: int) -> None:
    source, destination = LAYOUTS[first], LAYOUTS[second]
    there = plan_of(source, destination, element_bytes)
    back = plan_of(destination, source, element_bytes)
    given = tile(source, element_bytes)
    run = ran(source, destination, there, given, back=back, repeat=2)
    assert np.array_equal(run.arrays["tile_out"], expected(destination, given, element_bytes))
    assert verdict(source, destination, there, back) == "proven"


@pytest.mark.full
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_all_pairs(element_bytes: int) -> None:
    for first, second in PAIRS:
        source, destination = LAYOUTS[first], LAYOUTS[second]
        there = plan_of(source, destination, element_bytes)
        arrives(first, second, element_bytes, there)
        assert verdict(source, destination, there, plan_of(destination, source, element_bytes)) == "proven"


def test_the_thirty_layouts_differ_and_an_accumulator_is_the_instruction_s() -> None:
    for rows in (64, 128):
        assert len(set(register_layouts(rows).values())) == 30
    fragment = instruction_layout("wgmma.m64n64k16", "D").layout
    assert isinstance(fragment, LinearLayout) and equal(LAYOUTS["wgmma D"], fragment)
