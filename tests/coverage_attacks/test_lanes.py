"""Branches that lanes decide each for itself, by its own number and by what the launch chooses."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_ARRIVES = (
    "{0}; @%p_a bra H; bra.uni M; "
    "H: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra H; M: mov.pred %p_bug, 0;"
)


def _waits(condition: str) -> str:
    """A kernel in which the lanes wait forever of which a condition holds."""
    return hanging(_ARRIVES.format(condition), ("n", "m"))


@pytest.mark.parametrize(
    "condition",
    [
        "and.b32 %r_q, %r_n, 3; shl.b32 %r_q, %r_q, 7; add.u32 %r_q, %r_q, %r_tid; setp.gt.u32 %p_a, %r_q, 511",
        "and.b32 %r_q, %r_n, 15; add.u32 %r_q, %r_q, %r_tid; setp.gt.u32 %p_a, %r_q, 78",
        "xor.b32 %r_t, %r_tid, 5; and.b32 %r_q, %r_n, 63; mul.lo.u32 %r_t, %r_t, %r_q; setp.eq.u32 %p_a, %r_t, 4000",
        "setp.lt.u32 %p_b, %r_tid, 7; and.b32 %r_q, %r_n, 64; selp.u32 %r_t, 1, 2, %p_b; "
        "add.u32 %r_t, %r_t, %r_q; setp.eq.u32 %p_a, %r_t, 3",
    ],
)
def test_what_no_lane_does_in_any_launch_is_proven(condition: str) -> None:
    report = checked(_waits(condition))
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize(
    "condition",
    [
        "and.b32 %r_q, %r_n, 7; shl.b32 %r_q, %r_q, 7; add.u32 %r_q, %r_q, %r_tid; setp.gt.u32 %p_a, %r_q, 958",
        "and.b32 %r_q, %r_n, 15; add.u32 %r_q, %r_q, %r_tid; setp.gt.u32 %p_a, %r_q, 77",
        "xor.b32 %r_t, %r_tid, 5; and.b32 %r_q, %r_n, 63; mul.lo.u32 %r_t, %r_t, %r_q; setp.eq.u32 %p_a, %r_t, 3780",
        "setp.eq.u32 %p_b, %r_tid, 7; xor.b32 %r_q, %r_n, 43234; selp.u32 %r_t, 1, 2, %p_b; "
        "add.u32 %r_t, %r_t, %r_q; setp.eq.u32 %p_a, %r_t, 5000",
        "mul.lo.u32 %r_q, %r_n, %r_m; add.u32 %r_q, %r_q, %r_tid; setp.eq.u32 %p_a, %r_q, 123457",
    ],
)
def test_what_one_lane_does_in_some_launch_is_never_proven(condition: str) -> None:
    report = checked(_waits(condition))
    assert report.verdict == "refuted", report.reasons


@pytest.mark.parametrize("lane", [1, 5, 8, 13, 31])
def test_a_lane_that_only_a_solver_finds_is_never_proven(lane: int) -> None:
    # One number leads there, which no pool holds.
    condition = (
        "mul.lo.u32 %r_q, %r_n, 0x9E3779B1; xor.b32 %r_q, %r_q, 0x2468ACE0; and.b32 %r_a, %r_q, 31; "
        "shr.u32 %r_b, %r_q, 5; setp.eq.u32 %p_b, %r_b, 0x12345; setp.eq.and.u32 %p_b, %r_tid, %r_a, %p_b; "
        f"setp.eq.and.u32 %p_a, %r_tid, {lane}, %p_b"
    )
    assert checked(_waits(condition)).verdict != "proven"


def test_values_of_some_lanes_are_those_of_these_lanes() -> None:
    # Lanes 4 to 31 hold another value than lanes 0 to 3, by a branch: a hang in lane 6 alone.
    condition = (
        "mul.lo.u32 %r_q, %r_n, 0x9E3779B1; xor.b32 %r_q, %r_q, 0x2468ACE0; mov.u32 %r_t, %r_q; "
        "setp.lt.u32 %p_b, %r_tid, 4; @%p_b bra LOW; add.u32 %r_t, %r_q, %r_tid; LOW: "
        "setp.eq.u32 %p_b, %r_q, 0x2468A; setp.eq.and.u32 %p_a, %r_t, 0x24690, %p_b"
    )
    assert checked(_waits(condition)).verdict != "proven"
