"""Persistent products whose loop over tiles and loop over slices are one, as Triton flattens them.

One warpgroup. A ring of three slots goes on from tile to tile; which iterations end a tile, `%r_c` says: it begins anew
where it meets the number of slices less one. These iterations do the *episode*: they read the sums, stage them in
shared memory and store them by a bulk copy. Parts of the text can be replaced: an attack puts a bug there that shows at
some numbers of slices, or in some tiles alone.
Checked by: tests/coverage_attacks/test_optional_parts.py.
"""

from __future__ import annotations

from tests.coverage_attacks.kernel_parts import with_parts

PARTS = {
    "BOUND": "max.s32 %r_k, %r_kt, 1; mul.lo.s32 %r_n, %r_tiles, %r_k; sub.s32 %r_b, %r_k, 1; ",
    "FIRST": "",
    "AHEAD": "sub.s32 %r_m, %r_n, 2; ",
    "ITERATION": "",
    "ARRIVED": "bar.sync 0; ",
    "MULTIPLIED": "wgmma.wait_group.sync.aligned 1; bar.sync 0; ",
    "EXPECT": "mov.u32 %r_e, 4096; ",
    "REFILL": "setp.lt.s32 %p_f, %r_i, %r_m; ",
    "LAST": "setp.eq.u32 %p_l, %r_c, %r_b; ",
    "SUMS": "wgmma.wait_group.sync.aligned 0; ",
    "FREE": "cp.async.bulk.wait_group.read 0; bar.sync 0; ",
    "STAGE": "st.shared.b32 [%r_stage], %f_0; st.shared.b32 [%r_stage+512], %f_1; ",
    "STAGED": "fence.proxy.async; bar.sync 0; ",
    "STORE": "@%p_t cp.async.bulk.global.shared::cta.bulk_group [%rd_out], [%r_staged], 1024; "
    "cp.async.bulk.commit_group; ",
    "ANEW": "mov.b32 %f_0, 0; mov.b32 %f_1, 0; mov.b32 %f_2, 0; mov.b32 %f_3, 0; ",
    "AGAIN": "add.u32 %r_c, %r_c, 1; @%p_l mov.u32 %r_c, 0; ",
    "END": "cp.async.bulk.wait_group 0; wgmma.wait_group.sync.aligned 0; bar.sync 0; ",
}
"""The parts of the text, as they are right. BOUND: how often the loop iterates, `%r_n`, and the last slice of a tile,
`%r_b`; FIRST: before the loop; AHEAD: up to which iteration slots are filled again; ITERATION: as it begins; ARRIVED:
behind the wait for a slot; MULTIPLIED: behind the product; EXPECT, REFILL: of the slot that is filled next; LAST:
whether the iteration ends a tile; SUMS, FREE, STAGE, STAGED, STORE, ANEW: the episode; AGAIN: as the iteration ends;
END: behind the loop."""

