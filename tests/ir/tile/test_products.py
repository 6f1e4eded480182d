"""Which products one kernel computes together."""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.products import shared_products

A, B, C = tw.Tensor["M", "K"], tw.Tensor["K", "N"], tw.Tensor["M", "N"]


@tw.kernel
def none(x: C, c: C):
    i, j = tw.grid("M", "N")
    c[i, j] = x[i, j]


@tw.kernel
def one(a: A, b: B, c: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


@tw.kernel
def common_left(a: A, b: B, w: B, c: C):
    i, j = tw.grid("M", "N")
    first, second = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        second += tw.dot(a[i, k], w[k, j])
        first += tw.dot(a[i, k], b[k, j])
    c[i, j] = first - second


@tw.kernel
def common_right(a: A, x: A, b: B, c: C):
    i, j = tw.grid("M", "N")
    first, second = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        first += tw.dot(a[i, k], b[k, j])
        second += tw.dot(x[i, k], b[k, j])
    c[i, j] = first - second


@tw.kernel
def nothing_common(a: A, x: A, b: B, w: B, c: C):
    i, j = tw.grid("M", "N")
    first, second = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        first += tw.dot(a[i, k], b[k, j])
        second += tw.dot(x[i, k], w[k, j])
    c[i, j] = first - second


@tw.kernel
def one_sum(a: A, b: B, w: B, c: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
        acc += tw.dot(a[i, k], w[k, j])
    c[i, j] = acc


@tw.kernel
def two_loops(a: A, b: B, w: B, c: C):
    i, j = tw.grid("M", "N")
    first, second = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        first += tw.dot(a[i, k], b[k, j])
    for k in tw.loop("K"):
        second += tw.dot(a[i, k], w[k, j])
    c[i, j] = first - second


def traced(kernel):
    kinds = {item.name: tw.bf16 for item in kernel.parameters}
    return the_program(trace(kernel, dict.fromkeys(kernel.axes, 8), kinds))


@pytest.mark.parametrize(("kernel", "shared"), [(one, "left"), (common_left, "left"), (common_right, "right")])
def test_products_with_an_operand_in_common(kernel, shared):
    found = shared_products(traced(kernel))
    assert found is not None and found.shared == shared
    sides = {"left": {dot.left for dot in found.products}, "right": {dot.right for dot in found.products}}
    other = "right" if shared == "left" else "left"
    assert (len(sides[shared]), len(sides[other])) == (1, len(found.products))


@pytest.mark.parametrize("kernel", [none, nothing_common, one_sum, two_loops])
def test_products_of_several_kernels(kernel):
    assert shared_products(traced(kernel)) is None
