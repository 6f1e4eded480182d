# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Tile programs that tests compile: those of the end-to-end tests, and what others have in common."""

import tilewright as tw


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


@tw.kernel
def matmul_bias_gelu(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = tw.gelu(acc + bias[j])


@tw.kernel
def scaled_residual(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], r: tw.Tensor["M", "N"], s: tw.Tensor["M"], c: tw.Tensor["M", "N"]
):
    """A transposed operand, a row vector, a residual and a scale."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = tw.relu(acc * 0.5 + s[i]) + r[i, j]


@tw.kernel
def operand_expression(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    """An operand that is computed, and one displaced along the contracted axis."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.exp(a[i, k]).to(tw.bf16), b[k + 1, j])
    c[i, j] = acc


@tw.kernel
def elementwise(x: tw.Tensor["M", "N"], y: tw.Tensor["N"], z: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    z[i, j] = tw.silu(x[i + 1, j]) + y[j] / 3.0


@tw.kernel
def consecutive(x: tw.Tensor["T", "K"], w: tw.Tensor["G", "K", "N"], ends: tw.Tensor["G"], y: tw.Tensor["T", "N"]):
    """Groups of rows that follow each other, each times a matrix of its own."""
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, k, j])
    y[i, j] = acc
