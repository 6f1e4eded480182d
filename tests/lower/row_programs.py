# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs that fold along an axis: those of the examples, and others with several results, axes and accesses."""

import math

import numpy as np
from examples.rows import quantize, quantize_int8, rms_norm, softmax
from tests.lower.lowered_programs import Lowered, reference, run

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element


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
def of_four_axes(x: tw.Tensor["A", "B", "M", "N"], y: tw.Tensor["A", "B", "M", "N"], sums: tw.Tensor["A", "B", "M"]):
    a, b, i, j = tw.axes("A B M N")
    y[a, b, i, j] = tw.softmax(x[a, b, i, j], over=j)
    sums[a, b, i] = tw.logsumexp(x[a, b, i, j], over=j)


@tw.kernel
def across_four_axes(x: tw.Tensor["A", "M", "B", "N"], y: tw.Tensor["A", "B", "N"]):
    a, i, b, j = tw.axes("A M B N")
    y[a, b, j] = tw.sum(x[a, i, b, j], over=i)


@tw.kernel
def of_five_axes(x: tw.Tensor["A", "B", "C", "M", "N"], z: tw.Tensor["C", "N"], y: tw.Tensor["A", "B", "C", "M", "N"]):
    a, b, c, i, j = tw.axes("A B C M N")
    y[a, b, c, i, j] = tw.softmax(tw.where(j <= i + 40, x[a, b, c, i, j], -math.inf), over=j) * z[c, j]


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


@tw.kernel
def causal_softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    """What lies behind the diagonal, or more than 40 before it, is left out."""
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(tw.where((j <= i) & ~(j < i - 40), x[i, j], -math.inf), over=j)


@tw.kernel
def sloped(x: tw.Tensor["M", "N"], slope: tw.Tensor["M"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(x[i, j] + slope[i] * (j - i) * 0.01, over=j)


@tw.kernel
def first_largest(x: tw.Tensor["M", "N"], place: tw.Tensor["M", tw.f32], largest: tw.Tensor["M"]):
    i, j = tw.grid("M", "N")
    most = tw.max(x[i, j], over=j)
    place[i] = tw.min(tw.where(tw.equal(x[i, j], most), j, math.inf), over=j)
    largest[i] = most


@tw.kernel
def extremes(
    x: tw.Tensor["M", "N"],
    most: tw.Tensor["M", tw.i32],
    least: tw.Tensor["M", "N", tw.i32],
    far: tw.Tensor["M", "N", tw.f32],
    largest: tw.Tensor["M"],
):
    """Where they stand, as integers and as numbers."""
    i, j = tw.axes("M N")
    place = tw.argmax(x[i, j], over=j)
    most[i] = place
    least[i, j] = tw.argmin(x[i, j], over=j)
    far[i, j] = tw.where(j <= place, place - j, 0.0)
    largest[i] = tw.max(x[i, j], over=j)


@tw.kernel
def picked_loss(x: tw.Tensor["M", "N"], wanted: tw.Tensor["M", tw.f32], loss: tw.Tensor["M", tw.f32]):
    """Cross-entropy of the element whose number stands in `wanted`."""
    i, j = tw.grid("M", "N")
    picked = tw.sum(tw.where(tw.equal(j, wanted[i]), x[i, j], 0.0), over=j)
    loss[i] = tw.logsumexp(x[i, j], over=j) - picked


@tw.kernel
def of_lengths(
    x: tw.Tensor["M", "N"],
    lengths: tw.Tensor["M", tw.i32],
    shift: tw.Tensor["N", tw.i32],
    y: tw.Tensor["M", "N", tw.f32],
):
    """Integers for each row, and for each element of one."""
    i, j = tw.axes("M N")
    weights = tw.exp(tw.where(j < lengths[i], x[i, j], -math.inf))
    y[i, j] = weights / (1.0 + tw.sum(weights, over=j)) + shift[j]


@tw.kernel
def of_numbers(wanted: tw.Tensor["M", tw.i32], codes: tw.Tensor["M", "N", tw.i32], hits: tw.Tensor["M", tw.f32]):
    i, j = tw.axes("M N")
    hits[i] = tw.sum(tw.equal(codes[i, j], wanted[i]) * codes[i, j + 1], over=j)


@tw.kernel
def projected(g: tw.Tensor["M", "N"], x: tw.Tensor["M", "N", tw.f32], y: tw.Tensor["M", "N"]):
    """Two arrays, of other widths, that two walks need."""
    i, j = tw.grid("M", "N")
    y[i, j] = g[i, j] - x[i, j] * tw.mean(g[i, j] * x[i, j], over=j)


PROGRAMS = {
    each.name: each
    for each in (
        softmax, log_softmax, rms_norm, layer_norm, cross_entropy, quantize, quantize_int8, spread, neighbours,
        twice_the_row,
        causal_softmax, sloped, first_largest, extremes, picked_loss, of_four_axes, across_four_axes, of_five_axes,
        of_lengths, of_numbers, projected,
    )
}  # fmt: skip


UNITS = {
    Element.F32: 2.0**-19, Element.BF16: 2.0**-8, Element.F16: 2.0**-10, Element.F8E4M3: 2.0**-3, Element.S8: 0.0,
    Element.S32: 0.0,
}  # fmt: skip
"""Of a result of this element, the relative error allowed: its rounding, and for float32 the functions' own."""


def assert_near(lowered: Lowered, arrays) -> None:
    expected, results = reference(lowered, arrays), run(lowered, arrays)
    for buffer in lowered.plan.buffers:
        if buffer.role != "output":
            continue
        got = results[buffer.name].astype(np.float64)
        wanted = expected[buffer.name]
        size = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-30)
        allowed = UNITS[buffer.element] * np.abs(wanted) + 2e-6 * size * (1 + len(lowered.plan.buffers))
        if buffer.element is Element.S32:
            allowed = 0 * allowed
        if buffer.element is Element.S8:
            allowed = 0 * allowed + 1  # a quotient in the middle of two whole numbers
        if buffer.element is Element.F8E4M3:
            allowed = allowed + 2.0**-9
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        with np.errstate(invalid="ignore"):
            assert np.all(same | (np.abs(got - wanted) <= allowed)), (buffer.name, np.abs(got - wanted).max())
