"""Divisions by numbers that the launch chooses, such as the last group of tiles has."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_SWIZZLE = (
    "and.b32 %r_t, %r_m, 4095; shr.u32 %r_g, %r_t, 9; shl.b32 %r_g, %r_g, 4; and.b32 %r_i, %r_t, 511; "
    "and.b32 %r_c, %r_n, 127; add.u32 %r_c, %r_c, MORE; sub.u32 %r_d, %r_c, %r_g; min.u32 %r_d, %r_d, 16; "
    "shl.b32 %r_e, %r_c, 5; mov.pred %p_bug, 0; setp.ge.u32 %p_a, %r_t, %r_e; @%p_a bra $L__END; "
    "DIVIDE add.u32 %r_b, %r_r, %r_g; setp.ge.u32 %p_bug, %r_b, LIMIT;"
)
_QUOTIENT = "div.u32 %r_q, %r_i, %r_d; mul.lo.u32 %r_q, %r_q, %r_d; sub.u32 %r_r, %r_i, %r_q; "
_REMAINDER = "rem.u32 %r_r, %r_i, %r_d; "


def _swizzle(divide: str, limit: str, more: int = 1) -> str:
    text = _SWIZZLE.replace("DIVIDE ", divide).replace("LIMIT", limit).replace("MORE", str(more))
    return hanging(text, ("n", "m"))


@pytest.mark.parametrize("divide", [_QUOTIENT, _REMAINDER])
def test_a_tile_of_a_swizzled_order_is_one_of_the_tiles(divide: str) -> None:
    report = checked(_swizzle(divide, "%r_c"))
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize("divide", [_QUOTIENT, _REMAINDER])
def test_a_tile_that_is_the_last_one_is_never_passed_over(divide: str) -> None:
    last = f"{divide} sub.u32 %r_l, %r_c, 1; "
    assert checked(_swizzle(last, "%r_l")).verdict == "refuted"


@pytest.mark.parametrize("divide", ["div.u32 %r_q, %r_m, %r_n; ", "rem.u32 %r_q, %r_m, %r_n; "])
def test_what_a_division_by_zero_gives_is_anything(divide: str) -> None:
    body = "and.b32 %r_n, %r_n, 3; setp.ne.u32 %p_a, %r_n, 0; mov.pred %p_bug, 0; @%p_a bra $L__END; "
    text = hanging(f"{body}{divide} setp.eq.u32 %p_bug, %r_q, 12345;", ("n", "m"))
    assert checked(text).verdict != "proven"
    signed = text.replace("div.u32", "div.s32").replace("rem.u32", "rem.s32")
    assert checked(signed).verdict != "proven"
