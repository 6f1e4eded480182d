"""A tensor map that the kernel makes has an extent that is a number: beyond what a copy takes it is assumed away, in
words, and what else numbers do is not."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked

_KERNEL = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry made(.param .u64 source, .param .u64 scratch, .param .u32 n, .param .u32 m) .reqntid 32
{{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    .shared .align 128 .b8 map[128];
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b8 full[8];
    ld.param.u64 %d1, [source];
    ld.param.u64 %d2, [scratch];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [m];
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, map;
    mov.u32 %r5, tile;
    mov.u32 %r6, full;
    cvt.u64.u32 %d3, %r4;
    mad.lo.u32 %r7, %r3, 4, %r4;
    st.shared.u32 [%r7], 0;
    bar.warp.sync -1;
    setp.ne.u32 %p1, %r3, 0;
    {extent}
    @%p1 bra MADE;
    mov.u32 %r9, 64;
    mov.u32 %r10, 8;
    mov.u32 %r11, 1;
    mov.u64 %d4, 128;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%d3], %d1;
    tensormap.replace.tile.rank.shared::cta.b1024.b32 [%d3], 1;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%d3], 0, %r9;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%d3], 1, %r10;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%d3], 0, %r9;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%d3], 1, %r8;
    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%d3], 0, %d4;
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%d3], 0, %r11;
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%d3], 1, %r11;
    tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%d3], 6;
    mbarrier.init.shared::cta.b64 [%r6], 1;
    fence.mbarrier_init.release.cluster;
MADE:
    bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d2], [%d3], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%d2], 128;
    bar.sync 0;
    {bug}
    @%p1 bra WAIT;
    mov.u32 %r12, 0;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 1024;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%d2, {{%r12, %r12}}], [%r6];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], %r13;
    @!%p2 bra WAIT;
    ret;
}}
"""
_SOUND = "mov.u32 %r13, 0;"


def _text(extent: str, bug: str = _SOUND) -> str:
    return _KERNEL.format(extent=extent, bug=bug)


_DECIDED = "setp.gt.u32 %p3, %r1, 3000000000; @%p3 fence.acq_rel.cta;"
"""A number that decides something is chosen."""
_HANG = """
    setp.{0};
    mov.u32 %r13, 0;
    @!%p3 bra FINE;
FOREVER:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r6], 0;
    @!%p4 bra FOREVER;
FINE:
"""


@pytest.mark.parametrize(
    ("extent", "assumed"),
    [
        ("add.u32 %r8, %r1, 1;", "parameter 2 is at most 2^3"),
        ("mov.u32 %r8, 77;", ""),
    ],
)
def test_an_extent_that_no_copy_takes_is_assumed_away(extent: str, assumed: str) -> None:
    report = checked(_text(extent, _DECIDED + _SOUND))
    assert report.verdict == "proven", report.reasons
    assert any(assumed in each for each in report.assumptions)


@pytest.mark.parametrize("bug", ["eq.u32 %p3, %r1, 77", "eq.u32 %p3, %r2, 77", "gt.u32 %p3, %r2, 3000000000"])
def test_what_else_numbers_do_is_not_excused(bug: str) -> None:
    report = checked(_text("add.u32 %r8, %r1, 1;", _HANG.format(bug)))
    assert report.verdict in ("refuted", "unknown"), report.assumptions


def test_a_hang_beyond_the_bound_needs_the_words() -> None:
    report = checked(_text("add.u32 %r8, %r1, 1;", _HANG.format("gt.u32 %p3, %r1, 3000000000")))
    assert report.verdict != "proven" or any("parameter 2 is at most" in each for each in report.assumptions)
