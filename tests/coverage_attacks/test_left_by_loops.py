"""What a loop leaves decides behind it, together with something else that the launch chooses."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_LOOP = (
    "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.u32 %r_s, 0; mov.pred %p_bug, 0; mov.pred %p_t, 0; @%p_other bra M; "
    "L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra K; mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra W; xor.b32 %r_b, %r_b, 1; "
    "REST add.u32 %r_i, %r_i, 1; bra L; K: AFTER M: mov.u32 %r_y, 0;"
)
_STAGE = "add.u32 %r_s, %r_s, 1; setp.eq.u32 %p_a, %r_s, 3; selp.u32 %r_s, 0, %r_s, %p_a; "
_BUGGY = {
    "a phase and bits of its bound": (
        "", "and.b32 %r_x, %r_n, 7; setp.eq.u32 %p_a, %r_x, 5; setp.eq.and.u32 %p_bug, %r_b, 1, %p_a;"
    ),
    "a stage and another number": (
        _STAGE, "setp.ne.u32 %p_a, %r_m, 777; @%p_a bra M; setp.eq.u32 %p_bug, %r_s, 2;"
    ),
    "a phase and a threshold of long ago": (
        "setp.ge.u32 %p_t, %r_i, 40; ", "setp.eq.and.u32 %p_bug, %r_b, 1, %p_t;"
    ),
    "a part of the count, where another number asks": (
        "", "shr.u32 %r_x, %r_i, 1; setp.ne.u32 %p_a, %r_m, 777; @%p_a bra M; setp.eq.u32 %p_bug, %r_x, 20;"
    ),
    "a part of the count, and another number": (
        "", "shl.b32 %r_x, %r_i, 28; setp.eq.u32 %p_a, %r_m, 777; setp.eq.and.u32 %p_bug, %r_x, 0x90000000, %p_a;"
    ),
}  # fmt: skip
_FIXED = {
    "a phase alone": ("", "setp.gt.u32 %p_bug, %r_b, 1;"),
    "a stage that another number does not ask for": (
        _STAGE, "setp.ne.u32 %p_a, %r_m, 777; @%p_a bra M; and.b32 %r_x, %r_m, 1; setp.eq.u32 %p_bug, %r_x, 0;"
    ),
    "a counter of one iteration": ("mov.u32 %r_s, %r_b; ", "setp.gt.u32 %p_bug, %r_s, 1;"),
}  # fmt: skip


def _kernel(rest: str, after: str) -> str:
    return hanging(_LOOP.replace("REST", rest).replace("AFTER", after), ("n", "m"))


@pytest.mark.parametrize(("rest", "after"), _BUGGY.values(), ids=_BUGGY)
def test_a_hang_at_one_number_of_iterations_is_never_proven(rest: str, after: str) -> None:
    assert checked(_kernel(rest, after)).verdict != "proven"


@pytest.mark.parametrize(("rest", "after"), _FIXED.values(), ids=_FIXED)
def test_a_twin_is_proven(rest: str, after: str) -> None:
    report = checked(_kernel(rest, after))
    assert report.verdict == "proven", report.reasons
