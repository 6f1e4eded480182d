"""Loops that never repeat themselves, and that inputs bound: each number of iterations must have been seen."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging


def _bounded(iterations: int) -> str:
    """A loop of at most 15 iterations whose state does not return; it hangs after so many."""
    return (
        "and.b32 %r_b, %r_n, 15; mov.u32 %r_i, 0; mov.u32 %r_x, 1; "
        "L: setp.ge.u32 %p_e, %r_i, %r_b; @%p_e bra M; "
        "mul.lo.u32 %r_x, %r_x, 3; and.b32 %r_y, %r_x, 1; setp.eq.u32 %p_y, %r_y, 5; @%p_y bra M; "
        "@!%p_other mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; add.u32 %r_i, %r_i, 1; bra L; "
        f"M: setp.eq.u32 %p_bug, %r_i, {iterations};"
    )


@pytest.mark.parametrize("iterations", [5, 7, 8, 11, 13, 14])
def test_a_hang_after_one_number_of_iterations_is_found(iterations: int) -> None:
    report = checked(hanging(_bounded(iterations)))
    assert report.verdict == "refuted", report.reasons


def test_a_number_that_the_loop_never_reaches_is_proven() -> None:
    assert checked(hanging(_bounded(77))).verdict == "proven"
