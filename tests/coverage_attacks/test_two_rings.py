"""Loops that go around two rings at once: they repeat themselves after the least common multiple of the stages."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_RINGS = (
    "mov.u32 %r_i, 0; mov.u32 %r_a, 0; mov.u32 %r_b, 0; mov.u32 %r_x, 0; mov.pred %p_bug, 0; "
    "L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra M; "
    "@!%p_other mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "add.u32 %r_a, %r_a, 1; setp.eq.u32 %p_a, %r_a, 5; selp.b32 %r_a, 0, %r_a, %p_a; "
    "add.u32 %r_b, %r_b, 1; setp.eq.u32 %p_b, %r_b, 4; selp.b32 %r_b, 0, %r_b, %p_b; "
    "REST add.u32 %r_i, %r_i, 1; bra L; "
    "M: "
)


def _rings(rest: str, end: str) -> str:
    return hanging(_RINGS.replace("REST", rest) + end)


def test_two_rings_without_a_hang_are_proven() -> None:
    report = checked(_rings("", "setp.gt.u32 %p_bug, %r_a, 4;"))
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


@pytest.mark.parametrize(("one", "other"), [(0, 3), (2, 1), (4, 2)])
def test_a_hang_at_one_place_in_both_rings_at_the_end_is_found(one: int, other: int) -> None:
    end = f"setp.eq.u32 %p_a, %r_a, {one}; setp.eq.and.u32 %p_bug, %r_b, {other}, %p_a;"
    report = checked(_rings("", end))
    assert report.verdict == "refuted", report.reasons


@pytest.mark.parametrize("often", [2, 5, 9])
def test_a_hang_after_both_rings_have_met_often_is_never_proven(often: int) -> None:
    meets = (
        "setp.eq.u32 %p_a, %r_a, 3; setp.eq.and.u32 %p_a, %r_b, 2, %p_a; selp.u32 %r_y, 1, 0, %p_a; "
        "add.u32 %r_x, %r_x, %r_y; "
    )
    assert checked(_rings(meets, f"setp.ge.u32 %p_bug, %r_x, {often};")).verdict != "proven"


@pytest.mark.parametrize("often", [2, 5, 9])
def test_a_hang_in_the_loop_after_both_rings_have_met_often_is_never_proven(often: int) -> None:
    meets = (
        "setp.eq.u32 %p_a, %r_a, 3; setp.eq.and.u32 %p_a, %r_b, 2, %p_a; selp.u32 %r_y, 1, 0, %p_a; "
        f"add.u32 %r_x, %r_x, %r_y; setp.eq.u32 %p_a, %r_x, {often}; @%p_a bra H; "
    )
    end = "setp.gt.u32 %p_bug, %r_a, 4; bra K; H: mov.pred %p_bug, 1; K: mov.u32 %r_y, 0;"
    assert checked(_rings(meets, end)).verdict != "proven"


@pytest.mark.parametrize("slow", [7, 16, 24])
def test_a_hang_by_a_third_ring_that_turns_slowly_is_never_proven(slow: int) -> None:
    rest = f"div.u32 %r_y, %r_i, {slow}; "
    assert checked(_rings(rest, "setp.ge.u32 %p_bug, %r_y, 6;")).verdict != "proven"
