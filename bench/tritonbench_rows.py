"""TritonBench's own lists of softmax, LayerNorm and RMSNorm, whole, beside PyTorch's kernels and torch.compile's.

Lengths are those of the default inputs of its operators `softmax` (4096 rows), `layer_norm` (4096) and `rms_norm`
(2048); elements are bf16, data random normal, and measured as `bench rows` does, with the share of a plain copy's
speed.
Source: pytorch-labs/tritonbench at 0efdc53db965, tritonbench/operators, `get_input_iter`.

    python -m bench tritonbench-rows --prepare --kernels out/kernels     # compile ahead; needs no GPU
    python -m bench tritonbench-rows --kernels out/kernels

Not handled: gradients, which its layer_norm times on request. Checked by: tests/benchmarks/test_drawn_cases.py.
"""

from __future__ import annotations

import argparse

from bench import case_suite
from bench.rows import RowCase, line, measured

NAME = "tritonbench-rows"

add_arguments = case_suite.add_arguments


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(arguments, NAME, cases(), measured, line)


def cases() -> list[RowCase]:
    """Every length of the three lists."""
    softmax = [RowCase("softmax", 4096, 128 * count) for count in range(2, 100)]
    layer_norm = [RowCase("layer_norm", 4096, 512 * count) for count in range(2, 32)]
    return softmax + layer_norm + [RowCase("rms_norm", 2048, 1 << bits) for bits in range(10, 16)]
