"""Branches that matter only together, by registers that hold constants, and lanes that part by what inputs say."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_NAMES = "abcdef"
_PARTED = (
    "shl.b32 %r_o, %r_tid, 2; add.s32 %r_a, %r_buf, %r_o; st.shared.u32 [%r_a], 0; bar.sync 0; "
    "setp.lt.s32 %p_l, %r_tid, %r_n; @!%p_l bra S; st.shared.u32 [%r_a], 1; S: bar.sync 0; "
    "ld.shared.u32 %r_q, [%r_buf+148]; ld.shared.u32 %r_w, [%r_buf+152]; sub.s32 %r_q, %r_q, %r_w; "
    "setp.eq.s32 %p_bug, %r_q, 1;"
)
"""Lane 37 stores and lane 38 does not: 38 lanes do."""


def _together(count: int, bug: int) -> str:
    """Each of so many numbers sets a bit where it has a certain value; the kernel hangs where all bits are `bug`."""
    parts = ["mov.u32 %r_x, 0;"]
    for place, name in enumerate(_NAMES[:count]):
        parts.append(
            f"setp.eq.s32 %p_{name}, %r_{name}, {3 + place}; @!%p_{name} bra L{place}; "
            f"add.s32 %r_x, %r_x, {1 << place}; L{place}: "
        )
    return hanging(f"{' '.join(parts)} setp.eq.s32 %p_bug, %r_x, {bug};", tuple(_NAMES[:count]))


@pytest.mark.parametrize(("count", "bug"), [(2, 3), (3, 7), (4, 15)])
def test_a_hang_after_several_decisions_is_found(count: int, bug: int) -> None:
    report = checked(_together(count, bug))
    assert report.verdict == "refuted", report.reasons


@pytest.mark.parametrize(("count", "bug"), [(3, 5), (4, 11), (5, 22), (6, 45)])
def test_nothing_is_proven_where_some_decisions_hold_and_others_do_not(count: int, bug: int) -> None:
    assert checked(_together(count, bug)).verdict != "proven"


_NEAR = (
    "xor.b32 %r_q, %r_n, {}; {} popc.b32 %r_q, %r_q; setp.le.u32 %p_{}, %r_q, 1; @!%p_{} bra L{}; "
    "add.s32 %r_x, %r_x, {}; L{}: "
)


# A solver has no term of the second: both say the same of these numbers.
@pytest.mark.parametrize(("more", "verdict"), [("", "refuted"), ("mul24.lo.u32 %r_q, %r_q, 1;", "unknown")])
def test_nothing_is_proven_where_two_decisions_are_rarely_taken_together(more: str, verdict: str) -> None:
    # 8192 and 131072 apart from one another: both hold for a number that is one bit apart from either.
    first, second = 0x5A5A5A5A, 0x5A5A5A5A ^ 0x22000
    parts = [_NEAR.format(first, more, "a", "a", 0, 1, 0), _NEAR.format(second, more, "b", "b", 1, 2, 1)]
    report = checked(hanging(f"mov.u32 %r_x, 0; {' '.join(parts)} setp.eq.s32 %p_bug, %r_x, 3;"))
    assert report.verdict == verdict, report.reasons


def test_decisions_that_meet_only_where_a_sum_overflows_are_assumed_not_to() -> None:
    body = (
        "mov.u32 %r_x, 0; add.s32 %r_y, %r_n, 63; setp.lt.s32 %p_a, %r_y, 64; @!%p_a bra A; add.s32 %r_x, %r_x, 1; "
        "A: setp.lt.s32 %p_b, %r_n, 65; @%p_b bra B; add.s32 %r_x, %r_x, 2; B: setp.eq.s32 %p_bug, %r_x, 3;"
    )
    report = checked(hanging(body))
    assert report.verdict == "proven", report.reasons
    assert any("at least 0 and below 2^30" in each for each in report.assumptions)


def test_a_cluster_beyond_the_grid_is_no_launch() -> None:
    body = (
        "mov.u32 %r_c, %ctaid.x; mov.u32 %r_g, %nctaid.x; mov.u32 %r_x, 0; setp.ge.u32 %p_a, %r_c, %r_g; "
        "@!%p_a bra A; mov.u32 %r_x, 1; A: setp.eq.s32 %p_bug, %r_x, 1;"
    )
    report = checked(hanging(body))
    assert report.verdict == "proven", report.reasons


def test_decisions_that_never_come_to_the_bug_are_proven() -> None:
    report = checked(_together(3, 8))
    assert report.verdict == "proven", report.reasons


def test_nothing_is_proven_of_lanes_that_part_in_ways_that_were_not_tried() -> None:
    report = checked(hanging(_PARTED))
    assert report.verdict == "unknown"
    assert any("lanes part by" in each for each in report.reasons)
