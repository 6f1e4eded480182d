# ruff: noqa: SIM108 - branches on compile-time constants stay branches.
"""Matrix multiplication: pointers, host and device descriptors, persistent, fp8, split-K, grouped, clusters."""

import triton
import triton.language as tl
from emit import Desc, Ptr, emit


@triton.jit
def mm_ptr(
    a,
    b,
    c,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    STAGES: tl.constexpr,
    TF32: tl.constexpr,
):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    r = (pm * BM + tl.arange(0, BM)) % M
    s = (pn * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    pa = a + r[:, None] * lda + k[None, :]
    pb = b + k[:, None] * ldb + s[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(0, tl.cdiv(K, BK), num_stages=STAGES):
        left = K - step * BK
        ta = tl.load(pa, mask=k[None, :] < left, other=0.0)
        tb = tl.load(pb, mask=k[:, None] < left, other=0.0)
        if TF32:
            acc = tl.dot(ta, tb, acc, input_precision="tf32")
        else:
            acc = tl.dot(ta, tb, acc)
        pa += BK
        pb += BK * ldb
    rr = pm * BM + tl.arange(0, BM)
    ss = pn * BN + tl.arange(0, BN)
    tl.store(
        c + rr[:, None] * ldc + ss[None, :], acc.to(c.dtype.element_ty), mask=(rr[:, None] < M) & (ss[None, :] < N)
    )


@triton.jit
def mm_splitk(
    a,
    b,
    c,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SPLIT: tl.constexpr,
    STAGES: tl.constexpr,
):
    tile = tl.program_id(0)
    part = tl.program_id(1)
    across = tl.cdiv(N, BN)
    pm = tile // across
    pn = tile % across
    r = pm * BM + tl.arange(0, BM)
    s = pn * BN + tl.arange(0, BN)
    k = part * BK + tl.arange(0, BK)
    pa = a + r[:, None] * lda + k[None, :]
    pb = b + k[:, None] * ldb + s[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _step in tl.range(0, tl.cdiv(K, BK * SPLIT), num_stages=STAGES):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK * SPLIT
        pb += BK * SPLIT * ldb
    tl.atomic_add(c + r[:, None] * ldc + s[None, :], acc, sem="relaxed")


@triton.jit
def mm_desc(
    da,
    db,
    dc,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    STAGES: tl.constexpr,
    WS: tl.constexpr,
    BT: tl.constexpr,
):
    m0 = tl.program_id(0) * BM
    n0 = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), num_stages=STAGES, warp_specialize=WS):
        ta = da.load([m0, k * BK])
        if BT:
            acc = tl.dot(ta, db.load([n0, k * BK]).T, acc)
        else:
            acc = tl.dot(ta, db.load([k * BK, n0]), acc)
    dc.store([m0, n0], acc.to(dc.dtype))


@triton.jit
def mm_desc_ptr_store(da, db, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    m0 = tl.program_id(0) * BM
    n0 = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        acc = tl.dot(da.load([m0, k]), db.load([n0, k]).T, acc)
    r = m0 + tl.arange(0, BM)
    s = n0 + tl.arange(0, BN)
    tl.store(c + r[:, None] * N + s[None, :], acc.to(tl.float16))


@triton.jit
def swizzled(tile, rows, cols, GROUP: tl.constexpr):
    wide = GROUP * cols
    g = tile // wide
    first = g * GROUP
    tall = min(rows - first, GROUP)
    return first + (tile % wide) % tall, (tile % wide) // tall


@triton.jit
def mm_persistent(
    da,
    db,
    dc,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    FLATTEN: tl.constexpr,
    WS: tl.constexpr,
    STAGES: tl.constexpr,
    SUBTILE: tl.constexpr,
):
    rows = tl.cdiv(M, BM)
    cols = tl.cdiv(N, BN)
    steps = tl.cdiv(K, BK)
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=FLATTEN, warp_specialize=WS):
        i, j = swizzled(tile, rows, cols, GROUP)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, steps, num_stages=STAGES):
            acc = tl.dot(da.load([i * BM, k * BK]), db.load([j * BN, k * BK]).T, acc)
        if SUBTILE:
            halves = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
            lo, hi = tl.split(halves)
            dc.store([i * BM, j * BN], lo.to(dc.dtype))
            dc.store([i * BM, j * BN + BN // 2], hi.to(dc.dtype))
        else:
            dc.store([i * BM, j * BN], acc.to(dc.dtype))


@triton.jit
def mm_persistent_ptr(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, STAGES: tl.constexpr
):
    rows = tl.cdiv(M, BM)
    cols = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=True):
        i, j = swizzled(tile, rows, cols, GROUP)
        r = i * BM + tl.arange(0, BM)
        s = j * BN + tl.arange(0, BN)
        k0 = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, K, BK, num_stages=STAGES):
            ta = tl.load(a + r[:, None] * K + (k + k0)[None, :])
            tb = tl.load(b + s[None, :] * K + (k + k0)[:, None])
            acc = tl.dot(ta, tb, acc)
        tl.store(c + r[:, None] * N + s[None, :], acc.to(tl.float16))


