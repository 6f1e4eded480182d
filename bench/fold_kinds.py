"""Small cases of the programs that fold and attend, and random ones, for the soak and the sanitizers.

Beside `bench.kernel_kinds`, which are products: attention of every mask and form, decode, from pages too, gradients,
products with folds behind them, rows from short to longer than a CTA's memory. Boundaries among them: lengths one
above a tile, odd ones, a single query.
Not handled: what `examples` does not have. Checked by: tests/benchmarks/test_fold_kinds.py.
"""

from __future__ import annotations

import random

from bench.backward import PARTS, BackwardCase
from bench.drawing import log_uniform, one_of
from bench.fused import FusedCase, attention_case
from bench.paged import PagedCase
from bench.random_rows import PROGRAMS
from bench.rows import RowCase

FoldKind = FusedCase | RowCase | PagedCase | BackwardCase

_MOST_ELEMENTS = 1 << 20


def _product(program: str, **dims: int) -> FusedCase:
    return FusedCase(program, tuple(dims.items()))


FOLD_KINDS: tuple[FoldKind, ...] = (
    attention_case("attention", 2, 4, 256, 64),
    attention_case("attention", 1, 2, 333, 128),
    attention_case("attention", 1, 2, 129, 96),
    attention_case("attention", 1, 1, 200, 256),
    attention_case("attention", 2, 8, 1000, 128, queries=1),
    attention_case("causal_attention", 1, 4, 300, 64),
    attention_case("causal_attention", 1, 2, 512, 128),
    attention_case("grouped_heads", 1, 8, 257, 128),
    attention_case("grouped_heads", 2, 8, 2048, 64, queries=3),
    attention_case("sliding", 1, 2, 400, 64),
    attention_case("variable_lengths", 3, 2, 200, 128),
    PagedCase(3, 8, 512, 64),
    PagedCase(3, 8, 512, 128, page=16),
    PagedCase(2, 8, 1024, 128, page=64),
    *(
        BackwardCase(length, size, causal, part, rows=2 * length, elements=2 * size)
        for length, size, causal in ((200, 64, True), (129, 128, False))
        for part in PARTS
    ),
    _product("matmul_softmax", M=200, N=256, K=128),
    _product("matmul_softmax", M=130, N=1000, K=72),
    _product("matmul_rms_norm", M=100, N=2048, K=128),
    _product("matmul_argmax", M=70, N=1001, K=64),
    _product("rms_norm_matmul", M=200, N=264, K=512),
    _product("mlp", M=300, K=64, L=256, N=64),
    RowCase("softmax", 37, 1000),
    RowCase("softmax", 5, 131073),
    RowCase("softmax", 1000, 65),
    RowCase("log_softmax", 33, 5001),
    RowCase("rms_norm", 100, 4096),
    RowCase("rms_norm", 7, 65536),
    RowCase("layer_norm", 64, 8193),
    RowCase("argmax", 20, 50257),
    RowCase("quantize", 31, 5120),
    RowCase("quantize_int8", 33, 777),
)


def random_folds(count: int, seed: int = 0) -> list[FoldKind]:
    """Random cases: attention of any number of keys, decode, a product with a fold behind it, rows of any length."""
    source = random.Random(seed)
    makers = (_attention, _few_queries, _product_and_fold, _rows)
    return [makers[number % len(makers)](source) for number in range(count)]


def _attention(source: random.Random) -> FusedCase:
    program = one_of(source, ("attention", "causal_attention", "grouped_heads"))
    return attention_case(program, 1, 4, log_uniform(source, 1, 1024), one_of(source, (64, 96, 128, 256)))


def _few_queries(source: random.Random) -> FusedCase:
    program, queries = one_of(source, ("attention", "grouped_heads")), log_uniform(source, 1, 16)
    keys, width = log_uniform(source, 1, 4096), one_of(source, (64, 128))
    return attention_case(program, 2, 4, keys, width, queries=queries)


def _product_and_fold(source: random.Random) -> FusedCase:
    program = one_of(source, ("matmul_softmax", "matmul_argmax"))
    return _product(
        program, M=log_uniform(source, 1, 512), N=log_uniform(source, 1, 2048), K=8 * log_uniform(source, 1, 64)
    )


def _rows(source: random.Random) -> RowCase:
    length = log_uniform(source, 1, 1 << 17)
    return RowCase(one_of(source, PROGRAMS), log_uniform(source, 1, max(1, _MOST_ELEMENTS // length)), length)
