"""Rings that go around as often as a product of numbers says: most launches are too short or too long to show it."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_RING = (
    "mul.lo.u32 %r_k, %r_n, %r_m; mul.lo.u32 %r_k, %r_k, %r_p; and.b32 %r_k, %r_k, 0xffffff; "
    "mov.u32 %r_i, 0; mov.u32 %r_s, 0; mov.u32 %r_h, 0; mov.pred %p_bug, 0; "
    "L: setp.le.u32 %p_e, %r_k, %r_i; @%p_e bra M; "
    "add.u32 %r_s, %r_s, 1; setp.eq.u32 %p_a, %r_s, 6; selp.b32 %r_s, 0, %r_s, %p_a; "
    "selp.u32 %r_y, 1, 0, %p_a; xor.b32 %r_h, %r_h, %r_y; shl.b32 %r_y, %r_s, 2; add.u32 %r_y, %r_y, %r_buf; "
    "@!%p_other st.shared.u32 [%r_y], %r_h; INSIDE "
    "@!%p_other mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; add.u32 %r_i, %r_i, 1; bra L; "
    "M: "
)


def _ring(inside: str, end: str) -> str:
    return hanging(_RING.replace("INSIDE", inside) + end, ("n", "m", "p"))


def test_a_ring_that_goes_around_as_often_as_a_product_says_is_proven() -> None:
    report = checked(_ring("", ""))
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


@pytest.mark.parametrize(("stage", "parity"), [(1, 1), (5, 0)])
def test_a_hang_where_it_stops_at_one_stage_is_refuted(stage: int, parity: int) -> None:
    end = f"setp.eq.u32 %p_a, %r_s, {stage}; setp.eq.and.u32 %p_bug, %r_h, {parity}, %p_a;"
    report = checked(_ring("", end))
    assert report.verdict == "refuted", report.reasons


@pytest.mark.parametrize("late", [25, 70, 500])
def test_a_hang_in_a_late_iteration_is_never_proven(late: int) -> None:
    inside = f"setp.eq.u32 %p_a, %r_i, {late}; @%p_a bra H; "
    end = "mov.pred %p_bug, 0; bra K; H: mov.pred %p_bug, 1; K: mov.u32 %r_y, 0;"
    assert checked(_ring(inside, end)).verdict != "proven"
