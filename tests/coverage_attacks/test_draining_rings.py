"""Rings of many stages that a loop fills ahead, and no longer before its end: they repeat themselves late."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_RING = (
    "add.u32 %r_k, %r_n, 31; shr.u32 %r_k, %r_k, 5; and.b32 %r_k, %r_k, 0xfffff; "
    "mov.u32 %r_i, 0; mov.u32 %r_s, 0; mov.u32 %r_h, 0; mov.u32 %r_x, 0; mov.pred %p_bug, 0; "
    "sub.u32 %r_l, %r_k, 5; "
    "L: setp.ge.u32 %p_e, %r_i, %r_k; @%p_e bra M; "
    "setp.le.s32 %p_d, %r_l, %r_i; @%p_d bra P; "
    "add.u32 %r_s, %r_s, 1; setp.eq.u32 %p_a, %r_s, 7; selp.b32 %r_s, 0, %r_s, %p_a; "
    "selp.u32 %r_y, 1, 0, %p_a; xor.b32 %r_h, %r_h, %r_y; shl.b32 %r_y, %r_s, 2; add.u32 %r_y, %r_y, %r_buf; "
    "@!%p_other st.shared.u32 [%r_y], %r_h; INSIDE "
    "P: @!%p_other mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; add.u32 %r_i, %r_i, 1; bra L; "
    "M: "
)


def _ring(inside: str, end: str) -> str:
    return hanging(_RING.replace("INSIDE", inside) + end)


def test_a_ring_that_drains_is_proven() -> None:
    report = checked(_ring("", ""))
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


@pytest.mark.parametrize(("stage", "parity"), [(0, 1), (3, 1), (6, 0)])
def test_a_hang_where_the_ring_stops_at_one_stage_is_refuted(stage: int, parity: int) -> None:
    end = f"setp.eq.u32 %p_a, %r_s, {stage}; setp.eq.and.u32 %p_bug, %r_h, {parity}, %p_a;"
    report = checked(_ring("", end))
    assert report.verdict == "refuted", report.reasons


@pytest.mark.sample(2)
@pytest.mark.parametrize("often", [2, 5, 9, 14])
def test_a_hang_after_the_ring_went_around_often_is_never_proven(often: int) -> None:
    inside = "add.u32 %r_x, %r_x, %r_y; sub.u32 %r_x, %r_x, %r_y; selp.u32 %r_y, 1, 0, %p_a; add.u32 %r_x, %r_x, %r_y; "
    assert checked(_ring(inside, f"setp.eq.u32 %p_bug, %r_x, {often};")).verdict != "proven"


@pytest.mark.sample(1)
@pytest.mark.parametrize("ahead", [40, 70, 300])
def test_a_hang_in_a_late_iteration_is_never_proven(ahead: int) -> None:
    inside = f"setp.eq.u32 %p_a, %r_i, {ahead}; @%p_a bra H; "
    end = "setp.gt.u32 %p_bug, %r_s, 6; bra K; H: mov.pred %p_bug, 1; K: mov.u32 %r_y, 0;"
    assert checked(_ring(inside, end)).verdict != "proven"
