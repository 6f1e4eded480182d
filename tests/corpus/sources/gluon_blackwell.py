# ruff: noqa: SIM113 - Gluon has no enumerate.
"""Gluon kernels for tcgen05 (sm_100a): plain, rings, warp-specialised, two accumulators, A in tensor memory, CLC."""

from emit import Desc, Ptr, emit
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    clc,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)

L16 = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
L8 = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8, rank=2)
REG: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
IDX: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
CLCL: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])


@gluon.jit
def t5_plain(da, db, dc, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    ta = gl.allocate_shared_memory(da.dtype, [BM, BK], da.layout)
    tb = gl.allocate_shared_memory(db.dtype, [BN, BK], db.layout)
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    fence_async_shared()
    ACC: gl.constexpr = TensorMemoryLayout([BM, BN], col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], ACC)
    m0 = gl.program_id(0) * BM
    n0 = gl.program_id(1) * BN
    phase = 0
    use = False
    for k in range(0, K, BK):
        mbarrier.expect(loaded, da.nbytes_per_cta + db.nbytes_per_cta)
        tma.async_load(da, [m0, k], loaded, ta)
        tma.async_load(db, [n0, k], loaded, tb)
        mbarrier.wait(loaded, phase)
        tcgen05_mma(ta, tb.permute((1, 0)), acc, use_acc=use)
        tcgen05_commit(done)
        mbarrier.wait(done, phase)
        use = True
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(done)
    v = acc.load()
    out = gl.allocate_shared_memory(dc.dtype, [BM, BN], dc.layout)
    out.store(v.to(dc.dtype))
    fence_async_shared()
    tma.async_store(dc, [m0, n0], out)
    tma.store_wait(0)


