"""Attention forward in several styles, plus a backward-style two-dot kernel."""

import triton
import triton.language as tl
from emit import Desc, Ptr, emit


@triton.jit
def attn_ptr(
    q,
    k,
    v,
    out,
    lse,
    heads,
    seq,
    scale,
    HD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
    STAGES: tl.constexpr,
):
    rowblk = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * seq * HD
    r = rowblk * BM + tl.arange(0, BM)
    d = tl.arange(0, HD)
    n = tl.arange(0, BN)
    tq = tl.load(q + base + r[:, None] * HD + d[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    den = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, HD), tl.float32)
    end = seq
    if CAUSAL:
        end = (rowblk + 1) * BM
    for j in tl.range(0, end, BN, num_stages=STAGES):
        tk = tl.load(k + base + (j + n)[None, :] * HD + d[:, None])
        s = tl.dot(tq, tk) * (scale * 1.44269504)
        if CAUSAL:
            s = tl.where(r[:, None] >= (j + n)[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        fix = tl.exp2(top - new)
        den = den * fix + tl.sum(p, axis=1)
        tv = tl.load(v + base + (j + n)[:, None] * HD + d[None, :])
        acc = tl.dot(p.to(tl.float16), tv, acc * fix[:, None])
        top = new
    tl.store(out + base + r[:, None] * HD + d[None, :], (acc / den[:, None]).to(tl.float16))
    tl.store(lse + tl.program_id(1) * seq + r, top + tl.log2(den))


@triton.jit
def attn_inner(
    acc,
    den,
    top,
    tq,
    dk,
    dv,
    row0,
    first,
    lo,
    hi,
    scale,
    r,
    n,
    BN: tl.constexpr,
    MASK: tl.constexpr,
    WS: tl.constexpr,
    STAGES: tl.constexpr,
):
    for j in tl.range(lo, hi, BN, num_stages=STAGES, warp_specialize=WS):
        j = tl.multiple_of(j, BN)
        tk = dk.load([first + j, 0]).T
        s = tl.dot(tq, tk)
        if MASK:
            s = s * scale + tl.where(r[:, None] >= (j + n)[None, :], 0.0, -1.0e6)
            new = tl.maximum(top, tl.max(s, 1))
            s -= new[:, None]
        else:
            new = tl.maximum(top, tl.max(s, 1) * scale)
            s = s * scale - new[:, None]
        p = tl.exp2(s)
        fix = tl.exp2(top - new)
        part = tl.sum(p, 1)
        acc = acc * fix[:, None]
        tv = dv.load([first + j, 0])
        acc = tl.dot(p.to(dv.dtype), tv, acc)
        den = den * fix + part
        top = new
    return acc, den, top


@triton.jit
def attn_desc(
    dq,
    dk,
    dv,
    dout,
    lse,
    seq,
    scale,
    HD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
    WS: tl.constexpr,
    STAGES: tl.constexpr,
):
    blk = tl.program_id(0)
    first = tl.program_id(1) * seq
    row0 = first + blk * BM
    r = blk * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    top = tl.full((BM,), -float("inf"), tl.float32)
    den = tl.zeros((BM,), tl.float32) + 1.0
    acc = tl.zeros((BM, HD), tl.float32)
    sc = scale * 1.44269504
    tq = dq.load([row0, 0])
    if CAUSAL:
        acc, den, top = attn_inner(acc, den, top, tq, dk, dv, row0, first, 0, blk * BM, sc, r, n, BN, False, WS, STAGES)
        acc, den, top = attn_inner(
            acc, den, top, tq, dk, dv, row0, first, blk * BM, (blk + 1) * BM, sc, r, n, BN, True, WS, STAGES
        )
    else:
        acc, den, top = attn_inner(acc, den, top, tq, dk, dv, row0, first, 0, seq, sc, r, n, BN, False, WS, STAGES)
    tl.store(lse + tl.program_id(1) * seq + r, top + tl.log2(den))
    dout.store([row0, 0], (acc / den[:, None]).to(dout.dtype))


@triton.jit
def attn_bwd_dkdv(
    dq_q,
    dk,
    dv,
    ddo,
    lse,
    delta,
    out_dk,
    out_dv,
    seq,
    scale,
    HD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    STAGES: tl.constexpr,
):
    n0 = tl.program_id(0) * BN
    tk = dk.load([n0, 0])
    tv = dv.load([n0, 0])
    gk = tl.zeros((BN, HD), tl.float32)
    gv = tl.zeros((BN, HD), tl.float32)
    for m0 in tl.range(0, seq, BM, num_stages=STAGES):
        tq = dq_q.load([m0, 0])
        to = ddo.load([m0, 0])
        m = m0 + tl.arange(0, BM)
        sums = tl.load(lse + m)
        dl = tl.load(delta + m)
        st = tl.dot(tk, tq.T)
        pt = tl.exp2(st * (scale * 1.44269504) - sums[None, :])
        gv = tl.dot(pt.to(tl.float16), to, gv)
        dpt = tl.dot(tv, to.T)
        dst = pt * (dpt - dl[None, :])
        gk = tl.dot(dst.to(tl.float16), tq, gk)
    r = n0 + tl.arange(0, BN)
    c = tl.arange(0, HD)
    tl.store(out_dk + r[:, None] * HD + c[None, :], (gk * scale).to(tl.float16))
    tl.store(out_dv + r[:, None] * HD + c[None, :], gv.to(tl.float16))


F = "triton"
Z, S, D = 2, 512, 64


def pa(causal, stages, HD=64, BN=64):
    return dict(
        q=Ptr("fp16", Z, S, HD),
        k=Ptr("fp16", Z, S, HD),
        v=Ptr("fp16", Z, S, HD),
        out=Ptr("fp16", Z, S, HD),
        lse=Ptr("fp32", Z, S),
        heads=("i32", Z),
        seq=("i32", S),
        scale=("f32", 0.125),
        HD=HD,
        BM=128,
        BN=BN,
        CAUSAL=causal,
        STAGES=stages,
    )


def da(causal, stages, ws, HD=64, BN=64, dt="fp16"):
    return dict(
        dq=Desc(dt, [Z * S, HD], [128, HD]),
        dk=Desc(dt, [Z * S, HD], [BN, HD]),
        dv=Desc(dt, [Z * S, HD], [BN, HD]),
        dout=Desc(dt, [Z * S, HD], [128, HD]),
        lse=Ptr("fp32", Z, S),
        seq=("i32", S),
        scale=("f32", 0.125),
        HD=HD,
        BM=128,
        BN=BN,
        CAUSAL=causal,
        WS=ws,
        STAGES=stages,
    )


mt = "attention forward, 2 heads x 512 x %d, scale 0.125"
for c in (False, True):
    t = "causal" if c else "full"
    emit(
        F, f"attn_ptr_{t}", attn_ptr, pa(c, 3), [2, 2], options=dict(num_warps=4, num_stages=3), math=mt % 64 + " " + t
    )
    for s in (2, 3, 4):
        emit(
            F,
            f"attn_tma_{t}_s{s}",
            attn_desc,
            da(c, s, False),
            [2, 2],
            options=dict(num_warps=4, num_stages=s),
            math=mt % 64 + " " + t,
        )
    emit(
        F,
        f"attn_tma_{t}_d128_8w",
        attn_desc,
        da(c, 2, False, HD=128),
        [2, 1],
        options=dict(num_warps=8, num_stages=2),
        math=mt % 128 + " " + t,
    )
    for s in (2, 3):
        emit(
            F,
            f"attn_ws_{t}_s{s}",
            attn_desc,
            da(c, s, True),
            [2, 2],
            targets=(100,),
            options=dict(num_warps=4, num_stages=s),
            math=mt % 64 + " " + t,
        )
    emit(
        F,
        f"attn_ws_{t}_d128",
        attn_desc,
        da(c, 2, True, HD=128, BN=128),
        [2, 1],
        targets=(100,),
        options=dict(num_warps=4, num_stages=2),
        math=mt % 128 + " " + t,
    )
emit(
    F,
    "attn_tma_bf16",
    attn_desc,
    da(False, 3, False, dt="bf16"),
    [2, 2],
    options=dict(num_warps=4, num_stages=3),
    math=mt % 64 + " bf16",
)
emit(
    F,
    "attn_bwd_dkdv",
    attn_bwd_dkdv,
    dict(
        dq_q=Desc("fp16", [256, 64], [64, 64]),
        dk=Desc("fp16", [256, 64], [128, 64]),
        dv=Desc("fp16", [256, 64], [128, 64]),
        ddo=Desc("fp16", [256, 64], [64, 64]),
        lse=Ptr("fp32", 256),
        delta=Ptr("fp32", 256),
        out_dk=Ptr("fp16", 256, 64),
        out_dv=Ptr("fp16", 256, 64),
        seq=("i32", 256),
        scale=("f32", 0.125),
        HD=64,
        BM=64,
        BN=128,
        STAGES=2,
    ),
    [2],
    options=dict(num_warps=4),
    math="attention backward dK, dV (base-2 lse given)",
)
