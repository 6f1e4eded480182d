"""Attention of shapes drawn from a seed, beside cuDNN's and Flash's kernels: shapes that nobody looked at.

The other lists are those that the compiler was made with. Here the seed alone decides: the program (full, causal,
grouped heads, or few queries of many keys, as when a model generates), batch and heads, keys log-uniform, of which half
of the cases take a multiple of 128 and half any number, and the width of a head. Cases fit a GPU's memory and take at
most 4e12 operations. Measured as `bench fused` does, against float64 too.

    python -m bench random-attention --seed 7 --prepare --kernels out/kernels     # compile ahead; needs no GPU
    python -m bench random-attention --seed 7 --kernels out/kernels

Not handled: other elements than bf16; masks of one's own; gradients. Checked by: tests/benchmarks/test_drawn_cases.py.
"""

from __future__ import annotations

import argparse
import random

from bench import case_suite
from bench.drawing import add_seed_arguments, distinct, log_uniform, one_of, settle_seed
from bench.fused import FusedCase, attention_case, line, measured

COUNT = 100
NAME = "random-attention"
_PROGRAMS = ("attention", "causal_attention", "grouped_heads", "few queries")
_WIDTHS = (64, 64, 96, 128, 128, 128, 256)
"""Of a head, by how many models have them."""
_HEADS = (8, 12, 16, 20, 24, 32, 40, 64)
_LEAST_KEYS, _MOST_KEYS = 128, 16384
_MOST_CACHED = 131072
"""Keys of few queries."""
_MOST_ELEMENTS = 1 << 30
"""Of one operand: its bytes, three times over, twice for inputs and once for results, stay below a GPU's memory."""
_MOST_OPERATIONS = 4e12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    case_suite.add_arguments(parser)
    add_seed_arguments(parser, COUNT)


def run(arguments: argparse.Namespace) -> int:
    settle_seed(arguments)
    return case_suite.run_cases(arguments, NAME, drawn(arguments.seed, arguments.count), measured, line)


def drawn(seed: int, count: int = COUNT) -> list[FusedCase]:
    """The first `count` cases of a seed."""
    return distinct(seed, count, _case)


def _case(source: random.Random) -> FusedCase:
    kind = one_of(source, _PROGRAMS)
    generates = kind == "few queries"
    keys = log_uniform(source, _LEAST_KEYS, _MOST_CACHED if generates else _MOST_KEYS)
    if source.random() < 0.5:
        keys = max(1, keys // 128) * 128
    heads, width, batch = one_of(source, _HEADS), one_of(source, _WIDTHS), log_uniform(source, 1, 64)
    queries = log_uniform(source, 1, 16) if generates else keys
    while batch > 1 and not _fits(batch, heads, queries, keys, width):
        batch //= 2
    while heads > 4 and not _fits(batch, heads, queries, keys, width):
        heads //= 2
    heads = heads // 4 * 4
    grouped = kind == "grouped_heads" or (generates and source.random() < 0.5)
    program = "grouped_heads" if grouped else "attention" if generates else kind
    return attention_case(program, batch, heads, keys, width, queries=queries)


def _fits(batch: int, heads: int, queries: int, keys: int, width: int) -> bool:
    operations = 4.0 * batch * heads * queries * keys * width
    return batch * heads * keys * width <= _MOST_ELEMENTS and operations <= _MOST_OPERATIONS
