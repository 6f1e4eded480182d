# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products as walks: compiled, proven twice, and their numbers beside NumPy's."""

from collections.abc import Mapping
from typing import Any

import tilewright.frontends.tile.language as tw
from tilewright.cli.arrays import random_inputs
from tilewright.cli.commands.run_command import ERROR_LIMITS, relative_errors
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def finished(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], r: tw.Tensor["N"], c: tw.Tensor["M", "N", tw.f32]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = tw.relu(acc + r[j])


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "K", "N"], c: tw.Tensor["B", "M", "N"]):
    h, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(h, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[h, i, k], b[h, k, j])
    c[h, i, j] = acc


_WISHES = (
    "tile", "turns", "swapped", "misaligned", "accumulation", "cluster", "stream_k", "prefetch", "split", "teams",
    "release_distance",
)  # fmt: skip


def walked(kernel: Kernel, dims: Mapping[str, int], **options: Any) -> tuple[Compilation, CascadeDecisions]:
    wishes = {name: options.pop(name) for name in _WISHES if name in options}
    compilation = compile_kernel(kernel, dims=dims, wanted=Wanted(**wishes), **options)
    decisions = compilation.decisions
    assert isinstance(decisions, CascadeDecisions)
    assert compilation.text_proof is not None
    return compilation, decisions


def check_numbers(compilation: Compilation) -> None:
    bundle = compilation.bundle()
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], 0)
    (stored,) = (each for each in bundle.plan.buffers if each.role == "output")
    result = run_on_machine(bundle, tuple(inputs.values()))
    errors = relative_errors(bundle, inputs, {stored.name: result})
    assert errors is not None
    assert errors[stored.name] <= ERROR_LIMITS[stored.element]
