"""Where a branch parts the lanes of a warp, what it says of all of them holds for those that went on, and no more."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_COUNT = "and.b32 %r_x, %r_n, {bits}; min.u32 %r_x, %r_x, 4; mov.pred %p_bug, 0; setp.eq.u32 %p_a, %r_x, 0; "
_HANGS = "setp.lt.u32 %p_bug, %r_x, 2; M: "


def _kernel(leaves: str, bits: int = -2, before: str = "", behind: str = "") -> str:
    """One lane goes on, if the count is not 0; it hangs where that is 1. leaves: computes who does not (`%p_b`)."""
    return hanging(f"{_COUNT.format(bits=bits)}{before}{leaves}; @%p_b bra M; {behind}{_HANGS}")


@pytest.mark.parametrize(
    "leaves",
    [
        "or.pred %p_b, %p_other, %p_a",
        "not.pred %p_c, %p_a; not.pred %p_d, %p_other; and.pred %p_d, %p_c, %p_d; not.pred %p_b, %p_d",
        "or.pred %p_c, %p_a, %p_other; or.pred %p_b, %p_c, %p_other",
    ],
)
def test_a_count_that_cannot_be_one_is_proven(leaves: str) -> None:
    report = checked(_kernel(leaves))
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize(
    ("leaves", "bits"),
    [
        ("or.pred %p_b, %p_other, %p_a", -1),  # the count may be 1
        ("and.pred %p_b, %p_other, %p_a", -2),  # lane 0 goes on with a count of 0
        ("xor.pred %p_b, %p_other, %p_a", -2),  # so do other lanes
        ("setp.ne.u32 %p_c, %r_x, 0; or.pred %p_b, %p_other, %p_c", -2),  # the count is 0
        ("mov.pred %p_b, %p_other", -2),
    ],
)
def test_a_count_that_can_be_too_small_is_not(leaves: str, bits: int) -> None:
    assert checked(_kernel(leaves, bits)).verdict != "proven"


def test_a_way_past_the_branch_says_nothing_of_the_count() -> None:
    text = _kernel("or.pred %p_b, %p_other, %p_a", before="@!%p_other bra N; ", behind="N: ")
    assert checked(text).verdict != "proven"


def test_a_branch_that_other_lanes_decide_says_nothing_of_the_count() -> None:
    # Lane 1 goes on with a count of 0; what decides about lane 0 comes later.
    first = "setp.ne.u32 %p_d, %r_tid, 1; @!%p_d bra N; "
    text = _kernel("or.pred %p_b, %p_other, %p_a", before=first, behind="N: ")
    assert checked(text).verdict != "proven"


def test_an_earlier_pass_of_the_branch_says_nothing_of_a_later_one() -> None:
    # The first pass is of all lanes and says that the number is small, the second lane 0 makes with any number.
    text = hanging(
        "mov.u32 %r_i, 0; mov.pred %p_bug, 0; setp.ge.u32 %p_q, %r_n, 10; setp.lt.u32 %p_c, %r_m, 5; "
        "or.pred %p_c, %p_c, %p_other; L: setp.eq.u32 %p_z, %r_i, 0; mov.pred %p_b, %p_c; @%p_z mov.pred %p_b, %p_q; "
        "@%p_b bra C; setp.eq.u32 %p_bug, %r_n, 20; @%p_bug bra M; C: add.u32 %r_i, %r_i, 1; "
        "setp.lt.u32 %p_a, %r_i, 2; @%p_a bra L; M: ",
        ("n", "m"),
    )
    assert checked(text).verdict != "proven"
