# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: basic
"""Tile programs of kinds that no suite measures, for `python -m bench replay`: elementwise ones, those that transpose,
batches with vectors, computed and displaced operands, several results.

They import the public names alone, as an author would, since compilers of other commits are asked for them too. What is
asked of which: `replay_products`.
"""

import tilewright as tw


@tw.kernel
def smoothed(x: tw.Tensor["M", "N"], weight: tw.Tensor["N"], y: tw.Tensor["M", "N"]) -> None:
    """Neighbours along a row."""
    i, j = tw.grid("M", "N")
    y[i, j] = (x[i, j - 1] + x[i, j] + x[i, j + 1]) * weight[j]


@tw.kernel
def dequantized(x: tw.Tensor["M", "N"], scale: tw.Tensor["M", "N/128"], y: tw.Tensor["M", "N"]) -> None:
    """A factor for 128 elements of a row."""
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * scale[i, j // 128]


@tw.kernel
def activated(x: tw.Tensor["B", "M", "N"], of_x: tw.Tensor["B", "N"], y: tw.Tensor["B", "M", "N"]) -> None:
    """Functions of elements, over three axes."""
    p, i, j = tw.grid("B", "M", "N")
    y[p, i, j] = tw.gelu(x[p, i, j]) + tw.sigmoid(of_x[p, j]) / (1.0 + tw.exp(x[p, i, j]))


@tw.kernel
def symmetrized(x: tw.Tensor["I", "J"], z: tw.Tensor["J", "I"], bias: tw.Tensor["J"], y: tw.Tensor["J", "I"]) -> None:
    """A transposed tensor beside one that is not."""
    j, i = tw.grid("J", "I")
    y[j, i] = tw.relu(0.5 * (x[i, j].T + z[j, i]) + bias[j])


@tw.kernel
def copied(x: tw.Tensor["B", "J", "I"], y: tw.Tensor["B", "J", "I"]) -> None:
    """From one order of axes in memory to another."""
    b, j, i = tw.grid("B", "J", "I")
    y[b, j, i] = x[b, j, i]


@tw.kernel
def displaced(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], x: tw.Tensor["M", "N"], c: tw.Tensor["M", "N"]) -> None:
    """A computed operand, one displaced along the contracted axis, and a residual displaced along both others."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.exp(a[i, k]).to(tw.bf16), b[k + 1, j])
    c[i, j] = x[i + 1, j - 2] + tw.silu(acc)


@tw.kernel
def two_results(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"], d: tw.Tensor["N", "M"]) -> None:
    """A product, and its transposed magnitude."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc
    d[j, i] = tw.maximum(acc, -acc).T


@tw.kernel
def shared_weights(
    a: tw.Tensor["B", "M", "K"],
    w: tw.Tensor["N", "K"],
    r: tw.Tensor["B", "M", "N"],
    s: tw.Tensor["B"],
    t: tw.Tensor["M", "B"],
    u: tw.Tensor["N"],
    c: tw.Tensor["B", "M", "N"],
) -> None:
    """A batch times the same weights, with a vector along each axis and a residual."""
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], w[j, k].T)
    c[p, i, j] = acc * s[p] + r[p, i, j] + t[i, p] + u[j]


@tw.kernel
def gated_batch(
    a: tw.Tensor["B", "M", "K"],
    w: tw.Tensor["B", "N", "K"],
    v: tw.Tensor["B", "N", "K"],
    c: tw.Tensor["B", "M", "N"],
) -> None:
    """Two products of a batch with one left operand."""
    p, i, j = tw.grid("B", "M", "N")
    one, two = tw.zeros(p, i, j), tw.zeros(p, i, j)
    for k in tw.loop("K"):
        one += tw.dot(a[p, i, k], w[p, j, k].T)
        two += tw.dot(a[p, i, k], v[p, j, k].T)
    c[p, i, j] = tw.silu(one) * two
