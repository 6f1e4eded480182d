"""A cp.async that reads as much as data say: it writes as much, whatever that is, so that the protocol does not depend
on it. Reading more than it copies, not happening at all, and not being waited for are something else."""

from __future__ import annotations

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text

_TEXT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to, .param .u64 ends) .reqntid 128
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
.shared .align 16 .b8 buf[2048];
ld.param.u64 %rd1, [from];
ld.param.u64 %rd2, [to];
ld.param.u64 %rd3, [ends];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd4, %r1, 4;
add.u64 %rd5, %rd3, %rd4;
ld.global.b32 %r2, [%rd5];
setp.lt.s32 %p1, %r1, %r2;
mul.wide.u32 %rd6, %r1, 16;
add.u64 %rd7, %rd1, %rd6;
add.u64 %rd8, %rd2, %rd6;
mov.u32 %r3, buf;
shl.b32 %r4, %r1, 4;
add.u32 %r5, %r3, %r4;
AMOUNT
COPY
cp.async.commit_group;
WAIT
bar.sync 0;
xor.b32 %r7, %r5, 512;
ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r7];
st.global.v4.b32 [%rd8], {%r8, %r9, %r10, %r11};
ret;
}
"""
_COPY = "cp.async.cg.shared.global [%r5], [%rd7], 16, %r6;"
_WAIT = "cp.async.wait_group 0;"


def _checked(amount: str, copy: str = _COPY, wait: str = _WAIT) -> KernelReport:
    (report,) = check_text(_TEXT.replace("AMOUNT", amount).replace("COPY", copy).replace("WAIT", wait), "k.ptx").kernels
    return report


@pytest.mark.parametrize(
    "amount",
    [
        "selp.b32 %r6, 16, 0, %p1;",
        "mov.u32 %r6, 0; @%p1 mov.u32 %r6, 16;",
        "selp.b32 %r6, 4, 12, %p1;",
        "selp.b32 %r6, 16, 0, %p1; setp.ne.u32 %p2, %r1, 5; selp.b32 %r6, %r6, 0, %p2;",
        "and.b32 %r6, %r2, 16;",
        "and.b32 %r12, %r2, -2147483648; shr.u32 %r13, %r12, 27; xor.b32 %r6, %r13, 16;",
        "shr.u32 %r6, %r2, 29; or.b32 %r6, %r6, 8;",
    ],
)
def test_how_much_is_read_decides_nothing(amount: str) -> None:
    report = _checked(amount)
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize(
    "amount",
    [
        "selp.b32 %r6, 32, 0, %p1;",
        "and.b32 %r6, %r2, 48;",
        "selp.b32 %r6, 16, 0, %p1; and.b32 %r6, %r2, 31;",
        "and.b32 %r12, %r2, -2147483648; shr.s32 %r13, %r12, 27; xor.b32 %r6, %r13, 16;",
        "shr.u32 %r6, %r2, 27; xor.b32 %r6, %r6, 16;",
        "shr.u32 %r6, %r2, 28; or.b32 %r6, %r6, 16;",
        "mov.b64 %rd9, {%r2, %r2}; mov.b64 {%r6, %r7}, %rd9;",
        "and.b32 %r6, %r2, 16; add.u32 %r6, %r6, %r6;",
    ],
)
def test_what_may_be_more_than_is_copied_is_open(amount: str) -> None:
    assert _checked(amount).verdict != "proven"


def test_a_copy_that_may_not_happen_is_open() -> None:
    assert _checked("", "@%p1 cp.async.cg.shared.global [%r5], [%rd7], 16;").verdict != "proven"


def test_a_copy_that_nobody_waits_for_is_found() -> None:
    """A launch file that shows it has to say what the data are."""
    report = _checked("selp.b32 %r6, 16, 0, %p1;", wait="")
    assert report.verdict == "unknown" and report.reasons[0].startswith("BG105")
