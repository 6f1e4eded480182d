"""Branches both ways of which store to shared memory: alike they leave one trace, whichever lanes take which."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_ARMS = (
    "shl.b32 %r_a, %r_tid, 2; add.u32 %r_a, %r_a, %r_buf; add.u32 %r_b, %r_a, 256; mov.pred %p_bug, 0; "
    "setp.lt.s32 %p_a, %r_tid, %r_n; @%p_a bra K; ONE bra.uni M; K: OTHER M: bar.sync 0; REST"
)
_STORE = "st.shared.u32 [%r_a], %r_tid; "


def _arms(one: str, other: str, rest: str = "") -> str:
    return hanging(_ARMS.replace("ONE ", one).replace("OTHER ", other).replace("REST", rest + "mov.u32 %r_y, 0;"))


def test_two_stores_to_one_place_are_proven() -> None:
    report = checked(_arms(_STORE, "ld.param.u32 %r_w, [k_param_1]; st.shared.u32 [%r_a], %r_w; "))
    assert report.verdict == "proven", report.reasons


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_STORE, "st.shared.u32 [%r_b], %r_tid; "),
        (_STORE, "st.shared.u32 [%r_a+4], %r_tid; "),
        (_STORE, "st.shared.u16 [%r_a], 1; "),
        (_STORE, ""),
        (_STORE, "xor.b32 %r_a, %r_a, 4; st.shared.u32 [%r_a], %r_tid; "),
        (_STORE, _STORE + "st.shared.u32 [%r_b], %r_tid; "),
        (_STORE, _STORE + "mbarrier.arrive.shared::cta.b64 _, [%r_bar+24]; "),
        (_STORE, "setp.eq.u32 %p_c, %r_tid, 9; @%p_c st.shared.u32 [%r_a], %r_tid; "),
    ],
)
def test_arms_that_differ_are_never_proven(one: str, other: str) -> None:
    assert checked(_arms(one, other)).verdict != "proven"


def test_what_is_stored_and_steers_is_never_proven() -> None:
    rest = (
        "ld.shared.u32 %r_w, [%r_buf+20]; setp.eq.u32 %p_bug, %r_w, 7; and.b32 %r_v, %r_n, 31; "
        "setp.ne.and.u32 %p_bug, %r_v, 0, %p_bug; "
    )
    assert checked(_arms(_STORE, "st.shared.u32 [%r_a], 7; ", rest)).verdict != "proven"
    rest = "setp.eq.u32 %p_bug, %r_q, 7; "
    assert checked(_arms("mov.u32 %r_q, 1; " + _STORE, "mov.u32 %r_q, 7; " + _STORE, rest)).verdict != "proven"
