# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Rows and points of which the launch says how long they are: proven once, right at every length on the CPU machine."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.size import Range
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.tile.facts import buffers, the_program
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@tw.kernel
def normed(x: tw.Tensor["M", "N"], g: tw.Tensor["N"], b: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    apart = x[i, j] - tw.mean(x[i, j], over=j)
    y[i, j] = apart * tw.rsqrt(tw.mean(apart * apart, over=j) + 1e-5) * g[j] + b[j]


@tw.kernel
def found(x: tw.Tensor["M", "N"], s: tw.Tensor["M", tw.f32], m: tw.Tensor["M", tw.f32], p: tw.Tensor["M", tw.i32]):
    i, j = tw.axes("M N")
    s[i] = tw.sum(x[i, j], over=j)
    m[i] = tw.min(x[i, j], over=j)
    p[i] = tw.argmax(x[i, j], over=j)


@tw.kernel
def cross_entropy(x: tw.Tensor["M", "N"], t: tw.Tensor["M", tw.i32], y: tw.Tensor["M", tw.f32]):
    i, j = tw.axes("M N")
    y[i] = tw.logsumexp(x[i, j], over=j) - x[i, t[i]]


@tw.kernel
def of_a_batch(x: tw.Tensor["B", "M", "N"], y: tw.Tensor["B", "M", "N"]):
    b, i, j = tw.axes("B M N")
    y[b, i, j] = x[b, i, j] * tw.rsqrt(tw.mean(x[b, i, j] * x[b, i, j], over=j) + 1e-5)


@tw.kernel
def columns_summed(x: tw.Tensor["M", "N"], y: tw.Tensor["N", tw.f32]):
    i, j = tw.axes("M N")
    y[j] = tw.sum(x[i, j], over=i)


@tw.kernel
def neighbours(x: tw.Tensor["M", "N"], t: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + x[i, j + 1] * t[j]


@tw.kernel
def looked_up(x: tw.Tensor["V", "N"], ids: tw.Tensor["M", "N", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = x[ids[i, j], j] + 1.0


@dataclass(frozen=True)
class Kind:
    kernel: Kernel
    ranges: dict[str, Range]
    at: list[tuple[int, ...]]
    """Extents of the axes that have a range."""
    dims: dict[str, int] = field(default_factory=dict)
    element: Element = Element.BF16
    wanted: Wanted | None = None
    decided: str = ""
    """Words of the reason."""


VECTORS = tw.dynamic(8, 304, multiple_of=8)
KINDS = {
    "vectors": Kind(softmax, {"N": VECTORS}, [(8,), (64,), (248,), (256,), (264,), (304,)], {"M": 5}, decided="8 elem"),
    "single elements": Kind(softmax, {"N": tw.dynamic(1, 300)}, [(1,), (2,), (31,), (129,), (300,)], {"M": 3}),
    "from where vectors begin": Kind(
        softmax, {"N": tw.dynamic(64, 700)}, [(64,), (65,), (127,), (511,), (700,)], {"M": 5}, decided="vectors of x",
        wanted=Wanted(row_run=8),
    ),
    "words": Kind(
        normed, {"M": tw.dynamic(0, 5), "N": tw.dynamic(32, 700)}, [(0, 40), (1, 33), (5, 699)], decided="2 elements"
    ),
    "both": Kind(
        normed, {"M": tw.dynamic(0, 70), "N": VECTORS}, [(0, 8), (1, 8), (70, 304), (33, 104)], element=Element.F16
    ),
    "in shared memory": Kind(
        softmax, {"N": tw.dynamic(8, 4800, multiple_of=8)}, [(8,), (2040,), (2048,), (2056,), (4800,)], {"M": 2},
        wanted=Wanted(row_kept=True), decided="in shared memory meanwhile",
    ),
    "a cluster": Kind(
        found, {"N": tw.dynamic(8, 4096, multiple_of=8)}, [(8,), (2048,), (2056,), (4096,)], {"M": 2},
        wanted=Wanted(row_ctas=2), decided="2 CTAs",
    ),
    "folds": Kind(found, {"N": tw.dynamic(1, 300)}, [(1,), (2,), (33,), (300,)], {"M": 9}),
    "cross-entropy": Kind(
        cross_entropy, {"M": tw.dynamic(1, 9), "N": tw.dynamic(1, 500)}, [(1, 1), (9, 500), (4, 129)]
    ),
    "a batch": Kind(
        of_a_batch, {"B": tw.dynamic(1, 4), "M": tw.dynamic(1, 9), "N": VECTORS}, [(1, 1, 8), (4, 9, 304), (3, 2, 104)]
    ),
    "columns": Kind(columns_summed, {"M": tw.dynamic(1, 400), "N": tw.dynamic(1, 99)}, [(1, 1), (400, 99), (17, 64)]),
    "points": Kind(neighbours, {"M": tw.dynamic(0, 9), "N": tw.dynamic(0, 40)}, [(0, 3), (3, 0), (1, 1), (9, 40)]),
    "places": Kind(
        looked_up, {"V": tw.dynamic(1, 7), "M": tw.dynamic(1, 9), "N": tw.dynamic(1, 40)}, [(1, 1, 1), (7, 9, 40)]
    ),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_every_length_is_right(name: str, target: str) -> None:
    kind = KINDS[name]
    elements = {each.name: each.element or kind.element for each in kind.kernel.parameters}
    made = compile_kernel(
        kind.kernel, dims={**kind.dims, **kind.ranges}, dtype=elements, wanted=kind.wanted, target=target,
        assembled=False,
    )  # fmt: skip
    assert isinstance(made.decisions, ElementwiseDecisions) and kind.decided in made.decisions.reasons[0]
    assert made.proof.scope == "all trip counts" and made.text_proof is not None and made.plan.run_time is not None
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(0)
    for extents in kind.at:
        module = trace(kind.kernel, {**kind.dims, **dict(zip(kind.ranges, extents, strict=True))}, elements)
        inputs = {
            each.name: (random.integers(0, 7, each.shape) if each.element is Element.S32
                        else random.standard_normal(each.shape)).astype(DTYPES[each.element])
            for each in buffers(the_program(module)) if each.role == "input"
        }  # fmt: skip
        results = run(*inputs.values())
        results = results if isinstance(results, tuple) else (results,)
        for result, exact in zip(results, evaluate(module, inputs, rounded=False).values(), strict=True):
            assert result.shape == exact.shape
            if exact.size:
                difference = np.linalg.norm(result.astype(np.float64) - exact.astype(np.float64))
                assert difference <= 6e-3 * np.linalg.norm(exact), extents
