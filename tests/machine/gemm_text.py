"""A warp-specialized bf16 matrix product in PTX, written for tests: C[M, N] = A[M, K] @ B[N, K]^T.

Warps 0 to 3 are consumer warpgroup 0, warps 4 to 7 consumer 1, warp 8 the producer. Tiles are `2 x 64` by `n`; a ring
of `stages` slots of 64 K-columns is filled by tensor copies with 128-byte swizzle; the grid is persistent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.base.element import Element
from tilewright.base.plan import Launch, PointerParam, ScalarParam, TensorMap, TensorMapParam

BLOCK_M, BLOCK_K = 128, 64


def gemm_text(n: int, stages: int, *, consumer_registers: int = 232) -> str:
    """The kernel for tile width `n` (a multiple of 8, at most 256)."""
    a_bytes, b_bytes = BLOCK_M * BLOCK_K * 2, n * BLOCK_K * 2
    slot_bytes = a_bytes + b_bytes
    full = slot_bytes * stages
    empty = full + 8 * stages
    accumulators = [f"%acc{index}" for index in range(n // 2)]
    vector = "{" + ", ".join(accumulators) + "}"
    inits = "\n".join(
        f"    mbarrier.init.shared::cta.b64 [smem+{full + 8 * stage}], 1;\n"
        f"    mbarrier.init.shared::cta.b64 [smem+{empty + 8 * stage}], 2;"
        for stage in range(stages)
    )
    products = "\n".join(
        f"    add.s64 %da{k}, %desc_a, {2 * k};\n    add.s64 %db{k}, %desc_b, {2 * k};\n"
        f"    wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {vector}, %da{k}, %db{k}, "
        f"{'%p_more' if k == 0 else '1'}, 1, 1, 0, 0;"
        for k in range(BLOCK_K // 16)
    )
    stores: list[str] = []
    for group in range(n // 8):
        low, high = accumulators[4 * group : 4 * group + 2], accumulators[4 * group + 2 : 4 * group + 4]
        stores.append(
            f"    cvt.rn.bf16x2.f32 %packed, {low[1]}, {low[0]};\n"
            f"    st.global.b32 [%row+{16 * group}], %packed;\n"
            f"    cvt.rn.bf16x2.f32 %packed, {high[1]}, {high[0]};\n"
            f"    st.global.b32 [%row8+{16 * group}], %packed;"
        )
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    epilogue = "\n".join(stores)
    return f"""
.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 smem[];

