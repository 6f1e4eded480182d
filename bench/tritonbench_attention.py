"""TritonBench's own list of flash_attention, whole, full and causal, beside cuDNN's and Flash's kernels.

Four batches of 48 heads of width 64, 128 to 16384 queries and keys, bf16 on random normal data: the default inputs of
its operator, and the same with its `--causal`. Measured as `bench fused` does.
Source: pytorch-labs/tritonbench at 0efdc53db965, tritonbench/operators/flash_attention/operator.py, `get_input_iter`.

    python -m bench tritonbench-attention --prepare --kernels out/kernels     # compile ahead; needs no GPU
    python -m bench tritonbench-attention --kernels out/kernels

Not handled: gradients (`bench backward`). Checked by: tests/benchmarks/test_drawn_cases.py.
"""

from __future__ import annotations

import argparse

from bench import case_suite
from bench.fused import FusedCase, attention_case, line, measured

NAME = "tritonbench-attention"

add_arguments = case_suite.add_arguments


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(arguments, NAME, cases(), measured, line)


def cases() -> list[FusedCase]:
    """Every length, full and causal."""
    programs = ("attention", "causal_attention")
    return [attention_case(program, 4, 48, 1 << bits, 64) for program in programs for bits in range(7, 15)]
