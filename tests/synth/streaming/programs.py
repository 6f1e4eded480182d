"""Programs whose streamed form is known: the axis and the number of walks."""

from __future__ import annotations

from tests.synth.streaming.tracing import INFINITY, Program, exp, log, neg, rsqrt, sigmoid, silu

from tilewright.base.element import Element
from tilewright.ir.function import Function

BF16 = Element.BF16


def rows(**more):
    return Program(M=3, N=7, **more)


def softmax():
    p = rows()
    p.store(p.softmax(p.load("x", "M", "N"), "N"), "y", "M", "N")
    return p.module()


def softmax_of_columns():
    p = rows()
    p.store(p.softmax(p.load("x", "N", "M"), "N"), "y", "N", "M")
    return p.module()


def logsumexp(scale=1.0):
    p = rows()
    x = p.load("x", "M", "N") * scale
    m = p.max(x, "N")
    p.store(m + log(p.sum(exp(x - m), "N")), "y", "M")
    return p.module()


def scaled_logsumexp():
    """The scale outside the difference."""
    p = rows()
    x = p.load("x", "M", "N")
    m = p.max(x, "N")
    p.store(m * 0.3 + log(p.sum(exp((x - m) * 0.3), "N")), "y", "M")
    return p.module()


def negatively_scaled():
    """exp of -0.5 (x - min x)."""
    p = rows()
    x = p.load("x", "M", "N")
    m = p.min(x, "N")
    p.store(log(p.sum(exp((x - m) * -0.5), "N")), "y", "M")
    return p.module()


def softmin():
    p = rows()
    x = p.load("x", "M", "N")
    m = p.max(neg(x), "N")
    p.store(p.sum(x * exp(neg(x) - m), "N") / p.sum(exp(neg(x) - m), "N"), "y", "M")
    return p.module()


