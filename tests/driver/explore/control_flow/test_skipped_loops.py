"""Which branches skip a loop and nothing else."""

from __future__ import annotations

from tilewright.driver.explore.control_flow.skipped_loops import guards_of
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.slicing.slice_flow import flow_of


def _guards(before: str = "", behind: str = "", skip: str = "AFTER") -> dict[int, tuple[int, bool]]:
    text = f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n) .reqntid 32
{{
    .reg .pred %p<4>; .reg .b32 %r<8>;
    ld.param.u32 %r1, [n];
    setp.lt.u32 %p1, %r1, 64;
    @%p1 bra {skip};
    {before}
LOOP:
    bar.sync 0;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, %r1;
    @%p2 bra LOOP;
    {behind}
AFTER:
    bar.sync 1;
    ret;
}}
"""
    kernel = read(text, "k.ptx").kernels[0]
    flow = flow_of(kernel)
    body = [each for each in kernel.body if isinstance(each, Instruction)]
    return guards_of(flow, {at for at, each in enumerate(body) if each.row.startswith("bar")})


def test_a_branch_around_a_loop_is_its_guard() -> None:
    assert _guards() == {2: (0, True)}


def test_an_iteration_that_was_taken_out_of_the_loop_changes_nothing() -> None:
    assert _guards(before="bar.sync 0;") == {2: (0, True)}


def test_a_branch_around_something_else_as_well_is_no_guard() -> None:
    assert _guards(before="bar.arrive 2, 64;") == {}
    assert _guards(before="bar.sync 2;") == {}
    assert _guards(behind="bar.arrive 2, 64;") == {}


def test_a_branch_that_does_something_instead_is_no_guard() -> None:
    assert _guards(behind="bra AFTER;\nOTHER:\n    bar.sync 0;", skip="OTHER") == {}
