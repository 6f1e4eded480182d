"""Row-wise programs of extents drawn from a seed, beside PyTorch's kernels and torch.compile's.

The seed alone decides: a program of `examples/rows.py`, the rows' length, log-uniform from 64 to 262,144, of which half
of the cases take a multiple of 64 and half any number, and how many rows there are, so that an array has 2^18 to 2^27
elements. Measured as `bench rows` does, with the share of a plain copy's speed.

    python -m bench random-rows --seed 7 --prepare --kernels out/kernels     # compile ahead; needs no GPU
    python -m bench random-rows --seed 7 --kernels out/kernels

Not handled: other elements than bf16; gradients. Checked by: tests/benchmarks/test_drawn_cases.py.
"""

from __future__ import annotations

import argparse
import random

from bench import case_suite
from bench.drawing import add_seed_arguments, distinct, log_uniform, one_of, settle_seed
from bench.rows import RowCase, line, measured

COUNT = 100
NAME = "random-rows"
PROGRAMS = ("softmax", "log_softmax", "rms_norm", "layer_norm", "argmax", "quantize", "quantize_int8")
_LEAST_LENGTH, _MOST_LENGTH = 64, 262144
_LEAST_ELEMENTS, _MOST_ELEMENTS = 1 << 18, 1 << 27


def add_arguments(parser: argparse.ArgumentParser) -> None:
    case_suite.add_arguments(parser)
    add_seed_arguments(parser, COUNT)


def run(arguments: argparse.Namespace) -> int:
    settle_seed(arguments)
    return case_suite.run_cases(arguments, NAME, drawn(arguments.seed, arguments.count), measured, line)


def drawn(seed: int, count: int = COUNT) -> list[RowCase]:
    """The first `count` cases of a seed."""
    return distinct(seed, count, _case)


def _case(source: random.Random) -> RowCase:
    program = one_of(source, PROGRAMS)
    length = log_uniform(source, _LEAST_LENGTH, _MOST_LENGTH)
    if source.random() < 0.5:
        length = length // 64 * 64
    elements = log_uniform(source, _LEAST_ELEMENTS, _MOST_ELEMENTS)
    return RowCase(program, max(1, elements // length), length)
