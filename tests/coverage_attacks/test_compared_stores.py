"""Attacks on values of several warps that are compared: equal in the launches that are made, and not in others."""

from __future__ import annotations

import pytest

from tests.machine.protocol.compared_store import KERNEL
from tilewright.driver.check.check import check_text

_LOOP = "mov.u32 %r11, 0; AGAIN: {body} add.u32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, %r1; @%p2 bra AGAIN;"
SAME = {
    "a sum over a loop": _LOOP.format(body="ld.global.u32 %r13, [%rd1]; add.u32 %r10, %r10, %r13;"),
    "a sum over a loop of the protocol": _LOOP.format(
        body="ld.global.u32 %r13, [%rd1]; bar.sync 1, 64; add.u32 %r10, %r10, %r13;"
    ),
    "a sum over a loop of arithmetic": _LOOP.format(body="add.u32 %r10, %r10, %r1;"),
    "a branch that decides about nothing else": "setp.ne.u32 %p3, %r1, 77; @%p3 bra ON; ld.global.u32 %r10, [%rd1]; "
    "ON:",
    "either of two ways": "setp.lt.u32 %p2, %r1, 100; @%p2 bra A; mad.lo.u32 %r10, %r3, 4, %r7; bra B; "
    "A: mul.lo.u32 %r10, %r3, %r1; B:",
}
OTHER = {
    "a select in a late iteration": _LOOP.format(
        body="setp.eq.u32 %p3, %r11, 1000; selp.b32 %r10, %r4, %r10, %p3;"
    ),
    "a guard in a late iteration": _LOOP.format(body="setp.eq.u32 %p3, %r11, 1000; @%p3 mov.u32 %r10, %r4;"),
    "a branch in a late iteration": _LOOP.format(
        body="setp.ne.u32 %p3, %r11, 1000; @%p3 bra ON; mov.u32 %r10, %r4; ON:"
    ),
    "a guard in a late iteration of the protocol": _LOOP.format(
        body="setp.eq.u32 %p3, %r11, 1000; @%p3 mov.u32 %r10, %r4; bar.sync 1, 64;"
    ),
    "high bits of a counter": _LOOP.format(body="shr.u32 %r12, %r11, 10; mad.lo.u32 %r10, %r12, %r4, %r10;"),
    "a late iteration of a loop that is left early": "mov.u32 %r11, 0; AGAIN: setp.eq.u32 %p3, %r11, 20; "
    "@%p3 mov.u32 %r10, %r4; ld.global.u32 %r13, [%rd1]; add.u32 %r10, %r10, %r13; add.u32 %r11, %r11, 1; "
    "setp.lt.u32 %p2, %r11, 64; @%p2 bra AGAIN;",
    "the warp, handed on by many iterations": "mov.u32 %r12, 0; mov.u32 %r13, 0; mov.u32 %r14, 0; mov.u32 %r15, 0; "
    + _LOOP.format(
        body="mov.u32 %r10, %r15; mov.u32 %r15, %r14; mov.u32 %r14, %r13; mov.u32 %r13, %r12; mov.u32 %r12, %r4; "
        "bar.sync 1, 64;"
    ),
    "a rare way of a branch that decides about nothing else": "setp.ne.u32 %p3, %r1, 77; @%p3 bra ON; "
    "mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2; ld.global.u32 %r10, [%rd3]; ON:",
    "a way by a word that may be overwritten between": "setp.ne.u32 %p3, %r1, 77; @!%p1 bar.sync 1, 64; "
    "ld.shared.u32 %r12, [%r7]; setp.lt.u32 %p4, %r12, 5; @%p4 bra A; mul.lo.u32 %r10, %r1, 3; bra B; A: mov.u32 %r10, "
    "%r1; B: @%p3 bra ON; @%p1 st.shared.u32 [%r7], 9; ON: @%p1 bar.sync 1, 64;",
    "rare ways of two branches": "mov.u32 %r11, 0; setp.lt.u32 %p2, %r1, 100; @%p2 bra A; mov.u32 %r11, 1; "
    "A: rem.u32 %r12, %r1, 7; setp.ne.u32 %p3, %r12, 3; @%p3 bra B; mul.lo.u32 %r10, %r11, %r4; B:",
    "a word that is rarely overwritten between": "setp.ne.u32 %p3, %r1, 77; @!%p1 bar.sync 1, 64; "
    "ld.shared.u32 %r10, [%r7]; @%p3 bra ON; @%p1 st.shared.u32 [%r7], 9; ON: @%p1 bar.sync 1, 64;",
    "a word of global memory that is rarely overwritten between": "setp.ne.u32 %p3, %r1, 77; "
    "@!%p1 bar.sync 1, 64; ld.global.u32 %r10, [%rd1]; @%p3 bra ON; @%p1 st.global.u32 [%rd1], 9; ON: "
    "@%p1 bar.sync 1, 64;",
}  # fmt: skip
_CLUSTER = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u32 count) .reqntid 32 .reqnctapercluster 2, 1, 1
{{
    .reg .b32 %r<8>;
    .shared .align 16 .b8 word[16];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, word;
    mapa.shared::cluster.u32 %r3, %r2, 0;
    mov.u32 %r4, {value};
    barrier.cluster.arrive;
    barrier.cluster.wait;
    st.shared::cluster.u32 [%r3], %r4;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}}
"""


@pytest.mark.parametrize("body", SAME.values(), ids=list(SAME))
def test_warps_that_store_the_same_in_each_launch(body: str) -> None:
    (kernel,) = check_text(KERNEL.format(body=body), "k.ptx").kernels
    assert kernel.verdict == "proven", kernel.reasons
    assert "NB104" in {finding.code for finding in kernel.findings}


@pytest.mark.parametrize("body", OTHER.values(), ids=list(OTHER))
def test_warps_that_store_the_same_in_most_launches(body: str) -> None:
    (kernel,) = check_text(KERNEL.format(body=body), "k.ptx").kernels
    assert kernel.verdict == "unknown", kernel.findings
    assert any("whether both store the same" in reason for reason in kernel.reasons), kernel.reasons


def test_places_of_two_ctas_in_their_cluster_differ() -> None:
    (kernel,) = check_text(_CLUSTER.format(value="%r1"), "k.ptx").kernels
    assert kernel.verdict == "proven", kernel.reasons
    for place in ("%cluster_ctarank", "%ctaid.x"):
        (kernel,) = check_text(_CLUSTER.format(value=place), "k.ptx").kernels
        assert kernel.verdict != "proven", place