@triton.jit
def mm_device_desc(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m0 = tl.program_id(0) * BM
    n0 = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        acc = tl.dot(da.load([m0, k]), db.load([n0, k]).T, acc)
    dc.store([m0, n0], acc.to(tl.float16))


@triton.jit
def grouped_gemm_desc(
    pa, pb, pc, pm, pn, pk, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr
):
    tile = tl.program_id(0)
    done = 0
    for g in range(groups):
        m = tl.load(pm + g)
        n = tl.load(pn + g)
        k = tl.load(pk + g)
        across = tl.cdiv(n, BN)
        here = tl.cdiv(m, BM) * across
        if tile >= done and tile < done + here:
            da = tl.make_tensor_descriptor(tl.load(pa + g).to(tl.pointer_type(tl.float16)), [m, k], [k, 1], [BM, BK])
            db = tl.make_tensor_descriptor(tl.load(pb + g).to(tl.pointer_type(tl.float16)), [n, k], [k, 1], [BN, BK])
            dc = tl.make_tensor_descriptor(tl.load(pc + g).to(tl.pointer_type(tl.float16)), [m, n], [n, 1], [BM, BN])
            while tile >= done and tile < done + here:
                local = tile - done
                m0 = (local // across) * BM
                n0 = (local % across) * BN
                acc = tl.zeros((BM, BN), tl.float32)
                for kk in tl.range(0, tl.cdiv(k, BK), num_stages=STAGES):
                    acc = tl.dot(da.load([m0, kk * BK]), db.load([n0, kk * BK]).T, acc)
                dc.store([m0, n0], acc.to(tl.float16))
                tile += tl.num_programs(0)
        done += here


@triton.jit
def grouped_gemm_ptr(
    pa, pb, pc, pm, pn, pk, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr
):
    tile = tl.program_id(0)
    done = 0
    for g in range(groups):
        m = tl.load(pm + g)
        n = tl.load(pn + g)
        k = tl.load(pk + g)
        across = tl.cdiv(n, BN)
        here = tl.cdiv(m, BM) * across
        while tile >= done and tile < done + here:
            local = tile - done
            a = tl.load(pa + g).to(tl.pointer_type(tl.float16))
            b = tl.load(pb + g).to(tl.pointer_type(tl.float16))
            c = tl.load(pc + g).to(tl.pointer_type(tl.float16))
            r = (local // across) * BM + tl.arange(0, BM)
            s = (local % across) * BN + tl.arange(0, BN)
            q = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), tl.float32)
            for kk in tl.range(0, tl.cdiv(k, BK), num_stages=STAGES):
                ta = tl.load(tl.multiple_of(a + r[:, None] * k + (kk * BK + q)[None, :], [16, 16]))
                tb = tl.load(tl.multiple_of(b + (kk * BK + q)[:, None] * n + s[None, :], [16, 16]))
                acc = tl.dot(ta, tb, acc)
            tl.store(c + r[:, None] * n + s[None, :], acc.to(tl.float16))
            tile += tl.num_programs(0)
        done += here


@triton.jit
def mm_bias_gelu(da, db, bias, dc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    m0 = tl.program_id(0) * BM
    n0 = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        acc = tl.dot(da.load([m0, k]), db.load([k, n0]), acc)
    acc += tl.load(bias + n0 + tl.arange(0, BN)).to(tl.float32)[None, :]
    acc = acc * (1.0 / (1.0 + tl.exp(-1.702 * acc)))
    dc.store([m0, n0], acc.to(tl.bfloat16))


@triton.jit
def copy_desc(src, dst, BR: tl.constexpr, BC: tl.constexpr, columns, STAGES: tl.constexpr):
    r = tl.program_id(0) * BR
    for c in tl.range(0, columns, BC, num_stages=STAGES):
        dst.store([r, c], src.load([r, c]) * 2.0)


@triton.jit
def reduce_desc(src, dst, BR: tl.constexpr, BC: tl.constexpr, columns):
    r = tl.program_id(0) * BR
    for c in tl.range(0, columns, BC):
        dst.atomic_add([0, c], src.load([r, c]))


@triton.jit
def gather_desc(src, index, dst, BC: tl.constexpr, ROWS: tl.constexpr, columns):
    d = tl.make_tensor_descriptor(src, [64, columns], [columns, 1], [1, BC])
    idx = tl.load(index + tl.program_id(0) * ROWS + tl.arange(0, ROWS))
    tile = d.gather(idx, tl.program_id(1) * BC)
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    tl.store(dst + r[:, None] * columns + c[None, :], tile)


@triton.jit
def mm_scaled(a, sa, b, sb, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    s = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    ks = tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(0, K // BK, num_stages=STAGES):
        ta = tl.load(a + r[:, None] * K + (step * BK + k)[None, :])
        tb = tl.load(b + s[None, :] * K + (step * BK + k)[:, None])
        xa = tl.load(sa + r[:, None] * (K // 32) + (step * (BK // 32) + ks)[None, :])
        xb = tl.load(sb + s[:, None] * (K // 32) + (step * (BK // 32) + ks)[None, :])
        acc = tl.dot_scaled(ta, xa, "e4m3", tb, xb, "e4m3", acc)
    tl.store(c + r[:, None] * N + s[None, :], acc.to(tl.float16))


F = "triton"
M, N, K = 256, 128, 320


def ptr_args(dt="fp16", odt="fp16", M=M, N=N, K=K, BM=128, BN=128, BK=64, STAGES=3, TF32=False):
    return dict(
        a=Ptr(dt, M, K),
        b=Ptr(dt, K, N),
        c=Ptr(odt, M, N),
        M=("i32", M),
        N=("i32", N),
        K=("i32", K),
        lda=("i32", K),
        ldb=("i32", N),
        ldc=("i32", N),
        BM=BM,
        BN=BN,
        BK=BK,
        STAGES=STAGES,
        TF32=TF32,
    )


def desc_args(dt="fp16", odt="fp16", M=256, N=128, K=384, BM=128, BN=128, BK=64, STAGES=3, WS=False, BT=False):
    return dict(
        da=Desc(dt, [M, K], [BM, BK]),
        db=Desc(dt, [N, K], [BN, BK]) if BT else Desc(dt, [K, N], [BK, BN]),
        dc=Desc(odt, [M, N], [BM, BN]),
        K=("i32", K),
        BM=BM,
        BN=BN,
        BK=BK,
        STAGES=STAGES,
        WS=WS,
        BT=BT,
    )


def pers_args(
    dt="fp16",
    odt="fp16",
    M=512,
    N=256,
    K=256,
    BM=128,
    BN=128,
    BK=64,
    GROUP=2,
    FLATTEN=False,
    WS=False,
    STAGES=3,
    SUBTILE=False,
):
    return dict(
        da=Desc(dt, [M, K], [BM, BK]),
        db=Desc(dt, [N, K], [BN, BK]),
        dc=Desc(odt, [M, N], [BM, BN // 2 if SUBTILE else BN]),
        M=("i32", M),
        N=("i32", N),
        K=("i32", K),
        BM=BM,
        BN=BN,
        BK=BK,
        GROUP=GROUP,
        FLATTEN=FLATTEN,
        WS=WS,
        STAGES=STAGES,
        SUBTILE=SUBTILE,
    )


mm = "c = a @ b, f32 accumulation"
for s in (1, 2, 3, 4):
    emit(F, f"matmul_ptr_s{s}", mm_ptr, ptr_args(STAGES=s), [2, 1], options=dict(num_warps=4, num_stages=s), math=mm)
for s in (1, 2, 3, 4):
    emit(F, f"matmul_tma_s{s}", mm_desc, desc_args(STAGES=s), [2, 1], options=dict(num_warps=4, num_stages=s), math=mm)
emit(
    F,
    "matmul_tma_bt_8w",
    mm_desc,
    desc_args(N=256, BN=256, BT=True),
    [2, 1],
    options=dict(num_warps=8, num_stages=3),
    math="c = a @ b.T",
)
emit(
    F,
    "matmul_tma_bf16",
    mm_desc,
    desc_args("bf16", "bf16", BT=True),
    [2, 1],
    options=dict(num_warps=4, num_stages=3),
    math="c = a @ b.T bf16",
)
emit(
    F,
    "matmul_tma_ptrstore",
    mm_desc_ptr_store,
    dict(
        da=Desc("fp16", [256, 384], [128, 64]),
        db=Desc("fp16", [128, 384], [128, 64]),
        c=Ptr("fp16", 256, 128),
        N=("i32", 128),
        K=("i32", 384),
        BM=128,
        BN=128,
        BK=64,
        STAGES=3,
    ),
    [2, 1],
    options=dict(num_warps=4),
    math="c = a @ b.T",
)
emit(
    F,
    "matmul_fp8_tma",
    mm_desc,
    desc_args("fp8e4nv", "fp16", K=768, BK=128, BT=True),
    [2, 1],
    options=dict(num_warps=4, num_stages=3),
    math="c = a @ b.T, e4m3",
)
emit(
    F,
    "matmul_fp8_ptr",
    mm_ptr,
    ptr_args("fp8e4nv", "fp16", K=640, BK=128),
    [2, 1],
    options=dict(num_warps=4, num_stages=3),
    math="c = a @ b, e4m3",
)
emit(
    F,
    "matmul_tf32_ptr",
    mm_ptr,
    ptr_args("fp32", "fp32", BK=32, K=160, TF32=True),
    [2, 1],
    options=dict(num_warps=4, num_stages=3),
    math="c = a @ b, tf32",
)
emit(
    F,
    "matmul_tf32_tma",
    mm_desc,
    desc_args("fp32", "fp32", K=192, BK=32, BT=True, BN=64, N=64),
    [2, 1],
    options=dict(num_warps=4, num_stages=3),
    math="c = a @ b.T, tf32",
)
emit(
    F,
    "matmul_ptr_small",
    mm_ptr,
    ptr_args(M=32, N=32, K=80, BM=16, BN=16, BK=16, STAGES=3),
    [2, 2],
    options=dict(num_warps=1, num_stages=3),
    math=mm,
)
emit(
    F,
    "matmul_ptr_ragged",
    mm_ptr,
    ptr_args(M=200, N=104, K=296),
    [2, 1],
    options=dict(num_warps=4, num_stages=3),
    math=mm,
)
for s in (2, 3, 4):
    emit(
        F,
        f"matmul_persistent_s{s}",
        mm_persistent,
        pers_args(STAGES=s),
        [3],
        options=dict(num_warps=8, num_stages=s),
        math="c = a @ b.T, 8 tiles over 3 CTAs",
    )
emit(
    F,
    "matmul_persistent_flat",
    mm_persistent,
    pers_args(FLATTEN=True),
    [3],
    options=dict(num_warps=8, num_stages=3),
    math="c = a @ b.T",
)
emit(
    F,
    "matmul_persistent_subtile",
    mm_persistent,
    pers_args(FLATTEN=True, SUBTILE=True),
    [3],
    options=dict(num_warps=8, num_stages=3),
    math="c = a @ b.T",
)
emit(
    F,
    "matmul_persistent_fp8",
    mm_persistent,
    pers_args("fp8e4nv", "fp16", K=512, BK=128),
    [3],
    options=dict(num_warps=8, num_stages=3),
    math="c = a @ b.T e4m3",
)
emit(
    F,
    "matmul_persistent_ptr",
    mm_persistent_ptr,
    dict(
        a=Ptr("fp16", 512, 256),
        b=Ptr("fp16", 256, 256),
        c=Ptr("fp16", 512, 256),
        M=("i32", 512),
        N=("i32", 256),
        K=("i32", 256),
        BM=128,
        BN=128,
        BK=64,
        GROUP=2,
        STAGES=3,
    ),
    [3],
    options=dict(num_warps=8),
    math="c = a @ b.T",
)
emit(
    F,
    "matmul_splitk",
    mm_splitk,
    dict(
        a=Ptr("fp16", 128, 1024),
        b=Ptr("fp16", 1024, 128),
        c=Ptr("fp32", 128, 128),
        M=("i32", 128),
        N=("i32", 128),
        K=("i32", 1024),
        lda=("i32", 1024),
        ldb=("i32", 128),
        ldc=("i32", 128),
        BM=128,
        BN=128,
        BK=64,
        SPLIT=4,
        STAGES=3,
    ),
    [1, 4],
    options=dict(num_warps=4),
    math="c += a @ b (f32, c starts 0)",
)
for s in (2, 3, 4):
    emit(
        F,
        f"matmul_ws_s{s}",
        mm_desc,
        desc_args(STAGES=s, WS=True, BT=True),
        [2, 1],
        targets=(100,),
        options=dict(num_warps=4, num_stages=s),
        math="c = a @ b.T",
    )
    emit(
        F,
        f"matmul_persistent_ws_s{s}",
        mm_persistent,
        pers_args(STAGES=s, WS=True),
        [3],
        targets=(100,),
        options=dict(num_warps=4, num_stages=s),
        math="c = a @ b.T",
    )
emit(
    F,
    "matmul_persistent_ws_flat",
    mm_persistent,
    pers_args(FLATTEN=True, WS=True, SUBTILE=True),
    [3],
    targets=(100,),
    options=dict(num_warps=4, num_stages=3),
    math="c = a @ b.T",
)
emit(
    F,
    "matmul_persistent_wsattr_8w",
    mm_persistent,
    pers_args(WS=True),
    [3],
    targets=(90,),
    options=dict(num_warps=8, num_stages=3),
    math="c = a @ b.T (warp_specialize asked, ignored by the compiler)",
)
emit(
    F,
    "matmul_fp8_ws",
    mm_desc,
    desc_args("fp8e4nv", "fp16", K=768, BK=128, BT=True, WS=True),
    [2, 1],
    targets=(100,),
    options=dict(num_warps=4, num_stages=3),
    math="c = a @ b.T e4m3",
)
for s in (2, 3):
    emit(
        F,
        f"matmul_devdesc_s{s}",
        mm_device_desc,
        dict(
            a=Ptr("fp16", 256, 384),
            b=Ptr("fp16", 128, 384),
            c=Ptr("fp16", 256, 128),
            M=("i32", 256),
            N=("i32", 128),
            K=("i32", 384),
            BM=128,
            BN=128,
            BK=64,
            STAGES=s,
        ),
        [2, 1],
        options=dict(num_warps=4),
        math="c = a @ b.T (descriptors built on the device in global_scratch)",
    )
gg = dict(
    pa=Ptr("i64", 2),
    pb=Ptr("i64", 2),
    pc=Ptr("i64", 2),
    pm=Ptr("i32", 2),
    pn=Ptr("i32", 2),
    pk=Ptr("i32", 2),
    groups=("i32", 2),
    BM=128,
    BN=128,
    BK=64,
    STAGES=3,
)
emit(
    F,
    "grouped_gemm_devdesc",
    grouped_gemm_desc,
    gg,
    [2],
    options=dict(num_warps=4),
    math="per group c = a @ b.T; pa/pb/pc hold device addresses (needs real pointers in memory)",
)
emit(
    F,
    "grouped_gemm_ptr",
    grouped_gemm_ptr,
    gg,
    [2],
    options=dict(num_warps=4),
    math="per group c = a @ b; pa/pb/pc hold device addresses",
)
emit(
    F,
    "matmul_bias_gelu",
    mm_bias_gelu,
    dict(
        da=Desc("bf16", [256, 384], [128, 64]),
        db=Desc("bf16", [384, 128], [64, 128]),
        bias=Ptr("bf16", 128),
        dc=Desc("bf16", [256, 128], [128, 128]),
        K=("i32", 384),
        BM=128,
        BN=128,
        BK=64,
        STAGES=3,
    ),
    [2, 1],
    options=dict(num_warps=4),
    math="c = x*sigmoid(1.702x), x = a @ b + bias",
)
emit(
    F,
    "copy_tma",
    copy_desc,
    dict(
        src=Desc("fp16", [128, 320], [64, 64]),
        dst=Desc("fp16", [128, 320], [64, 64]),
        BR=64,
        BC=64,
        columns=("i32", 320),
        STAGES=3,
    ),
    [2],
    math="dst = 2*src",
)
emit(
    F,
    "reduce_tma",
    reduce_desc,
    dict(
        src=Desc("fp32", [128, 128], [32, 32]),
        dst=Desc("fp32", [32, 128], [32, 32]),
        BR=32,
        BC=32,
        columns=("i32", 128),
    ),
    [4],
    math="dst += src summed over 4 row blocks of 32",
)
emit(
    F,
    "gather_tma",
    gather_desc,
    dict(
        src=Ptr("fp16", 64, 128), index=Ptr("i32", 32), dst=Ptr("fp16", 32, 128), BC=64, ROWS=16, columns=("i32", 128)
    ),
    [2, 2],
    targets=(100,),
    math="dst[i] = src[index[i]] by TMA gather4",
)
for s in (2, 3):
    emit(
        F,
        f"matmul_tma_2cta_s{s}",
        mm_desc,
        desc_args(M=512, BM=256, BN=128, STAGES=s),
        [2, 1],
        options=dict(num_warps=4, num_ctas=2, num_stages=s),
        math=mm,
    )
emit(
    F,
    "matmul_ptr_2cta",
    mm_ptr,
    ptr_args(M=512, BM=256, BN=128),
    [2, 1],
    options=dict(num_warps=4, num_ctas=2, num_stages=3),
    math=mm,
)
emit(
    F,
    "matmul_mxfp8",
    mm_scaled,
    dict(
        a=Ptr("fp8e4nv", 128, 512),
        sa=Ptr("u8", 128, 16),
        b=Ptr("fp8e4nv", 128, 512),
        sb=Ptr("u8", 128, 16),
        c=Ptr("fp16", 128, 128),
        M=("i32", 128),
        N=("i32", 128),
        K=("i32", 512),
        BM=128,
        BN=128,
        BK=128,
        STAGES=2,
    ),
    [1, 1],
    options=dict(num_warps=4),
    math="c = (a*2^(sa-127)) @ (b*2^(sb-127)).T, groups of 32 along K",
)
for n, fn, a in (
    ("matmul_tma_s3", mm_desc, desc_args()),
    ("matmul_ptr_s3", mm_ptr, ptr_args()),
    ("matmul_persistent_s3", mm_persistent, pers_args()),
):
    emit(
        F,
        n,
        fn,
        a,
        [3] if "pers" in n else [2, 1],
        options=dict(num_warps=8 if "pers" in n else 4, num_stages=3),
        math=mm,
        native=True,
    )
