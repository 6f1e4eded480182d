"""Stores of several warps to the same bytes: equal whatever the data and the launch are, or only in the run at hand."""

from __future__ import annotations

import pytest
from tests.machine.protocol.compared_store import KERNEL

from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import launch_from_json

SAME = {
    "a parameter": "mov.u32 %r10, %r1;",
    "arithmetic of a parameter and the lane": "mad.lo.u32 %r10, %r1, %r3, 7;",
    "a place in the grid": "mov.u32 %r11, %ctaid.x; mul.lo.u32 %r10, %r11, %r1;",
    "half of the thread's number": "and.b32 %r10, %r2, 31;",
    "a float of a parameter": "cvt.rn.f32.u32 %r10, %r1;",
    "a lane's parameter": "shfl.sync.idx.b32 %r10, %r1, 0, 31, -1;",
    "read-only memory": "mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd1, %rd2; ld.global.nc.u32 %r10, [%rd3];",
    "memory that the kernel does not write": "mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd1, %rd2; "
    "ld.global.u32 %r10, [%rd3];",
    "shared memory": "mad.lo.u32 %r11, %r3, 4, %r7; ld.shared.u32 %r12, [%r11]; ld.shared.u32 %r13, [%r11+256]; "
    "add.u32 %r10, %r12, %r13;",
    "one way for all warps": "setp.gt.u32 %p2, %r1, 3; @%p2 bra SKIP; mov.u32 %r10, %r1; SKIP:",
    "one guard for all warps": "setp.gt.u32 %p2, %r1, 3; @%p2 mov.u32 %r10, %r1;",
    "a guard by the lane": "setp.gt.u32 %p2, %r3, 3; @%p2 mov.u32 %r10, %r1;",
    "half of a multiple of the thread's number": "shl.b32 %r11, %r2, 2; and.b32 %r10, %r11, 124;",
    "a sum of a loop": "mov.u32 %r11, 0; AGAIN: add.u32 %r10, %r10, %r1; add.u32 %r11, %r11, 1; "
    "setp.lt.u32 %p2, %r11, 3; @%p2 bra AGAIN;",
}  # fmt: skip
OTHER = {
    "the thread's number": "mov.u32 %r10, %r2;",
    "the warp times a parameter": "mul.lo.u32 %r10, %r4, %r1;",
    "the smaller of warp and parameter": "min.u32 %r10, %r4, %r1;",
    "a branch on warp and parameter": "setp.le.u32 %p2, %r1, %r4; @%p2 bra SKIP; mov.u32 %r10, 1; SKIP:",
    "a guard on warp and parameter": "setp.gt.u32 %p2, %r1, %r4; @%p2 mov.u32 %r10, 1;",
    "a select on warp and parameter": "setp.gt.u32 %p2, %r1, %r4; selp.b32 %r10, 1, 0, %p2;",
    "a loop as often as the warp says": "mul.lo.u32 %r11, %r4, %r1; mov.u32 %r12, 0; AGAIN: add.u32 %r10, %r10, 5; "
    "add.u32 %r12, %r12, 1; setp.lt.u32 %p2, %r12, %r11; @%p2 bra AGAIN;",
    "a branch on a number that is not tried": "setp.ne.u32 %p2, %r1, 1234567; @%p2 bra SKIP; mov.u32 %r10, %r4; SKIP:",
    "a guard on a number that is not tried": "setp.eq.u32 %p2, %r1, 1234567; @%p2 mov.u32 %r10, %r4;",
    "a value of the warp that is overwritten in the run": "setp.lt.u32 %p2, %r1, 1234567; "
    "setp.lt.u32 %p3, %r1, 1234566; @!%p2 bra ONE; mov.u32 %r10, %r4; ONE: @!%p3 bra TWO; mov.u32 %r10, 3; TWO:",
    "ways that the warp chooses at a number that is not tried": "setp.eq.u32 %p2, %r1, 1234567; @%p2 bra RARE; "
    "setp.gt.u32 %p3, %r1, 2; @%p3 bra ONE; bra TWO; RARE: setp.eq.u32 %p4, %r4, 0; @%p4 bra ONE; TWO: "
    "mov.u32 %r10, 2; bra DONE; ONE: mov.u32 %r10, 1; DONE:",
    "a clock": "mov.u32 %r10, %clock;",
    "an atomic": "atom.global.add.u32 %r10, [%rd1], 1;",
    "a place in memory that warp and parameter give": "mul.lo.u32 %r11, %r4, %r1; mul.wide.u32 %rd2, %r11, 4; "
    "add.u64 %rd3, %rd1, %rd2; ld.global.nc.u32 %r10, [%rd3];",
    "a place in shared memory that warp and parameter give": "mul.lo.u32 %r11, %r4, %r1; and.b32 %r11, %r11, 1; "
    "mad.lo.u32 %r12, %r11, 4, %r7; ld.shared.u32 %r10, [%r12];",
    "each warp's own words": "mad.lo.u32 %r12, %r2, 4, %r7; ld.shared.u32 %r10, [%r12];",
    "before and after a store": "@!%p1 bar.sync 1, 64; ld.shared.u32 %r10, [%r7]; @%p1 st.shared.u32 [%r7], 9; "
    "@%p1 bar.sync 1, 64;",
    "memory that the kernel writes": "@!%p1 bar.sync 1, 64; ld.global.u32 %r10, [%rd1]; @%p1 st.global.u32 [%rd1], 9; "
    "@%p1 bar.sync 1, 64;",
    "a lane that the warp chooses": "mul.lo.u32 %r11, %r4, %r1; mad.lo.u32 %r12, %r3, 3, %r1; "
    "shfl.sync.idx.b32 %r10, %r12, %r11, 31, -1;",
}  # fmt: skip


