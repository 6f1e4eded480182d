"""A solver's word on a condition, and its check by the machine's steps."""

from __future__ import annotations

import numpy as np
from tests.driver.symbolic_instructions import Expressions, expressions

from tilewright.driver.path_search import Dimension
from tilewright.driver.reachable import Impossible, Reached, Undecided, reach, reach_difference
from tilewright.machine.lanes import FULL
from tilewright.machine.symbolic.tracker import Condition

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


def test_what_has_no_term_may_be_anything_so_that_nothing_is_impossible() -> None:
    of = expressions("popc.b32 %r4, %r1; setp.gt.u32 %p1, %r4, 40;")
    assert isinstance(reach(of.table, dimensions(of), condition(of, "%p1", False), (), (FAILS,)), Undecided)


def test_two_numbers_that_differ_and_two_that_never_do() -> None:
    of = expressions("add.u32 %r4, %r1, 7; shr.u32 %r5, %r4, 3; add.u32 %r6, %r1, 8; shr.u32 %r7, %r6, 3;"
                     "shl.b32 %r8, %r4, 1; add.u32 %r9, %r4, %r4;")  # fmt: skip
    nodes = of.registers
    differ = reach_difference(of.table, dimensions(of), nodes["%r5"], nodes["%r7"], 0, ())
    assert isinstance(differ, Reached)
    assert isinstance(reach_difference(of.table, dimensions(of), nodes["%r8"], nodes["%r9"], 0, ()), Impossible)
    assert isinstance(reach_difference(of.table, dimensions(of), nodes["%r6"], nodes["%r4"], 1, ()), Impossible)
