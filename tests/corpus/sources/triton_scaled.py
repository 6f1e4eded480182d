"""Products of blocks with scales (OCP MX formats and nvfp4), which come by tensor maps in the tensor core's order."""

import triton
import triton.language as tl
from emit import Desc, emit


@triton.jit
def block_scales(descriptor, across, along, REPEATS: tl.constexpr, STEPS: tl.constexpr):
    """[128 * REPEATS, 4 * STEPS] scales, of which 512 bytes hold 128 rows' four: row 32 i + j at 16 j + 4 i."""
    packed = descriptor.load([0, across, along, 0, 0])
    return packed.reshape(REPEATS, STEPS, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(REPEATS * 128, STEPS * 4)


@triton.jit
def mm_scaled(
    da,
    db,
    dsa,
    dsb,
    dc,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    A: tl.constexpr,
    B: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    m = tl.program_id(0)
    n = tl.program_id(1)
    A_BYTES: tl.constexpr = BK // 2 if A == "e2m1" else BK
    B_BYTES: tl.constexpr = BK // 2 if B == "e2m1" else BK
    STEPS: tl.constexpr = BK // BLOCK // 4
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), num_stages=STAGES):
        a = da.load([m * BM, k * A_BYTES])
        b = db.load([n * BN, k * B_BYTES])
        sa = block_scales(dsa, m * (BM // 128), k * STEPS, BM // 128, STEPS)
        sb = block_scales(dsb, n * (BN // 128), k * STEPS, BN // 128, STEPS)
        acc = tl.dot_scaled(a, sa, A, b.T, sb, B, acc)
    dc.store([m * BM, n * BN], acc)


def scaled(a, b, block, M=128, N=128, K=512, BM=128, BN=128, BK=256):
    """a, b: the element types; block: elements along K that share a scale."""
    packed = {"e2m1": 2}

    def operand(element, rows, tile):
        bytes_a_row = K // packed.get(element, 1)
        kind = {"e2m1": "u8", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}[element]
        return Desc(kind, [rows, bytes_a_row], [tile, BK // packed.get(element, 1)])

    def scales(rows, tile):
        kind = "u8" if block == 32 else "fp8e4nv"
        return Desc(kind, [1, rows // 128, K // block // 4, 2, 256], [1, tile // 128, BK // block // 4, 2, 256])

    return dict(
        da=operand(a, M, BM), db=operand(b, N, BN), dsa=scales(M, BM), dsb=scales(N, BN),
        dc=Desc("fp32", [M, N], [BM, BN]), K=("i32", K), BM=BM, BN=BN, BK=BK, A=a, B=b, BLOCK=block, STAGES=2,
    )  # fmt: skip


for name, a, b, block, deep in (
    ("mxfp8", "e4m3", "e4m3", 32, 128),
    ("mxfp8_mxfp4", "e5m2", "e2m1", 32, 128),
    ("mxfp4", "e2m1", "e2m1", 32, 256),
    ("nvfp4", "e2m1", "e2m1", 16, 256),
):
    emit(
        "triton", f"matmul_{name}", mm_scaled, scaled(a, b, block, K=4 * deep, BK=deep), [1, 1], targets=(100,),
        options=dict(num_warps=4, num_stages=2), math="c = (a * sa) @ (b * sb).T",
    )  # fmt: skip
