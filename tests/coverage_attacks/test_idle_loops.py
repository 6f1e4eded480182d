"""Loops that only access global memory: which of them a run may leave early, and which decide about more.

How often they iterate is decided by the place in the grid, by numbers and by the grid's size, as in any kernel that
goes through an array by strides of its grid.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_STRIDED = (
    "ld.param.u64 %rd_A, [k_param_0]; cvta.to.global.u64 %rd_A, %rd_A; mov.u32 %r_x, 0; mov.pred %p_bug, 0; START "
    "mov.u32 %r_g, %nctaid.x; mov.u32 %r_c, %ctaid.x; mad.lo.u32 %r_i, %r_c, 64, %r_tid; mul.lo.u32 %r_s, %r_g, 64; "
    "L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra M; mad.wide.u32 %rd_B, %r_i, 4, %rd_A; ld.global.u32 %r_v, [%rd_B]; "
    "INSIDE add.u32 %r_v, %r_v, 1; st.global.u32 [%rd_B], %r_v; add.u32 %r_i, %r_i, STEP; bra L; "
    "M: REST mov.u32 %r_z, 0;"
)
_ENDLESS = "H: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra H; "


def _strided(inside: str = "", rest: str = "", start: str = "", step: str = "%r_s") -> str:
    body = _STRIDED.replace("INSIDE ", inside).replace("REST ", rest).replace("START ", start).replace("STEP", step)
    return hanging(body, ("n", "m"))


_REMAINDER = (
    "N: setp.ge.u32 %p_f, %r_i, %r_m; @%p_f bra O; mad.wide.u32 %rd_B, %r_i, 4, %rd_A; st.global.u32 [%rd_B], %r_i; "
    "add.u32 %r_i, %r_i, 1; bra N; O: "
)
_WITHIN = (
    "mov.u32 %r_k, 0; Q: setp.ge.u32 %p_f, %r_k, %r_m; @%p_f bra R; st.global.u32 [%rd_B+4], %r_k; "
    "add.u32 %r_k, %r_k, 1; bra Q; R: "
)


@pytest.mark.parametrize(
    ("inside", "rest"), [("", ""), ("", _REMAINDER), (_WITHIN, ""), (_WITHIN, "setp.eq.u32 %p_bug, %r_tid, 99; ")]
)
def test_a_loop_over_an_array_is_proven_where_it_ends(inside: str, rest: str) -> None:
    report = checked(_strided(inside, rest))
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons
    assert not any(each.endswith(" ends") for each in report.assumptions)


def test_that_a_loop_ends_is_assumed_where_a_number_steps_it() -> None:
    report = checked(_strided(step="%r_m"))
    assert report.verdict == "proven", report.reasons
    assert any(each.startswith("the loop at attack.ptx") and each.endswith(" ends") for each in report.assumptions)


_MORE = {
    "a hang in a late iteration": ("setp.eq.u32 %p_d, %r_i, 777; @%p_d bra H; ", f"bra N; {_ENDLESS}N: "),
    "a count that decides behind it": ("", "setp.eq.u32 %p_bug, %r_i, 777; "),
    "a bound that it came to": ("add.u32 %r_x, %r_x, 1; ", "setp.eq.u32 %p_bug, %r_x, 9; "),
    "what only one iteration stores": (
        "setp.ne.u32 %p_d, %r_i, 777; @%p_d bra P; st.shared.u32 [%r_buf], 9; P: ",
        "ld.shared.u32 %r_y, [%r_buf]; setp.eq.u32 %p_bug, %r_y, 9; ",
    ),
    "what it keeps in local memory": (
        "st.local.u32 [frame], %r_i; ",
        "ld.local.u32 %r_y, [frame]; setp.eq.u32 %p_bug, %r_y, 777; ",
    ),
    "a store that may lead to shared memory": (
        "cvt.u64.u32 %rd_S, %r_buf; cvta.shared.u64 %rd_S, %rd_S; st.u32 [%rd_S], %r_i; ",
        "ld.shared.u32 %r_y, [%r_buf]; setp.eq.u32 %p_bug, %r_y, 777; ",
    ),
    "an arrival": ("mbarrier.arrive.shared::cta.b64 _, [%r_bar+24]; ", ""),
    "lanes that come together": ("setp.eq.u32 %p_d, %r_i, 9; @%p_d bra P; bar.warp.sync -1; P: ", ""),
    "a word that it changes": ("", "bar.sync 0; ld.global.u32 %r_y, [%rd_A]; setp.eq.u32 %p_bug, %r_y, 777; "),
    "a predicate that an inner loop leaves": (
        _WITHIN.replace("bra Q; ", "setp.eq.u32 %p_d, %r_k, 77; @%p_d mov.u32 %r_x, 1; bra Q; "),
        "setp.eq.u32 %p_bug, %r_x, 1; ",
    ),
    "a flag that others set": (
        "K: ld.acquire.gpu.global.u32 %r_y, [%rd_A]; setp.ne.u32 %p_b, %r_y, 5; @%p_b bra K; ",
        "",
    ),
}


@pytest.mark.parametrize(("inside", "rest"), _MORE.values(), ids=_MORE)
def test_a_loop_that_decides_about_more_is_never_passed_over(inside: str, rest: str) -> None:
    assert checked(_strided(inside, rest)).verdict != "proven"


def test_a_loop_that_nothing_in_it_ends_is_never_passed_over() -> None:
    start = "mov.u32 %r_k, 0; U: st.global.u32 [%rd_A], %r_k; setp.eq.u32 %p_d, %r_n, 77; @%p_d bra U; "
    assert checked(_strided(start=start)).verdict != "proven"


@pytest.mark.parametrize("first", [0, 1])
def test_an_access_that_a_later_iteration_makes_at_a_wrong_place_is_never_proven(first: int) -> None:
    """Every second address, or all but the first, are no multiples of what is loaded at once."""
    start = "mov.u64 %rd_V, %rd_A; mov.u32 %r_k, 0; V: setp.ge.u32 %p_f, %r_k, %r_m; @%p_f bra W; "
    start += f"ld.global.v4.u32 {{%r_a, %r_b, %r_c, %r_d}}, [%rd_V+{16 * first}]; add.u64 %rd_V, %rd_V, 8; "
    text = _strided(start=start + "add.u32 %r_k, %r_k, 1; bra V; W: ")
    launch = launch_from_json(launch_json({"n": 4, "m": 3}, grid=1), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted"
    assert checked(text).verdict != "proven"
