"""A word of memory that each CTA reads at its own place decides: another launch may read another word, so that asking
for the other outcome leads nowhere unless the place is kept."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked
from tests.guarded.text import wait
from tilewright.base.check_report import KernelReport

_TEXT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 index) .reqntid 64
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
.shared .align 16 .b8 buf[1024];
.shared .align 8 .b64 bar[1];
ld.param.u64 %rd1, [from];
ld.param.u64 %rd2, [index];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.y;
mov.u32 %r3, buf;
mov.u32 %r7, bar;
setp.ne.u32 %p3, %r1, 0;
@!%p3 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
mul.wide.u32 %rd3, %r2, 8;
add.u64 %rd4, %rd2, %rd3;
ld.global.nc.b32 %r4, [%rd4];
setp.lt.s32 %p1, %r4, 0;
@%p1 bra END;
mul.wide.u32 %rd5, %r1, 16;
add.u64 %rd6, %rd1, %rd5;
shl.b32 %r5, %r1, 4;
add.u32 %r6, %r3, %r5;
cp.async.cg.shared.global [%r6], [%rd6], 16;
cp.async.commit_group;
WAIT
bar.sync 0;
ld.shared.b32 %r8, [%r3+512];
BEHIND
END:
ret;
}
"""
_WAIT = "cp.async.wait_group 0;"
_HANG = wait("%r7", "0")
_ANOTHER = "ld.global.nc.b32 %r9, [%rd4+4];\nsetp.eq.s32 %p2, %r9, 777;\n@!%p2 bra END;\n"


def _checked(waits: str = _WAIT, behind: str = "") -> KernelReport:
    return checked(_TEXT.replace("WAIT", waits).replace("BEHIND", behind))


@pytest.mark.parametrize("behind", ["", f"{_ANOTHER}bar.sync 1;"], ids=["one word", "two words"])
def test_it_is_proven(behind: str) -> None:
    report = _checked(behind=behind)
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize("behind", [_HANG, _ANOTHER + _HANG], ids=["one word", "two words"])
def test_what_is_behind_a_word_is_refuted(behind: str) -> None:
    assert _checked(behind=behind).verdict == "refuted"


def test_a_copy_that_one_way_does_not_wait_for_is_refuted() -> None:
    assert _checked(waits="").verdict == "refuted"
