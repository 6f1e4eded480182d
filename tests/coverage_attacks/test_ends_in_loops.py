"""A counter that a loop counts down, and an arrival that is left out where it is below zero: the loop ends before.

The twin's counter begins where the loop's bound is. What each iteration decides is impossible there, by what kept the
warp in the loop for so long. In the attacks the counter comes below zero after all: on another way into the loop, by
another step, in a second visit, or since the loop goes on for longer than its bound says.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked
from tests.coverage_attacks.stepping import ENDS, looping
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_END = ENDS.replace(".u32", ".s32")
_DOWN = "sub.s32 %r_y, %r_y, 1; "
_BELOW = "setp.lt.s32 %p_c, %r_y, 0; @%p_c bra W; "
_FROM = "mov.u32 %r_y, %r_n; "
_SEVEN = "setp.ne.u32 %p_k, %r_m, 777; "


def _text(inside: str = _DOWN, first: str = _FROM, end: str = _END, behind: str = "") -> str:
    return looping(inside + _BELOW, behind, first, end=end)


_ATTACKS = {
    "begins lower": _text(
        first="sub.s32 %r_y, %r_n, 40; setp.lt.s32 %p_k, %r_n, 300; selp.b32 %r_y, %r_n, %r_y, %p_k; "
    ),
    "begins lower on a way that is chosen": _text(first=f"{_FROM}{_SEVEN}@%p_k bra S; sub.s32 %r_y, %r_n, 40; S: "),
    "begins lower on a way of the protocol": _text(
        first=f"{_FROM}{_SEVEN}@%p_k bra S; sub.s32 %r_y, %r_n, 40; st.shared.u32 [%r_buf], %r_n; S: "
    ),
    "another step": _text(f"{_SEVEN}selp.b32 %r_z, 1, 2, %p_k; sub.s32 %r_y, %r_y, %r_z; "),
    "another step in one iteration": _text(f"{_DOWN}setp.eq.u32 %p_k, %r_i, 50; @%p_k sub.s32 %r_y, %r_y, 100; "),
    "a second visit": _text(behind=f"{_SEVEN}@%p_k bra M; add.u32 %r_x, %r_x, 1; mov.u32 %r_i, 0; setp.lt.u32 %p_k, "
                            "%r_x, 2; @%p_k bra L; "),
    "goes on for longer": _text(
        end="setp.gt.s32 %p_k, %r_i, 40; selp.b32 %r_t, 3, 0, %p_k; add.s32 %r_t, %r_n, %r_t; "
        "setp.ge.s32 %p_e, %r_i, %r_t; @%p_e bra K; "
    ),
    "goes on for longer as a launch says": _text(
        end=f"{_SEVEN}selp.b32 %r_t, 0, 1, %p_k; add.s32 %r_t, %r_n, %r_t; setp.ge.s32 %p_e, %r_i, %r_t; @%p_e bra K; "
    ),
    "asks every other time": _text(
        end="and.b32 %r_t, %r_i, 1; setp.eq.u32 %p_k, %r_t, 1; setp.eq.and.u32 %p_k, %r_m, 777, %p_k; @%p_k bra G; "
        "setp.ge.s32 %p_e, %r_i, %r_n; @%p_e bra K; G: "
    ),
}  # fmt: skip

_OTHERS = {
    "by one expression in all iterations": (
        "shl.b32 %r_t, %r_i, 1; add.u32 %r_t, %r_t, 5; setp.ne.u32 %p_k, %r_m, %r_t; @%p_k bra Z; "
        "setp.eq.u32 %p_c, %r_m, 777; @%p_c bra W; Z: "
    ),
    "by one expression in each second iteration": (
        "and.b32 %r_t, %r_i, 1; setp.eq.u32 %p_k, %r_t, 0; @%p_k bra Z; setp.gt.u32 %p_c, %r_m, 776; "
        "setp.lt.and.u32 %p_c, %r_m, 778, %p_c; @%p_c bra W; Z: "
    ),
}


def test_a_counter_that_ends_with_the_loop_is_proven() -> None:
    report = checked(_text())
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


@pytest.mark.parametrize("text", _ATTACKS.values(), ids=_ATTACKS)
def test_one_that_comes_below_zero_is_never_proven(text: str) -> None:
    launch = launch_from_json(launch_json({"n": 301, "m": 777}, grid=1), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted", known.reasons
    assert checked(text).verdict != "proven"


@pytest.mark.parametrize("inside", _OTHERS.values(), ids=_OTHERS)
def test_what_later_iterations_decide_as_the_first_is_never_proven_away(inside: str) -> None:
    text = looping(inside, "")
    launch = launch_from_json(launch_json({"n": 500, "m": 777}, grid=1), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted", known.reasons
    assert checked(text).verdict != "proven"