.visible .entry gemm(
    .param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128], .param .u64 out,
    .param .u32 tiles_m, .param .u32 tiles, .param .u32 k_steps, .param .u32 width
) .reqntid 384, 1, 1
{{
    .reg .pred %p<8>, %p_more;
    .reg .b32 %r<40>, %packed, %stage, %parity, %k, %tile, %slot, %steps, %tiles, %tiles_m;
    .reg .b64 %rd<20>, %map_a, %map_b, %row, %row8, %desc_a, %desc_b;
    .reg .b64 %da<{BLOCK_K // 16}>, %db<{BLOCK_K // 16}>;
    .reg .f32 %acc<{n // 2}>;

    ld.param.u32 %tiles_m, [tiles_m];
    ld.param.u32 %tiles, [tiles];
    ld.param.u32 %steps, [k_steps];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
{inits}
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    mov.u32 %tile, %ctaid.x;
    mov.u32 %stage, 0;
    setp.lt.u32 %p1, %r2, 8;
    @%p1 bra CONSUMER;

    setmaxnreg.dec.sync.aligned.u32 40;
    setp.ne.u32 %p1, %r2, 8;
    @%p1 bra DONE;
    elect.sync %r3|%p2, 0xffffffff;
    @!%p2 bra DONE;
    mov.b64 %map_a, map_a;
    cvta.param.u64 %map_a, %map_a;
    mov.b64 %map_b, map_b;
    cvta.param.u64 %map_b, %map_b;
    mov.u32 %parity, 1;
PRODUCE_TILE:
    setp.ge.u32 %p1, %tile, %tiles;
    @%p1 bra DONE;
    rem.u32 %r4, %tile, %tiles_m;
    div.u32 %r5, %tile, %tiles_m;
    mul.lo.u32 %r4, %r4, {BLOCK_M};
    mul.lo.u32 %r5, %r5, {n};
    mov.u32 %k, 0;
PRODUCE:
    mad.lo.u32 %slot, %stage, 8, {full};
    mov.u32 %r6, smem;
    add.u32 %r7, %r6, %slot;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r7+{8 * stages}], %parity;
    @!%p3 bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], {slot_bytes};
    mad.lo.u32 %r8, %stage, {slot_bytes}, %r6;
    add.u32 %r9, %r8, {a_bytes};
    shl.b32 %r10, %k, 6;
    {load} [%r8], [%map_a, {{%r10, %r4}}], [%r7];
    {load} [%r9], [%map_b, {{%r10, %r5}}], [%r7];
    add.u32 %stage, %stage, 1;
    setp.eq.u32 %p4, %stage, {stages};
    selp.b32 %stage, 0, %stage, %p4;
    @%p4 xor.b32 %parity, %parity, 1;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p5, %k, %steps;
    @%p5 bra PRODUCE;
    mov.u32 %r11, %nctaid.x;
    add.u32 %tile, %tile, %r11;
    bra PRODUCE_TILE;

CONSUMER:
    setmaxnreg.inc.sync.aligned.u32 {consumer_registers};
    shr.u32 %r12, %r2, 2;
    mov.u32 %parity, 0;
    mov.u32 %r6, smem;
CONSUME_TILE:
    setp.ge.u32 %p1, %tile, %tiles;
    @%p1 bra DONE;
    mov.u32 %k, 0;
CONSUME:
    mad.lo.u32 %slot, %stage, 8, {full};
    add.u32 %r7, %r6, %slot;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r7], %parity;
    @!%p3 bra FULL;
    mad.lo.u32 %r8, %stage, {slot_bytes}, %r6;
    mad.lo.u32 %r13, %r12, 8192, %r8;
    add.u32 %r9, %r8, {a_bytes};
    and.b32 %r13, %r13, 0x3ffff;
    shr.u32 %r13, %r13, 4;
    cvt.u64.u32 %desc_a, %r13;
    or.b64 %desc_a, %desc_a, 0x4000004000010000;
    and.b32 %r9, %r9, 0x3ffff;
    shr.u32 %r9, %r9, 4;
    cvt.u64.u32 %desc_b, %r9;
    or.b64 %desc_b, %desc_b, 0x4000004000010000;
    setp.ne.u32 %p_more, %k, 0;
    wgmma.fence.sync.aligned;
{products}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    and.b32 %r14, %r1, 127;
    setp.eq.u32 %p6, %r14, 0;
    @%p6 mbarrier.arrive.shared::cta.b64 _, [%r7+{8 * stages}];
    add.u32 %stage, %stage, 1;
    setp.eq.u32 %p4, %stage, {stages};
    selp.b32 %stage, 0, %stage, %p4;
    @%p4 xor.b32 %parity, %parity, 1;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p5, %k, %steps;
    @%p5 bra CONSUME;

    rem.u32 %r4, %tile, %tiles_m;
    div.u32 %r5, %tile, %tiles_m;
    mul.lo.u32 %r4, %r4, {BLOCK_M};
    mul.lo.u32 %r5, %r5, {n};
    and.b32 %r15, %r2, 7;
    shl.b32 %r15, %r15, 4;
    and.b32 %r16, %r1, 31;
    shr.u32 %r17, %r16, 2;
    add.u32 %r15, %r15, %r17;
    add.u32 %r15, %r15, %r4;
    and.b32 %r18, %r16, 3;
    shl.b32 %r18, %r18, 1;
    add.u32 %r18, %r18, %r5;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r19, [width];
    mul.wide.u32 %rd2, %r15, %r19;
    cvt.u64.u32 %rd3, %r18;
    add.s64 %rd2, %rd2, %rd3;
    shl.b64 %rd2, %rd2, 1;
    add.s64 %row, %rd1, %rd2;
    shl.b32 %r19, %r19, 4;
    cvt.u64.u32 %rd4, %r19;
    add.s64 %row8, %row, %rd4;
{epilogue}
    mov.u32 %r11, %nctaid.x;
    add.u32 %tile, %tile, %r11;
    bra CONSUME_TILE;
DONE:
    ret;
}}
"""


def gemm_launch(m: int, width: int, k: int, n: int, stages: int, grid: int) -> Launch:
    """The launch over buffers a [m, k], b [width, k], c [m, width]; every extent a multiple of its tile."""
    slot_bytes = (BLOCK_M + n) * BLOCK_K * 2
    return Launch(
        "gemm",
        (grid, 1, 1),
        (384, 1, 1),
        (
            TensorMapParam("a", TensorMap(Element.BF16, (k, m), (2 * k,), (BLOCK_K, BLOCK_M), swizzle="128B")),
            TensorMapParam("b", TensorMap(Element.BF16, (k, width), (2 * k,), (BLOCK_K, n), swizzle="128B")),
            PointerParam("c"),
            ScalarParam("i32", m // BLOCK_M),
            ScalarParam("i32", m // BLOCK_M * (width // n)),
            ScalarParam("i32", k // BLOCK_K),
            ScalarParam("i32", width),
        ),
        dynamic_smem_bytes=(slot_bytes + 16) * stages,
    )


def as_bytes(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    """A contiguous array's bytes, sharing memory."""
    return array.reshape(-1).view(np.uint8)
