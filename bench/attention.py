"""Forward attention of every length, head size and mask that models train with, beside cuDNN's and Flash's kernels.

Each case has 16384 rows of 2048 elements in all, as Flash Attention's own benchmark and `bench backward` do: sequences
of 512 to 16384, heads of 64, 128 and 256 elements, causal and not. Measured as `bench fused` does, against float64 too.

    python -m bench attention --prepare --kernels out/kernels    # compile ahead, in parallel; needs no GPU
    python -m bench attention --kernels out/kernels

Not handled: other elements than bf16; masks of one's own; few queries (`bench paged`). Checked by:
tests/benchmarks/test_case_lists.py.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

from bench import case_suite
from bench.fused import FusedCase, attention_case, line, measured

_ROWS, _ELEMENTS = 16384, 2048
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
SIZES = (64, 128, 256)
_SHORT = 2048
"""Up to here causal sequences have a target of their own."""

add_arguments = case_suite.add_arguments


def cases() -> list[FusedCase]:
    """Every case of the suite."""
    return [
        attention_case(program, _ROWS // length, _ELEMENTS // size, length, size)
        for size in SIZES
        for program in ("attention", "causal_attention")
        for length in LENGTHS
    ]


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(arguments, "attention", cases(), measured, line, summary=_summary)


def _summary(rows: case_suite.Rows) -> Iterator[str]:
    measured_rows = [row for row in rows if "ratio" in row]
    groups = {f"heads of {size}": [row for row in measured_rows if row["dims"]["E"] == size] for size in SIZES}
    causal = [row for row in measured_rows if row["program"] == "causal_attention"]
    groups["causal"] = causal
    groups[f"causal, up to {_SHORT}"] = [row for row in causal if row["dims"]["Q"] <= _SHORT]
    groups["all"] = measured_rows
    for name, found in groups.items():
        ratios = [row["ratio"] for row in found]
        if ratios:
            yield f"{name}: geometric mean {statistics.geometric_mean(ratios):.3f}, worst {min(ratios):.3f}"