@gluon.jit
def t5_ring(da, db, dc, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """One group of warps: loads STAGES-1 ahead, one multiply in flight."""
    ra = gl.allocate_shared_memory(da.dtype, [STAGES, BM, BK], da.layout)
    rb = gl.allocate_shared_memory(db.dtype, [STAGES, BN, BK], db.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(loaded.index(i), count=1)
        mbarrier.init(done.index(i), count=1)
    fence_async_shared()
    ACC: gl.constexpr = TensorMemoryLayout([BM, BN], col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], ACC)
    m0 = gl.program_id(0) * BM
    n0 = gl.program_id(1) * BN
    steps = gl.cdiv(K, BK)
    for i in gl.static_range(STAGES - 1):
        mbarrier.expect(loaded.index(i), da.nbytes_per_cta + db.nbytes_per_cta, pred=i < steps)
        tma.async_load(da, [m0, i * BK], loaded.index(i), ra.index(i), pred=i < steps)
        tma.async_load(db, [n0, i * BK], loaded.index(i), rb.index(i), pred=i < steps)
    for k in range(steps):
        s = k % STAGES
        mbarrier.wait(loaded.index(s), (k // STAGES) & 1)
        tcgen05_mma(ra.index(s), rb.index(s).permute((1, 0)), acc, use_acc=k > 0, mbarriers=[done.index(s)])
        n = k + STAGES - 1
        e = n % STAGES
        # stage e was read by multiply k-1
        mbarrier.wait(done.index(e), ((k - 1) // STAGES) & 1, pred=k > 0)
        mbarrier.expect(loaded.index(e), da.nbytes_per_cta + db.nbytes_per_cta, pred=n < steps)
        tma.async_load(da, [m0, n * BK], loaded.index(e), ra.index(e), pred=n < steps)
        tma.async_load(db, [n0, n * BK], loaded.index(e), rb.index(e), pred=n < steps)
    mbarrier.wait(done.index((steps - 1) % STAGES), ((steps - 1) // STAGES) & 1)
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(loaded.index(i))
        mbarrier.invalidate(done.index(i))
    out = gl.allocate_shared_memory(dc.dtype, [BM, BN], dc.layout)
    out.store(acc.load().to(dc.dtype))
    fence_async_shared()
    tma.async_store(dc, [m0, n0], out)
    tma.store_wait(0)


@gluon.jit
def t5_feed(
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
        for k in range(steps):
            s = it % STAGES
            mbarrier.wait(free.index(s), ((it // STAGES) & 1) ^ 1)
            mbarrier.expect(ready.index(s), da.nbytes_per_cta + db.nbytes_per_cta)
            tma.async_load(da, [(tile // cols) * BM, k * BK], ready.index(s), ra.index(s))
            tma.async_load(db, [(tile % cols) * BN, k * BK], ready.index(s), rb.index(s))
            it += 1


@gluon.jit
def t5_multiply(ra, rb, acc, ready, free, full, drained, rows, cols, steps, STAGES: gl.constexpr, ACCS: gl.constexpr):
    it = 0
    turn = 0
    for _tile in range(gl.program_id(0), rows * cols, gl.num_programs(0)):
        a = turn % ACCS
        mbarrier.wait(drained.index(a), ((turn // ACCS) & 1) ^ 1)
        for k in range(steps):
            s = it % STAGES
            mbarrier.wait(ready.index(s), (it // STAGES) & 1)
            tcgen05_mma(ra.index(s), rb.index(s).permute((1, 0)), acc.index(a), use_acc=k > 0)
            tcgen05_commit(free.index(s))
            it += 1
        tcgen05_commit(full.index(a))
        turn += 1


@gluon.jit
def t5_epilogue(dc, acc, out, full, drained, rows, cols, BM: gl.constexpr, BN: gl.constexpr, ACCS: gl.constexpr):
    turn = 0
    for tile in range(gl.program_id(0), rows * cols, gl.num_programs(0)):
        a = turn % ACCS
        mbarrier.wait(full.index(a), (turn // ACCS) & 1)
        v = acc.index(a).load()
        mbarrier.arrive(drained.index(a), count=1)
        tma.store_wait(0)
        out.store(v.to(dc.dtype))
        fence_async_shared()
        tma.async_store(dc, [(tile // cols) * BM, (tile % cols) * BN], out)
        turn += 1
    tma.store_wait(0)


@gluon.jit
def t5_ws(
    da, db, dc, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr, ACCS: gl.constexpr
):
    ra = gl.allocate_shared_memory(da.dtype, [STAGES, BM, BK], da.layout)
    rb = gl.allocate_shared_memory(db.dtype, [STAGES, BN, BK], db.layout)
    out = gl.allocate_shared_memory(dc.dtype, [BM, BN], dc.layout)
    ACC: gl.constexpr = TensorMemoryLayout([BM, BN], col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [ACCS, BM, BN], ACC)
    ready = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    full = mbarrier.allocate_mbarrier(batch=ACCS)
    drained = mbarrier.allocate_mbarrier(batch=ACCS)
    for i in gl.static_range(STAGES):
        mbarrier.init(ready.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    for i in gl.static_range(ACCS):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(drained.index(i), count=1)
    fence_async_shared()
    rows = gl.cdiv(M, BM)
    cols = gl.cdiv(N, BN)
    steps = gl.cdiv(K, BK)
    gl.warp_specialize(
        [
            (t5_epilogue, (dc, acc, out, full, drained, rows, cols, BM, BN, ACCS)),
            (t5_feed, (da, db, ra, rb, ready, free, rows, cols, steps, BM, BN, BK, STAGES)),
            (t5_multiply, (ra, rb, acc, ready, free, full, drained, rows, cols, steps, STAGES, ACCS)),
        ],
        [1, 1],
        [48, 48],
    )


@gluon.jit
def t5_two_products(dq, dk, dv, dout, seq, scale, BM: gl.constexpr, BN: gl.constexpr, HD: gl.constexpr):
    """Attention without norm and running maximum: O = exp2(scale*Q K^T) V, P being A, in tensor memory."""
    tq = gl.allocate_shared_memory(dq.dtype, [BM, HD], dq.layout)
    tk = gl.allocate_shared_memory(dk.dtype, [BN, HD], dk.layout)
    tv = gl.allocate_shared_memory(dv.dtype, [BN, HD], dv.layout)
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    fence_async_shared()
    SL: gl.constexpr = TensorMemoryLayout([BM, BN], col_stride=1)
    PL: gl.constexpr = TensorMemoryLayout([BM, BN], col_stride=1)
    OL: gl.constexpr = TensorMemoryLayout([BM, HD], col_stride=1)
    ts = allocate_tensor_memory(gl.float32, [BM, BN], SL)
    tp = allocate_tensor_memory(gl.float16, [BM, BN], PL)
    to = allocate_tensor_memory(gl.float32, [BM, HD], OL)
    first = gl.program_id(1) * seq
    row0 = first + gl.program_id(0) * BM
    mbarrier.expect(loaded, dq.nbytes_per_cta)
    tma.async_load(dq, [row0, 0], loaded, tq)
    mbarrier.wait(loaded, 0)
    lp = 1
    dp = 0
    use = False
    for j in range(0, seq, BN):
        mbarrier.expect(loaded, dk.nbytes_per_cta + dv.nbytes_per_cta)
        tma.async_load(dk, [first + j, 0], loaded, tk)
        tma.async_load(dv, [first + j, 0], loaded, tv)
        mbarrier.wait(loaded, lp)
        lp ^= 1
        tcgen05_mma(tq, tk.permute((1, 0)), ts, use_acc=False)
        tcgen05_commit(done)
        mbarrier.wait(done, dp)
        dp ^= 1
        p = gl.exp2(ts.load() * scale)
        tp.store(p.to(gl.float16))
        tcgen05_mma(tp, tv, to, use_acc=use)
        tcgen05_commit(done)
        mbarrier.wait(done, dp)
        dp ^= 1
        use = True
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(dout.dtype, [BM, HD], dout.layout)
    out.store(to.load().to(dout.dtype))
    fence_async_shared()
    tma.async_store(dout, [row0, 0], out)
    tma.store_wait(0)


@gluon.jit
def gather_scatter(src, dst, gidx, sidx, ROWS: gl.constexpr, BC: gl.constexpr):
    buf = gl.allocate_shared_memory(src.dtype, [ROWS, BC], src.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    r = gl.arange(0, ROWS, layout=IDX)
    g = gl.load(gidx + gl.program_id(0) * ROWS + r)
    s = gl.load(sidx + gl.program_id(0) * ROWS + r)
    mbarrier.expect(bar, ROWS * BC * 2)
    tma.async_gather(src, g, 0, bar, buf)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_scatter(dst, s, 0, buf)
    tma.store_wait(0)


@gluon.jit
def clc_scale(src, dst, BR: gl.constexpr, BC: gl.constexpr):
    """Work stealing: after its own tile a CTA asks the hardware for another."""
    buf = gl.allocate_shared_memory(src.dtype, [BR, BC], src.layout)
    ans = gl.allocate_shared_memory(gl.int64, [2], CLCL)
    cbar = mbarrier.allocate_mbarrier()
    lbar = mbarrier.allocate_mbarrier()
    mbarrier.init(cbar, count=1)
    mbarrier.init(lbar, count=1)
    fence_async_shared()
    tile = gl.program_id(0)
    more = True
    phase = 0
    while more:
        gl.barrier()
        mbarrier.expect(cbar, 16)
        clc.try_cancel(ans, cbar)
        mbarrier.expect(lbar, src.nbytes_per_cta)
        tma.async_load(src, [tile * BR, 0], lbar, buf)
        mbarrier.wait(lbar, phase)
        v = buf.load(REG)
        gl.barrier()
        buf.store(v * 4)
        fence_async_shared()
        tma.async_store(dst, [tile * BR, 0], buf)
        tma.store_wait(0)
        mbarrier.wait(cbar, phase)
        res = clc.load_result(ans)
        fence_async_shared()
        more = res.is_canceled()
        tile = res.program_id(0)
        phase ^= 1


F = "gluon"
B = (100,)


def g(dt="fp16", layout=L16, M=256, N=128, K=384, BM=128, BN=128, BK=64, **kw):
    return dict(
        da=Desc(dt, [M, K], [BM, BK], layout),
        db=Desc(dt, [N, K], [BN, BK], layout),
        dc=Desc("fp16", [M, N], [BM, BN], L16),
        K=("i32", K),
        BM=BM,
        BN=BN,
        BK=BK,
        **kw,
    )


emit(F, "tcgen05_plain", t5_plain, g(), [2, 1], targets=B, gluon=True, math="c = a @ b.T")
emit(F, "tcgen05_plain_m64", t5_plain, g(BM=64, BN=64, N=64, M=128), [2, 1], targets=B, gluon=True, math="c = a @ b.T")
emit(
    F,
    "tcgen05_plain_fp8",
    t5_plain,
    g("fp8e4nv", L8, K=768, BK=128),
    [2, 1],
    targets=B,
    gluon=True,
    math="c = a @ b.T e4m3",
)
for s in (2, 3, 4):
    emit(F, f"tcgen05_ring_s{s}", t5_ring, g(STAGES=s), [2, 1], targets=B, gluon=True, math="c = a @ b.T")


def gw(STAGES, ACCS, M=512, N=256, K=320, BM=128, BN=128, BK=64):
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
        ACCS=ACCS,
    )


for s in (2, 3, 4):
    emit(F, f"tcgen05_ws_s{s}", t5_ws, gw(s, 1), [3], targets=B, gluon=True, math="c = a @ b.T, 8 tiles over 3 CTAs")
for s in (2, 3, 4):
    emit(F, f"tcgen05_ws_acc2_s{s}", t5_ws, gw(s, 2), [3], targets=B, gluon=True, math="c = a @ b.T, two accumulators")
emit(
    F,
    "tcgen05_ws_acc2_s3",
    t5_ws,
    gw(3, 2),
    [3],
    targets=B,
    gluon=True,
    native=True,
    math="c = a @ b.T, two accumulators",
)
emit(
    F,
    "tcgen05_two_products",
    t5_two_products,
    dict(
        dq=Desc("fp16", [512, 64], [128, 64], L16),
        dk=Desc("fp16", [512, 64], [128, 64], L16),
        dv=Desc("fp16", [512, 64], [128, 64], L16),
        dout=Desc("fp16", [512, 64], [128, 64], L16),
        seq=("i32", 256),
        scale=("f32", 0.0625),
        BM=128,
        BN=128,
        HD=64,
    ),
    [2, 2],
    targets=B,
    gluon=True,
    math="O = exp2(scale*Q K^T) V (f16 P), 2 heads x 256 x 64",
)
emit(
    F,
    "tma_gather_scatter",
    gather_scatter,
    dict(
        src=Desc("fp16", [64, 64], [1, 64], L16),
        dst=Desc("fp16", [64, 64], [1, 64], L16),
        gidx=Ptr("i32", 64, data=[(5 * row * row + 3) % 64 for row in range(64)]),
        sidx=Ptr("i32", 64, data=[(27 * row + 11) % 64 for row in range(64)]),
        ROWS=32,
        BC=64,
    ),
    [2],
    targets=B,
    gluon=True,
    math="dst[sidx[i]] = src[gidx[i]]; sidx must be a permutation",
)
emit(
    F,
    "clc_scale",
    clc_scale,
    dict(src=Desc("fp16", [256, 64], [64, 64], L16), dst=Desc("fp16", [256, 64], [64, 64], L16), BR=64, BC=64),
    [4],
    targets=B,
    gluon=True,
    math="dst = 4*src, cluster launch control",
)
