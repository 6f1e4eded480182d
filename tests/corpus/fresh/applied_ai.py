"""Products of applied-ai: fp8 and 4-bit ones whose sum is split over CTAs."""

import torch
from library_modules import checkout, file_module, launch
from library_products import K, M, N, product, random

KERNELS = checkout("applied-ai") / "kernels" / "triton" / "inference"
a = random(M, K, dtype=torch.float8_e4m3fn)
b = random(N, K, dtype=torch.float8_e4m3fn).t()
c = random(M, N, dtype=torch.float16)
launch(file_module(KERNELS / "fp8" / "splitk_gemm_fp8.py").gemm_split_k_kernel, (32, 2), **product(a, b, c))
launch(
    file_module(KERNELS / "gptq" / "splitk_dequant_gemm.py").matmul_split_k_kernel, (32, 2),
    **product(random(M, K, dtype=torch.float16), torch.zeros(K // 8, N, dtype=torch.int32), c),
    scales_ptr=random(8, N, dtype=torch.float16), zeros_ptr=torch.zeros(8, N // 8, dtype=torch.int32),
    stride_scales_g=N, stride_scales_n=1, stride_zeros_g=N // 8, stride_zeros_n=1, groupsize=128,
)  # fmt: skip
