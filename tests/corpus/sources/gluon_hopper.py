"""Gluon kernels with hand-placed barriers: copy pipelines, wgmma rings, warp-specialised matmul, attention."""

from emit import Desc, Ptr, emit
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    cluster,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

L16 = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
L16_64 = gl.NVMMASharedLayout(swizzle_byte_width=64, element_bitwidth=16, rank=2)
L16_32 = gl.NVMMASharedLayout(swizzle_byte_width=32, element_bitwidth=16, rank=2)
L16_0 = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=16, rank=2)
L8 = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8, rank=2)
L32 = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
REG: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
ROW: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
FLAT: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])


@gluon.jit
def tma_copy_once(src, dst, BR: gl.constexpr, BC: gl.constexpr):
    buf = gl.allocate_shared_memory(src.dtype, [BR, BC], src.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    r = gl.program_id(0) * BR
    mbarrier.expect(bar, src.nbytes_per_cta)
    tma.async_load(src, [r, 0], bar, buf)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_store(dst, [r, 0], buf)
    tma.store_wait(0)


@gluon.jit
def tma_scale_ring(src, dst, columns, BR: gl.constexpr, BC: gl.constexpr, STAGES: gl.constexpr):
    """One warp group loads ahead, doubles in registers, stores through a second ring."""
    ring = gl.allocate_shared_memory(src.dtype, [STAGES, BR, BC], src.layout)
    outs = gl.allocate_shared_memory(dst.dtype, [2, BR, BC], dst.layout)
    bars = mbarrier.allocate_mbarrier(batch=STAGES)
    for s in gl.static_range(STAGES):
        mbarrier.init(bars.index(s), count=1)
    fence_async_shared()
    r = gl.program_id(0) * BR
    tiles = gl.cdiv(columns, BC)
    for s in gl.static_range(STAGES - 1):
        mbarrier.expect(bars.index(s), src.nbytes_per_cta, pred=s < tiles)
        tma.async_load(src, [r, s * BC], bars.index(s), ring.index(s), pred=s < tiles)
    for t in range(tiles):
        ahead = t + STAGES - 1
        slot = ahead % STAGES
        gl.barrier()
        mbarrier.expect(bars.index(slot), src.nbytes_per_cta, pred=ahead < tiles)
        tma.async_load(src, [r, ahead * BC], bars.index(slot), ring.index(slot), pred=ahead < tiles)
        here = t % STAGES
        mbarrier.wait(bars.index(here), (t // STAGES) & 1)
        x = ring.index(here).load(REG)
        tma.store_wait(1)
        gl.barrier()
        o = outs.index(t % 2)
        o.store(x * 2)
        fence_async_shared()
        tma.async_store(dst, [r, t * BC], o)
    tma.store_wait(0)
    for s in gl.static_range(STAGES):
        mbarrier.invalidate(bars.index(s))


@gluon.jit
def ws_copy_load(src, ring, ready, free, r, tiles, BC: gl.constexpr, STAGES: gl.constexpr):
    for t in range(tiles):
        s = t % STAGES
        mbarrier.wait(free.index(s), ((t // STAGES) & 1) ^ 1)
        mbarrier.expect(ready.index(s), src.nbytes_per_cta)
        tma.async_load(src, [r, t * BC], ready.index(s), ring.index(s))


@gluon.jit
def ws_copy_work(dst, ring, outs, ready, free, r, tiles, BC: gl.constexpr, STAGES: gl.constexpr):
    for t in range(tiles):
        s = t % STAGES
        mbarrier.wait(ready.index(s), (t // STAGES) & 1)
        x = ring.index(s).load(REG)
        fence_async_shared()
        mbarrier.arrive(free.index(s), count=1)
        tma.store_wait(1)
        o = outs.index(t % 2)
        o.store(x + 1)
        fence_async_shared()
        tma.async_store(dst, [r, t * BC], o)
    tma.store_wait(0)


@gluon.jit
def ws_copy(src, dst, columns, BR: gl.constexpr, BC: gl.constexpr, STAGES: gl.constexpr):
    ring = gl.allocate_shared_memory(src.dtype, [STAGES, BR, BC], src.layout)
    outs = gl.allocate_shared_memory(dst.dtype, [2, BR, BC], dst.layout)
    ready = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    for s in gl.static_range(STAGES):
        mbarrier.init(ready.index(s), count=1)
        mbarrier.init(free.index(s), count=1)
    fence_async_shared()
    r = gl.program_id(0) * BR
    tiles = gl.cdiv(columns, BC)
    gl.warp_specialize(
        [
            (ws_copy_work, (dst, ring, outs, ready, free, r, tiles, BC, STAGES)),
            (ws_copy_load, (src, ring, ready, free, r, tiles, BC, STAGES)),
        ],
        [1],
        [24],
    )


@gluon.jit
def cp_async_ring(src, dst, columns, BC: gl.constexpr, STAGES: gl.constexpr):
    """cp.async with commit groups."""
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, BC], FLAT)
    c = gl.arange(0, BC, layout=ROW)
    base = gl.program_id(0) * columns
    tiles = gl.cdiv(columns, BC)
    for s in gl.static_range(STAGES - 1):
        async_copy.async_load(ring.index(s), src + base + s * BC + c, mask=s * BC + c < columns)
        async_copy.commit_group()
    for t in range(tiles):
        n = t + STAGES - 1
        async_copy.async_load(ring.index(n % STAGES), src + base + n * BC + c, mask=n * BC + c < columns)
        async_copy.commit_group()
        async_copy.wait_group(STAGES - 1)
        x = ring.index(t % STAGES).load(ROW)
        gl.store(dst + base + t * BC + c, x * 3.0, mask=t * BC + c < columns)
    async_copy.wait_group(0)


@gluon.jit
def cp_async_mbar_load(src, ring, ready, free, base, tiles, BC: gl.constexpr, STAGES: gl.constexpr):
    WROW: gl.constexpr = gl.BlockedLayout([4], [32], [1], [0])
    c = gl.arange(0, BC, layout=WROW)
    for t in range(tiles):
        s = t % STAGES
        mbarrier.wait(free.index(s), ((t // STAGES) & 1) ^ 1)
        async_copy.async_load(ring.index(s), src + base + t * BC + c)
        async_copy.mbarrier_arrive(ready.index(s), increment_count=False)


@gluon.jit
def cp_async_mbar_work(dst, ring, ready, free, base, tiles, BC: gl.constexpr, STAGES: gl.constexpr):
    c = gl.arange(0, BC, layout=ROW)
    for t in range(tiles):
        s = t % STAGES
        mbarrier.wait(ready.index(s), (t // STAGES) & 1)
        x = ring.index(s).load(ROW)
        mbarrier.arrive(free.index(s), count=1)
        gl.store(dst + base + t * BC + c, x * 3.0)


@gluon.jit
def cp_async_mbar(src, dst, columns, BC: gl.constexpr, STAGES: gl.constexpr):
    """cp.async that arrives at an mbarrier (cp.async.mbarrier.arrive.noinc); a producer warp and consumer warps."""
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, BC], FLAT)
    ready = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    for s in gl.static_range(STAGES):
        mbarrier.init(ready.index(s), count=32)
        mbarrier.init(free.index(s), count=1)
    base = gl.program_id(0) * columns
    tiles = columns // BC
    gl.warp_specialize(
        [
            (cp_async_mbar_work, (dst, ring, ready, free, base, tiles, BC, STAGES)),
            (cp_async_mbar_load, (src, ring, ready, free, base, tiles, BC, STAGES)),
        ],
        [1],
        [40],
    )


@gluon.jit
def wgmma_plain(da, db, dc, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, WARPS: gl.constexpr):
    """Load, wait, multiply, wait: no overlap."""
    ta = gl.allocate_shared_memory(da.dtype, [BM, BK], da.layout)
    tb = gl.allocate_shared_memory(db.dtype, [BN, BK], db.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    m0 = gl.program_id(0) * BM
    n0 = gl.program_id(1) * BN
    ACC: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BN, 256 // da.dtype.primitive_bitwidth]
    )
    acc = gl.zeros((BM, BN), gl.float32, layout=ACC)
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(bar, da.nbytes_per_cta + db.nbytes_per_cta)
        tma.async_load(da, [m0, k], bar, ta)
        tma.async_load(db, [n0, k], bar, tb)
        mbarrier.wait(bar, phase)
        phase ^= 1
        acc = warpgroup_mma(ta, tb.permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
    mbarrier.invalidate(bar)
    out = gl.allocate_shared_memory(dc.dtype, [BM, BN], dc.layout)
    out.store(acc.to(dc.dtype))
    fence_async_shared()
    tma.async_store(dc, [m0, n0], out)
    tma.store_wait(0)


@gluon.jit
def wgmma_ring(
    da, db, dc, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr, WARPS: gl.constexpr
):
    """One warp group keeps one wgmma in flight and STAGES-2 loads ahead of it."""
    ra = gl.allocate_shared_memory(da.dtype, [STAGES, BM, BK], da.layout)
    rb = gl.allocate_shared_memory(db.dtype, [STAGES, BN, BK], db.layout)
    bars = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    fence_async_shared()
    m0 = gl.program_id(0) * BM
    n0 = gl.program_id(1) * BN
    steps = gl.cdiv(K, BK)
    ACC: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BN, 256 // da.dtype.primitive_bitwidth]
    )
    acc = warpgroup_mma_init(gl.zeros((BM, BN), gl.float32, layout=ACC))
    for i in gl.static_range(STAGES - 1):
        mbarrier.expect(bars.index(i), da.nbytes_per_cta + db.nbytes_per_cta, pred=i < steps)
        tma.async_load(da, [m0, i * BK], bars.index(i), ra.index(i), pred=i < steps)
        tma.async_load(db, [n0, i * BK], bars.index(i), rb.index(i), pred=i < steps)
    for k in range(steps):
        s = k % STAGES
        mbarrier.wait(bars.index(s), (k // STAGES) & 1)
        # the previous product is finished here, so its stage may be filled again
        done = warpgroup_mma_wait(0, deps=(acc,))
        acc = warpgroup_mma(ra.index(s), rb.index(s).permute((1, 0)), done, is_async=True)
        n = k + STAGES - 1
        e = n % STAGES
        gl.barrier()
        mbarrier.expect(bars.index(e), da.nbytes_per_cta + db.nbytes_per_cta, pred=n < steps)
        tma.async_load(da, [m0, n * BK], bars.index(e), ra.index(e), pred=n < steps)
        tma.async_load(db, [n0, n * BK], bars.index(e), rb.index(e), pred=n < steps)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(bars.index(i))
    out = gl.allocate_shared_memory(dc.dtype, [BM, BN], dc.layout)
    out.store(acc.to(dc.dtype))
    fence_async_shared()
    tma.async_store(dc, [m0, n0], out)
    tma.store_wait(0)


@gluon.jit
def feed_tiles(
    da,
    db,
    ra,
    rb,
    ready,
    free,
    rows,
    cols,
    steps,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    STAGES: gl.constexpr,
):
    it = 0
    for tile in range(gl.program_id(0), rows * cols, gl.num_programs(0)):
        m0 = (tile // cols) * BM
        n0 = (tile % cols) * BN
        for k in range(steps):
            s = it % STAGES
            mbarrier.wait(free.index(s), ((it // STAGES) & 1) ^ 1)
            mbarrier.expect(ready.index(s), da.nbytes_per_cta + db.nbytes_per_cta)
            tma.async_load(da, [m0, k * BK], ready.index(s), ra.index(s))
            tma.async_load(db, [n0, k * BK], ready.index(s), rb.index(s))
            it += 1


@gluon.jit
def multiply_tiles(
    dc,
    ra,
    rb,
    out,
    ready,
    free,
    rows,
    cols,
    steps,
    BM: gl.constexpr,
    BN: gl.constexpr,
    STAGES: gl.constexpr,
    WARPS: gl.constexpr,
):
    ACC: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BN, 16])
    it = 0
    for tile in range(gl.program_id(0), rows * cols, gl.num_programs(0)):
        acc = gl.zeros((BM, BN), gl.float32, layout=ACC)
        for k in range(steps):
            s = it % STAGES
            mbarrier.wait(ready.index(s), (it // STAGES) & 1)
            acc = warpgroup_mma(ra.index(s), rb.index(s).permute((1, 0)), acc, is_async=True)
            acc = warpgroup_mma_wait(1, deps=(acc,))
            mbarrier.arrive(free.index((it + STAGES - 1) % STAGES), count=1, pred=k > 0)
            it += 1
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(free.index((it + STAGES - 1) % STAGES), count=1)
        tma.store_wait(0)
        out.store(acc.to(dc.dtype))
        fence_async_shared()
        tma.async_store(dc, [(tile // cols) * BM, (tile % cols) * BN], out)
    tma.store_wait(0)


@gluon.jit
def wgmma_ws(
    da, db, dc, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr, WARPS: gl.constexpr
):
    ra = gl.allocate_shared_memory(da.dtype, [STAGES, BM, BK], da.layout)
    rb = gl.allocate_shared_memory(db.dtype, [STAGES, BN, BK], db.layout)
    out = gl.allocate_shared_memory(dc.dtype, [BM, BN], dc.layout)
    ready = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    for s in gl.static_range(STAGES):
        mbarrier.init(ready.index(s), count=1)
        mbarrier.init(free.index(s), count=1)
    fence_async_shared()
    rows = gl.cdiv(M, BM)
    cols = gl.cdiv(N, BN)
    steps = gl.cdiv(K, BK)
    gl.warp_specialize(
        [
            (multiply_tiles, (dc, ra, rb, out, ready, free, rows, cols, steps, BM, BN, STAGES, WARPS)),
            (feed_tiles, (da, db, ra, rb, ready, free, rows, cols, steps, BM, BN, BK, STAGES)),
        ],
        [1],
        [40],
    )


@gluon.jit
def attn_feed(
    dq, dk, dv, tq, rk, rv, bq, rdyk, rdyv, frk, frv, row0, first, steps, BN: gl.constexpr, STAGES: gl.constexpr
):
    mbarrier.expect(bq, dq.nbytes_per_cta)
    tma.async_load(dq, [row0, 0], bq, tq)
    for j in range(steps):
        s = j % STAGES
        ph = ((j // STAGES) & 1) ^ 1
        mbarrier.wait(frk.index(s), ph)
        mbarrier.expect(rdyk.index(s), dk.nbytes_per_cta)
        tma.async_load(dk, [first + j * BN, 0], rdyk.index(s), rk.index(s))
        mbarrier.wait(frv.index(s), ph)
        mbarrier.expect(rdyv.index(s), dv.nbytes_per_cta)
        tma.async_load(dv, [first + j * BN, 0], rdyv.index(s), rv.index(s))


@gluon.jit
def attn_work(
    dout,
    tq,
    rk,
    rv,
    out,
    bq,
    rdyk,
    rdyv,
    frk,
    frv,
    row0,
    steps,
    scale,
    BM: gl.constexpr,
    BN: gl.constexpr,
    HD: gl.constexpr,
    STAGES: gl.constexpr,
    WARPS: gl.constexpr,
):
    SL: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BN, 16])
    OL: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, HD, 16])
    PL: gl.constexpr = gl.DotOperandLayout(0, OL, 2)
    top = gl.full((BM,), -float("inf"), gl.float32, layout=gl.SliceLayout(1, SL))
    den = gl.zeros((BM,), gl.float32, layout=gl.SliceLayout(1, SL))
    acc = gl.zeros((BM, HD), gl.float32, layout=OL)
    mbarrier.wait(bq, 0)
    for j in range(steps):
        s = j % STAGES
        ph = (j // STAGES) & 1
        mbarrier.wait(rdyk.index(s), ph)
        sc = warpgroup_mma(
            tq, rk.index(s).permute((1, 0)), gl.zeros((BM, BN), gl.float32, layout=SL), use_acc=False, is_async=True
        )
        sc = warpgroup_mma_wait(0, deps=(sc,))
        mbarrier.arrive(frk.index(s), count=1)
        sc = sc * (scale * 1.44269504)
        new = gl.maximum(top, gl.max(sc, 1))
        p = gl.exp2(sc - new[:, None])
        fix = gl.exp2(top - new)
        den = den * fix + gl.sum(p, 1)
        acc = acc * gl.convert_layout(fix, gl.SliceLayout(1, OL))[:, None]
        pd = gl.convert_layout(p.to(gl.float16), PL)
        mbarrier.wait(rdyv.index(s), ph)
        acc = warpgroup_mma(pd, rv.index(s), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(frv.index(s), count=1)
        top = new
    acc = acc / gl.convert_layout(den, gl.SliceLayout(1, OL))[:, None]
    out.store(acc.to(dout.dtype))
    fence_async_shared()
    tma.async_store(dout, [row0, 0], out)
    tma.store_wait(0)


@gluon.jit
def attn_ws(
    dq,
    dk,
    dv,
    dout,
    seq,
    scale,
    BM: gl.constexpr,
    BN: gl.constexpr,
    HD: gl.constexpr,
    STAGES: gl.constexpr,
    WARPS: gl.constexpr,
):
    tq = gl.allocate_shared_memory(dq.dtype, [BM, HD], dq.layout)
    rk = gl.allocate_shared_memory(dk.dtype, [STAGES, BN, HD], dk.layout)
    rv = gl.allocate_shared_memory(dv.dtype, [STAGES, BN, HD], dv.layout)
    out = gl.allocate_shared_memory(dout.dtype, [BM, HD], dout.layout)
    bq = mbarrier.allocate_mbarrier()
    rdyk = mbarrier.allocate_mbarrier(batch=STAGES)
    rdyv = mbarrier.allocate_mbarrier(batch=STAGES)
    frk = mbarrier.allocate_mbarrier(batch=STAGES)
    frv = mbarrier.allocate_mbarrier(batch=STAGES)
    mbarrier.init(bq, count=1)
    for s in gl.static_range(STAGES):
        mbarrier.init(rdyk.index(s), count=1)
        mbarrier.init(rdyv.index(s), count=1)
        mbarrier.init(frk.index(s), count=1)
        mbarrier.init(frv.index(s), count=1)
    fence_async_shared()
    first = gl.program_id(1) * seq
    row0 = first + gl.program_id(0) * BM
    steps = gl.cdiv(seq, BN)
    gl.warp_specialize(
        [
            (
                attn_work,
                (dout, tq, rk, rv, out, bq, rdyk, rdyv, frk, frv, row0, steps, scale, BM, BN, HD, STAGES, WARPS),
            ),
            (attn_feed, (dq, dk, dv, tq, rk, rv, bq, rdyk, rdyv, frk, frv, row0, first, steps, BN, STAGES)),
        ],
        [1],
        [40],
    )


F = "gluon"
emit(
    F,
    "tma_copy",
    tma_copy_once,
    dict(src=Desc("fp16", [128, 64], [64, 64], L16), dst=Desc("fp16", [128, 64], [64, 64], L16), BR=64, BC=64),
    [2],
    gluon=True,
    math="dst = src",
)
for w, layout in ((128, L16), (64, L16_64), (32, L16_32), (0, L16_0)):
    bc = {128: 64, 64: 32, 32: 16, 0: 8}[w]
    emit(
        F,
        f"tma_scale_ring_swz{w}",
        tma_scale_ring,
        dict(
            src=Desc("fp16", [128, bc * 6], [64, bc], layout),
            dst=Desc("fp16", [128, bc * 6], [64, bc], layout),
            columns=("i32", bc * 6),
            BR=64,
            BC=bc,
            STAGES=3,
        ),
        [2],
        gluon=True,
        math="dst = 2*src",
    )
for s in (2, 4):
    emit(
        F,
        f"tma_scale_ring_s{s}",
        tma_scale_ring,
        dict(
            src=Desc("fp16", [128, 384], [64, 64], L16),
            dst=Desc("fp16", [128, 384], [64, 64], L16),
            columns=("i32", 384),
            BR=64,
            BC=64,
            STAGES=s,
        ),
        [2],
        gluon=True,
        math="dst = 2*src",
    )
for s in (2, 3, 4):
    emit(
        F,
        f"ws_copy_s{s}",
        ws_copy,
        dict(
            src=Desc("fp16", [128, 448], [64, 64], L16),
            dst=Desc("fp16", [128, 448], [64, 64], L16),
            columns=("i32", 448),
            BR=64,
            BC=64,
            STAGES=s,
        ),
        [2],
        gluon=True,
        math="dst = src + 1",
    )
emit(
    F,
    "cp_async_ring",
    cp_async_ring,
    dict(src=Ptr("fp32", 2, 1100), dst=Ptr("fp32", 2, 1100), columns=("i32", 1100), BC=256, STAGES=3),
    [2],
    gluon=True,
    math="dst = 3*src",
)
emit(
    F,
    "cp_async_mbar",
    cp_async_mbar,
    dict(src=Ptr("fp32", 2, 1536), dst=Ptr("fp32", 2, 1536), columns=("i32", 1536), BC=256, STAGES=3),
    [2],
    gluon=True,
    math="dst = 3*src",
)


def g(dt="fp16", layout=L16, M=256, N=128, K=384, BM=128, BN=128, BK=64, lo=L16, **kw):
    return dict(
        da=Desc(dt, [M, K], [BM, BK], layout),
        db=Desc(dt, [N, K], [BN, BK], layout),
        dc=Desc("fp16", [M, N], [BM, BN], lo),
        K=("i32", K),
        BM=BM,
        BN=BN,
        BK=BK,
        **kw,
    )


H = (90,)
emit(F, "wgmma_plain", wgmma_plain, g(WARPS=4), [2, 1], targets=H, gluon=True, math="c = a @ b.T")
for s in (2, 3, 4):
    emit(F, f"wgmma_ring_s{s}", wgmma_ring, g(STAGES=s, WARPS=4), [2, 1], targets=H, gluon=True, math="c = a @ b.T")
emit(
    F,
    "wgmma_ring_8w",
    wgmma_ring,
    g(STAGES=3, WARPS=8, BN=256, N=256),
    [2, 1],
    targets=H,
    gluon=True,
    options=dict(num_warps=8),
    math="c = a @ b.T",
)
emit(
    F,
    "wgmma_ring_fp8",
    wgmma_ring,
    g("fp8e4nv", L8, K=768, BK=128, STAGES=3, WARPS=4),
    [2, 1],
    targets=H,
    gluon=True,
    math="c = a @ b.T e4m3",
)
emit(
    F,
    "wgmma_ring_swz64",
    wgmma_ring,
    g("fp16", L16_64, K=192, BK=32, STAGES=3, WARPS=4),
    [2, 1],
    targets=H,
    gluon=True,
    math="c = a @ b.T",
)


def gw(STAGES, WARPS=4, M=512, N=256, K=320, BM=128, BN=128, BK=64):
    return dict(
        da=Desc("fp16", [M, K], [BM, BK], L16),
        db=Desc("fp16", [N, K], [BN, BK], L16),
        dc=Desc("fp16", [M, N], [BM, BN], L16),
        M=("i32", M),
        N=("i32", N),
        K=("i32", K),
        BM=BM,
        BN=BN,
        BK=BK,
        STAGES=STAGES,
        WARPS=WARPS,
    )


for s in (2, 3, 4):
    emit(F, f"wgmma_ws_s{s}", wgmma_ws, gw(s), [3], targets=H, gluon=True, math="c = a @ b.T, 8 tiles over 3 CTAs")
emit(
    F,
    "wgmma_ws_8w",
    wgmma_ws,
    gw(3, WARPS=8, BM=128, BN=256),
    [3],
    targets=H,
    gluon=True,
    options=dict(num_warps=8),
    math="c = a @ b.T",
)
for s in (2, 3):
    emit(
        F,
        f"attn_ws_s{s}",
        attn_ws,
        dict(
            dq=Desc("fp16", [512, 64], [128, 64], L16),
            dk=Desc("fp16", [512, 64], [64, 64], L16),
            dv=Desc("fp16", [512, 64], [64, 64], L16),
            dout=Desc("fp16", [512, 64], [128, 64], L16),
            seq=("i32", 256),
            scale=("f32", 0.125),
            BM=128,
            BN=64,
            HD=64,
            STAGES=s,
            WARPS=4,
        ),
        [2, 2],
        targets=H,
        gluon=True,
        math="attention forward 2 heads x 256 x 64, scale 0.125",
    )
emit(F, "wgmma_ws_s3", wgmma_ws, gw(3), [3], targets=H, gluon=True, native=True, math="c = a @ b.T")


PAIR: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 0]])


@gluon.jit
def multicast_copy(src, out, columns, BR: gl.constexpr, BC: gl.constexpr, STAGES: gl.constexpr):
    """Every tile is loaded once, for both CTAs of a cluster; stages are free when both have met."""
    ring = gl.allocate_shared_memory(src.dtype, [STAGES, BR, BC], src.layout)
    ready = mbarrier.allocate_mbarrier(batch=STAGES)
    for stage in gl.static_range(STAGES):
        mbarrier.init(ready.index(stage), count=1)
    fence_async_shared()
    cluster.barrier()
    rows = gl.arange(0, BR, layout=gl.SliceLayout(1, PAIR))[:, None]
    cols = gl.arange(0, BC, layout=gl.SliceLayout(0, PAIR))[None, :]
    for t in range(gl.cdiv(columns, BC)):
        s = t % STAGES
        mbarrier.expect(ready.index(s), src.nbytes_per_cta)
        tma.async_load(src, [0, t * BC], ready.index(s), ring.index(s), multicast=True)
        mbarrier.wait(ready.index(s), (t // STAGES) & 1)
        x = ring.index(s).load(PAIR)
        gl.store(out + rows * columns + t * BC + cols, x)
        fence_async_shared()
        cluster.barrier()


SHARED_PAIR = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, cga_layout=[[0, 0]])
emit(
    F,
    "multicast_copy",
    multicast_copy,
    dict(
        src=Desc("fp16", [64, 384], [64, 64], SHARED_PAIR),
        out=Ptr("fp16", 64, 384),
        columns=("i32", 384),
        BR=64,
        BC=64,
        STAGES=2,
    ),
    [1],
    gluon=True,
    options=dict(num_ctas=2),
    math="out = src, loaded once for two CTAs",
)