@pytest.mark.parametrize("body", SAME.values(), ids=list(SAME))
def test_the_same_value_is_a_contested_point(body: str) -> None:
    text = KERNEL.format(body=body)
    (kernel,) = check_text(text, "k.ptx").kernels
    assert kernel.verdict == "proven", kernel.reasons
    assert "NB104" in {finding.code for finding in kernel.findings}
    (kernel,) = check_text(text, "k.ptx", options=CheckOptions(isa="strict")).kernels
    assert kernel.verdict == "refuted" and kernel.errors[0].code == "NB104"


@pytest.mark.parametrize("body", OTHER.values(), ids=list(OTHER))
def test_a_value_that_may_differ_between_warps_is_not_the_same(body: str) -> None:
    (kernel,) = check_text(KERNEL.format(body=body), "k.ptx").kernels
    assert kernel.verdict == "unknown", kernel.findings
    assert any("whether both store the same" in reason for reason in kernel.reasons), kernel.reasons


SAME_IN_THIS_LAUNCH = {
    "a way that this launch does not go": "setp.ne.u32 %p2, %r1, 5; @%p2 bra RARE; add.u32 %r10, %r1, 2; bra DONE; "
    "RARE: mov.u32 %r10, %r4; DONE:",
    "another way to the same number": "shr.u32 %r11, %r1, 3; mul.lo.u32 %r10, %r11, %r4;",
}
SAME_SUMS = {
    "a sum of two lanes": "ld.shared.u32 %r12, [%r16]; shfl.sync.bfly.b32 %r13, %r12, 1, 31, -1; "
    "add.f32 %r10, %r12, %r13;",
    "a sum of four lanes": "ld.shared.u32 %r12, [%r16]; shfl.sync.bfly.b32 %r13, %r12, 2, 31, -1; "
    "add.f32 %r14, %r12, %r13; shfl.sync.bfly.b32 %r15, %r14, 1, 31, -1; add.f32 %r10, %r15, %r14;",
    "a sum of pairs": "ld.shared.u32 %r12, [%r16]; mov.b64 %rd2, {%r12, %r12}; mov.b64 {%r13, %r14}, %rd2; "
    "add.u64 %rd2, %rd2, %rd2; mov.b64 {%r13, %r14}, %rd2; shfl.sync.bfly.b32 %r17, %r13, 1, 31, -1; "
    "shfl.sync.bfly.b32 %r18, %r14, 1, 31, -1; mov.b64 %rd3, {%r17, %r18}; add.u64 %rd4, %rd2, %rd3; "
    "mov.b64 {%r10, _}, %rd4;",
}
"""Sums of what neighbouring lanes hold. Those of the other warp hold it the other way round."""
OTHER_SUMS = {
    "a difference": "ld.shared.u32 %r12, [%r16]; shfl.sync.bfly.b32 %r13, %r12, 1, 31, -1; sub.f32 %r10, %r12, %r13;",
    "a sum in which a NaN shows": "ld.shared.u32 %r12, [%r16]; shfl.sync.bfly.b32 %r13, %r12, 1, 31, -1; "
    "mov.b64 %rd2, {%r12, %r12}; mov.b64 %rd3, {%r13, %r13}; add.f64 %rd4, %rd2, %rd3; mov.b64 {%r10, _}, %rd4;",
    "a neighbour's": "ld.shared.u32 %r12, [%r16]; shfl.sync.bfly.b32 %r10, %r12, 2, 31, -1;",
    "the first lane's": "ld.shared.u32 %r12, [%r16]; shfl.sync.up.b32 %r10, %r12, 1, 0, -1;",
    "a piece that differs": "ld.shared.u32 %r12, [%r16]; ld.shared.u32 %r14, [%r7]; "
    "mov.b64 %rd2, {%r14, %r12}; mov.b64 {_, %r10}, %rd2;",
    "either piece": "ld.shared.v2.u32 {%r12, %r13}, [%r7]; mul.wide.u32 %rd2, %r12, %r13; mov.b64 {%r10, _}, %rd2; "
    "setp.ne.u32 %p2, %r4, 0; @%p2 mov.b64 {_, %r10}, %rd2;",
    "pieces swapped": "ld.shared.v2.u32 {%r12, %r13}, [%r7]; mul.wide.u32 %rd2, %r12, %r13; "
    "mov.b64 {%r14, %r15}, %rd2; mov.b64 %rd3, {%r14, %r15}; setp.ne.u32 %p2, %r4, 0; "
    "@%p2 mov.b64 %rd3, {%r15, %r14}; mov.b64 {%r10, _}, %rd3;",
}
# The lanes of the second warp read their neighbour's words.
_CROSSED = (
    "mov.u32 %r11, %r3; setp.ne.u32 %p3, %r4, 0; @%p3 xor.b32 %r11, %r3, 1; and.b32 %r11, %r11, 31; "
    "mad.lo.u32 %r16, %r11, 4, %r7; "
)
_LAUNCH = {"params": [{"kind": "ptr", "bytes": 4096}, {"kind": "i32", "value": 5}]}


