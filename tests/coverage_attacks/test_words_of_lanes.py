"""Two numbers stand side by side in shared memory, and each lane loads one of them: which one decides is not the first.

Also: what a CTA sends to its peer by `st.async` decides there.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_LANE = "and.b32 %r_l, %r_tid, 31; shl.b32 %r_y, %r_l, 2; add.u32 %r_y, %r_y, %r_buf; mov.pred %p_bug, 0; "
_STORED = {
    "one by one": "@%p_other bra M; st.shared.u32 [%r_buf], %r_n; st.shared.u32 [%r_buf+4], %r_m; M: bar.sync 0; ",
    "at once": "@%p_other bra M; st.shared.v2.u32 [%r_buf], {%r_n, %r_m}; M: bar.sync 0; ",
}
_LOADED = (
    "setp.gt.u32 %p_a, %r_l, 1; @%p_a bra N; ld.shared.u32 %r_x, [%r_y]; N: shfl.sync.idx.b32 %r_x, %r_x, 1, 31, -1; "
)
_BUGGY = {
    "both differ": "setp.ne.u32 %p_bug, %r_x, %r_n; ",
    "one is large and the other small": "setp.gt.u32 %p_a, %r_x, 500; setp.lt.and.u32 %p_bug, %r_n, 100, %p_a; ",
    "behind a branch": "setp.gt.u32 %p_a, %r_x, 1000; @!%p_a bra S; setp.lt.u32 %p_bug, %r_n, 1000; "
    "S: mov.u32 %r_z, 0; ",
}


@pytest.mark.parametrize("stored", _STORED.values(), ids=_STORED)
@pytest.mark.parametrize("decides", _BUGGY.values(), ids=_BUGGY)
def test_the_second_word_is_not_taken_for_the_first(stored: str, decides: str) -> None:
    assert checked(hanging(f"{_LANE}{stored}{_LOADED}{decides}", ("n", "m"))).verdict != "proven"


@pytest.mark.parametrize("stored", _STORED.values(), ids=_STORED)
def test_words_that_decide_nothing_do_no_harm(stored: str) -> None:
    report = checked(hanging(f"{_LANE}{stored}{_LOADED}mov.u32 %r_z, 0; ", ("n", "m")))
    assert report.verdict == "proven", report.reasons


_SEND = (
    "mov.pred %p_bug, 0; @%p_other bra M; mov.u32 %r_c, %cluster_ctarank; xor.b32 %r_c, %r_c, 1; "
    "mbarrier.init.shared::cta.b64 [%r_bar+16], 1; fence.mbarrier_init.release.cluster; "
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bar+16], 8; M: barrier.cluster.arrive; barrier.cluster.wait; "
    "@%p_other bra N; mapa.shared::cluster.u32 %r_a, %r_buf, %r_c; add.u32 %r_b, %r_bar, 16; "
    "mapa.shared::cluster.u32 %r_b, %r_b, %r_c; "
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r_a], {%r_n, %r_m}, [%r_b]; "
    "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p_a, [%r_bar+16], 0; @!%p_a bra W; "
    "ld.shared.v2.u32 {%r_x, %r_y}, [%r_buf]; DECIDE N: barrier.cluster.arrive; barrier.cluster.wait; "
)
_SENT = {
    "the first": ("setp.eq.u32 %p_bug, %r_x, 7; ", "refuted"),
    "the second": ("setp.eq.u32 %p_bug, %r_y, 77; ", "refuted"),
    "both": ("setp.eq.u32 %p_a, %r_x, 9; setp.eq.and.u32 %p_bug, %r_y, 12, %p_a; ", "refuted"),
    "in another order": ("setp.ne.u32 %p_bug, %r_x, %r_n; ", "proven"),
    "nothing": ("", "proven"),
}


@pytest.mark.parametrize("name", _SENT)
def test_what_is_sent_decides(name: str) -> None:
    decides, verdict = _SENT[name]
    body = _SEND.replace("DECIDE ", decides)
    text = hanging(body, ("n", "m")).replace(".reqntid 64", ".reqntid 64 .reqnctapercluster 2")
    report = checked(text)
    assert report.verdict == verdict, report.reasons
