"""Loads of tensor memory that nobody wrote: no error where their values are thrown away, open where a select may leave
them out, and an error wherever else they may be used."""

from __future__ import annotations

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions

KERNEL = """\
.version 8.6
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 result, .param .u32 count) .reqntid 128
{{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 8 .b8 place[8];
    ld.param.u64 %rd1, [result];
    ld.param.u32 %r9, [count];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    mul.wide.u32 %rd2, %r0, 4;
    add.u64 %rd2, %rd1, %rd2;
    setp.lt.u32 %p0, %r0, 32;
    @!%p0 bra $noalloc;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 128;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
$noalloc:
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %r2, [place];
    shl.b32 %r3, %r1, 21;
    add.u32 %r4, %r2, %r3;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r5}}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    add.u32 %r6, %r5, 1;
    {use}
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 128;
    ret;
}}
"""
UNUSED = {
    "arithmetic alone": "",
    "a store that is off": "mov.pred %p1, 0; @%p1 st.global.b32 [%rd2], %r6;",
    "a store that is off, the guard negated": "mov.pred %p1, 1; @!%p1 st.global.b32 [%rd2], %r6;",
}
USED = {
    "a store": "st.global.b32 [%rd2], %r6;",
    "a store that is on": "mov.pred %p1, 1; @%p1 st.global.b32 [%rd2], %r6;",
    "a guard that is written twice": "mov.pred %p1, 0; setp.eq.u32 %p2, %r9, 7; @%p2 mov.pred %p1, 1; "
    "@%p1 st.global.b32 [%rd2], %r6;",
    "a guard that is computed": "setp.eq.u32 %p1, %r0, 0; @%p1 st.global.b32 [%rd2], %r6;",
    "a shuffle and a store": "shfl.sync.idx.b32 %r7, %r6, 0, 31, -1; st.global.b32 [%rd2], %r7;",
    "an address of the next load": "and.b32 %r7, %r5, 0; add.u32 %r7, %r7, %r4; "
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r7]; tcgen05.wait::ld.sync.aligned;",
    "what a later step adds to": "mov.u32 %r7, 0; $again: add.u32 %r7, %r7, %r6; add.u32 %r8, %r7, 0; "
    "setp.lt.u32 %p3, %r0, 0; @%p3 bra $again; st.global.b32 [%rd2], %r8;",
}
OPEN = {
    "a select and a store": "setp.ge.u32 %p1, %r9, 7; selp.b32 %r7, %r6, 0, %p1; st.global.b32 [%rd2], %r7;",
    "a select of an element, a shuffle and shared memory": "setp.ge.u32 %p1, %r0, %r9; selp.b32 %r7, 0, %r5, %p1; "
    "shfl.sync.bfly.b32 %r8, %r7, 1, 31, -1; max.u32 %r7, %r7, %r8; st.shared.b32 [place+4], %r7;",
}
USED |= {
    "a select between what was loaded": "setp.ge.u32 %p1, %r9, 7; selp.b32 %r7, %r6, %r5, %p1; "
    "st.global.b32 [%rd2], %r7;",
    "the predicate of a select": "setp.ge.u32 %p1, %r6, 7; selp.b32 %r7, 1, 0, %p1; st.global.b32 [%rd2], %r7;",
    "a select, and a store beside it": "setp.ge.u32 %p1, %r9, 7; selp.b32 %r7, %r6, 0, %p1; "
    "st.global.b32 [%rd2], %r7; st.global.b32 [%rd2+512], %r5;",
}


def _checked(use: str, isa: str = "tolerant") -> KernelReport:
    (kernel,) = check_text(KERNEL.format(use=use), options=CheckOptions(isa=isa)).kernels
    return kernel


@pytest.mark.parametrize("use", UNUSED.values(), ids=UNUSED)
def test_what_is_thrown_away_is_no_error(use: str) -> None:
    assert _checked(use).verdict == "proven"


@pytest.mark.parametrize("use", USED.values(), ids=USED)
def test_what_may_be_used_is_an_error(use: str) -> None:
    report = _checked(use)
    assert report.verdict == "refuted"
    assert {each.code for each in report.findings} == {"TC122"}


@pytest.mark.parametrize("use", OPEN.values(), ids=OPEN)
def test_what_a_select_may_leave_out_is_open(use: str) -> None:
    report = _checked(use)
    assert report.verdict == "unknown"
    assert any("where a select takes it" in each for each in report.reasons)


def test_the_strict_interpretation_refuses_both() -> None:
    assert _checked("", "strict").verdict == "refuted"
