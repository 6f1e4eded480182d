# ruff: noqa: F821
"""Programs that folds of parts are for."""

import math

from tilewright.frontends.tile import language as tw


@tw.kernel
def sum_of_rows(x: tw.Tensor["M", "N"], y: tw.Tensor["M", tw.f32]):
    i, j = tw.axes("M N")
    y[i] = tw.sum(x[i, j], over=j)


@tw.kernel
def largest_and_logsumexp(x: tw.Tensor["M", "N"], y: tw.Tensor["M", tw.f32], z: tw.Tensor["M", tw.f32]):
    i, j = tw.axes("M N")
    masked = tw.where(j < i + 1, x[i, j] * 0.5, -math.inf)
    y[i] = tw.max(masked, over=j)
    z[i] = tw.logsumexp(masked, over=j)
