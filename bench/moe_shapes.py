"""Which grouped products are measured? Ten layers of public mixture-of-experts models, with rows routed at random.

Every token goes to the `top` experts of highest score: Gumbel noise on the logarithm of an expert's popularity, which
is log-normal with deviation `skew`. So some experts get several times the rows of others, as in practice, and with few
tokens some get none. Seeds are fixed; the counts stand in the result file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from bench.gemm_suites import Wishes


@dataclass(frozen=True, slots=True)
class Grouped:
    """y[rows of g] = x[rows of g] (k) @ w[g] (n, k) transposed, for `experts` groups. tokens x top rows in all. wishes:
    what is fixed of our kernel."""

    name: str
    experts: int
    top: int
    tokens: int
    n: int
    k: int
    skew: float = 0.4
    wishes: Wishes = ()

    @property
    def rows(self) -> int:
        return self.tokens * self.top

    @property
    def operations(self) -> float:
        return 2.0 * self.rows * self.n * self.k


CASES = (
    Grouped("Mixtral 8x7B, gate and up, 4096 tokens", 8, 2, 4096, 28672, 4096),
    Grouped("Mixtral 8x7B, down, 4096 tokens", 8, 2, 4096, 4096, 14336),
    Grouped("DBRX, gate and up, 2048 tokens", 16, 4, 2048, 21504, 6144),
    Grouped("Llama 4 Scout, gate and up, 8192 tokens", 16, 1, 8192, 16384, 5120),
    Grouped("Qwen3 30B-A3B, gate and up, 8192 tokens", 128, 8, 8192, 1536, 2048),
    Grouped("Qwen3 30B-A3B, down, 8192 tokens", 128, 8, 8192, 2048, 768),
    Grouped("Qwen3 235B-A22B, gate and up, 1024 tokens", 128, 8, 1024, 3072, 4096),
    Grouped("DeepSeek V3, 32 of 256 experts, gate and up, 4096 tokens", 32, 1, 4096, 4096, 7168),
    Grouped("DeepSeek V3, 32 of 256 experts, down, 512 tokens", 32, 1, 512, 7168, 2048),
    Grouped("Mixtral 8x7B, gate and up, decoding 64 tokens", 8, 2, 64, 28672, 4096),
)
"""DeepSeek's: a GPU that holds 32 of 256 experts gets one row in eight of eight per token, so one a token."""


@cache
def counts(case: Grouped, seed: int = 0) -> tuple[int, ...]:
    """Rows of every expert."""
    random = np.random.default_rng([seed, case.experts, case.tokens, case.n])
    popularity = case.skew * random.standard_normal(case.experts)
    scores = popularity + random.gumbel(size=(case.tokens, case.experts))
    chosen = np.argpartition(-scores, case.top - 1, axis=1)[:, : case.top]
    return tuple(int(number) for number in np.bincount(chosen.reshape(-1), minlength=case.experts))
