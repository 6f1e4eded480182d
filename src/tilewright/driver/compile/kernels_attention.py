# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportInvalidTypeForm=false
"""Tile programs of scaled-dot-product attention and of its gradients, written as any author would.

Theory: with weights p = exp(s - L), where s are the scaled scores and L the logarithm of the sum of their exponentials,
and G the gradient of the result O: dV = p.T G, dp = G V.T, ds = p (dp - D), with D the row sums of G O, less the
gradient of L where it has one; dQ = scale ds K, dK = scale ds.T Q. The mask is applied behind the exponential: where it
holds there is no weight, and the compiler sees which tiles have none. Of heads that share keys, the gradients of keys
and values are computed for each head and then summed.

Not handled: dropout, other masks than the causal one. Source: T. Dao, "FlashAttention-2", 2023, algorithm 2.
Checked by: tests/driver/compile/test_attention.py.
"""

import math
from functools import cache
from typing import Any

from tilewright.frontends.tile import language as tw


def _shared(sharing: int) -> str:
    """The axis of heads that `sharing` heads of queries each share."""
    return f"H/{sharing}" if sharing > 1 else "H"


def _of_group(head: tw.Index, sharing: int) -> tw.Index:
    return head // sharing if sharing > 1 else head


@cache
def forward_kernel(scale: float, causal: bool, sharing: int) -> tw.Kernel:
    """query, key, value, out, lse."""
    shared = _shared(sharing)

    @tw.kernel
    def attention(
        query: tw.Tensor["B", "H", "Q", "E"],
        key: tw.Tensor["B", shared, "T", "E"],
        value: tw.Tensor["B", shared, "T", "F"],
        out: tw.Tensor["B", "H", "Q", "F"],
        lse: tw.Tensor["B", "H", "Q", tw.f32],
    ) -> None:
        b, h, q, t, e, f = tw.axes("B H Q T E F")
        g = _of_group(h, sharing)
        s = tw.dot(query[b, h, q, e], key[b, g, t, e], over=e) * scale
        if causal:
            s = tw.where(t <= q, s, -math.inf)
        out[b, h, q, f] = tw.dot(tw.softmax(s, over=t), value[b, g, t, f], over=t)
        lse[b, h, q] = tw.logsumexp(s, over=t)

    return attention


@cache
def delta_kernel(with_lse: bool) -> tw.Kernel:
    """gradient, out, [lse_gradient], delta."""

    @tw.kernel
    def attention_delta(
        gradient: tw.Tensor["B", "H", "Q", "F"],
        out: tw.Tensor["B", "H", "Q", "F"],
        delta: tw.Tensor["B", "H", "Q", tw.f32],
    ) -> None:
        b, h, q, f = tw.axes("B H Q F")
        delta[b, h, q] = tw.sum(gradient[b, h, q, f] * out[b, h, q, f], over=f)

    @tw.kernel
    def attention_delta_with_lse(
        gradient: tw.Tensor["B", "H", "Q", "F"],
        out: tw.Tensor["B", "H", "Q", "F"],
        lse_gradient: tw.Tensor["B", "H", "Q", tw.f32],
        delta: tw.Tensor["B", "H", "Q", tw.f32],
    ) -> None:
        b, h, q, f = tw.axes("B H Q F")
        delta[b, h, q] = tw.sum(gradient[b, h, q, f] * out[b, h, q, f], over=f) - lse_gradient[b, h, q]

    return attention_delta_with_lse if with_lse else attention_delta


def _gradients(scores: Any, dp: Any, lse: Any, delta: Any, attended: Any) -> tuple[Any, Any]:
    """The weights, and the gradient of the scores; both 0 where a query does not attend."""
    p = tw.exp(scores - lse)
    ds = p * (dp - delta)
    return (p, ds) if attended is None else (tw.where(attended, p, 0.0), tw.where(attended, ds, 0.0))


@cache
def key_gradients_kernel(scale: float, causal: bool, sharing: int) -> tw.Kernel:
    """query, key, value, gradient, lse, delta, key_gradient, value_gradient: both of each head of queries."""
    shared = _shared(sharing)

    @tw.kernel
    def attention_key_gradients(
        query: tw.Tensor["B", "H", "Q", "E"],
        key: tw.Tensor["B", shared, "T", "E"],
        value: tw.Tensor["B", shared, "T", "F"],
        gradient: tw.Tensor["B", "H", "Q", "F"],
        lse: tw.Tensor["B", "H", "Q", tw.f32],
        delta: tw.Tensor["B", "H", "Q", tw.f32],
        key_gradient: tw.Tensor["B", "H", "T", "E"],
        value_gradient: tw.Tensor["B", "H", "T", "F"],
    ) -> None:
        b, h, q, t, e, f = tw.axes("B H Q T E F")
        g = _of_group(h, sharing)
        scores = tw.dot(query[b, h, q, e], key[b, g, t, e], over=e) * scale
        dp = tw.dot(gradient[b, h, q, f], value[b, g, t, f], over=f)
        p, ds = _gradients(scores, dp, lse[b, h, q], delta[b, h, q], t <= q if causal else None)
        value_gradient[b, h, t, f] = tw.dot(p, gradient[b, h, q, f], over=q)
        key_gradient[b, h, t, e] = tw.dot(ds, query[b, h, q, e], over=q) * scale

    return attention_key_gradients


@cache
def query_gradient_kernel(scale: float, causal: bool, sharing: int) -> tw.Kernel:
    """query, key, value, gradient, lse, delta, query_gradient."""
    shared = _shared(sharing)

    @tw.kernel
    def attention_query_gradient(
        query: tw.Tensor["B", "H", "Q", "E"],
        key: tw.Tensor["B", shared, "T", "E"],
        value: tw.Tensor["B", shared, "T", "F"],
        gradient: tw.Tensor["B", "H", "Q", "F"],
        lse: tw.Tensor["B", "H", "Q", tw.f32],
        delta: tw.Tensor["B", "H", "Q", tw.f32],
        query_gradient: tw.Tensor["B", "H", "Q", "E"],
    ) -> None:
        b, h, q, t, e, f = tw.axes("B H Q T E F")
        g = _of_group(h, sharing)
        scores = tw.dot(query[b, h, q, e], key[b, g, t, e], over=e) * scale
        dp = tw.dot(gradient[b, h, q, f], value[b, g, t, f], over=f)
        _, ds = _gradients(scores, dp, lse[b, h, q], delta[b, h, q], t <= q if causal else None)
        query_gradient[b, h, q, e] = tw.dot(ds, key[b, g, t, e], over=t) * scale

    return attention_query_gradient


@tw.kernel
def sum_of_groups(parts: tw.Tensor["G", "R", "N", tw.f32], total: tw.Tensor["G", "N"]) -> None:
    """Of what each head of a group gave."""
    g, n, r = tw.axes("G N R")
    total[g, n] = tw.sum(parts[g, r, n], over=r)
