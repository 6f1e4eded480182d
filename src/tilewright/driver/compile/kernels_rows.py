# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportInvalidTypeForm=false
"""Tile programs of norms and softmax along rows, and of their gradients, written as any author would.

Theory, with g the gradient of a row's result times the weights, n elements in a row, and x̂ the normalized row: of an
RMS norm, dx = r (g - x̂ mean(g x̂)) with r = rsqrt(mean(x²) + eps); of a layer norm, dx = r (g - mean(g) -
x̂ mean(g x̂)); of a softmax y, dx = y (g - sum(g y)). The gradients of weights and biases are sums along the rows' own
axis; what each row was divided by is stored for them, rather than by the forward pass.
Checked by: tests/driver/compile/test_norms.py.
"""

from functools import cache

from tilewright.frontends.tile import language as tw


@cache
def rms_norm_kernel(eps: float, weighted: bool) -> tw.Kernel:
    """x, [weight], y."""

    @tw.kernel
    def rms_norm(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]) -> None:
        i, j = tw.grid("M", "N")
        y[i, j] = x[i, j] * tw.rsqrt(tw.mean(x[i, j] * x[i, j], over=j) + eps)

    @tw.kernel
    def rms_norm_weighted(x: tw.Tensor["M", "N"], weight: tw.Tensor["N"], y: tw.Tensor["M", "N"]) -> None:
        i, j = tw.grid("M", "N")
        y[i, j] = x[i, j] * tw.rsqrt(tw.mean(x[i, j] * x[i, j], over=j) + eps) * weight[j]

    return rms_norm_weighted if weighted else rms_norm


@cache
def rms_norm_gradient_kernel(eps: float, weighted: bool) -> tw.Kernel:
    """gradient, x, [weight], dx, [factor]: what each row was multiplied by, where weights have a gradient."""

    @tw.kernel
    def rms_norm_gradient(gradient: tw.Tensor["M", "N"], x: tw.Tensor["M", "N"], dx: tw.Tensor["M", "N"]) -> None:
        i, j = tw.grid("M", "N")
        r = tw.rsqrt(tw.mean(x[i, j] * x[i, j], over=j) + eps)
        along = tw.mean(gradient[i, j] * x[i, j], over=j) * r * r
        dx[i, j] = (gradient[i, j] - x[i, j] * along) * r

    @tw.kernel
    def rms_norm_gradient_weighted(
        gradient: tw.Tensor["M", "N"],
        x: tw.Tensor["M", "N"],
        weight: tw.Tensor["N"],
        dx: tw.Tensor["M", "N"],
        factor: tw.Tensor["M", tw.f32],
    ) -> None:
        i, j = tw.grid("M", "N")
        r = tw.rsqrt(tw.mean(x[i, j] * x[i, j], over=j) + eps)
        g = gradient[i, j] * weight[j]
        dx[i, j] = (g - x[i, j] * tw.mean(g * x[i, j], over=j) * r * r) * r
        factor[i] = r

    return rms_norm_gradient_weighted if weighted else rms_norm_gradient


@tw.kernel
def rms_norm_weight_gradient(
    gradient: tw.Tensor["M", "N"], x: tw.Tensor["M", "N"], factor: tw.Tensor["M", tw.f32], dweight: tw.Tensor["N"]
) -> None:
    j, i = tw.axes("N M")
    dweight[j] = tw.sum(gradient[i, j] * x[i, j] * factor[i], over=i)


@cache
def layer_norm_kernel(eps: float, weighted: bool, biased: bool) -> tw.Kernel:
    """x, [weight], [bias], y."""

    @tw.kernel
    def layer_norm(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]) -> None:
        i, j = tw.grid("M", "N")
        c = x[i, j] - tw.mean(x[i, j], over=j)
        y[i, j] = c * tw.rsqrt(tw.mean(c * c, over=j) + eps)

    @tw.kernel
    def layer_norm_weighted(x: tw.Tensor["M", "N"], weight: tw.Tensor["N"], y: tw.Tensor["M", "N"]) -> None:
        i, j = tw.grid("M", "N")
        c = x[i, j] - tw.mean(x[i, j], over=j)
        y[i, j] = c * tw.rsqrt(tw.mean(c * c, over=j) + eps) * weight[j]

    @tw.kernel
    def layer_norm_biased(
        x: tw.Tensor["M", "N"], weight: tw.Tensor["N"], bias: tw.Tensor["N"], y: tw.Tensor["M", "N"]
    ) -> None:
        i, j = tw.grid("M", "N")
        c = x[i, j] - tw.mean(x[i, j], over=j)
        y[i, j] = c * tw.rsqrt(tw.mean(c * c, over=j) + eps) * weight[j] + bias[j]

    if biased:
        return layer_norm_biased
    return layer_norm_weighted if weighted else layer_norm


@cache
def layer_norm_gradient_kernel(eps: float, weighted: bool) -> tw.Kernel:
    """gradient, x, [weight], dx, [centre, factor]: what was taken from each row, and what it was multiplied by."""

    @tw.kernel
    def layer_norm_gradient(gradient: tw.Tensor["M", "N"], x: tw.Tensor["M", "N"], dx: tw.Tensor["M", "N"]) -> None:
        i, j = tw.grid("M", "N")
        c = x[i, j] - tw.mean(x[i, j], over=j)
        r = tw.rsqrt(tw.mean(c * c, over=j) + eps)
        along = tw.mean(gradient[i, j] * c, over=j) * r * r
        dx[i, j] = (gradient[i, j] - tw.mean(gradient[i, j], over=j) - c * along) * r

    @tw.kernel
    def layer_norm_gradient_weighted(
        gradient: tw.Tensor["M", "N"],
        x: tw.Tensor["M", "N"],
        weight: tw.Tensor["N"],
        dx: tw.Tensor["M", "N"],
        centre: tw.Tensor["M", tw.f32],
        factor: tw.Tensor["M", tw.f32],
    ) -> None:
        i, j = tw.grid("M", "N")
        m = tw.mean(x[i, j], over=j)
        c = x[i, j] - m
        r = tw.rsqrt(tw.mean(c * c, over=j) + eps)
        g = gradient[i, j] * weight[j]
        dx[i, j] = (g - tw.mean(g, over=j) - c * tw.mean(g * c, over=j) * r * r) * r
        centre[i] = m
        factor[i] = r

    return layer_norm_gradient_weighted if weighted else layer_norm_gradient


@tw.kernel
def layer_norm_weight_gradient(
    gradient: tw.Tensor["M", "N"],
    x: tw.Tensor["M", "N"],
    centre: tw.Tensor["M", tw.f32],
    factor: tw.Tensor["M", tw.f32],
    dweight: tw.Tensor["N"],
    dbias: tw.Tensor["N"],
) -> None:
    j, i = tw.axes("N M")
    dweight[j] = tw.sum(gradient[i, j] * (x[i, j] - centre[i]) * factor[i], over=i)
    dbias[j] = tw.sum(gradient[i, j], over=i)


@tw.kernel
def softmax_rows(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]) -> None:
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@tw.kernel
def softmax_gradient(gradient: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"], dx: tw.Tensor["M", "N"]) -> None:
    i, j = tw.grid("M", "N")
    dx[i, j] = y[i, j] * (gradient[i, j] - tw.sum(gradient[i, j] * y[i, j], over=j))
