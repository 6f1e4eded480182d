"""LightLLM's attention over paged keys, before and while tokens are made, and its products of 8 and 4 bits."""

import importlib

import torch
from library_modules import absent, checkout, package, tried
from library_products import K, M, N, random

FOLDER = checkout("lightllm") / "lightllm"
absent("frozendict", "requests", "sgl_kernel", "torchvision", "ujson", "vllm")
for name in ("", "common", "common.basemodel", "common.quantization", "models", "utils"):
    package("lightllm" + (name and f".{name}"), FOLDER.joinpath(*name.split(".")))

HEADS, GROUPS, WIDTH, BATCH, TOKENS = 16, 4, 128, 2, 256


def module(name):
    return importlib.import_module(f"lightllm.{name}")


def lengths(*values):
    return torch.tensor(values, dtype=torch.int32)


PLACES = torch.arange(BATCH * TOKENS, dtype=torch.int32).reshape(BATCH, TOKENS)
REQUESTS, SIZES, STARTS, CACHED = lengths(0, 1), lengths(200, 256), lengths(0, 200), lengths(0, 64)


def heads(count, width=WIDTH):
    return random(BATCH * TOKENS, count, width, dtype=torch.float16)


def prefill():
    call = module("models.llama.triton_kernel.context_flashattention_nopad")
    q, k, v = heads(HEADS), heads(GROUPS), heads(GROUPS)
    call.context_attention_fwd(q, k, v, q.clone(), REQUESTS, STARTS, SIZES, CACHED, TOKENS, PLACES)
    call.context_attention_fwd_no_prompt_cache(q, k, v, q.clone(), STARTS, SIZES, TOKENS)


def decode():
    q, k, v = heads(HEADS)[:BATCH], heads(GROUPS), heads(GROUPS)
    module("models.llama.triton_kernel.gqa_decode_flashattention_nopad").gqa_decode_attention_fwd(
        q, k, v, q.clone(), PLACES, REQUESTS, SIZES
    )
    parts = torch.zeros(BATCH, HEADS, 2, WIDTH), torch.zeros(BATCH, HEADS, 2)
    module("models.llama.triton_kernel.gqa_flash_decoding_stage1").flash_decode_stage1(
        q, k, v, PLACES, REQUESTS, SIZES, TOKENS, *parts, 128
    )


def latent():
    call = module("models.deepseek2.triton_kernel.context_flashattention_nopad")
    q, rotated = heads(HEADS, 512), heads(HEADS, 64)
    call.context_attention_fwd(
        q, rotated, heads(1, 512), heads(1, 64), q.clone(), REQUESTS, STARTS, SIZES, CACHED, TOKENS, PLACES, 0.1
    )
    module("models.deepseek2.triton_kernel.context_flashattention_nopad_with_v").context_attention_fwd_with_v(
        heads(HEADS), rotated, heads(HEADS), heads(1, 64), heads(HEADS), heads(HEADS), STARTS, STARTS, SIZES, CACHED,
        TOKENS, 0.1,
    )  # fmt: skip


def vision():
    q = heads(HEADS, 64)
    module("models.vit.triton_kernel.flashattention_nopad")._flash_attention_triton_fwd(
        q, q.clone(), q.clone(), q.clone(), lengths(0, 200, 456), TOKENS
    )


def narrow():
    block = module("common.quantization.triton_quant.fp8.fp8w8a8_block_gemm_kernel")
    a, b = random(M, K, dtype=torch.float8_e4m3fn), random(N, K, dtype=torch.float8_e4m3fn).t()
    block.w8a8_block_fp8_matmul(
        a, b, torch.rand(M, K // 128), torch.rand(K // 128, N // 128), random(M, N), [128, 128],
        BLOCK_M=64, BLOCK_N=128, BLOCK_K=128, GROUP_M=8, num_warps=4, num_stages=3,
    )  # fmt: skip
    a, b = random(4, M, K, dtype=torch.float8_e4m3fn), random(4, N, K, dtype=torch.float8_e4m3fn).transpose(1, 2)
    module("common.basemodel.triton_kernel.bmm_scaled_fp8").bmm_scaled_fp8(
        a, torch.rand(4, M), b, torch.rand(4, N), random(4, M, N), BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64,
        GROUP_SIZE_M=8, num_stages=4, num_warps=8,
    )  # fmt: skip


def integers():
    a, b = torch.zeros(M, K, dtype=torch.int8), torch.zeros(K, N, dtype=torch.int8)
    module("common.basemodel.triton_kernel.quantize_gemm_int8").matmul_int8(
        a, random(M, dtype=torch.float16), b, random(N, dtype=torch.float16)
    )
    call = module("common.basemodel.triton_kernel.dequantize_gemm_int4")
    packed, zeros = torch.zeros(K // 8, N, dtype=torch.int32), torch.zeros(K // 128, N // 8, dtype=torch.int32)
    x, scales = random(M, K, dtype=torch.float16), random(K // 128, N, dtype=torch.float16)
    call.matmul_dequantize_int4_gptq(x, packed, scales, zeros, 128)
    call.matmul_dequantize_int4_s2(x, packed, scales, zeros, 128)


for call in (prefill, decode, latent, vision, narrow, integers):
    tried(call.__name__, call)
