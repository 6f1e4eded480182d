"""Triton kernels of vLLM: scaled and 4-bit products, experts, states, prefill, decode."""

import torch
import triton
import triton.language as tl
from library_modules import absent, checkout, file_module, launch, tried
from library_products import K, M, N, product, random

FOLDER = checkout("site") / "vllm"
absent("vllm")


def module(path):
    import vllm.triton_utils as stub

    stub.triton, stub.tl, stub.HAS_TRITON = triton, tl, True
    made = file_module(FOLDER / path)
    made.tl, made.triton = tl, triton
    return made


def scaled():
    a, b = random(M, K, dtype=torch.float8_e4m3fn), random(N, K, dtype=torch.float8_e4m3fn)
    c = random(M, N)
    quantization = "model_executor/layers/quantization"
    launch(
        module(f"{quantization}/compressed_tensors/triton_scaled_mm.py").scaled_mm_kernel, (16,),
        **product(a, b.t(), c) | {"BLOCK_SIZE_K": 128}, scale_a_ptr=torch.rand(M, 1), scale_b_ptr=torch.rand(N, 1),
        bias_ptr=None, ACCUMULATOR_DTYPE=tl.float32, BLOCK_SIZE_SCALE_A=64, BLOCK_SIZE_SCALE_B=128,
    )  # fmt: skip
    blocks = dict(
        A=a, B=b, C=c, As=torch.rand(M, K // 128), Bs=torch.rand(N // 128, K // 128), group_n=128, group_k=128,
        stride_As_m=K // 128, stride_As_k=1, stride_Bs_k=1, stride_Bs_n=K // 128,
    )  # fmt: skip
    kernel = module(f"{quantization}/utils/fp8_utils.py")._w8a8_triton_block_scaled_mm
    launch(kernel, (16,), **product(a, b.t(), c) | {"BLOCK_SIZE_K": 128}, **blocks)


def four_bit():
    gemm = module("model_executor/layers/quantization/awq_triton.py").awq_gemm_triton
    zeros = torch.zeros(8, 64, dtype=torch.int32)
    a, scales = random(32, 1024, dtype=torch.float16), random(8, 512, dtype=torch.float16)
    gemm(a, torch.zeros(1024, 64, dtype=torch.int32), scales, zeros, 1)


def experts():
    stride = dict.fromkeys(("asm", "ask", "bse", "bsk", "bsn", "bbe", "bbn"), 0)
    off = ("naive_block_assignment", "use_fp8_w8a8", "use_int8_w8a8", "use_int8_w8a16", "per_channel_quant", "HAS_BIAS")
    launch(
        module("model_executor/layers/fused_moe/fused_moe.py").fused_moe_kernel, (64,),
        **product(random(M, K), random(N, K).t(), random(512, N)) | {"b_ptr": random(8, N, K)},
        b_bias_ptr=None, a_scale_ptr=None, b_scale_ptr=None,
        topk_weights_ptr=torch.rand(512), sorted_token_ids_ptr=torch.arange(1024, dtype=torch.int32) % 512,
        expert_ids_ptr=torch.arange(16, dtype=torch.int32) // 2, num_valid_tokens=512, EM=1024, stride_be=N * K,
        num_tokens_post_padded_ptr=torch.tensor([1024], dtype=torch.int32), group_n=0, group_k=0, SPLIT_K=1,
        MUL_ROUTED_WEIGHT=True, top_k=2, compute_type=tl.bfloat16, SWAP_AB=False, USE_TD=False,
        **{f"stride_{name}": value for name, value in stride.items()}, **dict.fromkeys(off, False),
    )  # fmt: skip


def states():
    folder = "model_executor/layers/mamba/ops"
    chunks = torch.arange(0, 513, 64, dtype=torch.int32)
    x, b, dt = random(512, 8, 64), random(512, 1, 128), torch.rand(8, 8, 64)
    tried(
        "bmm",
        lambda: module(f"{folder}/ssd_bmm.py")._bmm_chunk_fwd(random(512, 4, 128), random(512, 4, 128), 64, chunks),
    )
    tried("state", lambda: module(f"{folder}/ssd_chunk_state.py")._chunk_state_fwd(b, x, dt, dt, chunks))
    tried("scan", lambda: module(f"{folder}/ssd_chunk_scan.py")._chunk_scan_fwd(
        torch.rand(8, 1, 64, 64), x, dt, dt, b, torch.rand(8, 8, 64, 128), chunks, random(512, 8, 64),
        torch.zeros(8, dtype=torch.int32),
    ))  # fmt: skip


def attention():
    made = module("v1/attention/ops/triton_prefill_attention.py")
    made.RCP_LN2 = 1.4426950408889634
    q, k = random(512, 8, 128), random(512, 2, 128)
    at, length = torch.tensor([0, 256], dtype=torch.int32), torch.tensor([256, 256], dtype=torch.int32)
    tried("prefill", lambda: made.context_attention_fwd(q, k, k.clone(), q.clone(), at, length, 256))
    made = module("v1/attention/ops/triton_decode_attention.py")
    made.is_hip_ = False
    keys = random(64, 16, 1, 576)
    tables, lengths = (
        torch.arange(64, dtype=torch.int32).view(4, 16),
        torch.tensor([200, 256, 17, 100], dtype=torch.int32),
    )
    made._decode_grouped_att_m_fwd(
        random(4, 16, 576),
        keys,
        keys[..., :512],
        torch.empty(4, 16, 4, 513),
        tables,
        lengths,
        4,
        0.1,
        16,
        0.0,
        torch.ones(1),
        torch.ones(1),
    )


for call in (scaled, four_bit, experts, states, attention):
    tried(call.__name__, call)
