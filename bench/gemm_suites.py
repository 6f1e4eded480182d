"""Which products are measured? Every list in full; nothing that was tried is left out.

A weight is held as a linear layer holds it, (N, K) row-major, so the right operand is a transposed view, unless the
suite says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Dtype = Literal["bf16", "f16", "e4m3", "e5m2"]
Scaling = Literal["none", "tensor", "row", "block"]
Accumulation = Literal["precise", "fast"]
Wishes = tuple[tuple[str, object], ...]
"""Decisions that a case fixes: fields of `tilewright.synth.tile.wanted.Wanted`, by name."""


@dataclass(frozen=True, slots=True)
class Product:
    """c (m, n) = a (m, k) @ b (k, n). transposed: b is a view of an (n, k) row-major array. scaling: of fp8 operands:
    one factor each, one a row of a and a column of b, or one for 128 elements of a row of a and for 128 x 128 of b.
    accumulation: of fp8 operands: "precise" keeps long sums in float32, "fast" leaves them to the tensor core."""

    name: str
    m: int
    n: int
    k: int
    dtype: Dtype = "bf16"
    transposed: bool = True
    scaling: Scaling = "none"
    accumulation: Accumulation = "precise"
    wishes: Wishes = ()

    @property
    def operations(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def shape(self) -> str:
        return f"{self.m}, {self.n}, {self.k}"


_SQUARES = (1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)

_MODELS = (
    ("Llama 3 8B, QKV", 4096, 6144, 4096),
    ("Llama 3 8B, gate and up", 4096, 28672, 4096),
    ("Llama 3 8B, down", 4096, 4096, 14336),
    ("Llama 3 70B, QKV", 8192, 10240, 8192),
    ("Llama 3 70B, gate and up", 8192, 57344, 8192),
    ("Llama 3 70B, down", 8192, 8192, 28672),
    ("Qwen 2.5 32B, attention out", 2048, 5120, 5120),
    ("Qwen 2.5 32B, gate or up", 2048, 27648, 5120),
    ("Llama 3 8B, gate, 1024 tokens", 1024, 14336, 4096),
    ("Llama 3 8B, gate", 4096, 14336, 4096),
    ("DeepSeek V3, shared expert down", 4096, 7168, 2048),
    ("DeepSeek V3, QKV down", 4096, 2112, 7168),
)
"""The twelve LLM shapes: (name, M, N, K)."""

_WEIGHTS = (
    ("Llama 3 8B attention out", 4096, 4096),
    ("Llama 3 8B gate", 14336, 4096),
    ("Llama 3 8B down", 4096, 14336),
    ("Llama 3 8B QKV", 6144, 4096),
    ("DeepSeek V3 shared expert down", 7168, 2048),
    ("DeepSeek V3 QKV down", 2112, 7168),
    ("Llama 3 70B attention out", 8192, 8192),
)
"""Weights of the skinny suite: (name, N, K)."""

_FEW_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)

_FP8_WEIGHTS = ((2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))
"""(N, K) of DeepSeek V3's matrices."""


def gemm() -> list[Product]:
    """Squares 1024 to 16384 and twelve LLM shapes, bf16."""
    squares = [Product(f"square {size}", size, size, size) for size in _SQUARES]
    return squares + [Product(*entry) for entry in _MODELS]


def skinny() -> list[Product]:
    """1 to 128 rows times weights of public models, bf16."""
    return [Product(f"{name}, {m} rows", m, n, k) for name, n, k in _WEIGHTS for m in _FEW_ROWS]


def fp8() -> list[Product]:
    """e4m3 with bf16 results: per-tensor factors over squares and LLM shapes and per-row over some, each with sums in
    float32 and with fast ones; blocks of 128."""
    tensor = [Product(f"square {size}", size, size, size, "e4m3", True, "tensor") for size in _SQUARES[:6]]
    tensor += [
        Product(f"{name}, per-tensor", m, n, k, "e4m3", True, "tensor")
        for name, m, n, k in _MODELS
        if (m, n, k) not in ((8192, 57344, 8192), (8192, 8192, 28672))
    ]
    row = [Product(f"square {size}, per-row", size, size, size, "e4m3", True, "row") for size in (2048, 4096, 8192)]
    row += [Product(f"{name}, per-row", m, n, k, "e4m3", True, "row") for name, m, n, k in _MODELS[:3]]
    block = [
        Product(f"DeepSeek V3, {m} rows", m, n, k, "e4m3", True, "block") for n, k in _FP8_WEIGHTS for m in (128, 4096)
    ]
    fast = [replace(each, name=f"{each.name}, fast", accumulation="fast") for each in (*tensor, *row)]
    return tensor + row + fast + block


def fp8_turned() -> list[Product]:
    """e4m3 with per-tensor factors, b (K, N) row-major, which tensor cores do not read: whoever multiplies turns it."""
    shapes = [(f"square {size}", size, size, size) for size in (2048, 4096, 8192)]
    shapes += [
        entry for entry in _MODELS if entry[1:] in ((4096, 14336, 4096), (4096, 7168, 2048), (1024, 14336, 4096))
    ]
    return [Product(f"{name}, B row-major", m, n, k, "e4m3", False, "tensor") for name, m, n, k in shapes]


def tritonbench() -> list[Product]:
    """TritonBench's default gemm inputs: fp16 squares 256 to 4096 by 128, row-major operands."""
    sizes = range(256, 4096 + 1, 128)
    return [Product(f"square {size}", size, size, size, "f16", transposed=False) for size in sizes]


def tritonbench_splitk() -> list[Product]:
    """TritonBench's --splitk list, fp16, row-major operands."""
    return [
        Product(f"split-K {m} x {m} x {k}", m, m, k, "f16", transposed=False)
        for m in (16, 32, 48, 64)
        for k in range(4096, 32768 + 1, 4096)
    ]


def tritonbench_llama() -> list[Product]:
    """TritonBench's --llama list, fp16, row-major operands: 17 batches by 12 weights."""
    weights = (
        (4096, 12288), (4096, 4096), (4096, 22016), (11008, 4096), (8192, 1280), (1024, 8192), (8192, 7168),
        (3584, 8192), (16384, 2304), (2048, 16384), (16384, 13312), (6656, 16384),
    )  # fmt: skip
    return [
        Product(f"llama {1 << power} rows", 1 << power, n, k, "f16", transposed=False)
        for power in range(17)
        for k, n in weights
    ]


SUITES = {
    "gemm": gemm,
    "skinny": skinny,
    "fp8": fp8,
    "fp8-turned": fp8_turned,
    "tritonbench": tritonbench,
    "tritonbench-splitk": tritonbench_splitk,
    "tritonbench-llama": tritonbench_llama,
}
TARGETS = {"gemm": (1.03, 0.97), "skinny": (1.10, 0.95), "cliffs": (2.5, 1.0), "fp8": (1.02, 0.95),
           "grouped": (1.08, 0.95), "random-gemm": (1.03, 0.88),
           "random-gemm-tuned": (1.06, 0.95)}  # fmt: skip
"""(geometric mean, worst) that each suite is to reach."""