def attention(masked=None, lse=False, cast=False, groups=2):
    p = Program(B=2, H=4, Q=5, T=7, E=3, F=2, **{f"H/{groups}": 4 // groups})
    heads = f"H/{groups}"
    q = p.load("q", "B", "H", "Q", "E", element=BF16)
    k = p.load("k", "B", heads, "T", "E", element=BF16)
    v = p.load("v", "B", heads, "T", "F", element=BF16)
    s = p.dot(q, k, "E") * 0.5
    if masked == "causal":
        s = p.where(p.position("T") <= p.position("Q") + 2.0, s, -INFINITY)
    if masked == "window":
        t, at = p.position("T"), p.position("Q")
        s = p.where((t <= at) * (at - t < 2.0), s, -INFINITY)
    if masked == "lengths":
        s = p.where(p.position("T") < p.load("lengths", "B"), s, -INFINITY)
    if masked == "bias":
        s = s + p.load("bias", "H", "Q", "T", element=BF16).to(Element.F32)
    m = p.max(s, "T")
    e = exp(s - m)
    total = p.sum(e, "T")
    weights = e / total
    if cast:
        weights = weights.to(BF16)
    p.store(p.dot(weights, v, "T"), "o", "B", "H", "Q", "F", element=BF16)
    if lse:
        p.store(m + log(total), "lse", "B", "H", "Q")
    return p.module()


def attention_of_logsumexp():
    """The weights are exp(s - lse)."""
    p = Program(H=2, Q=3, T=7, E=3, F=2)
    q, k = p.load("q", "H", "Q", "E", element=BF16), p.load("k", "H", "T", "E", element=BF16)
    v = p.load("v", "H", "T", "F", element=BF16)
    s = p.dot(q, k, "E")
    m = p.max(s, "T")
    lse = m + log(p.sum(exp(s - m), "T"))
    p.store(p.dot(exp(s - lse), v, "T"), "o", "H", "Q", "F")
    return p.module()


def product_then_softmax():
    p = Program(M=3, N=7, K=4)
    x, w = p.load("x", "M", "K", element=BF16), p.load("w", "K", "N", element=BF16)
    p.store(p.softmax(p.dot(x, w, "K"), "N"), "y", "M", "N", element=BF16)
    return p.module()


def product_then_argmax_value():
    p = Program(M=3, N=7, K=4)
    x, w = p.load("x", "M", "K", element=BF16), p.load("w", "K", "N", element=BF16)
    p.store(p.max(p.dot(x, w, "K"), "N"), "y", "M")
    return p.module()


def rms_norm_then_product(weight=True):
    p = Program(M=3, N=4, K=7)
    x = p.load("x", "M", "K", element=BF16).to(Element.F32)
    w = p.load("w", "K", "N", element=BF16)
    r = rsqrt(p.sum(x * x, "K") / 7.0 + 1e-5)
    normed = x * r
    if weight:
        normed = normed * p.load("g", "K")
    p.store(p.dot(normed, w, "K"), "y", "M", "N", element=BF16)
    return p.module()


def layer_norm_then_product():
    p = Program(M=3, N=4, K=7)
    x = p.load("x", "M", "K", element=BF16).to(Element.F32)
    w = p.load("w", "K", "N", element=BF16)
    centred = x - p.sum(x, "K") / 7.0
    r = rsqrt(p.sum(centred * centred, "K") / 7.0 + 1e-5)
    p.store(p.dot(centred * r, w, "K"), "y", "M", "N")
    return p.module()


def two_layers():
    p = Program(M=3, E=4, H=7, N=2)
    x, w = p.load("x", "M", "E", element=BF16), p.load("w", "E", "H", element=BF16)
    u = p.load("u", "H", "N", element=BF16)
    p.store(p.dot(silu(p.dot(x, w, "E")), u, "H"), "y", "M", "N")
    return p.module()


def cross_entropy():
    p = rows()
    x = p.load("x", "M", "N")
    m = p.max(x, "N")
    lse = m + log(p.sum(exp(x - m), "N"))
    hit = p.binary(Function.EQ, p.position("N"), p.load("label", "M"))
    p.store(lse - p.sum(p.where(hit, x, 0.0), "N"), "y", "M")
    return p.module()


def variance():
    p = rows()
    x = p.load("x", "M", "N")
    d = x - p.sum(x, "N") / 7.0
    p.store(p.sum(d * d, "N") / 7.0, "y", "M")
    return p.module()


def layer_norm():
    p = rows()
    x = p.load("x", "M", "N")
    d = x - p.sum(x, "N") / 7.0
    p.store(d * rsqrt(p.sum(d * d, "N") / 7.0 + 1e-5), "y", "M", "N")
    return p.module()


def rounded_between():
    p = rows()
    x = p.load("x", "M", "N")
    scaled = (x / p.max(x, "N")).to(BF16).to(Element.F32)
    p.store(p.sum(scaled, "N"), "y", "M")
    return p.module()


def sum_over_its_sum():
    p = rows()
    x = p.load("x", "M", "N")
    p.store(p.sum(x / p.sum(x * x, "N") - neg(x) / p.sum(x * x, "N"), "N"), "y", "M")
    return p.module()


def largest_of_shifted():
    p = rows()
    x = p.load("x", "M", "N")
    p.store(p.max(exp(p.sum(x, "N") - x) / (1.0 + exp(p.max(x, "N"))), "N"), "y", "M")
    return p.module()


def smooth_mixture():
    """x / (x + d) mixes: two walks."""
    p = rows()
    x = p.load("x", "M", "N")
    p.store(p.sum(x / (x + (9.0 + p.max(x, "N"))), "N"), "y", "M")
    return p.module()


def sigmoid_attention():
    p = Program(Q=3, T=7, E=4, F=2)
    q, k = p.load("q", "Q", "E", element=BF16), p.load("k", "T", "E", element=BF16)
    p.store(p.dot(sigmoid(p.dot(q, k, "E")), p.load("v", "T", "F", element=BF16), "T"), "o", "Q", "F")
    return p.module()


def row_sum():
    p = rows()
    p.store(p.sum(p.load("x", "M", "N"), "N"), "y", "M")
    return p.module()


def shares():
    p = rows()
    x = p.load("x", "M", "N")
    p.store(x / p.sum(x, "N"), "y", "M", "N")
    return p.module()


def plain_product():
    p = Program(M=3, N=4, K=7)
    p.store(p.dot(p.load("x", "M", "K", element=BF16), p.load("w", "K", "N", element=BF16), "K"), "y", "M", "N")
    return p.module()


def global_largest():
    """The state has no axes."""
    p = rows()
    x, b = p.load("x", "M", "N"), p.load("b", "N")
    p.store(p.sum(x * exp(b - p.max(b, "N")), "N"), "y", "M")
    return p.module()


def of_shifted_loads():
    p = rows()
    x = p.load("x", "M", "N") + p.load("z", "M", "N", shift={"N": -1})
    m = p.max(x, "N")
    p.store(log(p.sum(exp(x - m), "N")), "y", "M")
    return p.module()


def zero_under_selection():
    """An empty row gives 0 here, which a factor of the sum would make NaN: so the weights wait."""
    p = rows()
    keep = p.load("keep", "M", "N")
    x = p.where(keep, p.load("x", "M", "N"), -INFINITY)
    m = p.max(x, "N")
    p.store(p.sum(p.where(keep, exp(x - m), 0.0), "N"), "y", "M")
    return p.module()


def attention_with_sink():
    """One more score, of a value 0, for each head."""
    p = Program(H=2, Q=3, T=7, E=3, F=2)
    q, k = p.load("q", "H", "Q", "E", element=BF16), p.load("k", "H", "T", "E", element=BF16)
    v, sink = p.load("v", "H", "T", "F", element=BF16), p.load("sink", "H")
    s = p.dot(q, k, "E")
    m = p.binary(Function.MAX, p.max(s, "T"), sink)
    weights = exp(s - m)
    p.store(p.dot(weights / (p.sum(weights, "T") + exp(sink - m)), v, "T"), "o", "H", "Q", "F")
    return p.module()


def attention_with_weights():
    """The weights are stored besides: a further walk."""
    p = Program(Q=3, T=7, E=3, F=2)
    q, k = p.load("q", "Q", "E", element=BF16), p.load("k", "T", "E", element=BF16)
    weights = p.softmax(p.dot(q, k, "E"), "T")
    p.store(p.dot(weights, p.load("v", "T", "F", element=BF16), "T"), "o", "Q", "F")
    p.store(weights, "p", "Q", "T")
    return p.module()


def blocks_along_the_axis():
    p = rows(**{"N/2": 4})
    x = p.load("x", "M", "N") * p.load("scale", "M", "N/2")
    m = p.max(x, "N")
    p.store(m + log(p.sum(exp(x - m), "N")), "y", "M")
    return p.module()


def cosine_attention():
    """Scores of rows whose sums of squares are given."""
    p = Program(Q=3, T=7, E=4, F=2)
    q, k = p.load("q", "Q", "E", element=BF16), p.load("k", "T", "E", element=BF16)
    of_q, of_k = rsqrt(p.load("of_q", "Q") + 1e-6), rsqrt(p.load("of_k", "T") + 1e-6)
    weights = p.softmax(p.dot(q, k, "E") * of_q * of_k, "T")
    p.store(p.dot(weights, p.load("v", "T", "F", element=BF16), "T"), "o", "Q", "F")
    return p.module()


def attention_with_logarithms():
    """Each key counts as often as a number says."""
    p = Program(Q=3, T=7, E=4, F=2)
    q, k = p.load("q", "Q", "E", element=BF16), p.load("k", "T", "E", element=BF16)
    weights = p.softmax(p.dot(q, k, "E") + log(p.load("often", "T")) + log(p.load("scale", "Q")), "T")
    p.store(p.dot(weights, p.load("v", "T", "F", element=BF16), "T"), "o", "Q", "F")
    return p.module()


def fold_within():
    """Scores are sums over another axis, of what is no product."""
    p = Program(Q=3, T=7, E=4)
    x, k = p.load("x", "Q", "E"), p.load("k", "T", "E")
    s = neg(p.sum((x - k) * (x - k), "E"))
    m = p.max(s, "T")
    p.store(m + log(p.sum(exp(s - m), "T")), "y", "Q")
    return p.module()


PROGRAMS = {
    "softmax": (softmax, "N", 2),
    "softmax of columns": (softmax_of_columns, "N", 2),
    "logsumexp": (logsumexp, "N", 1),
    "logsumexp, scaled": (lambda: logsumexp(0.25), "N", 1),
    "logsumexp, scale negative": (lambda: logsumexp(-2.0), "N", 1),
    "logsumexp, scale outside": (scaled_logsumexp, "N", 1),
    "smallest, scale negative": (negatively_scaled, "N", 1),
    "softmin": (softmin, "N", 1),
    "attention": (attention, "T", 1),
    "attention, one head of keys": (lambda: attention(groups=4), "T", 1),
    "attention, causal": (lambda: attention("causal"), "T", 1),
    "attention, window": (lambda: attention("window"), "T", 1),
    "attention, lengths": (lambda: attention("lengths"), "T", 1),
    "attention, bias": (lambda: attention("bias"), "T", 1),
    "attention with lse": (lambda: attention("causal", lse=True), "T", 1),
    "attention, weights rounded": (lambda: attention(cast=True), "T", 2),
    "attention of lse": (attention_of_logsumexp, "T", 1),
    "sigmoid attention": (sigmoid_attention, "T", 1),
    "product, softmax": (product_then_softmax, "N", 2),
    "product, largest": (product_then_argmax_value, "N", 1),
    "RMS norm, product": (rms_norm_then_product, "K", 1),
    "RMS norm without weight, product": (lambda: rms_norm_then_product(False), "K", 1),
    "layer norm, product": (layer_norm_then_product, "K", 2),
    "layer norm": (layer_norm, "N", 3),
    "two layers": (two_layers, "H", 1),
    "cross-entropy": (cross_entropy, "N", 1),
    "variance": (variance, "N", 2),
    "rounded between": (rounded_between, "N", 2),
    "sum over its sum": (sum_over_its_sum, "N", 1),
    "largest of shifted": (largest_of_shifted, "N", 1),
    "x / (x + d)": (smooth_mixture, "N", 2),
    "row sum": (row_sum, "N", 1),
    "shares": (shares, "N", 2),
    "product": (plain_product, "K", 1),
    "state without axes": (global_largest, "N", 1),
    "shifted loads": (of_shifted_loads, "N", 1),
    "attention with sink": (attention_with_sink, "T", 1),
    "attention, weights stored": (attention_with_weights, "T", 2),
    "blocks along the axis": (blocks_along_the_axis, "N", 1),
    "cosine attention": (cosine_attention, "T", 1),
    "attention with logarithms": (attention_with_logarithms, "T", 1),
    "fold within": (fold_within, "T", 1),
    "zero under selection": (zero_under_selection, "N", 2),
}
"""Each with its axis and its walks."""
