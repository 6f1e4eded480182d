"""Bytes that a thread counts as completed itself: right ones are not refuted, and not proven either."""

from __future__ import annotations

import pytest

from tilewright.driver.check.check import check_text

_KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source) .reqntid 32
{
    .reg .pred %p<3>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b8 full[8];
    ld.param.u64 %rd1, [source];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    @%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 1024, [full];
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 1024;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra WAIT;
    ret;
}
"""


@pytest.mark.parametrize(("byte_count", "verdict"), [("1024", "unknown"), ("512", "refuted")])
def test_bytes_completed_by_hand_count(byte_count: str, verdict: str) -> None:
    text = _KERNEL.replace("cta.b64 [full], 1024", f"cta.b64 [full], {byte_count}")
    (kernel,) = check_text(text, "k.ptx").kernels
    assert kernel.verdict == verdict, kernel.reasons
