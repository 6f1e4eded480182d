# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""One kernel for a range of batches, of rows inside of them, of columns: proven once, right at every extent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.size import Range
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.axes import derived_extent
from tilewright.runtime.arrays import numpy_dtype
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def products(x: tw.Tensor["B", "M", "T"], w: tw.Tensor["B", "T", "N"], b: tw.Tensor["N"], y: tw.Tensor["B", "M", "N"]):
    g, i, j, t = tw.axes("B M N T")
    y[g, i, j] = tw.relu(tw.dot(x[g, i, t], w[g, t, j], over=t) + b[j])


@tw.kernel
def heads(
    q: tw.Tensor["B", "M", "H", "E"],
    k: tw.Tensor["B", "T", "H/2", "E"],
    v: tw.Tensor["B", "T", "H/2", "E"],
    o: tw.Tensor["B", "M", "H", "E"],
    lse: tw.Tensor["B", "M", "H", tw.f32],
):
    b, i, h, t, e = tw.axes("B M H T E")
    s = tw.dot(q[b, i, h, e], k[b, t, h // 2, e], over=e) * 0.2
    o[b, i, h, e] = tw.dot(tw.softmax(s, over=t), v[b, t, h // 2, e], over=t)
    lse[b, i, h] = tw.logsumexp(s, over=t)


@tw.kernel
def product(x: tw.Tensor["M", "T"], w: tw.Tensor["T", "N"], y: tw.Tensor["M", "N"]):
    i, j, t = tw.axes("M N T")
    y[i, j] = tw.dot(x[i, t], w[t, j], over=t)


@tw.kernel
def prompts(
    q: tw.Tensor["B", "H", "M", "E"],
    k: tw.Tensor["B", "H", "T", "E"],
    v: tw.Tensor["B", "H", "T", "E"],
    o: tw.Tensor["B", "H", "M", "E"],
    lse: tw.Tensor["B", "H", "M", tw.f32],
):
    b, h, i, t, e = tw.axes("B H M T E")
    s = tw.where(t <= i, tw.dot(q[b, h, i, e], k[b, h, t, e], over=e) * 0.2, -np.inf)
    o[b, h, i, e] = tw.dot(tw.softmax(s, over=t), v[b, h, t, e], over=t)
    lse[b, h, i] = tw.logsumexp(s, over=t)


@tw.kernel
def decode(
    q: tw.Tensor["B", "H", "E"],
    k: tw.Tensor["B", "H/4", "T", "E"],
    v: tw.Tensor["B", "H/4", "T", "E"],
    n: tw.Tensor["B", tw.i32],
    o: tw.Tensor["B", "H", "E"],
):
    b, h, t, e = tw.axes("B H T E")
    s = tw.where(t < n[b], tw.dot(q[b, h, e], k[b, h // 4, t, e], over=e) * 0.2, -np.inf)
    o[b, h, e] = tw.dot(tw.softmax(s, over=t), v[b, h // 4, t, e], over=t)


@dataclass(frozen=True)
class Kind:
    kernel: Kernel
    dims: Mapping[str, int | Range]
    dtype: Mapping[str, str] = field(default_factory=dict[str, str])
    wanted: Wanted | None = None


THREE = Wanted(consumers=3, depth=64)
KINDS = {
    "products": Kind(products, {"B": Range(0, 9), "M": 70, "N": 72, "T": 136}),
    "products of several tiles": Kind(products, {"B": Range(2, 8, 2), "M": 200, "N": 300, "T": 24}),
    "sums of any length": Kind(products, {"B": Range(1, 4), "M": 70, "N": 72, "T": Range(8, 304, 8)}),
    "heads": Kind(heads, {"B": Range(1, 4), "M": 70, "H": 4, "T": 136, "E": 32}),
    "heads and keys": Kind(heads, {"B": Range(1, 4), "M": 20, "H": 2, "T": Range(1, 300), "E": 32}),
    "decode": Kind(decode, {"B": Range(0, 20), "H": 8, "T": 136, "E": 64}),
    "columns": Kind(product, {"M": 70, "N": Range(8, 304, 8), "T": 72}),
    "columns of few rows": Kind(product, {"M": 5, "N": Range(16, 304, 16), "T": 72}),
    "columns of a batch": Kind(products, {"B": 2, "M": 70, "N": Range(8, 304, 8), "T": 72}),
    "rows of a batch": Kind(products, {"B": 2, "M": Range(1, 200), "N": 72, "T": 72}),
    "rows and batch": Kind(products, {"B": Range(1, 3), "M": Range(1, 200), "N": 200, "T": 72}),
    "queries": Kind(prompts, {"B": 2, "H": 2, "M": Range(1, 200), "T": 136, "E": 32}),
    "prompts": Kind(prompts, {"B": Range(1, 3), "H": 2, "M": Range(1, 140), "T": Range(1, 140), "E": 32}),
    "prompts of which consumers end apart": Kind(
        prompts, {"B": Range(1, 2), "H": 1, "M": Range(1, 260), "T": Range(1, 260), "E": 32}, wanted=THREE
    ),
    "keys of which consumers end apart": Kind(
        prompts, {"B": 2, "H": 1, "M": 260, "T": Range(1, 260), "E": 32}, wanted=THREE
    ),
    "decode of keys": Kind(decode, {"B": Range(1, 20), "H": 4, "T": Range(1, 300), "E": 64}),
}


@cache
def compiled(name: str, target: str = "sm_90a") -> Compilation:
    """With both proofs; for sm_100a, of which there was no GPU, assembled."""
    kind = KINDS[name]
    dtype = {each.name: "bf16" for each in kind.kernel.parameters if each.element is None}
    return compile_kernel(
        kind.kernel, dims=kind.dims, dtype={**dtype, **kind.dtype}, rerun=True, assembled=target == "sm_100a",
        target=target, wanted=kind.wanted,
    )  # fmt: skip


def lengths(values: int | Range, tile: int) -> list[int]:
    """Of a range, next to a tile and two of them."""
    if isinstance(values, int):
        return [values]
    wanted = (values.least, 1, 2, 3, tile - 1, tile, tile + 1, values.most)
    return sorted({each for each in wanted if each in values})


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "target"),
    [(name, target) for target in ("sm_90a", "sm_100a") for name in KINDS if target == "sm_90a" or "apart" not in name],
)
def test_every_batch_is_right(name: str, target: str) -> None:
    kind, made = KINDS[name], compiled(name, target)
    assert made.proof.scope == "all trip counts" and made.text_proof is not None and made.plan.run_time is not None
    assert isinstance(made.decisions, CascadeDecisions) and (made.decisions.unit_end or "apart" not in name)
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(0)
    listed = {axis: lengths(extent, made.decisions.step_along(axis)) for axis, extent in kind.dims.items()}
    for number in range(max(map(len, listed.values()))):
        dims = {axis: each[min(number, len(each) - 1)] for axis, each in listed.items()}
        elements = {each.name: each.element for each in made.plan.buffers if each.role != "workspace"}
        inputs: dict[str, np.ndarray] = {}
        for each in kind.kernel.parameters:
            shape, element = [derived_extent(axis, dims) for axis in each.axes], elements[each.name]
            role = next(buffer.role for buffer in made.plan.buffers if buffer.name == each.name)
            if role == "input":
                drawn = random.integers(1, dims["T"] + 1, shape) if each.name == "n" else random.standard_normal(shape)
                inputs[each.name] = drawn.astype(numpy_dtype(element))
        found = run(*inputs.values())
        if dims.get("B") == 0:
            assert (found[0] if isinstance(found, tuple) else found).size == 0
            continue
        exact = evaluate(trace(kind.kernel, dims, elements, {}), inputs, rounded=False)
        for result, wanted in zip(found if isinstance(found, tuple) else (found,), exact.values(), strict=True):
            apart = np.linalg.norm(result.astype(np.float64) - wanted)
            assert result.shape == wanted.shape and apart <= 6e-3 * np.linalg.norm(wanted), dims
