"""Numbers that nobody asked for fail by alignment, or are negative where zero is excluded: assumed away, in words."""

from __future__ import annotations

import pytest
from tests.driver.hanging_kernels import hanging, judged

from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict

COPIED = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry copied(.param .u32 n, .param .u32 m, .param .u64 target) .reqntid 32
{{
    .reg .pred %p<6>;
    .reg .b32 %r<8>;
    .reg .b64 %d<4>;
    .shared .align 128 .b8 tile[4096];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [m];
    ld.param.u64 %d1, [target];
    mov.u32 %r3, %tid.x;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra DONE;
    mov.u32 %r4, tile;
    {size}
    min.u32 %r5, %r5, 64;
    cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r4], %r5;
    cp.async.bulk.commit_group;
    {wait}
DONE:
    ret;
}}
"""
WAIT = "cp.async.bulk.wait_group 0;"


def verdict_of(size: str, wait: str = WAIT) -> Verdict:
    return judged(COPIED.format(size=size, wait=wait)).verdict


def assumptions_of(verdict: Verdict) -> str:
    assert isinstance(verdict, Proven), verdict
    return "; ".join(verdict.assumptions)


@pytest.mark.parametrize(
    ("size", "assumed"),
    [
        ("shl.b32 %r5, %r1, 2;", "n is a multiple of 4 "),
        ("mov.u32 %r5, %r2;", "m is a multiple of 16 "),
        ("and.b32 %r5, %r1, 3; add.u32 %r5, %r5, 1; shl.b32 %r5, %r5, 4;", ""),
    ],
)
def test_a_size_is_a_multiple_of_16_bytes(size: str, assumed: str) -> None:
    found = assumptions_of(verdict_of(size))
    assert assumed in found.replace("parameter 0", "n").replace("parameter 1", "m")
    assert ("is a multiple of" in found) == bool(assumed), found


ACCESSED = "add.u32 %r6, %r4, %r1; ld.shared.u32 %r7, [%r6]; add.u32 %r6, %r4, %r2; ld.shared.u64 %d2, [%r6];"


def test_paddings_of_several_accesses_are_each_a_multiple() -> None:
    """As CUB passes by which bytes each of its arrays begins past an aligned address."""
    found = assumptions_of(verdict_of(f"and.b32 %r1, %r1, 3; and.b32 %r2, %r2, 7; {ACCESSED} mov.u32 %r5, 16;"))
    assert "is a multiple of 4 and parameter 1 is a multiple of 8 (at others the kernel fails with MF002)" in found


def test_an_access_that_no_multiple_aligns_refutes() -> None:
    found = verdict_of(f"and.b32 %r1, %r1, 4; or.b32 %r1, %r1, 2; {ACCESSED} mov.u32 %r5, 16;")
    assert isinstance(found, Refuted) and found.findings[0].code == "MF002"


def test_a_size_that_no_multiple_repairs_refutes() -> None:
    found = verdict_of("and.b32 %r5, %r1, 3; shl.b32 %r5, %r5, 4; or.b32 %r5, %r5, 4;")
    assert isinstance(found, Refuted) and found.findings[0].code == "AL203"


def test_a_size_may_be_zero() -> None:
    found = verdict_of("and.b32 %r5, %r1, 3; shl.b32 %r5, %r5, 4;")
    assert not assumptions_of(found).count("at others") and not assumptions_of(found).count("is not 0"), found


def test_what_a_copy_of_no_bytes_does_not_show_is_looked_for() -> None:
    """At zero the kernel is right, whatever it does to wait."""
    unwaited = verdict_of("and.b32 %r5, %r1, 3; shl.b32 %r5, %r5, 4;", wait="")
    assert isinstance(unwaited, Refuted) and unwaited.findings[0].code == "BG102", unwaited
    seldom = verdict_of("shr.u32 %r5, %r1, 27; and.b32 %r5, %r5, 1; shl.b32 %r5, %r5, 4;", wait="")
    assert isinstance(seldom, Refuted) and seldom.findings[0].code == "BG102", seldom


def test_a_multiple_excuses_nothing_else() -> None:
    unwaited = verdict_of("shl.b32 %r5, %r1, 2;", wait="")
    assert isinstance(unwaited, Refuted) and unwaited.findings[0].code == "BG102", unwaited
    tail = "setp.gt.u32 %p2, %r1, 12; @%p2 bra DONE; shl.b32 %r5, %r1, 2;"
    assert isinstance(verdict_of(tail), Proven)
    late = "shl.b32 %r5, %r1, 2; setp.eq.u32 %p3, %r1, 68; @!%p3 bra FINE; cp.async.bulk.global.shared::cta.bulk_group "
    late += "[%d1], [%r4], 16; bra DONE; FINE:"
    assert isinstance(verdict_of(late), Refuted | Unknown)


def test_a_negative_number_fails_as_zero_does() -> None:
    found = judged(hanging("setp.le.s32 %p1, %r1, 0;")).verdict
    assert "is at least 1 and below 2^31" in assumptions_of(found)


def test_a_negative_number_that_fails_alone_is_not_excused() -> None:
    assert isinstance(judged(hanging("setp.lt.s32 %p1, %r1, 0;")).verdict, Unknown)
    both = "setp.eq.s32 %p2, %r1, 0; setp.lt.s32 %p1, %r1, -9; or.pred %p1, %p1, %p2;"
    assert isinstance(judged(hanging(both)).verdict, Proven | Unknown)
