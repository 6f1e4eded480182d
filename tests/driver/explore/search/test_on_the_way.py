"""Which decisions all who come to an instruction have made, and in the same way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.driver.explore.search.on_the_way import Ways
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.lanes import FULL
from tilewright.machine.protocol.slicing.slice_flow import flow_of
from tilewright.machine.symbolic.expression import Input, Leaf, Table
from tilewright.machine.symbolic.tracker import Condition

_NODE = Table().leaf(Leaf(Input("number", 0, 4), 0, np.dtype(np.bool_)))
_BODY = """
    @%p1 bra THEN;
    mov.b32 %r1, 1;
    bra JOIN;
THEN:
    mov.b32 %r1, 2;
JOIN:
    @%p2 exit;
LOOP:
    add.s32 %r1, %r1, 3;
    @%p3 bra LOOP;
    mov.b32 %r1, 4;
    ret;
"""


def _ways(body: str = _BODY) -> tuple[Ways, dict[str, int]]:
    header = ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k() { .reg .pred %p<4>; .reg .b32 %r<2>;"
    flow = flow_of(read(f"{header}{body}}}", "k.ptx").kernels[0])
    return Ways(flow), {_named(each): at for at, each in enumerate(flow.instructions)}


def _named(item: Instruction) -> str:
    return item.guard.register.name if item.guard is not None else f"{item.row} {item.operands[-1:]}"


def _decided(
    position: int, taken: bool, loop: int = -1, iteration: int = 0, visit: int = 0, stays: bool = True
) -> Condition:
    found = np.array([taken])
    return Condition("branch", position, 0, 0, FULL, _NODE, False, found, loop, stays, iteration, visit=visit)


def test_a_branch_counts_where_one_of_its_sides_alone_leads() -> None:
    ways, at = _ways()
    first = _decided(at["%p1"], True)
    (then,) = (position for name, position in at.items() if "value=2" in name)
    (otherwise,) = (position for name, position in at.items() if "value=1" in name)
    assert ways.needed([first], then) == (first,)
    assert ways.needed([first], otherwise) == ()
    assert ways.needed([first], at["%p2"]) == ()


def test_who_comes_behind_an_exit_has_not_taken_it() -> None:
    ways, at = _ways()
    stayed = _decided(at["%p2"], False)
    assert ways.needed([_decided(at["%p1"], True), stayed], at["%p3"]) == (stayed,)


def test_the_iterations_of_a_loop_count_since_its_last_visit_began() -> None:
    ways, at = _ways()
    visits = [_decided(at["%p3"], True, 0, iteration) for iteration in (0, 1, 2, 0, 1)]
    assert ways.needed(visits, at["%p3"]) == tuple(visits[3:])
    (behind,) = (position for name, position in at.items() if "value=4" in name)
    # Others leave the loop after another number of iterations.
    assert ways.needed([*visits, _decided(at["%p3"], False, 0, 2)], behind) == ()


def test_what_other_lanes_decide_is_their_own_way() -> None:
    ways, at = _ways()
    (then,) = (position for name, position in at.items() if "value=2" in name)
    first = replace(_decided(at["%p1"], True), mask=1)
    others = replace(_decided(at["%p1"], False), mask=1 << 8)
    here = replace(_decided(then, True), mask=1)
    assert ways.needed([first, others], then, here) == (first,)
    assert ways.needed([first, others], then) == ()


def test_where_lanes_part_an_earlier_pass_says_nothing() -> None:
    ways, at = _ways()
    (then,) = (position for name, position in at.items() if "value=2" in name)
    first = _decided(at["%p1"], True)
    parted = replace(first, outcome=np.arange(32) < 16)
    (found,) = ways.needed([first, parted], then, _decided(then, True))
    assert (found.node, found.outcome.tolist()) == (_NODE, [True])
    assert ways.needed([first, parted], then) == ()


_INNER = """
OUTER:
    add.s32 %r1, %r1, 1;
INNER:
    @%p0 bra LATCH;
    @%p1 bra OUTER;
    mov.b32 %r1, 2;
LATCH:
    @%p2 bra INNER;
    @%p3 bra OUTER;
    ret;
"""


def _in_a_loop(branch: str) -> tuple[Ways, int, int]:
    ways, at = _ways(_INNER)
    inner = next(number for number, loop in enumerate(ways.flow.loops) if loop.parent >= 0)
    return ways, at[branch], inner


def test_an_inner_loops_branch_needs_its_earlier_iterations_of_the_same_visit() -> None:
    # Who leaves the inner loop may come to it again by the outer one: its iterations must count nevertheless.
    ways, at, inner = _in_a_loop("%p2")
    before = [_decided(at, True, inner, 0), _decided(at, True, inner, 1), _decided(at, False, inner, 2)]
    now = [_decided(at, True, inner, iteration, visit=1) for iteration in range(3)]
    assert ways.needed([*before, *now[:2]], at, now[2]) == tuple(now[:2])
    assert ways.needed([*before, *now[:2]], at) == ()
    # One that is not known leaves open what earlier ones decided, and those of other visits say nothing.
    assert ways.needed([*before, now[0]], at, now[2]) == ()
    assert ways.needed(before, at, now[2]) == ()


def test_a_branch_that_not_every_iteration_comes_to_says_nothing_of_earlier_ones() -> None:
    ways, at, inner = _in_a_loop("%p1")
    one, two = (_decided(at, False, inner, iteration, stays=False) for iteration in (0, 1))
    assert ways.needed([one], at, two) == ()
