# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products scaled by blocks, and their numbers beside NumPy's."""

from collections.abc import Mapping, Sequence

import numpy as np
from tests.end_to_end.grouped_cases import HELD, rows_of_groups

import tilewright as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import Compilation
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.runtime.arrays import numpy_dtype

F8, F32 = tw.f8e4m3, tw.f32


@tw.kernel
def by_blocks_alone(
    x: tw.Tensor["M", "K", F8], w: tw.Tensor["N", "K", F8], s: tw.Tensor["K/128", F32], y: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[k // 128]
    y[i, j] = acc


@tw.kernel
def by_blocks_of_three_axes(
    x: tw.Tensor["M", "K", F8],
    w: tw.Tensor["N", "K", F8],
    s: tw.Tensor["M", "N/128", "K/128", F32],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, j // 128, k // 128]
    y[i, j] = acc


@tw.kernel
def batched(
    x: tw.Tensor["B", "M", "K", F8],
    w: tw.Tensor["B", "N", "K", F8],
    s: tw.Tensor["B", "M", "K/128", F32],
    t: tw.Tensor["B", "N/32", "K/128", F32],
    u: tw.Tensor["B", "K/256", F32],
    y: tw.Tensor["B", "M", "N"],
):
    b, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(b, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[b, i, k], w[b, j, k].T) * s[b, i, k // 128] * t[b, j // 32, k // 128] * u[b, k // 256]
    y[b, i, j] = acc


@tw.kernel
def gated(
    x: tw.Tensor["M", "K", F8],
    w: tw.Tensor["N", "K", F8],
    v: tw.Tensor["N", "K", F8],
    s: tw.Tensor["M", "K/128", F32],
    t: tw.Tensor["N/32", "K/128", F32],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    gate, up = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], w[j, k].T) * s[i, k // 128] * t[j // 32, k // 128]
        up += tw.dot(x[i, k], v[j, k].T) * s[i, k // 128]
    y[i, j] = tw.silu(gate) * up


@tw.kernel
def beside_a_plain_one(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    v: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/64", F32],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    scaled, plain = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        scaled += tw.dot(x[i, k], w[j, k].T) * s[i, k // 64]
        plain += tw.dot(x[i, k], v[j, k].T)
    y[i, j] = scaled - plain


@tw.kernel
def with_a_long_epilogue(
    x: tw.Tensor["M", "K", F8],
    w: tw.Tensor["N", "K", F8],
    s: tw.Tensor["M", "K/128", F32],
    t: tw.Tensor["N/128", "K/128", F32],
    b: tw.Tensor["N", F32],
    r: tw.Tensor["M", "N"],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 128] * t[j // 128, k // 128]
    y[i, j] = tw.silu(acc + b[j]) + r[i, j]


@tw.kernel
def experts(
    x: tw.Tensor["T", "K", F8],
    w: tw.Tensor["G", "N", "K", F8],
    s: tw.Tensor["T", "K/128", F32],
    t: tw.Tensor["G", "N/32", "K/128", F32],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T) * s[i, k // 128] * t[g, j // 32, k // 128]
    y[i, j] = acc


@tw.kernel
def masked_experts(
    x: tw.Tensor["G", "M", "K", F8],
    w: tw.Tensor["G", "N", "K", F8],
    v: tw.Tensor["G", "N", "K", F8],
    s: tw.Tensor["G", "M", "K/128", F32],
    t: tw.Tensor["G", "N/32", "K/128", F32],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["G", "M", "N"],
):
    g, i, j = tw.grid("G", tw.within("M", ends), "N")
    gate, up = tw.zeros(g, i, j), tw.zeros(g, i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[g, i, k], w[g, j, k].T) * s[g, i, k // 128] * t[g, j // 32, k // 128]
        up += tw.dot(x[g, i, k], v[g, j, k].T) * s[g, i, k // 128]
    y[g, i, j] = tw.silu(gate) * up


CASES: list[tuple[Kernel, dict[str, int], list[list[int]]]] = [
    (by_blocks_alone, {"M": 70, "N": 200, "K": 400}, [[]]),
    (by_blocks_of_three_axes, {"M": 130, "N": 160, "K": 256}, [[]]),
    (batched, {"B": 3, "M": 70, "N": 96, "K": 528}, [[]]),
    (gated, {"M": 130, "N": 96, "K": 272}, [[]]),
    (beside_a_plain_one, {"M": 65, "N": 40, "K": 200}, [[]]),
    (with_a_long_epilogue, {"M": 130, "N": 160, "K": 256}, [[]]),
    (experts, {"G": 4, "T": 150, "N": 72, "K": 272}, [[0, 70, 70, 150], [0, 0, 0, 0], [63, 64, 129, 149]]),
    (masked_experts, {"G": 3, "M": 90, "N": 64, "K": 256}, [[90, 0, 13], [1, 64, 65]]),
]


def check_scaled(made: Compilation, kernel: Kernel, dims: Mapping[str, int], limits: Sequence[Sequence[int]]) -> None:
    """One kernel, proved twice, whose results are right; rows of no group keep what they hold."""
    assert made.text_proof is not None and len(made.plan.launches) == 1
    assert made.assembly is not None and made.assembly.spill_bytes == 0
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(0)
    elements = {each.name: each.element for each in made.plan.buffers}
    (result,) = (each for each in made.plan.buffers if each.role == "output")
    for ends in limits:
        inputs = {
            each.name: np.array(ends, np.int32)
            if each.element is Element.S32
            else random.standard_normal(each.shape).astype(numpy_dtype(each.element))
            for each in made.plan.buffers
            if each.role == "input"
        }
        out = np.full(result.shape, HELD, numpy_dtype(result.element))
        run(*inputs.values(), out=out)
        exact = evaluate(trace(kernel, dims, elements, {}), inputs, rounded=False)[result.name]
        kept = rows_of_groups(out.shape, ends) if ends else np.ones(out.shape[:-1], bool)
        assert (out[~kept].astype(np.float64) == HELD).all()
        difference = np.linalg.norm(out[kept].astype(np.float64) - exact[kept])
        assert difference <= 6e-3 * np.linalg.norm(exact[kept]), ends
