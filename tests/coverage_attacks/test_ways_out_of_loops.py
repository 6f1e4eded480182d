"""Loops with several ways out, of which one is not taken by any small number of iterations."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_TWO_WAYS = (
    "mov.u32 %r_i, 0; mov.pred %p_bug, 0; START "
    "L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra M; "
    "@!%p_other mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "add.u32 %r_i, %r_i, 1; LEAVE bra L; "
    "H: mov.pred %p_bug, 1; M: mov.u32 %r_y, 0;"
)


def _two_ways(leave: str, start: str = "") -> str:
    return hanging(_TWO_WAYS.replace("LEAVE", leave).replace("START ", start))


@pytest.mark.sample(3)
@pytest.mark.parametrize("count", [90, 99, 130, 5000, 1 << 20])
def test_a_hang_at_a_constant_number_of_iterations_is_never_proven(count: int) -> None:
    assert checked(_two_ways(f"setp.eq.u32 %p_a, %r_i, {count}; @%p_a bra H;")).verdict != "proven"


@pytest.mark.parametrize("count", [99, 5000])
def test_such_a_hang_by_a_counter_that_counts_down_is_never_proven(count: int) -> None:
    leave = "add.s32 %r_d, %r_d, -3; setp.lt.s32 %p_a, %r_d, 0; @%p_a bra H;"
    assert checked(_two_ways(leave, f"mov.u32 %r_d, {3 * count}; ")).verdict != "proven"


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [99, 5000])
def test_such_a_hang_by_two_predicates_is_never_proven(count: int) -> None:
    leave = (
        f"setp.eq.u32 %p_a, %r_i, {count}; setp.ge.u32 %p_b, %r_i, %r_n; or.pred %p_c, %p_a, %p_b; @!%p_c bra L; "
        "@%p_a bra H; bra M;"
    )
    assert checked(_two_ways(leave)).verdict != "proven"


def test_a_constant_way_out_that_hurts_nobody_is_proven() -> None:
    assert checked(_two_ways("setp.eq.u32 %p_a, %r_i, 31; @%p_a bra M;")).verdict == "proven"


def test_two_numbers_that_end_a_loop_are_proven() -> None:
    leave = "setp.ge.u32 %p_a, %r_i, %r_m; @%p_a bra M;"
    text = hanging(_TWO_WAYS.replace("LEAVE", leave).replace("START ", ""), ("n", "m"))
    assert checked(text).verdict == "proven"


_AHEAD = (
    "mov.u32 %r_i, 0; mov.pred %p_bug, 0; setp.lt.s32 %p_e, %r_n, 1; @%p_e bra M; "
    "L: add.s32 %r_k, %r_i, AHEAD; setp.ge.s32 %p_a, %r_k, %r_n; @%p_a bra S; "
    "@!%p_other mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; S: INSIDE "
    "add.s32 %r_i, %r_i, 1; setp.lt.s32 %p_e, %r_i, %r_n; @%p_e bra L; M: mov.u32 %r_y, 0;"
)


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_a_loop_that_stops_to_fetch_before_its_end_is_proven(ahead: int) -> None:
    text = hanging(_AHEAD.replace("AHEAD", str(ahead)).replace("INSIDE ", ""))
    assert checked(text).verdict == "proven"


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [99, 5000])
def test_one_that_hangs_at_a_constant_besides_is_never_proven(count: int) -> None:
    inside = f"setp.lt.s32 %p_b, %r_k, {count}; @%p_b bra T; mov.pred %p_bug, 1; T: "
    text = hanging(_AHEAD.replace("AHEAD", "1").replace("INSIDE ", inside))
    assert checked(text).verdict != "proven"


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [99, 5000])
def test_one_of_which_a_warp_hangs_that_comes_there_late_is_never_proven(count: int) -> None:
    inside = (
        f"setp.lt.s32 %p_b, %r_i, {count}; @%p_b bra T; add.s32 %r_w, %r_i, 1; setp.gt.s32 %p_c, %r_w, {count + 2}; "
        "@!%p_c bra T; mov.pred %p_bug, 1; T: "
    )
    text = hanging(_AHEAD.replace("AHEAD", "1").replace("INSIDE ", inside))
    assert checked(text).verdict != "proven"
