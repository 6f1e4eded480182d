# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products and attention of which several axes have a range, columns among them: threads reach rows and columns of
arrays by strides that the launch passes. Proven once, right at every extent on the CPU machine."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.size import Range
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import batched_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import buffers, the_program


@tw.kernel
def layer(
    x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], b: tw.Tensor["N"], r: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]
):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.relu(tw.dot(x[i, k], w[j, k], over=k) + b[j]) + r[i, j]


@tw.kernel
def gated(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], v: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.silu(tw.dot(x[i, k], w[j, k], over=k)) * tw.dot(x[i, k], v[j, k], over=k)


@tw.kernel
def biased(
    q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], s: tw.Tensor["M", "T"], v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
):  # fmt: skip
    i, t, e, f = tw.axes("M T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) * 0.2 + s[i, t]
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def causal(
    q: tw.Tensor["B", "H", "M", "E"], k: tw.Tensor["B", "H", "T", "E"], v: tw.Tensor["B", "H", "T", "F"],
    o: tw.Tensor["B", "H", "M", "F"],
):  # fmt: skip
    b, h, i, t, e, f = tw.axes("B H M T E F")
    s = tw.where(t <= i, tw.dot(q[b, h, i, e], k[b, h, t, e], over=e) * 0.2, -np.inf)
    o[b, h, i, f] = tw.dot(tw.softmax(s, over=t), v[b, h, t, f], over=t)


@dataclass(frozen=True)
class Kind:
    kernel: Kernel
    dims: dict[str, int]
    ranges: dict[str, Range]
    at: list[tuple[int, ...]]
    """Extents of the axes that have a range."""
    dtype: dict[str, str] = field(default_factory=dict)


EIGHTS, ANY = tw.dynamic(8, 200, multiple_of=8), tw.dynamic(1, 199)
KINDS = {
    "columns": Kind(layer, {"M": 70, "K": 64}, {"N": EIGHTS}, [(8,), (64,), (72,), (200,)]),
    "columns of any number": Kind(layer, {"M": 70, "K": 64}, {"N": ANY}, [(1,), (63,), (64,), (65,), (199,)]),
    "columns of float32": Kind(layer, {"M": 70, "K": 64}, {"N": ANY}, [(1,), (65,), (199,)], {"y": "f32", "r": "f32"}),
    "rows, columns and sums": Kind(
        layer, {}, {"M": tw.dynamic(0, 150), "N": ANY, "K": tw.dynamic(0, 96, multiple_of=8)},
        [(0, 5, 8), (1, 1, 8), (150, 199, 96), (65, 130, 0)],
    ),
    "gated": Kind(gated, {"K": 64}, {"M": tw.dynamic(0, 150), "N": EIGHTS}, [(0, 8), (1, 8), (150, 200), (65, 136)]),
    "all of a batch": Kind(
        batched_kernel("relu"), {},
        {"B": tw.dynamic(1, 5), "M": ANY, "N": EIGHTS, "K": tw.dynamic(8, 96, multiple_of=8)},
        [(1, 1, 8, 8), (5, 199, 200, 96), (3, 65, 72, 64)],
    ),
    "a bias of keys": Kind(biased, {"M": 70, "E": 64, "F": 64}, {"T": EIGHTS}, [(8,), (64,), (136,), (200,)]),
    "queries and keys": Kind(
        biased, {"E": 64, "F": 64}, {"M": ANY, "T": tw.dynamic(0, 199)}, [(1, 0), (1, 1), (65, 129), (199, 199)],
        {"s": "f32"},
    ),
    "heads too": Kind(
        causal, {"E": 64, "F": 64}, {"B": tw.dynamic(1, 3), "H": tw.dynamic(1, 4), "M": ANY, "T": ANY},
        [(1, 1, 1, 1), (3, 4, 199, 199), (2, 3, 65, 130)],
    ),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", KINDS)
def test_every_extent_is_right(name: str, target: str) -> None:
    kind = KINDS[name]
    elements = {each.name: Element(kind.dtype.get(each.name, "bf16")) for each in kind.kernel.parameters}
    dims = {**kind.dims, **kind.ranges}
    made = compile_kernel(kind.kernel, dims=dims, dtype=elements, target=target, assembled=False)
    assert made.proof.scope == "all trip counts" and made.text_proof is not None and made.plan.run_time is not None
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(0)
    for extents in kind.at:
        module = trace(kind.kernel, {**kind.dims, **dict(zip(kind.ranges, extents, strict=True))}, elements)
        inputs = {
            each.name: random.standard_normal(each.shape).astype(DTYPES[each.element])
            for each in buffers(the_program(module)) if each.role == "input"
        }  # fmt: skip
        (exact,) = evaluate(module, inputs, rounded=False).values()
        result = run(*inputs.values())
        assert result.shape == exact.shape
        if exact.size:
            difference = np.linalg.norm(result.astype(np.float64) - exact)
            assert difference <= 6e-3 * np.linalg.norm(exact), extents
