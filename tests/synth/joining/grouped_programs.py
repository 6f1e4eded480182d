# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs whose rows run over more than one axis: heads that share keys, matrices of a batch that share weights."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.ir.tile.types import TensorType

WINDOW = 7


def no_mask(s, h, q, t, more):
    return s


def causal(s, h, q, t, more):
    return tw.where(t <= q, s, -math.inf)


def late_window(s, h, q, t, more):
    """Queries are the last ones: the first of them stands at 20."""
    return tw.where((t <= q + 20) & (q + 20 - t < WINDOW), s, -math.inf)


def lengths(s, h, q, t, more):
    return tw.where(t < more, s, -math.inf)


def slopes(s, h, q, t, more):
    """more: a number for each head."""
    return s + more * (t - q)


def numbered(s, h, q, t, more):
    return s - (h + 1) * 0.25 * t


MASKS = {each.__name__: each for each in (no_mask, causal, late_window, lengths, slopes, numbered)}


def attention(group: int | None, mask: Callable[..., Any] = no_mask, axes: str = "B H Q") -> tw.Kernel:
    """Attention of heads in groups; None for all heads in one group. axes: of the rows, in order."""
    keys = ("B", f"H/{group}", "T") if group else ("B", "T")
    rows = tuple(axes.split())
    tensors = {"q": (*rows, "E"), "k": (*keys, "E"), "v": (*keys, "F"), "o": (*rows, "F"), "sums": (*rows, tw.f32)}

    def attend(q, k, v, o, sums, more=None):
        *row, t, e, f = tw.axes(f"{axes} T E F")
        at = dict(zip(rows, row, strict=True))
        b, h, i = at["B"], at["H"], at["Q"]
        key = (b, h // group, t) if group else (b, t)
        s = tw.dot(q[*row, e], k[*key, e], over=e) * 0.125
        s = mask(s, h, i, t, None if more is None else more[b if mask is lengths else h])
        o[*row, f] = tw.dot(tw.softmax(s, over=t), v[*key, f], over=t)
        sums[*row] = tw.logsumexp(s, over=t)

    def plain(q, k, v, o, sums):
        attend(q, k, v, o, sums)

    def with_more(q, k, v, o, sums, more):
        attend(q, k, v, o, sums, more)

    program = with_more if mask in (lengths, slopes) else plain
    tensors |= {"more": ("B", tw.i32) if mask is lengths else ("H", tw.f32)} if program is with_more else {}
    program.__annotations__ = {name: tw.Tensor[axes] for name, axes in tensors.items()}
    return tw.kernel(program)


@tw.kernel
def batched_product(x: tw.Tensor["B", "M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["B", "M", "N"]):
    b, i, j, k = tw.axes("B M N K")
    y[b, i, j] = tw.relu(tw.dot(x[b, i, k], w[j, k], over=k))


def viewed(array: np.ndarray[Any, Any], tensor: TensorType) -> np.ndarray[Any, Any]:
    """What stands in a dense array's memory, as a tensor of these strides sees it."""
    steps = tuple(stride * array.itemsize for stride in tensor.stride_elements)
    return np.lib.stride_tricks.as_strided(np.ascontiguousarray(array), tensor.extents, steps)
