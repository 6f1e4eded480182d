# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs that draws of axes, elements and folds found refused, each now right on the CPU machine."""

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace

SIZES = {"B": 2, "H": 3, "M": 70, "N": 40, "K": 24}


@tw.kernel
def normalized(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    """Both operands are computed, and what follows the product folds it: a cut whose side has a kernel before."""
    i, j, k = tw.axes("M N K")
    v = tw.dot((x[i, k] * 0.5).to(tw.bf16), w[j, k].to(tw.bf16), over=k)
    y[i, j] = v * tw.rsqrt(tw.mean(v * v, over=j) + 1e-6)


@tw.kernel
def widened(x: tw.Tensor["K", "M", "B"], w: tw.Tensor["N", "K"], y: tw.Tensor["B", "M", "N"]):
    """Threads widen 40 rows of `w`, of which a warp takes 16 at a time."""
    b, i, j, k = tw.axes("B M N K")
    y[b, i, j] = tw.dot(x[k, i, b].to(tw.bf16), w[j, k].to(tw.bf16), over=k)


@tw.kernel
def innermost_batch(
    x: tw.Tensor["M", "H", "K", "B"], w: tw.Tensor["H", "K", "N", "B"], y: tw.Tensor["B", "H", "M", "N"]
):
    """Both operands are computed, and handed over so that the copy engine finds rows of theirs."""
    b, h, i, j, k = tw.axes("B H M N K")
    v = tw.dot((x[i, h, k, b] * 0.5).to(tw.bf16), w[h, k, j, b].to(tw.bf16), over=k)
    y[b, h, i, j] = v * tw.rsqrt(tw.mean(v * v, over=j) + 1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("kernel", "element"), [(normalized, Element.F16), (widened, Element.F8E4M3), (innermost_batch, Element.F16)]
)
def test_values(kernel, element, target):
    sizes = {axis: SIZES[axis] for axis in kernel.axes}
    draw = np.random.default_rng(7)
    arrays = {
        each.name: draw.standard_normal([sizes[axis] for axis in each.axes]).astype(DTYPES[element])
        for each in kernel.parameters[:-1]
    }
    wanted = evaluate(trace(kernel, sizes, dict.fromkeys(("x", "w", "y"), element)), arrays, rounded=False)["y"]
    made = compile_kernel(kernel, dims=sizes, dtype=element.value, target=target)
    found = run_on_machine(made.bundle(), tuple(arrays.values())).astype(np.float64)
    spacing = 2.0**-4 if element is Element.F8E4M3 else 2.0**-8
    np.testing.assert_allclose(found, wanted, rtol=spacing, atol=spacing * np.abs(wanted).max() / 8)


@tw.kernel
def gated_norm(x: tw.Tensor["B", "M", "K"], w: tw.Tensor["K", "N"], e: tw.Tensor["M"], y: tw.Tensor["B", "M", "N"]):
    b, i, j, k = tw.axes("B M N K")
    v = tw.silu(tw.dot(x[b, i, k], w[k, j], over=k)) + e[i]
    y[b, i, j] = v * tw.rsqrt(tw.mean(v * v, over=j) + 1e-6)


@pytest.mark.parametrize(
    ("columns", "target"),
    [
        (136, "sm_100a"),  # no tile keeps its registers, so that the program is cut
        (256, "sm_90a"),  # what a copy stores in a batch is loaded as one matrix of rows
    ],
)
def test_a_batch_whose_rows_are_copied(columns, target):
    made = compile_kernel(gated_norm, dims={"B": 3, "M": 70, "N": columns, "K": 129}, target=target)
    assert len(made.parts) > 1 and made.assembly is not None and made.assembly.spill_bytes == 0
    draw = np.random.default_rng(3)
    x, w, e = (draw.standard_normal(shape).astype(DTYPES[Element.BF16]) for shape in ((3, 70, 129), (129, columns), 70))
    product = x.astype(np.float64) @ w.astype(np.float64)
    value = product / (1 + np.exp(-product)) + e.astype(np.float64)[:, None]
    wanted = value / np.sqrt((value * value).mean(-1, keepdims=True) + 1e-6)
    found = run_on_machine(made.bundle(), (x, w, e)).astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=2**-8, atol=2**-9)
