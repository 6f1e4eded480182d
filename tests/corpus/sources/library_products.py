"""Arguments of matrix products, by the names that the libraries' Triton kernels give them."""

import torch

M, N, K = 256, 512, 1024


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape).to(dtype)


def product(a, b, c):
    """A, B and C with their extents, strides and tiles."""
    return {
        "a_ptr": a, "b_ptr": b, "c_ptr": c, "M": M, "N": N, "K": K, "m": M, "n": N, "k": K,
        "stride_am": a.stride(0), "stride_ak": a.stride(1), "stride_bk": b.stride(0), "stride_bn": b.stride(1),
        "stride_cm": c.stride(0), "stride_cn": c.stride(1), "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128,
        "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "block_m": 64, "block_n": 64, "block_k": 64, "split_k": 2, "group_m": 8,
    }  # fmt: skip
