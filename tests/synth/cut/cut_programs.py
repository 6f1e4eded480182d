# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
"""Programs that may be cut, for the tests of cuts and of sequences of kernels, with what NumPy makes of them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.driver.compile.compile import elements_of
from tilewright.frontends.tile import language as tw
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace

Numbers = NDArray[np.float64]


@tw.kernel
def softmax_of_product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.softmax(tw.dot(x[i, k], w[j, k], over=k), over=j)


@tw.kernel
def matmul_in_loop(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    total = tw.zeros(i, j)
    for k in tw.loop("K"):
        total += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = total


@tw.kernel
def norm_of_product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], g: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    s = tw.dot(x[i, k], w[j, k], over=k)
    y[i, j] = s * tw.rsqrt(tw.mean(s * s, over=j) + 1e-6) * g[j]


@tw.kernel
def product_of_norm(x: tw.Tensor["M", "K"], g: tw.Tensor["K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    scale = tw.rsqrt(tw.mean(x[i, k] * x[i, k], over=k) + 1e-6)
    y[i, j] = tw.dot(x[i, k] * scale * g[k], w[j, k], over=k)


@tw.kernel
def how_often_largest(x: tw.Tensor["M", "N"], y: tw.Tensor["N"]):
    i, j = tw.axes("M N")
    y[j] = tw.mean(tw.where(tw.equal(j, tw.argmax(x[i, j], over=j)), 1.0, 0.0), over=i)


@tw.kernel
def largest_of_product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", tw.i32]):
    i, j, k = tw.axes("M N K")
    y[i] = tw.argmax(tw.dot(x[i, k], w[j, k], over=k), over=j)


@tw.kernel
def sums_both_ways(x: tw.Tensor["M", "N"], y: tw.Tensor["N"]):
    i, j = tw.axes("M N")
    y[j] = tw.sum(tw.softmax(x[i, j], over=j), over=i)


@tw.kernel
def softmax_of_rows(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@tw.kernel
def layers(x: tw.Tensor["M", "K"], up: tw.Tensor["L", "K"], down: tw.Tensor["N", "L"], y: tw.Tensor["M", "N"]):
    i, j, k, h = tw.axes("M N K L")
    y[i, j] = tw.dot(tw.silu(tw.dot(x[i, k], up[h, k], over=k)), down[j, h], over=h)


@tw.kernel
def batch_with_logsumexp(
    x: tw.Tensor["B", "M", "K"],
    w: tw.Tensor["B", "N", "K"],
    y: tw.Tensor["B", "M", "N"],
    z: tw.Tensor["B", "M", tw.f32],
):
    b, i, j, k = tw.axes("B M N K")
    s = tw.dot(x[b, i, k], w[b, j, k], over=k)
    y[b, i, j] = tw.softmax(s, over=j)
    z[b, i] = tw.logsumexp(s, over=j)


def softmax(s: Numbers) -> Numbers:
    shifted = np.exp(s - s.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def normed(s: Numbers) -> Numbers:
    return s / np.sqrt((s * s).mean(-1, keepdims=True) + 1e-6)


def _layers(x: Numbers, up: Numbers, down: Numbers) -> Numbers:
    hidden = x @ up.T
    return (hidden / (1 + np.exp(-hidden))) @ down.T


def _batch(x: Numbers, w: Numbers) -> tuple[Numbers, Numbers]:
    s = np.einsum("bmk,bnk->bmn", x, w)
    return softmax(s), np.log(np.exp(s).sum(-1))


EXPECTED: dict[Kernel, Callable[..., Numbers | tuple[Numbers, ...]]] = {
    softmax_of_product: lambda x, w: softmax(x @ w.T),
    norm_of_product: lambda x, w, g: normed(x @ w.T) * g,
    product_of_norm: lambda x, g, w: (normed(x) * g) @ w.T,
    largest_of_product: lambda x, w: (x @ w.T).argmax(-1).astype(np.float64),
    sums_both_ways: lambda x: softmax(x).sum(0),
    softmax_of_rows: softmax,
    layers: _layers,
    batch_with_logsumexp: _batch,
}


def traced(kernel: Kernel, **dims: int) -> ModuleOp:
    return trace(kernel, dims, elements_of(kernel, Element.BF16))
