"""Kernels that take over other clusters' work: which one, and how often, is not the text's to say."""

from __future__ import annotations

import pytest

from tilewright.driver.check.check import check_text

_TEXT = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 n) .reqntid 64 .explicitcluster .reqnctapercluster 1, 1, 1
{
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .b128 %q;
.shared .align 16 .b8 response[16];
.shared .align 8 .b64 bar[2];
ld.param.u32 %r9, [n];
mov.u32 %r1, %tid.x;
mov.u32 %r2, 0;
mov.u32 %r3, 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra INITED;
mbarrier.init.shared::cta.b64 [bar], 1;
mbarrier.init.shared::cta.b64 [bar+8], 1;
INITED:
AGAIN:
SYNC
@%p1 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [bar];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r2;
@!%p2 bra WAIT;
xor.b32 %r2, %r2, 1;
add.u32 %r3, %r3, 1;
ld.shared.v2.b64 {%rd1, %rd2}, [response];
mov.b128 %q, {%rd1, %rd2};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q;
mov.u32 %r4, -1;
@%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r4, %q;
setp.eq.s32 %p4, %r4, -1;
@%p4 bra END;
CHECK
@!%p5 bra AGAIN;
HANG:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar+8], 0;
@!%p2 bra HANG;
END:
ret;
}
"""
_SYNC = "fence.proxy.async.shared::cta;\nbar.sync 0;"
_BUGGY = {
    "the response is overwritten while it is read": ("bar.warp.sync -1;", "setp.lt.s32 %p5, %r4, -1;"),
    "one cluster's work": (_SYNC, "setp.eq.s32 %p5, %r4, 5;"),
    "a number decides once work was taken": (_SYNC, "setp.eq.s32 %p5, %r9, 777;"),
    "a number decides once work was taken twice": (
        _SYNC, "setp.eq.s32 %p6, %r3, 2; setp.eq.and.s32 %p5, %r9, 777, %p6;"
    ),
}  # fmt: skip


def _verdict(sync: str, check: str) -> str:
    text = _TEXT.replace("SYNC", sync, 1).replace("CHECK", check)
    (report,) = check_text(text, "k.ptx").kernels
    return report.verdict


@pytest.mark.sample(2)
@pytest.mark.parametrize(("sync", "check"), _BUGGY.values(), ids=_BUGGY)
def test_what_taken_work_brings_is_not_proven_away(sync: str, check: str) -> None:
    assert _verdict(sync, check) != "proven"


def test_a_kernel_that_no_work_hangs_is_proven() -> None:
    assert _verdict(_SYNC, "setp.lt.s32 %p5, %r4, -1;") == "proven"


def test_the_verdict_says_up_to_how_much_work_is_taken_over() -> None:
    text = _TEXT.replace("SYNC", _SYNC, 1).replace("CHECK", "setp.lt.s32 %p5, %r4, -1;")
    (report,) = check_text(text, "k.ptx").kernels
    assert any("takes over the work of 2 others at most" in each for each in report.ranges)


_ONCE_MORE = """bra END;
ONCE:
bar.sync 0;
@%p1 bra LAST;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [bar];
LAST:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r2;
@!%p2 bra LAST;
END:
"""


def test_work_is_not_asked_for_once_there_was_none() -> None:
    """The ISA leaves a request undefined whose CTA has seen an earlier one fail."""
    text = _TEXT.replace("SYNC", _SYNC, 1).replace("CHECK", "setp.lt.s32 %p5, %r4, -1;")
    text = text.replace("@%p4 bra END;", "@%p4 bra ONCE;").replace("END:\n", _ONCE_MORE)
    (report,) = check_text(text, "k.ptx").kernels
    assert report.verdict == "unknown"
    assert "there is none left" in report.reasons[0]
