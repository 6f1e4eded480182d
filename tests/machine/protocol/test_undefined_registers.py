"""Registers that nobody wrote: for review where nothing depends on them, a doubt or a fault where the protocol does."""

from __future__ import annotations

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text

KERNEL = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 data, .param .u32 count) .reqntid 64
{{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 8 .b8 full[8];
    .shared .align 8 .b8 words[1024];
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r4, [count];
    mov.u32 %r2, full;
    mov.u32 %r1, %tid.x;
    mov.u32 %r9, 0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 64;
    bar.sync 0;
{body}
    mbarrier.arrive.shared.b64 _, [%r2];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r9;
    @!%p2 bra WAIT;
    ret;
}}
"""
UNUSED = {
    "half of a pair": "mov.b64 %rd3, {%r4, %r6}; mov.b64 {%r5, %r7}, %rd3; mul.wide.u32 %rd2, %r5, 4; "
    "add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r9;",
    "before the first iteration": "mov.u32 %r8, 0; AGAIN: mov.u32 %r10, %r6; mov.u32 %r6, %r8; add.u32 %r8, %r8, 1; "
    "add.u32 %r11, %r10, 1; mul.wide.u32 %rd2, %r11, 4; add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r8; "
    "setp.lt.u32 %p4, %r8, 3; @%p4 bra AGAIN;",
}
STEERING = {
    "a parity": "and.b32 %r9, %r6, 1;",
    "a branch": "setp.eq.u32 %p4, %r6, 0; @%p4 bra SKIP; mbarrier.arrive.shared.b64 _, [%r2]; SKIP:",
    "a guard": "setp.eq.u32 %p4, %r6, 1; @%p4 mbarrier.arrive.shared.b64 _, [%r2];",
    "an address": "add.u32 %r7, %r6, 0; add.u32 %r7, %r7, words; st.shared.u32 [%r7], %r9;",
}
FAULT = {
    "an address of a barrier": "mbarrier.arrive.shared.b64 _, [%r6];",
    "a guard of an arrival": "@%p5 mbarrier.arrive.shared.b64 _, [%r2];",
    "a branch": "@%p5 bra SKIP; bar.sync 1; SKIP:",
}


def check(body: str) -> KernelReport:
    (kernel,) = check_text(KERNEL.format(body=body), "k.ptx").kernels
    return kernel


@pytest.mark.parametrize("body", UNUSED.values(), ids=list(UNUSED))
def test_what_nothing_depends_on_is_for_review(body: str) -> None:
    kernel = check(body)
    assert kernel.verdict == "proven", kernel.reasons
    assert "MF003" in {finding.code for finding in kernel.findings} and not kernel.errors


@pytest.mark.parametrize("body", STEERING.values(), ids=list(STEERING))
def test_what_the_protocol_depends_on_is_unknown(body: str) -> None:
    kernel = check(body)
    assert kernel.verdict == "unknown"
    assert any("which nobody wrote" in reason for reason in kernel.reasons), kernel.reasons


@pytest.mark.parametrize("body", FAULT.values(), ids=list(FAULT))
def test_what_the_protocol_reads_is_refuted(body: str) -> None:
    kernel = check(body)
    assert kernel.verdict == "refuted" and kernel.errors[0].code == "MF003"


OF_A_PRODUCT = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u32 count) .reqntid 128
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<4>;
    .shared .align 1024 .b8 tiles[8192];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, tiles;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r3, 4, %r2;
    st.shared.u32 [%r4], %r3;
    fence.proxy.async;
    bar.sync 0;
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    shr.u32 %r5, %r2, 4;
    cvt.u64.u32 %rd1, %r5;
    or.b64 %rd1, %rd1, 0x800080000;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra NONE;
    bar.sync 0;
    mov.f32 %f5, 0f3F800000;
    bra SUMMED;
NONE:
    mov.f32 %f5, %f0;
SUMMED:
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    st.shared.f32 [%r4+4096], %f5;
    ret;
}
"""


def test_a_register_that_an_accumulator_is_moved_to_on_another_way_is_written() -> None:
    (kernel,) = check_text(OF_A_PRODUCT, "k.ptx").kernels
    assert kernel.verdict == "proven", (kernel.reasons, kernel.errors)
