"""Behind a loop inputs decide, in ways that no launch with few iterations comes to."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_ROTATED = "setp.eq.u32 %p_e, %r_n, 0; @%p_e bra M; L: ITERATION setp.lt.u32 %p_e, %r_i, %r_n; @%p_e bra L; AFTER M: "
_UNEQUAL = _ROTATED.replace("setp.lt.u32", "setp.ne.u32")
_WHILE = "L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra K; ITERATION bra L; K: AFTER M: "
_BEGIN = "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.pred %p_bug, 0; @%p_other bra M; "
_ITERATION = (
    "mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra W; xor.b32 %r_b, %r_b, 1; "
    "add.u32 %r_i, %r_i, 1; "
)
_HANG = "; @!%p_h bra M; V: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra V; "
_SUM = "add.u32 %r_x, %r_n, %r_m; setp.ne.u32 %p_a, %r_x, 100; @%p_a bra M; setp.eq.u32 %p_h, %r_m, "
_PRODUCT = "mul.lo.u32 %r_x, %r_n, %r_m; setp.ne.u32 %p_a, %r_x, 7387; @%p_a bra M; setp.eq.u32 %p_h, %r_n, "


def _kernel(loop: str, after: str) -> str:
    return hanging(_BEGIN + loop.replace("ITERATION", _ITERATION).replace("AFTER", after), ("n", "m"))


@pytest.mark.parametrize("loop", [_UNEQUAL, _WHILE], ids=["unequal", "while"])
def test_what_only_other_numbers_of_iterations_decide_is_not_proven_away(loop: str) -> None:
    report = checked(_kernel(loop, f"{_SUM}50{_HANG}"))
    assert report.verdict == "refuted"


def test_a_bound_that_a_product_fixes_behind_the_loop() -> None:
    assert checked(_kernel(_ROTATED, f"{_PRODUCT}89{_HANG}")).verdict == "refuted"


def test_a_sum_that_is_never_so_is_proven_away() -> None:
    report = checked(_kernel(_ROTATED, f"{_SUM}101{_HANG}".replace("add.u32", "or.b32")))
    assert report.verdict == "proven", report.reasons
