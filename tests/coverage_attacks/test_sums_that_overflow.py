"""Ways that only a sum too large for its register leads to: not tried where numbers are large, and that is said.

A sum that overflows with small numbers, too, is meant to: what hangs behind it is never proven away.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_CHUNK = (
    "mov.u32 %r_c, %ctaid.x; div.s32 %r_q, %r_c, %r_k; mul.lo.s32 %r_o, %r_q, %r_n; sub.s32 %r_l, %r_m, %r_o; "
    "min.s32 %r_l, %r_l, %r_n; setp.lt.s32 %p_a, %r_l, 1; add.s32 %r_x, %r_l, STEP; "
    "setp.ge.and.s32 %p_bug, %r_x, 1, %p_a;"
)
"""What is left of `m` numbers for the chunk of a CTA, none of it, and yet a step further there is some."""
_HASHED = (
    "mul.lo.s32 %r_x, %r_n, -1640531527; add.s32 %r_y, %r_x, 1879048192; setp.gt.s32 %p_a, %r_x, 0; "
    "setp.lt.and.s32 %p_bug, %r_y, -5, %p_a;"
)
_SUMMED = "add.s32 %r_x, %r_n, %r_m; setp.gt.s32 %p_a, %r_n, 0; setp.gt.and.s32 %p_a, %r_m, 0, %p_a; "


def test_a_step_down_that_overflows_is_assumed_away() -> None:
    report = checked(hanging(_CHUNK.replace("STEP", "-64"), ("n", "m", "k")))
    assert report.verdict == "proven", report.reasons
    assert any("no sum overflows that decides something" in each for each in report.assumptions), report.assumptions


def test_a_step_up_that_overflows_nothing_is_found() -> None:
    assert checked(hanging(_CHUNK.replace("STEP", "64"), ("n", "m", "k"))).verdict == "refuted"


def test_a_sum_of_large_numbers_is_assumed_to_fit() -> None:
    report = checked(hanging(f"{_SUMMED}setp.lt.and.s32 %p_bug, %r_x, 0, %p_a;", ("n", "m")))
    assert report.verdict == "proven", report.reasons
    assert any("no sum overflows that decides something" in each for each in report.assumptions), report.assumptions


@pytest.mark.parametrize("body", [_HASHED, _HASHED.replace("%r_n,", "%r_m,")], ids=["one", "another"])
def test_a_hash_that_wraps_with_small_numbers_is_not(body: str) -> None:
    assert checked(hanging(body, ("n", "m"))).verdict != "proven"


def test_a_multiple_that_wraps_in_a_large_grid_is_not() -> None:
    """Indices of CTAs are no numbers that an assumption bounds."""
    body = "mov.u32 %r_c, %ctaid.x; shl.b32 %r_x, %r_c, 16; setp.lt.s32 %p_bug, %r_x, 0;"
    assert checked(hanging(body)).verdict != "proven"
