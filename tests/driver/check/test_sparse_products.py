"""Sparse wgmma: of A half the depth lies in shared memory, and the product holds its registers as a dense one does."""

from __future__ import annotations

import pytest

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch
from tilewright.driver.check.check import check_text
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.run import run_launch

_KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 128
{
.reg .pred %p<4>;
.reg .b32 %r<16>;
.reg .b64 %rd<4>;
.reg .f32 %f<8>;
.shared .align 1024 .b8 tiles[8192];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tiles;
shl.b32 %r3, %r1, 4;
add.u32 %r4, %r2, %r3;
st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};
setp.gt.u32 %p1, %r1, 31;
@%p1 bra FILLED;
st.shared.v4.u32 [%r4+4096], {%r1, %r1, %r1, %r1};
FILLED:
FENCE
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
setp.ne.u32 %p2, %r1, %r1;
shr.u32 %r5, %r2, 4;
or.b32 %r6, %r5, 4194304;
mov.b64 %rd1, {%r6, 8};
add.u32 %r5, %r5, 256;
or.b32 %r7, %r5, 524288;
mov.b64 %rd2, {%r7, 8};
wgmma.fence.sync.aligned;
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %r1, 0, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
BEFORE
wgmma.wait_group.sync.aligned 0;
AFTER
ret;
}
"""
"""A: 64 rows of 16 stored elements, 2,048 bytes. B: 8 columns of 32, 512 bytes at 4,096."""
_WRITES = "@%p1 bra WRITTEN;\nst.shared.u32 [%r2+{}], %r1;\nWRITTEN:"
_USED = "add.f32 %f5, %f1, %f2;"


def _text(fence: str = "fence.proxy.async.shared::cta;", before: str = "", after: str = _USED) -> str:
    return _KERNEL.replace("FENCE", fence).replace("BEFORE", before).replace("AFTER", after)


@pytest.mark.parametrize("offset", [2048, 4092, 4096 + 512])
def test_what_a_sparse_product_does_not_read_may_be_written(offset: int) -> None:
    (report,) = check_text(_text(before=_WRITES.format(offset)), "k.ptx").kernels
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"before": _WRITES.format(0)}, "TM101"),
        ({"before": _WRITES.format(2044)}, "TM101"),
        ({"before": _WRITES.format(4096 + 508)}, "TM101"),
        ({"before": _USED, "after": ""}, "WG104"),
        ({"fence": ""}, "PX101"),
    ],
)
def test_a_sparse_product_in_flight_is_guarded(given: dict[str, str], code: str) -> None:
    (report,) = check_text(_text(**given), "k.ptx").kernels
    assert report.verdict == "refuted" and code in {each.code for each in report.findings}


def test_values_of_a_sparse_product_are_refused() -> None:
    with pytest.raises(TilewrightError, match="a sparse operand"):
        run_launch(read(_text(), "k.ptx"), Launch("k", (1, 1, 1), (128, 1, 1), (), (1, 1, 1), 0), {})
