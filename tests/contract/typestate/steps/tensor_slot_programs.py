# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products whose sums stand in slots of tensor memory."""

import tilewright.frontends.tile.language as tw


@tw.kernel
def product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.relu(tw.dot(x[i, k], w[j, k], over=k))


@tw.kernel
def gated(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], v: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    first, second = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        first += tw.dot(x[i, k], w[j, k].T)
        second += tw.dot(x[i, k], v[j, k].T)
    y[i, j] = tw.silu(first) * second
