# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportInvalidTypeForm=false
"""Tile programs of attention whose keys and values have 8 bits, with factors for each of their heads.

Queries have the same elements, or 16 bits: then keys and values are widened as they are multiplied. The weights are
rounded to the values' element by the product that takes them, before they are divided by their sum.

Checked by: tests/driver/compile/test_narrow_attention.py.
"""

import math
from functools import cache
from typing import Any

from tilewright.base.element import Element
from tilewright.frontends.tile import language as tw

_WIDE = {Element.BF16: tw.bf16, Element.F16: tw.f16}


@cache
def narrow_forward_kernel(scale: float, causal: bool, sharing: int, query: Element) -> tw.Kernel:
    """query, key, value, key_scale, value_scale, out, lse. query: its element; sharing: heads of queries for each head
    of keys."""
    shared = f"H/{sharing}" if sharing > 1 else "H"
    widened = _WIDE.get(query)

    @tw.kernel
    def narrow_attention(
        query: tw.Tensor["B", "H", "Q", "E"],
        key: tw.Tensor["B", shared, "T", "E"],
        value: tw.Tensor["B", shared, "T", "F"],
        key_scale: tw.Tensor[shared, tw.f32],
        value_scale: tw.Tensor[shared, tw.f32],
        out: tw.Tensor["B", "H", "Q", "F"],
        lse: tw.Tensor["B", "H", "Q", tw.f32],
    ) -> None:
        b, h, q, t, e, f = tw.axes("B H Q T E F")
        g = h // sharing if sharing > 1 else h
        keys, values = (_as(each, widened) for each in (key[b, g, t, e], value[b, g, t, f]))
        s = tw.dot(query[b, h, q, e], keys, over=e) * (key_scale[g] * scale)
        if causal:
            s = tw.where(t <= q, s, -math.inf)
        out[b, h, q, f] = tw.dot(tw.softmax(s, over=t), values, over=t) * value_scale[g]
        lse[b, h, q] = tw.logsumexp(s, over=t)

    return narrow_attention


def _as(tile: Any, element: Any) -> Any:
    return tile if element is None else tile.to(element)
