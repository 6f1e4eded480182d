# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs whose masks leave out tiles, each with what its mask says of one element."""

import tilewright as tw

INFINITY = float("inf")


@tw.kernel
def no_mask(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def shifted(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    scores = tw.where(t <= i + 100, tw.dot(q[i, e], k[t, e], over=e), -INFINITY)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def window(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    scores = tw.where((t <= i) & (i - t < 90.0), tw.dot(q[i, e], k[t, e], over=e), -INFINITY)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def later(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    scores = tw.where(~(t < i * 0.5 + 3.0), tw.dot(q[i, e], k[t, e], over=e) * 0.125, -INFINITY)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def documents(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    scores = tw.where((i < 200.0) & (t < 200.0), tw.dot(q[i, e], k[t, e], over=e), -INFINITY)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def weights_without_a_sum(
    q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]
):
    i, t, e, f = tw.axes("Q T E F")
    weights = tw.where(t < i, tw.dot(q[i, e], k[t, e], over=e), 0.0)
    o[i, f] = tw.dot(weights, v[t, f], over=t)


@tw.kernel
def ones(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    """Masked weights are 1: nothing may be left out."""
    i, t, e, f = tw.axes("Q T E F")
    weights = tw.where(t < i, tw.dot(q[i, e], k[t, e], over=e), 1.0)
    o[i, f] = tw.dot(weights, v[t, f], over=t)


@tw.kernel
def by_numbers(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    """A bias of -inf is added: what is no number stays so, and nothing is left out."""
    i, t, e, f = tw.axes("Q T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) + tw.where(t <= i, 0.0, -INFINITY)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


LEFT = {
    shifted: lambda i, t: t <= i + 100,
    window: lambda i, t: (t <= i) & (i - t < 90),
    later: lambda i, t: t >= i * 0.5 + 3,
    documents: lambda i, t: (i < 200) & (t < 200),
    weights_without_a_sum: lambda i, t: t < i,
}
"""Of rows i and columns t, where something is left."""
UNMASKED = (no_mask, ones, by_numbers)
