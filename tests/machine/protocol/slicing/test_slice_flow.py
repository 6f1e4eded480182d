"""Control flow of kernels: blocks, postdominators, loops."""

from __future__ import annotations

import pytest
from tests.machine.small_kernels import module

from tilewright.base.error import TilewrightError
from tilewright.machine.protocol.slicing.slice_flow import Flow, flow_of


def flow(body: str) -> Flow:
    return flow_of(module(body).kernels[0])


def line(of: Flow, position: int) -> int:
    return of.instructions[position].span.line


DIAMOND = """setp.eq.u32 %p0, %r0, 0;
@%p0 bra ELSE;
mov.u32 %r1, 1;
bra JOIN;
ELSE:
mov.u32 %r1, 2;
JOIN:
mov.u32 %r2, %r1;
ret;"""


def test_a_branch_decides_what_stands_before_its_postdominator() -> None:
    found = flow(DIAMOND)
    region = found.positions(found.region(1))
    assert [line(found, at) for at in region] == [9, 10, 12]
    assert found.loops == () and found.irreducible == ()


def test_a_trap_joins_nothing() -> None:
    found = flow("setp.eq.u32 %p0, %r0, 0;\n@%p0 bra GOOD;\ntrap;\nGOOD:\nmov.u32 %r1, 1;\nret;")
    assert [line(found, at) for at in found.positions(found.region(1))] == [9]


def test_an_early_exit_decides_all_that_follows() -> None:
    found = flow("setp.eq.u32 %p0, %r0, 0;\n@%p0 exit;\nmov.u32 %r1, 1;\nret;")
    assert [line(found, at) for at in found.positions(found.region(1))] == [9, 10]


def test_nested_loops_know_their_parents() -> None:
    found = flow("""mov.u32 %r0, 0;
OUTER:
mov.u32 %r1, 0;
INNER:
add.u32 %r1, %r1, 1;
setp.lt.u32 %p0, %r1, 4;
@%p0 bra INNER;
add.u32 %r0, %r0, 1;
setp.lt.u32 %p1, %r0, 4;
@%p1 bra OUTER;
ret;""")
    heads = [line(found, loop.head) for loop in found.loops]
    assert heads == [11, 9]
    assert [loop.parent for loop in found.loops] == [1, -1]
    assert [line(found, edge) for edge in found.loops[0].back_edges] == [13]


def test_a_rotated_loop_begins_anew_where_control_falls_to_its_head() -> None:
    found = flow("""mov.u32 %r0, 0;
bra TEST;
BODY:
add.u32 %r0, %r0, 1;
TEST:
setp.lt.u32 %p0, %r0, 4;
@%p0 bra BODY;
ret;""")
    (loop,) = found.loops
    assert line(found, loop.head) == 12 and [line(found, edge) for edge in loop.back_edges] == [10]


def test_a_cycle_with_two_entries_is_irreducible() -> None:
    found = flow("""setp.eq.u32 %p0, %r0, 0;
@%p0 bra SECOND;
FIRST:
add.u32 %r0, %r0, 1;
SECOND:
add.u32 %r0, %r0, 2;
setp.lt.u32 %p1, %r0, 9;
@%p1 bra FIRST;
ret;""")
    assert found.loops == () and [line(found, at) for at in found.irreducible] == [14]


def test_an_iteration_goes_through_some_blocks_for_sure() -> None:
    found = flow("""HEAD:
mov.u32 %r1, 0;
@%p0 bra OUT;
@%p1 bra SKIP;
mov.u32 %r2, 0;
SKIP:
mov.u32 %r3, 0;
@%p2 bra HEAD;
OUT:
ret;""")
    (loop,) = found.loops

    def lines(blocks: list[int]) -> list[int]:
        return [line(found, found.blocks[each].begin) for each in blocks]

    assert lines(found.passed(loop)) == [8, 10, 13]
    assert lines(found.passed(loop, last=True)) == [8]


def test_an_indirect_branch_may_go_to_each_label_of_its_table() -> None:
    found = flow("""TABLE: .branchtargets ONE, TWO;
brx.idx %r0, TABLE;
ONE:
mov.u32 %r1, 1;
ret;
TWO:
mov.u32 %r1, 2;
ret;""")
    assert [line(found, at) for at in found.positions(found.region(0))] == [10, 11, 13, 14]


def test_loops_that_nest_beyond_reason_are_refused() -> None:
    heads = "".join(f"L{index}:\nadd.u32 %r1, %r1, 1;\n" for index in range(1500))
    tails = "".join(f"setp.eq.u32 %p0, %r1, {index};\n@%p0 bra L{1499 - index};\n" for index in range(1500))
    with pytest.raises(TilewrightError, match="nest too deeply"):
        flow(f"{heads}{tails}ret;")
