"""A solver's word on a condition, and its check by the machine's steps."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from tests.driver.symbolic_instructions import Expressions, expressions

from tilewright.driver.explore.search.path_search import Dimension
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach, reach_apart
from tilewright.driver.explore.terms.equalities import equalities
from tilewright.machine.core.lanes import FULL
from tilewright.machine.symbolic.expression import Evaluation
from tilewright.machine.symbolic.tracker import Condition
from tilewright.solve.bit_vectors import Number

HOLDS, FAILS = b"\x01", b"\x00"


def condition(of: Expressions, target: str, holds: bool) -> Condition:
    return Condition("branch", 0, 0, 0, FULL, of.registers[target], False, np.array([holds]))


def dimensions(of: Expressions, largest: int = (1 << 32) - 1) -> dict:
    return {given: Dimension(given, name, largest) for name, given in of.inputs.items()}


def test_a_launch_is_found_and_holds() -> None:
    of = expressions("mul.lo.u32 %r4, %r1, %r1; setp.eq.u32 %p1, %r4, 1849;")
    found = reach(of.table, dimensions(of), condition(of, "%p1", False), (), (FAILS,))
    assert isinstance(found, Reached)
    (value,) = found.values.values()
    assert value * value % (1 << 32) == 1849


def test_conditions_on_the_way_make_it_impossible() -> None:
    of = expressions("setp.lt.u32 %p1, %r1, 8; shl.b32 %r4, %r1, 2; setp.eq.u32 %p2, %r4, 36;")
    goal, before = condition(of, "%p2", False), condition(of, "%p1", True)
    assert isinstance(reach(of.table, dimensions(of), goal, (before,), (FAILS,)), Impossible)
    assert isinstance(reach(of.table, dimensions(of), goal, (), (FAILS,)), Reached)
    assert isinstance(reach(of.table, dimensions(of), goal, (condition(of, "%p1", False),), (FAILS,)), Reached)


def test_the_largest_value_of_an_input_counts() -> None:
    of = expressions("setp.gt.u32 %p1, %r1, 100;")
    goal = condition(of, "%p1", False)
    assert isinstance(reach(of.table, dimensions(of, 100), goal, (), (FAILS,)), Impossible)
    assert isinstance(reach(of.table, dimensions(of, 101), goal, (), (FAILS,)), Reached)


@pytest.mark.filterwarnings("error")
def test_numbers_that_overflow_are_nothing_to_warn_of() -> None:
    of = expressions("mul.f32 %r4, %r1, %r1; sub.f32 %r5, %r4, %r4; setp.eq.f32 %p1, %r5, %r5;")
    columns = {given: np.array([0x7F7FFFFF], np.uint64) for given in of.inputs.values()}
    assert not Evaluation(of.table, columns, 1).of(of.registers["%p1"]).any()


def test_what_has_no_term_may_be_anything_so_that_nothing_is_impossible() -> None:
    of = expressions("mul24.lo.u32 %r4, %r1, 0; setp.gt.u32 %p1, %r4, 40;")
    assert isinstance(reach(of.table, dimensions(of), condition(of, "%p1", False), (), (FAILS,)), Undecided)


def test_two_numbers_that_differ_and_two_that_never_do() -> None:
    of = expressions("add.u32 %r4, %r1, 7; shr.u32 %r5, %r4, 3; add.u32 %r6, %r1, 8; shr.u32 %r7, %r6, 3;"
                     "shl.b32 %r8, %r4, 1; add.u32 %r9, %r4, %r4;")  # fmt: skip
    nodes = of.registers

    def apart(one: str, other: str, usual: int) -> Reached | Impossible | Undecided:
        return reach_apart(of.table, dimensions(of), ((1, (nodes[one],)), (-1, (nodes[other],))), usual, ())

    differ = apart("%r5", "%r7", 0)
    assert isinstance(differ, Reached)
    assert isinstance(apart("%r8", "%r9", 0), Impossible)
    assert isinstance(apart("%r6", "%r4", 1), Impossible)


_PRODUCTS = "mul.lo.u32 %r4, %r1, %r2; mul.lo.u32 %r4, %r4, %r3; mul.lo.u32 %r5, %r2, %r1; mul.lo.u32 %r5, %r3, %r5; "


def test_products_in_other_orders_are_the_same() -> None:
    of = expressions(f"{_PRODUCTS} setp.lt.s32 %p1, %r4, 1; setp.lt.s32 %p2, %r5, 1;")
    before, goal = condition(of, "%p1", True), condition(of, "%p2", True)
    assert isinstance(reach(of.table, dimensions(of), goal, (before,), (HOLDS,)), Impossible)
    assert isinstance(reach(of.table, dimensions(of), goal, (), (HOLDS,)), Reached)


def _differ(divisions: str) -> Reached | Impossible | Undecided:
    of = expressions(f"add.u32 %r4, %r1, %r2; add.u32 %r5, %r2, %r1; {divisions} setp.ne.u32 %p1, %r6, %r7;")
    return reach(of.table, dimensions(of), condition(of, "%p1", False), (), (FAILS,))


def test_quotients_of_equal_terms_are_the_same() -> None:
    assert isinstance(_differ("div.u32 %r6, %r4, %r3; div.u32 %r7, %r5, %r3;"), Impossible)


def test_other_quotients_may_be_anything() -> None:
    assert not isinstance(_differ("div.u32 %r6, %r4, %r3; div.u32 %r7, %r5, %r1;"), Impossible)
    assert not isinstance(_differ("div.u32 %r6, %r4, %r3; div.s32 %r7, %r5, %r3;"), Impossible)
    assert not isinstance(_differ("div.u32 %r6, %r4, %r3; div.u32 %r7, %r3, %r5;"), Impossible)
    assert not isinstance(_differ("prmt.b32 %r6, %r4, %r3, 1; prmt.b32 %r7, %r5, %r3, 2;"), Impossible)


def test_equal_dividends_have_one_quotient() -> None:
    # n / 100, as compilers write it.
    assert isinstance(_differ("mul.hi.u32 %r6, %r4, 1374389535; mul.hi.u32 %r7, %r5, 1374389535; "
                              "shr.u32 %r6, %r6, 5; shr.u32 %r7, %r7, 5;"), Impossible)  # fmt: skip


def test_a_launch_that_is_found_has_small_numbers_where_that_can_be() -> None:
    """One number has to be large, one is as small as may be, and what no condition speaks of has its first value."""
    of = expressions(
        "setp.gt.u32 %p1, %r1, 3000000000; setp.gt.u32 %p2, %r2, 70; setp.gt.u32 %p3, %r3, 7; and.pred %p4, %p1, %p2;"
    )
    every = {given: Dimension(given, name, (1 << 32) - 1, first=5) for name, given in of.inputs.items()}
    found = reach(of.table, every, condition(of, "%p4", False), (), (FAILS,))
    assert isinstance(found, Reached)
    values = {name: found.values[given] for name, given in of.inputs.items()}
    assert values["%r1"] > 3_000_000_000
    assert 70 < values["%r2"] <= 1 << 12
    assert values["%r3"] == 5


def test_what_decisions_before_say_an_expression_is_equal_to_is_that_in_all_that_follows() -> None:
    of = expressions("add.u32 %r4, %r1, %r2; shr.u32 %r5, %r4, 2; setp.ne.u32 %p1, %r5, 3; setp.eq.u32 %p3, 3, %r5;"
                     "and.b32 %r6, %r5, 1; setp.eq.u32 %p2, %r6, 0;")  # fmt: skip
    goal = condition(of, "%p2", False)
    for met in (condition(of, "%p1", False), condition(of, "%p3", True)):
        assert equalities([met]).numbers == {of.registers["%r5"].number: Number(3, 32)}
        assert isinstance(reach(of.table, dimensions(of), goal, (met,), (FAILS,)), Impossible)  # 3 is odd
        assert isinstance(reach(of.table, dimensions(of), goal, (met,), (HOLDS,)), Reached)
        # The comparison itself is still asked for.
        assert isinstance(reach(of.table, dimensions(of, 1), goal, (met,), (HOLDS,)), Impossible)
    for apart in (condition(of, "%p1", True), condition(of, "%p3", False)):
        assert not equalities([apart]).numbers
        assert isinstance(reach(of.table, dimensions(of), goal, (apart,), (FAILS,)), Reached)
    below = expressions("setp.lt.u32 %p1, %r1, 8; setp.ne.u32 %p2, %r1, %r2;")
    assert not equalities([condition(below, "%p1", True), condition(below, "%p2", False)]).numbers


_DOWN = "min.s32 %r5, %r1, %r2; setp.lt.s32 %p1, %r5, 1; add.s32 %r6, %r5, {}; setp.ge.s32 %p2, %r6, 1;"


@pytest.mark.parametrize(("step", "found"), [(-64, Impossible), (64, Reached)])
def test_launches_in_which_sums_fit(step: int, found: type) -> None:
    of = expressions(_DOWN.format(step))
    goal, before = condition(of, "%p2", False), condition(of, "%p1", True)
    assert isinstance(reach(of.table, dimensions(of), goal, (before,), (FAILS,)), Reached)
    assert isinstance(reach(of.table, dimensions(of), goal, (before,), (FAILS,), fits=True), found)


_EXACT = {"add": operator.add, "sub": operator.sub, "shl": operator.lshift}


def _signed(value: int) -> int:
    return value - (value >> 31 << 32)


@pytest.mark.parametrize("row", _EXACT)
@pytest.mark.parametrize("t", ["s32", "u32"])
def test_what_fits_is_the_exact_result(row: str, t: str) -> None:
    """The solver's word on each of many operands, beside whole numbers."""
    text = f"{row}.{'b32' if row == 'shl' else t} %r4, %r1, %r2;"
    of = expressions(f"{text} setp.eq.u32 %p1, %r4, %r4;")
    for one in (0, 1, 5, 0x40000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        for other in (0, 1, 2, 31, 0x7FFFFFFF, 0x80000001, 0xFFFFFFFF) if row != "shl" else (0, 1, 3, 31, 32, 40):
            given = {
                each: Dimension(each, name, value, value, value)
                for (name, each), value in zip(of.inputs.items(), (one, other), strict=True)
            }
            fits = not isinstance(
                reach(of.table, given, condition(of, "%p1", False), (), (FAILS,), fits=True), Impossible
            )
            signed = _signed(one), other if row == "shl" else _signed(other)
            expected = -(1 << 31) <= _EXACT[row](*signed) < 1 << 31
            if t == "u32" or row == "shl":
                expected = expected or 0 <= _EXACT[row](one, other) < 1 << 32
            assert fits == expected, (one, other)
