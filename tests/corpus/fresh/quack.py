"""QuACK's products (persistent, ping-pong, split, by rows in groups) and its kernels along rows, in CuTe DSL."""

import importlib
import os
import sys

import torch

TARGET = os.environ["CUTE_DSL_ARCH"]
os.environ.update(QUACK_CACHE_ENABLED="0", QUACK_ARCH=TARGET.rstrip("a"))
sys.path.insert(0, os.environ["CHECKOUT_QUACK"])

from cutlass import BFloat16, Float32, Int64  # noqa: E402

M, N, K, BATCH, ROWS = 512, 1024, 1024, 2, 2048


def module(name):
    importlib.import_module(f"quack.{name}")
    return sys.modules[f"quack.{name}"]


def matrix(*shape):
    return torch.empty(*shape, dtype=torch.bfloat16)


def integers(count):
    return torch.zeros(count, dtype=torch.int32)


def product(*tile, added=False, **named):
    c = matrix(BATCH, M, N) if added else None
    semaphore = integers(1) if named.get("is_dynamic_persistent") else None
    module("gemm").gemm(
        matrix(BATCH, M, K), matrix(BATCH, N, K), matrix(BATCH, M, N), c, semaphore, *tile, **named
    )  # fmt: skip


def groups(*tile, **named):
    module("gemm").gemm(
        matrix(ROWS, K), matrix(4, N, K), matrix(ROWS, N), None, None, *tile, cu_seqlens_m=integers(5), **named
    )  # fmt: skip


HOPPER = {
    "gemm_pingpong": lambda: product(64, 192, 1, 2, pingpong=True),
    "gemm_cooperative": lambda: product(256, 128, 2, 1, added=True),
    "gemm_dynamic": lambda: product(128, 256, 1, 1, is_dynamic_persistent=True),
    "gemm_one_tile": lambda: product(128, 128, 1, 1, persistent=False),
    "gemm_groups": lambda: groups(128, 192, 2, 1),
    "gemm_gather": lambda: groups(128, 128, 1, 1, A_idx=integers(ROWS)),
    "softmax": lambda: module("softmax").Softmax.compile(BFloat16, BFloat16, 32768),
    "softmax_backward": lambda: module("softmax").SoftmaxBackward.compile(BFloat16, BFloat16, BFloat16, 32768),
    "cross_entropy": lambda: module("cross_entropy").CrossEntropy.compile(
        BFloat16, Int64, None, 32768, True, False, None, 1
    ),
    "topk": lambda: module("topk").TopK.compile(BFloat16, 1024, 32, True),
}
BLACKWELL = {
    "gemm_pair": lambda: product(256, 256, 2, 1),
    "gemm_one_cta": lambda: product(128, 128, 1, 1, added=True),
    "gemm_claimed": lambda: product(256, 256, 2, 1, is_dynamic_persistent=True),
    "gemm_groups": lambda: groups(256, 256, 2, 1),
}
BOTH = {
    "rmsnorm": lambda: module("rmsnorm")._compile_rmsnorm_fwd(
        BFloat16, BFloat16, BFloat16, BFloat16, None, BFloat16, 8192, True, False, False, False
    ),
    "layernorm": lambda: module("rmsnorm")._compile_rmsnorm_fwd(
        BFloat16, BFloat16, None, Float32, None, None, 4096, True, True, True, False
    ),
    "rmsnorm_backward": lambda: module("rmsnorm")._compile_rmsnorm_bwd(
        8192, BFloat16, BFloat16, BFloat16, BFloat16, False, None, None, True, False, 1024
    ),
}
for name, call in ((BLACKWELL if TARGET.startswith("sm_100") else HOPPER) | BOTH).items():
    os.environ["KERNEL_NAME"] = name
    try:
        call()
    except Exception as error:  # behind the kernel that is written, or in its place
        if str(error):
            print(f"{name}: {type(error).__name__}: {str(error)[:160]}")