_COPY = (
    "@%p_x mbarrier.arrive.expect_tx.shared.b64 _, [%r_bar], %r_e; @%p_x cp.async.bulk.shared::cluster.global"
    ".mbarrier::complete_tx::bytes [%r_to], [%rd_a], 4096, [%r_bar]; "
)
_BODY = (
    "mov.u32 %r_tid, %tid.x; mov.u32 %r_base, buf; setp.eq.u32 %p_t, %r_tid, 0; shl.b32 %r_stage, %r_tid, 2; "
    "add.u32 %r_staged, %r_base, 12288; add.u32 %r_stage, %r_stage, %r_staged; add.u32 %r_bars, %r_base, 13312; "
    "shr.u32 %r_warp, %r_tid, 5; mov.u32 %r_c1, 0; mov.u32 %r_c2, 0; "
    "ld.param.u64 %rd_a, [a]; ld.param.u64 %rd_out, [out]; ld.param.u64 %rd_words, [words]; "
    "ld.param.u32 %r_kt, [kt]; ld.param.u32 %r_tiles, [tiles]; "
    "cvta.to.global.u64 %rd_a, %rd_a; cvta.to.global.u64 %rd_out, %rd_out; cvta.to.global.u64 %rd_words, %rd_words; "
    "BOUND @%p_t mbarrier.init.shared.b64 [%r_bars], 1; @%p_t mbarrier.init.shared.b64 [%r_bars+8], 1; "
    "@%p_t mbarrier.init.shared.b64 [%r_bars+16], 1; @%p_t fence.mbarrier_init.release.cluster; "
    "fence.proxy.async; bar.sync 0; mov.u32 %r_e, 4096; "
    "setp.gt.s32 %p_f, %r_n, 0; and.pred %p_x, %p_f, %p_t; mov.u32 %r_bar, %r_bars; mov.u32 %r_to, %r_base; "
    + _COPY
    + "setp.gt.s32 %p_f, %r_n, 1; and.pred %p_x, %p_f, %p_t; add.u32 %r_bar, %r_bars, 8; "
    "add.u32 %r_to, %r_base, 4096; " + _COPY + "mov.b32 %f_0, 0; mov.b32 %f_1, 0; mov.b32 %f_2, 0; mov.b32 %f_3, 0; "
    "mov.u32 %r_i, 0; mov.u32 %r_c, 0; mov.u32 %r_slot, 0; mov.u32 %r_par, 0; mov.u32 %r_next, 2; FIRST AHEAD "
    "setp.lt.s32 %p_none, %r_n, 1; @%p_none bra OUT; "
    "HEAD: ITERATION shl.b32 %r_w, %r_slot, 3; add.u32 %r_w, %r_w, %r_bars; "
    "WAIT: mbarrier.try_wait.parity.shared.b64 %p_d, [%r_w], %r_par; @!%p_d bra WAIT; ARRIVED "
    "shl.b32 %r_at, %r_slot, 12; add.u32 %r_at, %r_at, %r_base; shr.u32 %r_at, %r_at, 4; cvt.u64.u32 %rd_d, %r_at; "
    "or.b64 %rd_d, %rd_d, 0x800080000; add.u64 %rd_e, %rd_d, 128; wgmma.fence.sync.aligned; "
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f_0, %f_1, %f_2, %f_3}, %rd_d, %rd_e, 1, 1, 1, 0, 0; "
    "wgmma.commit_group.sync.aligned; MULTIPLIED EXPECT REFILL LAST and.pred %p_x, %p_f, %p_t; "
    "shl.b32 %r_bar, %r_next, 3; add.u32 %r_bar, %r_bar, %r_bars; shl.b32 %r_to, %r_next, 12; "
    "add.u32 %r_to, %r_to, %r_base; " + _COPY + "@!%p_l bra KEEP; SUMS FREE STAGE STAGED STORE ANEW KEEP: AGAIN "
    "add.u32 %r_slot, %r_slot, 1; setp.eq.u32 %p_w, %r_slot, 3; @%p_w mov.u32 %r_slot, 0; "
    "selp.b32 %r_v, 1, 0, %p_w; xor.b32 %r_par, %r_par, %r_v; "
    "add.u32 %r_next, %r_next, 1; setp.eq.u32 %p_w, %r_next, 3; @%p_w mov.u32 %r_next, 0; "
    "add.s32 %r_i, %r_i, 1; setp.lt.s32 %p_m, %r_i, %r_n; @%p_m bra HEAD; OUT: END ret; "
)
_PARAMETERS = ".param .u64 a, .param .u64 out, .param .u64 words, .param .u32 kt, .param .u32 tiles"


def kernel(**parts: str) -> str:
    """The text with some of its parts replaced."""
    return (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 buf[13344];\n"
        f".visible .entry flattened({_PARAMETERS})\n.reqntid 128, 1, 1\n{{\n{with_parts(_BODY, PARTS | parts)}}}\n"
    )
