"""Triton kernels of the tests' own. A plain module: Triton reads a kernel's source from its file."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=inside) * 2.0, mask=inside)


@triton.jit
def product(a, b, c, k_extent, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, k_extent, K):
        left = a.load([row, k])
        right = b.load([k, column])
        total = tl.dot(left, right, total)
    c.store([row, column], total.to(tl.float16))


PRODUCT_SIGNATURE = {
    "a": "tensordesc<fp16[64, 64]>",
    "b": "tensordesc<fp16[64, 64]>",
    "c": "tensordesc<fp16[64, 64]>",
    "k_extent": "i32",
}
PRODUCT_TILES = {"M": 64, "N": 64, "K": 64}
PRODUCT_ARGUMENTS = {"a": (128, 256), "b": (256, 128), "c": (128, 128), "k_extent": 256}
