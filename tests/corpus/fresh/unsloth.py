"""Unsloth's grouped products of mixtures of experts: forward, and backward for rows and weights."""

import importlib

import torch
import triton.language as tl
from library_modules import checkout, launch, package, tried
from library_products import K, M, N, random

FOLDER = checkout("unsloth") / "unsloth" / "kernels" / "moe" / "grouped_gemm"
EXPERTS = 8
package("grouped_gemm", FOLDER)
package("grouped_gemm.kernels", FOLDER / "kernels")
forward, backward = (importlib.import_module(f"grouped_gemm.kernels.{name}") for name in ("forward", "backward"))
x, w, y = random(M, K), random(EXPERTS, N, K), random(M * 2, N)
shared = dict(
    m_sizes_ptr=torch.full((EXPERTS,), 64, dtype=torch.int32), gather_indices_ptr=torch.arange(512, dtype=torch.int32),
    topk_weights_ptr=torch.rand(512), NUM_EXPERTS=EXPERTS, NUM_TOKENS=M, TOPK=2, N=N, K=K, NUM_SMS=132, BLOCK_SIZE_M=64,
    BLOCK_SIZE_N=64, BLOCK_SIZE_K=64, PERMUTE_Y=False, FUSE_MUL_PRE=False, FUSE_MUL_POST=False, USE_FAST_ACCUM=False,
    acc_dtype=tl.float32, FLATTEN=True, x_ptr=x, w_ptr=w,
)  # fmt: skip
kept = dict(PERMUTE_X=True, USE_TMA_STORE=False, USE_TMA_LOAD_X=False, USE_TMA_LOAD_dY=False)
of_weights = dict(PERMUTE_X=False, USE_TMA_STORE=True, USE_TMA_LOAD_X=True, USE_TMA_LOAD_dY=True)
for kernel, named in (
    (forward._grouped_gemm_forward_kernel, dict(y_ptr=y, USE_TMA_LOAD_W=True, **kept)),
    (backward._grouped_gemm_dX_kernel, dict(dY_ptr=y, dX_ptr=random(M * 2, K), USE_TMA_LOAD_W=False, **kept)),
    (backward._grouped_gemm_dW_kernel, dict(dY_ptr=y, dW_ptr=w, **of_weights | dict(x_ptr=random(M * 2, K)))),
):
    tried("unsloth", lambda kernel=kernel, named=named: launch(kernel, (132,), **shared | named))
