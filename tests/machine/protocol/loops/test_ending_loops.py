"""Loops that a slice leaves out: those that end, those that nothing in them ends, and those that are taken to end."""

from __future__ import annotations

import pytest

from tilewright.driver.check.check import check_text
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.loops.ending_loops import ending_of
from tilewright.machine.protocol.slicing.slice import protocol_slice, text_of

KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
.reqntid 64
{{
  .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
  .shared .align 8 .b64 bar;
  mov.u32 %r1, %tid.x; mov.u32 %r2, bar; ld.param.u32 %r9, [n];
  setp.ne.u32 %p0, %r1, 0;
  @%p0 bra inited;
  mbarrier.init.shared.b64 [%r2], 1;
inited:
  bar.sync 0;
  setp.ne.u32 %p0, %r1, 0;
  @%p0 bra waits;
  mov.u32 %r4, {begin}; mov.f32 %f1, 0f3F800000; mov.u32 %r6, %r4;
{loop}
past:
  mbarrier.arrive.shared.b64 _, [%r2];
waits:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
  @!%p2 bra waits;
  ret;
}}
"""


def kernel(loop: str, begin: int = 0) -> str:
    return KERNEL.format(loop=loop, begin=begin)


def endings(text: str) -> list[str]:
    """Of the loops in front of the wait."""
    found = text_of(read(text, "k.ptx").kernels[0])
    loops = sorted(found.flow.loops, key=lambda loop: loop.head)[:-1]
    return [ending_of(found.flow, found.facts, found.definitions, loop) for loop in loops]


ENDS = {
    "up to a number": "again: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, %r9; @%p1 bra again;",
    "down to zero": "again: add.s32 %r4, %r4, -4; setp.gt.s32 %p1, %r4, 0; @%p1 bra again;",
    "by one, until it is equal": "again: add.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, %r9; @%p1 bra again;",
    "left at the head": "again: setp.ge.u32 %p1, %r4, %r9; @%p1 bra past; add.u32 %r4, %r4, 2; bra again;",
    "the number on the left": "again: add.u32 %r4, %r4, 1; setp.gt.u32 %p1, %r9, %r4; @%p1 bra again;",
    "through a move": "again: add.u32 %r5, %r6, 1; mov.u32 %r6, %r5; setp.lt.u32 %p1, %r6, 9; @%p1 bra again;",
    "halved": "again: shr.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra again;",
    "either of two": "again: add.u32 %r4, %r4, 1; mul.f32 %f1, %f1, %f1; setp.lt.u32 %p1, %r4, 9;"
    " setp.gt.f32 %p3, %f1, 0f00000000; and.pred %p4, %p1, %p3; @%p4 bra again;",
    "by the size of the grid": "mov.u32 %r7, %nctaid.x; mul.lo.u32 %r8, %r7, 64; shl.b32 %r5, %r8, 1;"
    " again: setp.ge.u32 %p1, %r4, %r9; @%p1 bra past; add.u32 %r4, %r5, %r4; bra again;",
    "unless it is over": "again: add.u32 %r4, %r4, 1; setp.ge.u32 %p1, %r4, 9; not.pred %p3, %p1; @%p3 bra again;",
}
STUCK = {
    "computed anew": "again: add.u32 %r5, %r9, 1; setp.lt.u32 %p1, %r4, %r5; @%p1 bra again;",
    "nothing changes": "again: setp.lt.u32 %p1, %r4, 8; @%p1 bra again;",
    "what changes decides nothing": "again: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r4, %r9; @%p1 bra again;",
    "decided before": "setp.lt.u32 %p1, %r4, 8; again: add.u32 %r5, %r5, 1; @%p1 bra again;",
}
OPEN = {
    "away from the number": "again: add.s32 %r4, %r4, -1; setp.lt.s32 %p1, %r4, %r9; @%p1 bra again;",
    "by a number that may be 0": "again: add.u32 %r4, %r4, %r9; setp.lt.u32 %p1, %r4, 8; @%p1 bra again;",
    "by a place in the grid": "mov.u32 %r7, %ctaid.x; again: add.u32 %r4, %r4, %r7; setp.lt.u32 %p1, %r4, 8;"
    " @%p1 bra again;",
    "away by the size of the grid": "mov.u32 %r7, %nctaid.x; again: add.u32 %r4, %r4, %r7;"
    " setp.gt.u32 %p1, %r4, %r9; @%p1 bra again;",
    "to the end of its range by the size of the grid": "mov.u32 %r7, %nctaid.x; again: add.u32 %r4, %r4, %r7;"
    " setp.le.u32 %p1, %r4, 4294967295; @%p1 bra again;",
    "by the size of the grid, but for what is taken off": "mov.u32 %r7, %nctaid.x; again: add.u32 %r5, %r4, %r7;"
    " add.u32 %r4, %r5, -1; setp.lt.u32 %p1, %r4, %r9; @%p1 bra again;",
    "by a size that one warp alone has": "setp.eq.u32 %p3, %r9, 1; mov.u32 %r7, 0; @%p3 mov.u32 %r7, %nctaid.x;"
    " again: add.u32 %r4, %r4, %r7; setp.lt.u32 %p1, %r4, 8; @%p1 bra again;",
    "steps past it": "again: add.u32 %r4, %r4, 3; setp.ne.u32 %p1, %r4, %r9; @%p1 bra again;",
    "in some rounds alone": "again: setp.gt.u32 %p3, %r9, 4; @%p3 add.u32 %r4, %r4, 1;"
    " setp.lt.u32 %p1, %r4, 8; @%p1 bra again;",
    "on one way alone": "again: setp.gt.u32 %p3, %r9, 4; @%p3 bra around; add.u32 %r4, %r4, 1; around:"
    " setp.lt.u32 %p1, %r4, 8; @%p1 bra again;",
    "both must fail": "again: add.u32 %r4, %r4, 1; mul.f32 %f1, %f1, %f1; setp.lt.u32 %p1, %r4, 9;"
    " setp.gt.f32 %p3, %f1, 0f00000000; or.pred %p1, %p1, %p3; @%p1 bra again;",
    "a number of its own": "again: mul.f32 %f1, %f1, %f1; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra again;",
    "steps in a loop within": "again: mov.u32 %r7, 0; within: add.u32 %r7, %r7, 1; add.u32 %r4, %r4, 1;"
    " setp.lt.u32 %p3, %r7, 5; @%p3 bra within; setp.ne.u32 %p1, %r4, %r9; @%p1 bra again;",
    "up to the greatest integer": "again: add.u32 %r4, %r4, 1; setp.le.u32 %p1, %r4, -1; @%p1 bra again;",
    "down to zero and beyond": "again: add.u32 %r4, %r4, -1; setp.ge.u32 %p1, %r4, 0; @%p1 bra again;",
    "a step over the greatest": "again: add.s32 %r4, %r4, 4; setp.lt.s32 %p1, %r4, 2147483646; @%p1 bra again;",
    "a sum of halves": "again: add.u16x2 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 100000; @%p1 bra again;",
    "a sum that saturates": "again: add.sat.s32 %r4, %r4, 4; setp.lt.s32 %p1, %r4, %r9; @%p1 bra again;",
    "a bound that moves": "again: add.u32 %r4, %r4, 1; add.u32 %r6, %r6, 2; setp.lt.u32 %p1, %r4, %r6; @%p1 bra again;",
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends(name: str) -> None:
    text = kernel(ENDS[name], begin=8)
    assert endings(text) == ["ends"]
    (report,) = check_text(text, "k.ptx").kernels
    assert report.verdict == "proven" and not [each for each in report.assumptions if "ends" in each]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", STUCK)
def test_what_is_decided_before_it_is_entered_is_run(name: str) -> None:
    text = kernel(STUCK[name])
    assert endings(text) == ["stuck"]
    assert not protocol_slice(read(text, "k.ptx").kernels[0]).open_loops
    (report,) = check_text(text, "k.ptx").kernels
    assert report.verdict != "proven"
    # Where it is left at once, nothing is wrong.
    if "%r9" not in text.split("again:")[1].split("bra again")[0]:
        (report,) = check_text(kernel(STUCK[name], begin=8), "k.ptx").kernels
        assert report.verdict == "proven"


@pytest.mark.parametrize("name", OPEN)
def test_what_is_taken_to_end_is_said(name: str) -> None:
    text = kernel(OPEN[name])
    assert endings(text)[0] == "open" and set(endings(text)[1:]) <= {"ends"}
    (report,) = check_text(text, "k.ptx").kernels
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "again:" in line)
    assert report.verdict == "proven"
    assert [each for each in report.assumptions if each.startswith(f"the loop at k.ptx:{line}:")]


def test_a_way_around_a_stuck_loop_is_not_taken_for_granted() -> None:
    around = "setp.lt.u32 %p1, %r4, 8; setp.gt.u32 %p3, %r9, 4; @%p3 bra past; again: @%p1 bra again;"
    (report,) = check_text(kernel(around), "k.ptx").kernels
    assert report.verdict != "proven"
    (report,) = check_text(kernel(around, begin=8), "k.ptx").kernels
    assert report.verdict == "proven"


def test_a_way_around_a_loop_without_a_way_out_is_not_taken_for_granted() -> None:
    around = "setp.lt.u32 %p3, %r9, 5; @%p3 bra past; again: add.u32 %r5, %r5, 1; bra again;"
    (report,) = check_text(kernel(around), "k.ptx").kernels
    assert report.verdict != "proven"
