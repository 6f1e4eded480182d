"""What is said of small kernels without a launch: found, shown to be impossible, excused, or left open."""

from __future__ import annotations

import pytest
from tests.driver.checked_kernels import pipe_text
from tests.driver.hanging_kernels import hanging, judged

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.driver.explore.search.exploration import Effort

FOUND = {
    "one value": "setp.eq.u32 %p1, %r1, 37;",
    "one large value": "setp.eq.u32 %p1, %r1, 123457;",
    "a product": "mul.lo.u32 %r4, %r1, %r2; setp.eq.u32 %p1, %r4, 391;",
    "both": "setp.eq.u32 %p2, %r1, 5; setp.eq.and.u32 %p1, %r2, 7, %p2;",
    "a remainder": "rem.u32 %r4, %r1, 7; setp.eq.u32 %p1, %r4, 3;",
    "a sum": "add.u32 %r4, %r1, %r2; setp.eq.u32 %p1, %r4, 1003;",
    "a word": "ld.global.u32 %r4, [%d1]; setp.eq.u32 %p1, %r4, 9;",
    "a byte of a number": "ld.param.u8 %r4, [n]; setp.eq.u32 %p1, %r4, 200;",
    "the grid": "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p1, %r4, 11;",
}


@pytest.mark.parametrize("name", FOUND)
def test_a_launch_that_hangs_is_found_and_shown(name: str) -> None:
    found = judged(hanging(FOUND[name]))
    assert isinstance(found.verdict, Refuted), found.verdict
    assert found.launch is not None


def test_the_numbers_of_the_launch_are_shown() -> None:
    found = judged(hanging(FOUND["one value"]))
    assert isinstance(found.verdict, Refuted)
    assert any("n = 37" in line or "parameter 0 = 37" in line for line in found.verdict.findings[0].interleaving)


IMPOSSIBLE = {
    "below nothing": "setp.lt.u32 %p1, %r1, 0;",
    "two values": "setp.eq.u32 %p2, %r1, 5; setp.eq.and.u32 %p1, %r1, 7, %p2;",
    "an odd double": "shl.b32 %r4, %r1, 1; and.b32 %r5, %r4, 1; setp.eq.u32 %p1, %r5, 1;",
    "a remainder": "rem.u32 %r4, %r1, 7; setp.gt.u32 %p1, %r4, 6;",
    "a byte": "ld.param.u8 %r4, [n]; setp.gt.u32 %p1, %r4, 255;",
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_be_reached_is_proven(name: str) -> None:
    found = judged(hanging(IMPOSSIBLE[name]))
    assert isinstance(found.verdict, Proven), found.verdict
    assert any("impossible" in claim for claim in found.verdict.claims)


NEVER_PROVEN = {
    "a word of -1": "ld.global.u32 %r4, [%d1]; setp.eq.u32 %p1, %r4, -1;",
    "a large word": "ld.global.u32 %r4, [%d1]; setp.gt.u32 %p1, %r4, 0x80001234;",
    "a negative word": "ld.global.s32 %r4, [%d1]; setp.lt.s32 %p1, %r4, 0;",
    "a large long word": "ld.global.u64 %d2, [%d1]; setp.gt.u64 %p1, %d2, 0x10000000000000;",
    "a long word of -1": "ld.global.u64 %d2, [%d1]; setp.eq.s64 %p1, %d2, -1;",
    "a negative byte": "ld.global.s8 %r4, [%d1]; setp.eq.s32 %p1, %r4, -5;",
    "a large grid": "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p1, %r4, 70000;",
    "a very large grid": "mov.u32 %r4, %nctaid.x; setp.gt.u32 %p1, %r4, 1000000;",
    "a large number": "setp.eq.u32 %p1, %r1, 0xFFFFFFFE;",
    "a negative number": "setp.lt.s32 %p1, %r1, 0;",
    "packed halves": "add.u16x2 %r4, %r1, 0xFFFF; setp.eq.u32 %p1, %r4, 0x50000;",
    "through local memory": "st.local.u32 [spill], %r1; ld.local.u32 %r4, [spill]; setp.eq.u32 %p1, %r4, 37;",
    "an atomic": "@%p8 atom.shared.add.u32 %r4, [bar+8], %r1; ld.shared.u32 %r4, [bar+8]; setp.eq.u32 %p1, %r4, 37;",
    # Every step has an inverse.
    "a hash": "mov.u32 %r4, %r1; " + "mul.lo.u32 %r4, %r4, 0x85EBCA6B; shr.u32 %r6, %r4, 13; xor.b32 %r4, %r4, %r6;"
    "mul.lo.u32 %r4, %r4, 0xC2B2AE35; shr.u32 %r6, %r4, 16; xor.b32 %r4, %r4, %r6;" * 8 + "setp.eq.u32 %p1, %r4, 7;",
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NEVER_PROVEN)
def test_what_some_launch_can_reach_is_never_proven(name: str) -> None:
    text = hanging(NEVER_PROVEN[name]).replace(".shared .align", ".local .align 8 .b8 spill[16]; .shared .align")
    found = judged(text)
    excluded = isinstance(found.verdict, Proven) and any(
        word in line for line in found.verdict.assumptions for word in ("below 2^", "at most", "at least 0")
    )
    assert isinstance(found.verdict, Refuted | Unknown) or excluded, found.verdict


def test_a_hash_that_nobody_inverts_stays_unknown() -> None:
    found = judged(hanging(NEVER_PROVEN["a hash"]))
    assert isinstance(found.verdict, Unknown)
    assert any("goes the other way" in reason for reason in found.verdict.reasons)


def test_an_effort_that_runs_out_is_unknown() -> None:
    found = judged(hanging(FOUND["a remainder"]), Effort(1, 100))
    assert isinstance(found.verdict, Unknown) and any("others to try" in each for each in found.verdict.reasons)


def test_a_null_pointer_is_excused_in_words() -> None:
    used = "setp.eq.u64 %p5, %d1, 0; @%p5 bra SKIP; ld.global.u32 %r9, [%d1]; st.global.u32 [%d1+4], %r9; SKIP:"
    found = judged(hanging("setp.eq.u64 %p1, %d1, 0;", before=used))
    assert isinstance(found.verdict, Proven)
    assert any("is not null" in line for line in found.verdict.assumptions), found.verdict.assumptions


def test_zero_is_excused_in_words() -> None:
    found = judged(hanging("setp.eq.u32 %p1, %r1, 0;"))
    assert isinstance(found.verdict, Proven)
    assert any("is not 0" in line for line in found.verdict.assumptions)


def test_an_assertion_bounds_the_numbers() -> None:
    trap = "setp.gt.u32 %p2, %r1, 36; @!%p2 bra FINE; trap; FINE:"
    bounded = judged(hanging(FOUND["one value"], before=trap))
    assert isinstance(bounded.verdict, Proven), bounded.verdict
    assert any("assertion" in line for line in bounded.verdict.assumptions)
    assert isinstance(judged(hanging("setp.eq.u32 %p1, %r1, 36;", before=trap)).verdict, Refuted)


def test_more_effort_is_spent_where_nothing_but_launches_is_missing() -> None:
    assert isinstance(judged(pipe_text(), Effort(120, 2_000)).verdict, Proven)
    assert isinstance(judged(pipe_text(), Effort(120, 1_000)).verdict, Unknown)
