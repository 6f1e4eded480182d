# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs that fold along an axis: those of the examples, and others with several results, axes and accesses."""

from examples.rows import quantize, rms_norm, softmax

import tilewright.frontends.tile.language as tw


@tw.kernel
def log_softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"], sums: tw.Tensor["M"]):
    i, j = tw.grid("M", "N")
    total = tw.logsumexp(x[i, j], over=j)
    y[i, j] = x[i, j] - total
    sums[i] = total


@tw.kernel
def layer_norm(
    x: tw.Tensor["M", "N"],
    weight: tw.Tensor["N"],
    bias: tw.Tensor["N"],
    y: tw.Tensor["M", "N"],
    means: tw.Tensor["M"],
):
    i, j = tw.grid("M", "N")
    mean = tw.mean(x[i, j], over=j)
    centred = x[i, j] - mean
    y[i, j] = centred * tw.rsqrt(tw.mean(centred * centred, over=j) + 1e-5) * weight[j] + bias[j]
    means[i] = mean


@tw.kernel
def cross_entropy(x: tw.Tensor["M", "N"], wanted: tw.Tensor["M", "N"], loss: tw.Tensor["M"]):
    i, j = tw.grid("M", "N")
    loss[i] = tw.logsumexp(x[i, j], over=j) - tw.sum(x[i, j] * wanted[i, j], over=j)


@tw.kernel
def spread(x: tw.Tensor["B", "M", "N"], low: tw.Tensor["B", "N"], y: tw.Tensor["B", "M", "N"]):
    """Along the axis in the middle."""
    b, i, j = tw.grid("B", "M", "N")
    least = tw.min(x[b, i, j], over=i)
    y[b, i, j] = (x[b, i, j] - least) / (tw.max(x[b, i, j], over=i) - least)
    low[b, j] = least


@tw.kernel
def neighbours(x: tw.Tensor["M", "N"], factor: tw.Tensor["N/4"], y: tw.Tensor["M"]):
    """Shifted loads, and numbers for blocks."""
    i, j = tw.grid("M", "N")
    y[i] = tw.sum((x[i, j + 1] + x[i, j - 2]) * factor[j // 4], over=j)


@tw.kernel
def twice_the_row(x: tw.Tensor["M", "N"], bias: tw.Tensor["M"], y: tw.Tensor["M"]):
    """A fold of what is the same along the row."""
    i, j = tw.grid("M", "N")
    y[i] = tw.sum(tw.maximum(x[i, j], bias[i]) - bias[i], over=j) + tw.sum(x[i, j] * 0.0 + bias[i], over=j)


PROGRAMS = {
    each.name: each
    for each in (
        softmax, log_softmax, rms_norm, layer_norm, cross_entropy, quantize, spread, neighbours, twice_the_row,
    )
}  # fmt: skip
