"""Waits that count their failures, read a clock and sleep: those that leave no trace, and those that leave one."""

from __future__ import annotations

import pytest

from tilewright.contract.judge.waits.retried_waits import waits_not_retried
from tilewright.driver.check.check import check_text
from tilewright.frontends.ptx.reader import read

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 limit) .reqntid 64 {
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
.shared .align 8 .b8 bar[8];
.shared .align 8 .b8 words[64];
mov.u32 %r0, bar;
mov.u32 %r9, words;
mov.u32 %r1, %tid.x;
setp.eq.u32 %p7, %r1, 0;
@%p7 mbarrier.init.shared.b64 [%r0], 64;
bar.sync 0;
mbarrier.arrive.shared.b64 %rd1, [%r0];
"""
TAIL = "ret;\n}\n"
# What nvcc 13.0 makes of cuda::barrier::wait.
BACKING_OFF = """mov.u64 %rd2, %globaltimer;
mov.u32 %r2, 0;
bra.uni TRY;
COUNT:
add.s32 %r2, %r2, 1;
TRY:
mbarrier.try_wait.shared.b64 %p0, [%r0], %rd1;
selp.b32 %r3, 1, 0, %p0;
setp.eq.s32 %p1, %r3, 0;
@%p1 bra FAILED;
bra.uni DONE;
FAILED:
setp.lt.s32 %p2, %r2, 16;
@%p2 bra COUNT;
mov.u64 %rd3, %globaltimer;
sub.s64 %rd4, %rd3, %rd2;
setp.lt.s64 %p3, %rd4, 4000000;
@%p3 bra SHORT;
mov.u32 %r4, 1000000;
nanosleep.u32 %r4;
bra.uni TRY;
SHORT:
setp.lt.s64 %p4, %rd4, 40000;
@%p4 bra TRY;
shr.s64 %rd5, %rd4, 2;
cvt.u32.u64 %r5, %rd5;
nanosleep.u32 %r5;
bra.uni TRY;
DONE:
"""
WAIT = "mbarrier.try_wait.shared.b64 %p0, [%r0], %rd1;"
ADDRESS = "mov.u32 %r6, bar;\nmbarrier.try_wait.shared.b64 %p0, [%r6], %rd1;"

RETRIED = {
    "as it is": BACKING_OFF,
    "its address computed at each try": BACKING_OFF.replace(WAIT, ADDRESS) + "st.shared.u32 [%r9], %r6;\n",
    "its limit from a parameter": BACKING_OFF.replace(
        "setp.lt.s32 %p2, %r2, 16;", "ld.param.u32 %r7, [limit];\nsetp.lt.s32 %p2, %r2, %r7;"
    ),
    "its counter set again before it is read": BACKING_OFF + "mov.u32 %r2, 3;\nst.shared.u32 [%r9], %r2;\n",
    "twice": BACKING_OFF + BACKING_OFF.replace("TRY", "T2").replace("COUNT", "C2").replace("DONE", "D2")
    .replace("FAILED", "F2").replace("SHORT", "S2"),
    "in a loop": "mov.u32 %r8, 0;\nAGAIN:\n" + BACKING_OFF + "add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p6, %r8, 2;\n"
    "@%p6 bra AGAIN;\n",
}  # fmt: skip
SCHEDULE_SEEN = {
    "its counter is stored": BACKING_OFF + "st.shared.u32 [%r9], %r2;\n",
    "its counter decides later": BACKING_OFF + "setp.gt.u32 %p5, %r2, 3;\n@%p5 bra LATER;\nbar.sync 1;\nLATER:\n",
    "its time is stored": BACKING_OFF + "st.shared.u64 [%r9], %rd4;\n",
    "a bounded number of tries": BACKING_OFF.replace("@%p2 bra COUNT;", "@%p2 bra COUNT;\nbra DONE;"),
    "a time limit": BACKING_OFF.replace("@%p3 bra SHORT;", "@%p3 bra SHORT;\ntrap;"),
    "a store by who failed": BACKING_OFF.replace("SHORT:", "SHORT:\nst.shared.u32 [%r9], %r2;"),
    "an arrival by who failed": BACKING_OFF.replace("SHORT:", "SHORT:\nmbarrier.arrive.shared.b64 _, [%r0];"),
    "another barrier next": BACKING_OFF.replace("COUNT:", "COUNT:\nadd.u32 %r0, %r0, 8;"),
    "another state next": BACKING_OFF.replace("COUNT:", "COUNT:\nadd.u64 %rd1, %rd1, 1;"),
    "an address that counts": BACKING_OFF.replace(WAIT, ADDRESS.replace("mov.u32 %r6, bar", "add.u32 %r6, %r0, %r2")),
    "an address that is computed late": BACKING_OFF.replace(WAIT, ADDRESS.split("\n")[1]).replace(
        "COUNT:", "COUNT:\nadd.u32 %r6, %r0, 8;"
    ),
    "a loop that does not try": BACKING_OFF.replace("@%p4 bra TRY;", "@%p4 bra SHORT;"),
    "the outcome kept": BACKING_OFF.replace("FAILED:", "FAILED:\nmov.u32 %r10, 1;") + "st.shared.u32 [%r9], %r10;\n",
}


def seen(body: str) -> int:
    return len(waits_not_retried(read(HEAD + body + TAIL, "<waits.ptx>"), "k"))


@pytest.mark.parametrize("body", RETRIED.values(), ids=list(RETRIED))
def test_failures_that_nobody_notices(body: str) -> None:
    assert seen(body) == 0


@pytest.mark.parametrize("body", SCHEDULE_SEEN.values(), ids=list(SCHEDULE_SEEN))
def test_failures_that_may_be_noticed(body: str) -> None:
    assert seen(body) == 1


def test_a_kernel_that_backs_off_is_proven() -> None:
    (kernel,) = check_text(HEAD + BACKING_OFF + TAIL, "k.ptx").kernels
    assert kernel.verdict == "proven", kernel.reasons


def test_a_kernel_that_backs_off_and_hangs_is_refuted() -> None:
    (kernel,) = check_text((HEAD + BACKING_OFF + TAIL).replace("[%r0], 64;", "[%r0], 65;"), "k.ptx").kernels
    assert kernel.verdict == "refuted" and kernel.errors[0].code == "MB113"
