"""Pointwise, reduction, normalisation, scan, histogram, gather and atomics kernels."""

import triton
import triton.language as tl
from emit import Ptr, emit
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def vec_add(a, b, out, count, TILE: tl.constexpr):
    where = tl.program_id(0) * TILE + tl.arange(0, TILE)
    live = where < count
    tl.store(out + where, tl.load(a + where, mask=live) + tl.load(b + where, mask=live), mask=live)


@triton.jit
def row_softmax(src, dst, row_pitch, columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, TILE)
    live = col < columns
    x = tl.load(src + row * row_pitch + col, mask=live, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(dst + row * row_pitch + col, (e / tl.sum(e, axis=0)).to(tl.float16), mask=live)


@triton.jit
def softmax_rows_loop(src, dst, rows, columns, TILE: tl.constexpr, STAGES: tl.constexpr):
    first = tl.program_id(0)
    step = tl.num_programs(0)
    col = tl.arange(0, TILE)
    live = col < columns
    for row in tl.range(first, rows, step, num_stages=STAGES):
        x = tl.load(src + row * columns + col, mask=live, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(dst + row * columns + col, e / tl.sum(e, axis=0), mask=live)


@triton.jit
def layer_norm(x, gain, shift, y, mean_out, rstd_out, pitch, columns, eps, TILE: tl.constexpr):
    row = tl.program_id(0)
    x += row * pitch
    y += row * pitch
    acc = tl.zeros([TILE], tl.float32)
    for base in range(0, columns, TILE):
        col = base + tl.arange(0, TILE)
        acc += tl.load(x + col, mask=col < columns, other=0.0).to(tl.float32)
    mean = tl.sum(acc, axis=0) / columns
    sq = tl.zeros([TILE], tl.float32)
    for base in range(0, columns, TILE):
        col = base + tl.arange(0, TILE)
        d = tl.load(x + col, mask=col < columns, other=0.0).to(tl.float32) - mean
        d = tl.where(col < columns, d, 0.0)
        sq += d * d
    rstd = tl.rsqrt(tl.sum(sq, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for base in range(0, columns, TILE):
        col = base + tl.arange(0, TILE)
        live = col < columns
        v = (tl.load(x + col, mask=live, other=0.0).to(tl.float32) - mean) * rstd
        g = tl.load(gain + col, mask=live).to(tl.float32)
        s = tl.load(shift + col, mask=live).to(tl.float32)
        tl.store(y + col, (v * g + s).to(tl.float16), mask=live)


@triton.jit
def column_sum(src, dst, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    col = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros([BC], tl.float32)
    for r in range(0, rows, BR):
        row = r + tl.arange(0, BR)
        tile = tl.load(
            src + row[:, None] * columns + col[None, :],
            mask=(row[:, None] < rows) & (col[None, :] < columns),
            other=0.0,
        )
        acc += tl.sum(tile, axis=0)
    tl.store(dst + col, acc, mask=col < columns)


@triton.jit
def block_scan(src, dst, columns, TILE: tl.constexpr):
    col = tl.arange(0, TILE)
    row = tl.program_id(0)
    v = tl.load(src + row * columns + col)
    tl.store(dst + row * columns + col, tl.cumsum(v, axis=0))


@triton.jit
def block_histogram(src, counts, count, TILE: tl.constexpr, BINS: tl.constexpr):
    where = tl.program_id(0) * TILE + tl.arange(0, TILE)
    v = tl.load(src + where, mask=where < count, other=0)
    h = tl.histogram(v, BINS)
    tl.atomic_add(counts + tl.arange(0, BINS), h, sem="relaxed")


@triton.jit
def row_gather(table, index, out, width, TILE: tl.constexpr, ROWS: tl.constexpr):
    slot = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.load(index + slot)
    col = tl.arange(0, TILE)
    tl.store(out + slot[:, None] * width + col[None, :], tl.load(table + row[:, None] * width + col[None, :]))


@triton.jit
def tile_gather(src, index, out, TILE: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, TILE)
    c = tl.arange(0, COLS)
    off = r[:, None] * COLS + c[None, :]
    tl.store(out + off, tl.gather(tl.load(src + off), tl.load(index + off), axis=0))


@triton.jit
def ticket_reduce(src, partial, ticket, out, count, TILE: tl.constexpr):
    """Last block to arrive sums the partial results (acquire/release atomics between blocks)."""
    pid = tl.program_id(0)
    where = pid * TILE + tl.arange(0, TILE)
    s = tl.sum(tl.load(src + where, mask=where < count, other=0.0), axis=0)
    tl.store(partial + pid, s)
    tl.debug_barrier()
    seen = tl.atomic_add(ticket, 1, sem="acq_rel")
    if seen == tl.num_programs(0) - 1:
        k = tl.arange(0, 16)
        p = tl.load(partial + k, mask=k < tl.num_programs(0), other=0.0, volatile=True)
        tl.store(out, tl.sum(p, axis=0))


@triton.jit
def spin_lock_add(src, lock, acc, TILE: tl.constexpr):
    k = tl.arange(0, TILE)
    v = tl.load(src + tl.program_id(0) * TILE + k)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(acc + k, tl.load(acc + k) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def transpose_tile(src, dst, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    t = tl.load(src + r[:, None] * columns + c[None, :])
    tl.store(dst + c[:, None] * rows + r[None, :], tl.trans(t))


@triton.jit
def sort_rows(src, dst, TILE: tl.constexpr):
    k = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(dst + k, tl.sort(tl.load(src + k)))


F = "triton"
emit(
    F,
    "vec_add",
    vec_add,
    dict(a=Ptr("fp32", 4000), b=Ptr("fp32", 4000), out=Ptr("fp32", 4000), count=("i32", 4000), TILE=1024),
    [4],
    math="out = a + b (f32)",
)
emit(
    F,
    "softmax",
    row_softmax,
    dict(src=Ptr("fp16", 4, 1000), dst=Ptr("fp16", 4, 1000), row_pitch=("i32", 1000), columns=("i32", 1000), TILE=1024),
    [4],
    math="row softmax f16, 4x1000",
)
emit(
    F,
    "softmax_persistent",
    softmax_rows_loop,
    dict(
        src=Ptr("fp32", 24, 1000),
        dst=Ptr("fp32", 24, 1000),
        rows=("i32", 24),
        columns=("i32", 1000),
        TILE=1024,
        STAGES=3,
    ),
    [4],
    math="row softmax f32, 24x1000",
)
emit(
    F,
    "layernorm",
    layer_norm,
    dict(
        x=Ptr("fp16", 4, 1500),
        gain=Ptr("fp16", 1500),
        shift=Ptr("fp16", 1500),
        y=Ptr("fp16", 4, 1500),
        mean_out=Ptr("fp32", 4),
        rstd_out=Ptr("fp32", 4),
        pitch=("i32", 1500),
        columns=("i32", 1500),
        eps=("f32", 1e-5),
        TILE=512,
    ),
    [4],
    math="layer norm f16 4x1500",
)
emit(
    F,
    "column_sum",
    column_sum,
    dict(src=Ptr("fp32", 200, 256), dst=Ptr("fp32", 256), rows=("i32", 200), columns=("i32", 256), BR=32, BC=64),
    [4],
    math="dst = src.sum(0) f32 200x256",
)
emit(
    F,
    "scan",
    block_scan,
    dict(src=Ptr("fp32", 4, 2048), dst=Ptr("fp32", 4, 2048), columns=("i32", 2048), TILE=2048),
    [4],
    math="row cumsum f32 4x2048",
)
emit(
    F,
    "histogram",
    block_histogram,
    dict(src=Ptr("i32", 4096), counts=Ptr("i32", 64), count=("i32", 4096), TILE=1024, BINS=64),
    [4],
    math="64-bin histogram of i32 in [0,64), counts start at 0",
)
emit(
    F,
    "gather_rows",
    row_gather,
    dict(
        table=Ptr("fp16", 64, 128),
        index=Ptr("i32", 64),
        out=Ptr("fp16", 64, 128),
        width=("i32", 128),
        TILE=128,
        ROWS=16,
    ),
    [4],
    math="out[i] = table[index[i]], index in [0,64)",
)
emit(
    F,
    "gather_tile",
    tile_gather,
    dict(src=Ptr("fp32", 64, 32), index=Ptr("i32", 64, 32), out=Ptr("fp32", 64, 32), TILE=64, COLS=32),
    [1],
    math="out[i,j] = src[index[i,j], j], index in [0,64)",
)
emit(
    F,
    "ticket_reduce",
    ticket_reduce,
    dict(
        src=Ptr("fp32", 4096),
        partial=Ptr("fp32", 4),
        ticket=Ptr("i32", 1),
        out=Ptr("fp32", 1),
        count=("i32", 4096),
        TILE=1024,
    ),
    [4],
    math="out = src.sum(); ticket and partial start at 0",
)
emit(
    F,
    "spin_lock",
    spin_lock_add,
    dict(src=Ptr("fp32", 3, 256), lock=Ptr("i32", 1), acc=Ptr("fp32", 256), TILE=256),
    [3],
    math="acc += src.sum(0); lock starts 0",
)
emit(
    F,
    "transpose",
    transpose_tile,
    dict(src=Ptr("fp16", 128, 64), dst=Ptr("fp16", 64, 128), rows=("i32", 128), columns=("i32", 64), BR=64, BC=32),
    [2, 2],
    math="dst = src.T f16 128x64",
)
emit(
    F,
    "sort",
    sort_rows,
    dict(src=Ptr("fp32", 2, 512), dst=Ptr("fp32", 2, 512), TILE=512),
    [2],
    math="row sort ascending f32 2x512",
)


@triton.jit
def dependent_add(x, y, out, n, BLOCK: tl.constexpr):
    """Starts before the kernel before it has ended, waits for it, lets the next one start."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gdc_wait()
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    gdc_launch_dependents()
    tl.store(out + i, a + b, mask=i < n)


emit(
    F,
    "dependent_add",
    dependent_add,
    dict(x=Ptr("fp32", 1000), y=Ptr("fp32", 1000), out=Ptr("fp32", 1000), n=("i32", 1000), BLOCK=256),
    [4],
    options=dict(launch_pdl=True),
    math="out = x + y after the kernel before",
)
