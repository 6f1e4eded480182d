"""Attention of 8-bit arrays, as authors write it: all of 8 bits, keys and values alone, values in either order."""

import math
from typing import Any

import tilewright.frontends.tile.language as tw

SCALE = 0.125


def attention(
    query: Any = tw.f8e4m3,
    cached: Any = tw.f8e4m3,
    *,
    widened: Any = None,
    result: Any = tw.f32,
    causal: bool = False,
    sharing: int = 1,
    turned: bool = False,
    scaled: bool = False,
) -> tw.Kernel:
    """query, cached: elements of queries, and of keys and values; widened: as which these are multiplied; sharing:
    heads of queries for one of keys; turned: whether the keys of one column of values lie side by side; scaled: whether
    each head has factors."""
    shared = f"H/{sharing}" if sharing > 1 else "H"
    values = ("B", shared, "F", "T") if turned else ("B", shared, "T", "F")

    def computed(q: Any, k: Any, v: Any, o: Any, lse: Any, of_keys: Any = None, of_values: Any = None) -> None:
        b, h, i, t, e, f = tw.axes("B H Q T E F")
        g = h // sharing if sharing > 1 else h
        keys, brought = k[b, g, t, e], v[b, g, f, t] if turned else v[b, g, t, f]
        if widened is not None:
            keys, brought = keys.to(widened), brought.to(widened)
        s = tw.dot(q[b, h, i, e], keys, over=e) * SCALE
        s = s * of_keys[g] if of_keys is not None else s
        s = tw.where(t <= i, s, -math.inf) if causal else s
        found = tw.dot(tw.softmax(s, over=t), brought, over=t)
        o[b, h, i, f] = found * of_values[g] if of_values is not None else found
        lse[b, h, i] = tw.logsumexp(s, over=t)

    arrays: dict[str, Any] = {
        "q": tw.Tensor["B", "H", "Q", "E", query],
        "k": tw.Tensor["B", shared, "T", "E", cached],
        "v": tw.Tensor[(*values, cached)],
        "o": tw.Tensor["B", "H", "Q", "F", result],
        "lse": tw.Tensor["B", "H", "Q", tw.f32],
    }
    if scaled:
        arrays |= {name: tw.Tensor[shared, tw.f32] for name in ("of_keys", "of_values")}

        def narrow_attention(q: Any, k: Any, v: Any, o: Any, lse: Any, of_keys: Any, of_values: Any) -> None:
            computed(q, k, v, o, lse, of_keys, of_values)
    else:

        def narrow_attention(q: Any, k: Any, v: Any, o: Any, lse: Any) -> None:
            computed(q, k, v, o, lse)

    narrow_attention.__annotations__ = arrays
    return tw.kernel(narrow_attention)


def sizes(queries: int, keys: int, width: int = 64, heads: int = 1, batch: int = 1) -> dict[str, int]:
    return {"B": batch, "H": heads, "Q": queries, "T": keys, "E": width, "F": width}
