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
