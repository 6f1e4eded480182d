# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Rows in groups on sm_90a, by walks that sum: proved twice, and NumPy's numbers whatever memory says of the groups."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.end_to_end.expert_programs import experts
from tests.end_to_end.grouped_cases import CASES, HELD, rows_of_groups

import tilewright as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.runtime.arrays import numpy_dtype
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def number_of_a_group(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "N", "K"],
    b: tw.Tensor["G", tw.f32],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc + b[g]


@tw.kernel
def masked_by_numbers(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "N", "K"],
    m: tw.Tensor["T", "N"],
    r: tw.Tensor["G", "N"],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = tw.where(m[i, j] > 0.0, acc, r[g, j])


ENDS = [[0, 129, 130, 150], [1, 64, 128, 149]]
DIMS = {"T": 150, "G": 4, "N": 72, "K": 200}
OWN: list[tuple[Kernel, dict[str, int], dict[str, Any], Any, list[list[int]]]] = [
    (number_of_a_group, DIMS, {}, "bf16", ENDS),
    (masked_by_numbers, DIMS, {}, "bf16", ENDS),
    (experts, DIMS, {"strides": {"x": (1, 152)}}, "bf16", ENDS),
    (experts, {**DIMS, "K": 201}, {}, "f16", ENDS),
    (experts, {**DIMS, "N": 300}, {"wanted": Wanted(tile=(128, 192), turns=True, stages=2)}, "bf16", ENDS),
    (experts, {**DIMS, "N": 300}, {"wanted": Wanted(tile=(64, 128), release_distance=2)}, "bf16", ENDS),
    (experts, {**DIMS, "N": 300}, {"wanted": Wanted(tile=(64, 128), stages=2, programmatic=True)}, "bf16", ENDS),
]
SHARED = [
    (kernel, dims, {}, dtype, limits) for kernel, dims, _, dtype, limits in CASES if kernel.name != "of_gathered_rows"
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "options", "dtype", "limits"),
    [*OWN, *SHARED],
    ids=[f"{number}-{kernel.name}" for number, (kernel, *_) in enumerate([*OWN, *SHARED])],
)
def test_whatever_memory_says(
    kernel: Kernel, dims: Mapping[str, int], options: dict[str, Any], dtype: Any, limits: Sequence[Sequence[int]]
) -> None:
    """One compilation for all sizes; rows of no group keep what they hold."""
    made = compile_kernel(kernel, dims=dims, dtype=dtype, assembled=False, **options)
    assert made.text_proof is not None and isinstance(made.parts[-1].decisions, CascadeDecisions)
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(0)
    given = [each for each in made.plan.buffers if each.name in {item.name for item in kernel.parameters}]
    elements = {each.name: each.element for each in given}
    for ends in limits:
        inputs: dict[str, NDArray[Any]] = {}
        for each in (each for each in given if each.role == "input"):
            if each.element is Element.S32:
                inputs[each.name] = np.array(ends, np.int32)
                continue
            numbers = random.standard_normal(each.shape).astype(numpy_dtype(each.element))
            laid = np.zeros(each.span_bytes // each.element.bytes, numbers.dtype)
            steps = tuple(stride * each.element.bytes for stride in each.strides)
            view = np.lib.stride_tricks.as_strided(laid, each.shape, steps)
            view[...] = numbers
            inputs[each.name] = view
        results = [each for each in given if each.role == "output"]
        out = tuple(np.full(each.shape, HELD, numpy_dtype(each.element)) for each in results)
        run(*inputs.values(), out=out if len(out) > 1 else out[0])
        exact = evaluate(trace(kernel, dims, elements, options.get("strides", {})), inputs, rounded=False)
        for each, got in zip(results, out, strict=True):
            kept = rows_of_groups(got.shape, ends)
            assert (got[~kept].astype(np.float64) == HELD).all()
            expected, found = exact[each.name][kept], got[kept].astype(np.float64)
            assert np.linalg.norm(found - expected) <= 6e-3 * np.linalg.norm(expected), (each.name, ends)