def _with_launch(body: str) -> tuple[str, tuple[str, ...]]:
    (kernel,) = check_text(KERNEL.format(body=body), "k.ptx", launch=launch_from_json(_LAUNCH, "launch.json")).kernels
    return kernel.verdict, kernel.reasons


@pytest.mark.parametrize("body", SAME_IN_THIS_LAUNCH.values(), ids=list(SAME_IN_THIS_LAUNCH))
def test_a_launch_says_which_way_it_goes(body: str) -> None:
    assert _with_launch(body)[0] == "proven"
    (kernel,) = check_text(KERNEL.format(body=body), "k.ptx").kernels
    assert kernel.verdict == "unknown"


@pytest.mark.parametrize("body", SAME_SUMS.values(), ids=list(SAME_SUMS))
def test_lanes_may_add_in_another_order(body: str) -> None:
    assert _with_launch(_CROSSED + body)[0] == "proven"


@pytest.mark.parametrize("body", OTHER_SUMS.values(), ids=list(OTHER_SUMS))
def test_what_does_not_commute_is_not_the_same(body: str) -> None:
    verdict, reasons = _with_launch(_CROSSED + body)
    assert verdict == "unknown" and any("whether both store the same" in reason for reason in reasons), reasons


WAYS_BY_DATA = {
    "a way by each warp's data": "mad.lo.u32 %r12, %r2, 4, %r7; ld.shared.u32 %r13, [%r12]; "
    "setp.lt.u32 %p2, %r13, 5; @%p2 bra SKIP; mov.u32 %r10, 1; SKIP:",
    "a way by data that another launch's data would not go": "ld.global.nc.u32 %r13, [%rd1]; "
    "setp.ne.u32 %p2, %r13, 0; @!%p2 bra SKIP; mov.u32 %r10, %r4; SKIP:",
    "a guard by data": "ld.global.nc.u32 %r13, [%rd1]; setp.ne.u32 %p2, %r13, 0; @%p2 mov.u32 %r10, %r4;",
}


@pytest.mark.parametrize("body", WAYS_BY_DATA.values(), ids=list(WAYS_BY_DATA))
def test_a_launch_does_not_say_which_way_data_goes(body: str) -> None:
    verdict, reasons = _with_launch(body)
    assert verdict == "unknown", reasons
