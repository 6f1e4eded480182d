"""Branches around accesses to global memory: which of them may go unseen, and which decide about more.

They are taken where two numbers are the factors of a large one, which no solver finds.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_AROUND = (
    "ld.param.u64 %rd_A, [k_param_0]; cvta.to.global.u64 %rd_A, %rd_A; mov.u32 %r_x, 0; START "
    f"mul.wide.u32 %rd_Q, %r_n, %r_m; setp.ne.u64 %p_a, %rd_Q, {1_000_000_007 * 1_000_000_009}; @%p_a bra M; "
    "st.global.u32 [%rd_A], %r_n; INSIDE "
    "M: REST mov.u32 %r_z, 0;"
)


def _around(inside: str, rest: str = "mov.pred %p_bug, 0;", start: str = "") -> str:
    body = _AROUND.replace("INSIDE ", inside).replace("REST", rest).replace("START ", start)
    return hanging(body, ("n", "m"))


def test_a_branch_around_a_store_to_global_memory_need_not_be_seen() -> None:
    report = checked(_around(""))
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("inside", "rest"),
    [
        ("st.shared.u32 [%r_buf], %r_n; ", "ld.shared.u32 %r_y, [%r_buf]; setp.eq.u32 %p_bug, %r_y, 77;"),
        ("mov.u32 %r_x, 1; ", "setp.eq.u32 %p_bug, %r_x, 1;"),
        ("bar.warp.sync -1; ", "mov.pred %p_bug, 0;"),
        ("st.local.u32 [frame], 9; ", "ld.local.u32 %r_y, [frame]; setp.eq.u32 %p_bug, %r_y, 9;"),
        ("K: ld.acquire.gpu.global.u32 %r_y, [%rd_A]; setp.ne.u32 %p_b, %r_y, 5; @%p_b bra K; ", "mov.pred %p_bug, 0;"),
        ("mbarrier.arrive.shared::cta.b64 _, [%r_bar+24]; ", "mov.pred %p_bug, 0;"),
    ],
)
def test_a_branch_that_decides_about_more_is_never_passed_over(inside: str, rest: str) -> None:
    assert checked(_around(inside, rest)).verdict != "proven"


def test_a_word_that_the_store_changes_is_never_passed_over() -> None:
    rest = "bar.sync 0; ld.global.u32 %r_y, [%rd_A]; setp.eq.u32 %p_bug, %r_y, %r_n;"
    assert checked(_around("", rest)).verdict != "proven"
    # Where the word was read before, too.
    start = "ld.global.u32 %r_w, [%rd_A+4]; setp.eq.u32 %p_c, %r_w, 3; @%p_c bra M; "
    assert checked(_around("", rest, start)).verdict != "proven"


def test_a_store_that_may_lead_to_shared_memory_is_never_passed_over() -> None:
    inside = "cvta.shared.u64 %rd_B, %rd_S; st.u32 [%rd_B], %r_n; "
    rest = "ld.shared.u32 %r_y, [%r_buf]; setp.eq.u32 %p_bug, %r_y, %r_n;"
    assert checked(_around(inside, rest, "cvt.u64.u32 %rd_S, %r_buf; ")).verdict != "proven"
