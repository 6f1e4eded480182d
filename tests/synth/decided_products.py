# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""A product of given extents, and what is decided of it."""

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.sequence import uncut
from tilewright.frontends.tile.trace import trace
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


def traced(kernel, m, n, k=None, strides=None, **elements):
    dims = {"M": m, "N": n} | ({"K": k} if k is not None else {})
    return trace(kernel, dims, {item.name: tw.bf16 for item in kernel.parameters} | elements, strides)


def parts(kernel, m, n, k=None, strides=None, wanted=None, **elements):
    """Of a program that is cut at no value: what its author wrote behind kernels that copy operands."""
    return uncut(traced(kernel, m, n, k, strides, **elements), HOPPER, wanted or Wanted())


def decided(kernel, m, n, k=None, strides=None, wanted=None, **elements):
    """Of what its author wrote."""
    return parts(kernel, m, n, k, strides, wanted, **elements)[-1].decisions
