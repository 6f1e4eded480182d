# ruff: noqa: F821
"""A program whose first tiles spill."""

from tilewright.frontends.tile import language as tw


@tw.kernel
def residual(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    r: tw.Tensor["M", "N"],
    s: tw.Tensor["N"],
    y: tw.Tensor["M", "N"],
) -> None:
    i, j = tw.grid("M", "N")
    total = tw.zeros(i, j)
    for k in tw.loop("K"):
        total += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = total + r[i, j] * s[j]
