"""Liger's kernels with products: 8-bit by 2-bit, hyper-connections, neighborhood attention, experts' first layer."""

import importlib

import torch
from library_modules import checkout, launch, package, tried
from library_products import K, M, N, product, random

FOLDER = checkout("Liger-Kernel") / "src" / "liger_kernel"
package("liger_kernel", FOLDER)
package("liger_kernel.ops", FOLDER / "ops")
package("liger_kernel.ops.experimental", FOLDER / "ops" / "experimental")


def module(name):
    return importlib.import_module(f"liger_kernel.ops.{name}")


def bits():
    a, b = torch.zeros(M, K, dtype=torch.int8), torch.zeros(K // 4, N, dtype=torch.uint8)
    sums = torch.zeros(M, N, dtype=torch.int32)
    launch(module("experimental.mm_int8int2").matmul_kernel, (16,), **product(a, b, sums))


def connections():
    launch(
        module("mhc")._mhc_mm_norm_fwd_kernel, (4,), x_ptr=random(M, K), phi_ptr=random(K, 24), N=M, K=K, M=24,
        mix_ptr=torch.rand(M, 24), invr_ptr=torch.rand(M), stride_xn=K, stride_xk=1, stride_phik=24, stride_phim=1,
        stride_mn=24, stride_mm=1, eps=1e-6, BLOCK_N=64, BLOCK_K=64, BLOCK_M=32, CAST_FP32=True,
    )  # fmt: skip


def neighborhood():
    q = random(1, 4, 256, 64)
    module("fused_neighborhood_attention").fused_neighborhood_attention_forward(q, q.clone(), q.clone(), 7, 1, 0.1)


def experts():
    count, inner = 8, 512
    launch(
        module("fused_moe_kernels")._fused_up_proj_swiglu_kernel, (8, 8), x_ptr=random(256, K),
        gate_up_proj_ptr=random(count, 2 * inner, K), x_gather_idx_ptr=torch.arange(512, dtype=torch.int32) % 256,
        expert_start_ptr=torch.arange(0, 513, 64, dtype=torch.int32),
        tile_row_start_ptr=torch.arange(0, 512, 64, dtype=torch.int32),
        tile_expert_ptr=torch.arange(8, dtype=torch.int32), pre_act_ptr=random(512, 2 * inner),
        post_act_ptr=random(512, inner), H_dim=K, I_dim=inner, stride_x_T=K, stride_x_H=1, stride_w_E=2 * inner * K,
        stride_w_N=K, stride_w_K=1, stride_pre_TK=2 * inner, stride_pre_N=1, stride_post_TK=inner, stride_post_N=1,
        BLOCK_M=64, BLOCK_N=64, BLOCK_K=64,
    )  # fmt: skip


for call in (bits, connections, neighborhood, experts):
    tried(call.__name__, call)
