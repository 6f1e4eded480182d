"""Pools of launches: the same for the same run, with the values that decide."""

from __future__ import annotations

import numpy as np
from tests.driver.symbolic_instructions import Expressions, expressions

from tilewright.driver.explore.search.path_search import (
    Dimension,
    Pool,
    at_distance,
    cheapest,
    comparison_of,
    distances,
    divergences,
    labels,
    pool_of,
)
from tilewright.machine.core.lanes import FULL
from tilewright.machine.symbolic.tracker import Condition


def pool(text: str, outcome: bool, *, largest: int = (1 << 32) - 1) -> tuple[Expressions, Condition, Pool]:
    of = expressions(text)
    condition = Condition("branch", 0, 0, 0, FULL, of.registers["%p1"], False, np.array([outcome]))
    given = [Dimension(each, name, largest) for name, each in of.inputs.items()]
    return of, condition, pool_of(of.table, given, {each.input: 1 for each in given}, [condition])


def test_the_values_that_decide_are_in_the_pool() -> None:
    for text in (
        "setp.eq.u32 %p1, %r1, 37;",
        "shr.u32 %r4, %r1, 6; setp.eq.u32 %p1, %r4, 11;",
    ):
        _, condition, found = pool(text, False)
        (divergence,) = divergences(found, [condition])
        assert set(labels(found, condition, divergence.rows)) == {b"\x01"}


def test_a_pool_is_a_function_of_the_run() -> None:
    text = "mad.lo.u32 %r4, %r1, %r2, 3; setp.gt.u32 %p1, %r4, 77;"
    first, again = (pool(text, False)[2] for _ in range(2))
    assert all((first.columns[given] == again.columns[given]).all() for given in first.columns)
    assert first.assignment(0) == dict.fromkeys(first.columns, 1), "row 0 is the run"


def test_no_value_exceeds_the_largest() -> None:
    _, _, found = pool("setp.gt.u32 %p1, %r1, 4000;", False, largest=50)
    assert max(int(values.max()) for values in found.columns.values()) == 50


def test_a_launch_at_a_distance_and_a_cheap_one() -> None:
    _, condition, found = pool("setp.lt.u32 %p1, 0, %r1;", True)
    apart = distances(found, condition)
    assert apart is not None and apart[0] == 1
    rows = np.flatnonzero(apart > 0)
    chosen = at_distance(found, condition, rows, 35.0)
    assert 30 <= apart[chosen] <= 80
    assert apart[cheapest(found, rows)] <= 2


def test_the_comparison_that_a_predicate_rests_on() -> None:
    of = expressions("setp.lt.u32 %p2, %r1, %r2; not.pred %p3, %p2; and.pred %p1, %p3, %p4;")
    assert comparison_of(of.registers["%p1"]) is of.registers["%p2"]
    assert comparison_of(of.registers["%p4"]) is None
