"""Counters that lose something late: a carry that a flag keeps, what is beyond the largest number, a half's carry; and
numbers without a sign that pass zero.

Each kernel hangs from iteration 700 on. By the instruction's name alone its counter gains a fixed amount in each
iteration, so that a difference gains nothing and the loop seems to repeat itself.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked
from tests.coverage_attacks.stepping import looping
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_SUMS = {
    "the largest number": ("add.sat.s32 %r_y, %r_i, 2147482947; sub.s32 %r_y, %r_y, %r_i; ", 2147482947),
    "the least number": (
        "neg.s32 %r_x, %r_i; sub.sat.s32 %r_y, %r_x, 2147482948; add.s32 %r_y, %r_y, %r_i; ", 0x800002BC,
    ),
    "halves": ("add.u16x2 %r_y, %r_i, 64836; sub.u32 %r_y, %r_y, %r_i; ", 64836),
    "a carry": ("add.cc.u32 %r_y, %r_i, 4294966596; addc.u32 %r_y, 0, 0; ", 0),
    "a borrow": ("sub.cc.u32 %r_y, 699, %r_i; subc.u32 %r_y, 0, 0; ", 0),
    "a product's carry": ("mad.lo.cc.u32 %r_y, %r_i, 3, 4294965196; addc.u32 %r_y, 0, 0; ", 0),
    "a carry of 64 bits": (
        "cvt.u64.u32 %rd_y, %r_i; add.cc.u64 %rd_y, %rd_y, 18446744073709550916; addc.u64 %rd_y, 0, 0; "
        "cvt.u32.u64 %r_y, %rd_y; ", 0,
    ),
}  # fmt: skip

_UP, _DOWN = "add.u32 %r_x, %r_i, 4294966596; ", "sub.u32 %r_x, 699, %r_i; "
_AS_NUMBER = "selp.u32 %r_y, 1, 0, %p_c; "
_PASSING = {
    "made wider": (
        f"{_UP}cvt.u64.u32 %rd_y, %r_x; cvt.u64.u32 %rd_x, %r_i; sub.u64 %rd_y, %rd_y, %rd_x; "
        "setp.ne.u64 %p_c, %rd_y, 4294966596; " + _AS_NUMBER, 0,
    ),
    "halved": (f"{_UP}shr.u32 %r_y, %r_x, 1; shr.u32 %r_x, %r_i, 1; sub.u32 %r_y, %r_y, %r_x; ", 2147483298),
    "divided": (f"{_UP}div.u32 %r_y, %r_x, 2; div.u32 %r_x, %r_i, 2; sub.u32 %r_y, %r_y, %r_x; ", 2147483298),
    "compared with what goes along": (f"{_UP}setp.lt.u32 %p_c, %r_x, %r_i; {_AS_NUMBER}", 0),
    "down, compared with a number": (f"{_DOWN}setp.gt.u32 %p_c, %r_x, 1000; {_AS_NUMBER}", 0),
    "down, compared with what goes along": (
        f"{_DOWN}sub.u32 %r_t, 800, %r_i; setp.gt.u32 %p_c, %r_x, %r_t; {_AS_NUMBER}", 0,
    ),
    "one register for two values": (
        f"{_UP}setp.lt.u32 %p_c, %r_x, %r_i; {_AS_NUMBER}mov.u32 %r_x, 0; ", 0,
    ),
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize(("sum_of", "number"), (_SUMS | _PASSING).values(), ids=_SUMS | _PASSING)
@pytest.mark.parametrize("place", ["inside", "behind"])
def test_what_a_sum_loses_late_is_never_proven_away(sum_of: str, number: int, place: str) -> None:
    asks = f"{sum_of}setp.ne.u32 %p_c, %r_y, {number}; @%p_c bra H; "
    text = looping(asks, "") if place == "inside" else looping("", asks)
    launch = launch_from_json(launch_json({"n": 702, "m": 0}, grid=1), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted"
    assert checked(text).verdict != "proven"


def test_a_carry_that_is_the_same_in_each_iteration_is_proven() -> None:
    text = looping(
        "add.cc.u32 %r_y, %r_b, 4294967295; addc.u32 %r_y, 0, 0; setp.gt.u32 %p_c, %r_y, 1; @%p_c bra H; ", ""
    )
    report = checked(text)
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


def test_a_carry_of_the_iteration_before_is_never_proven_away() -> None:
    """It is a state that the loop carries, in no register: whether some earlier iteration was the one of a launch."""
    notes = "setp.eq.u32 %p_a, %r_i, %r_m; @%p_a add.cc.u32 %r_x, %r_x, 4294967295; addc.u32 %r_y, 0, 0; "
    text = looping(notes, "setp.eq.u32 %p_c, %r_y, 1; @%p_c bra H; ", "mov.u32 %r_x, 1; ")
    assert checked(text).verdict != "proven"
