# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs of products, folds and products of them, in plain words: what is computed, and nothing of how."""

import tilewright as tw

INFINITY = float("inf")
SCALE = 0.125


@tw.kernel
def attention(
    q: tw.Tensor["B", "H", "Q", "E"],
    k: tw.Tensor["B", "H", "T", "E"],
    v: tw.Tensor["B", "H", "T", "F"],
    o: tw.Tensor["B", "H", "Q", "F"],
):
    b, h, i, t, e, f = tw.axes("B H Q T E F")
    scores = tw.dot(q[b, h, i, e], k[b, h, t, e], over=e) * SCALE
    o[b, h, i, f] = tw.dot(tw.softmax(scores, over=t), v[b, h, t, f], over=t)


@tw.kernel
def causal(
    q: tw.Tensor["B", "Q", "E"],
    k: tw.Tensor["B", "T", "E"],
    v: tw.Tensor["B", "T", "F"],
    o: tw.Tensor["B", "Q", "F"],
):
    b, i, t, e, f = tw.axes("B Q T E F")
    scores = tw.where(t <= i, tw.dot(q[b, i, e], k[b, t, e], over=e) * SCALE, -INFINITY)
    o[b, i, f] = tw.dot(tw.softmax(scores, over=t), v[b, t, f], over=t)


@tw.kernel
def window(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    near = (t <= i) & (i - t < 20.0)
    scores = tw.where(near, tw.dot(q[i, e], k[t, e], over=e) * SCALE, -INFINITY)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def grouped_heads(
    q: tw.Tensor["H", "Q", "E"],
    k: tw.Tensor["H/2", "T", "E"],
    v: tw.Tensor["H/2", "T", "F"],
    o: tw.Tensor["H", "Q", "F"],
    sums: tw.Tensor["H", "Q", tw.f32],
):
    h, i, t, e, f = tw.axes("H Q T E F")
    scores = tw.dot(q[h, i, e], k[h // 2, t, e], over=e) * SCALE
    o[h, i, f] = tw.dot(tw.softmax(scores, over=t), v[h // 2, t, f], over=t)
    sums[h, i] = tw.logsumexp(scores, over=t)


@tw.kernel
def biased(
    q: tw.Tensor["Q", "E"],
    k: tw.Tensor["T", "E"],
    near: tw.Tensor["Q", "T"],
    key: tw.Tensor["T", tw.f32],
    weights: tw.Tensor["Q", "T", tw.f32],
):
    i, t, e = tw.axes("Q T E")
    scores = tw.dot(q[i, e], k[t, e], over=e) * SCALE + near[i, t] + key[t]
    weights[i, t] = tw.softmax(scores, over=t)


@tw.kernel
def matmul_softmax(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.softmax(tw.dot(x[i, k], w[j, k], over=k), over=j)


@tw.kernel
def rms_norm_matmul(x: tw.Tensor["M", "K"], g: tw.Tensor["K"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    scale = tw.rsqrt(tw.mean(x[i, k] * x[i, k], over=k) + 1e-6)
    y[i, j] = tw.dot(x[i, k] * scale * g[k], w[k, j], over=k)


@tw.kernel
def mlp(
    x: tw.Tensor["M", "D"],
    gate: tw.Tensor["H", "D"],
    up: tw.Tensor["H", "D"],
    down: tw.Tensor["H", "N"],
    bias: tw.Tensor["N"],
    y: tw.Tensor["M", "N"],
):
    i, d, h, j = tw.axes("M D H N")
    hidden = tw.silu(tw.dot(x[i, d], gate[h, d], over=d)) * tw.dot(x[i, d], up[h, d], over=d)
    y[i, j] = tw.dot(hidden, down[h, j], over=h) + bias[j]


@tw.kernel
def two_products(
    a: tw.Tensor["M", "B", "K"],
    b: tw.Tensor["N", "K"],
    c: tw.Tensor["M", "B", "K"],
    d: tw.Tensor["N", "K"],
    y: tw.Tensor["B", "M", "N"],
    twice: tw.Tensor["M", "B", "K", tw.f32],
):
    p, i, j, k = tw.axes("B M N K")
    y[p, i, j] = tw.dot(a[i, p, k], b[j, k], over=k) * tw.dot(c[i, p, k], d[j, k], over=k)
    twice[i, p, k] = a[i, p, k] * 2


@tw.kernel
def lengths(
    q: tw.Tensor["B", "Q", "E"],
    k: tw.Tensor["B", "T", "E"],
    v: tw.Tensor["B", "T", "F"],
    many: tw.Tensor["B", tw.i32],
    o: tw.Tensor["B", "Q", "F"],
):
    b, i, t, e, f = tw.axes("B Q T E F")
    scores = tw.where(t < many[b], tw.dot(q[b, i, e], k[b, t, e], over=e) * SCALE, -INFINITY)
    o[b, i, f] = tw.dot(tw.softmax(scores, over=t), v[b, t, f], over=t)


PROGRAMS = {
    each.name: each
    for each in (
        attention, causal, window, grouped_heads, biased, matmul_softmax, rms_norm_matmul, mlp, two_products, lengths,
    )
}  # fmt: skip


def dims_of(name: str, rows: int, streamed: int, held: int = 64, columns: int = 40) -> dict[str, int]:
    """Extents: of the rows, of the axis that is walked, of the one that products of slots are over, of columns."""
    match name:
        case "matmul_softmax":
            return {"M": rows, "N": streamed, "K": held}
        case "rms_norm_matmul":
            return {"M": rows, "K": streamed, "N": columns}
        case "two_products":
            return {"B": 2, "M": rows, "K": streamed, "N": columns}
        case "mlp":
            return {"M": rows, "H": streamed, "D": held, "N": columns}
        case _:
            found = {"B": 2, "H": 2, "Q": rows, "T": streamed, "E": held, "F": columns}
            return {axis: found[axis] for axis in PROGRAMS[name].axes}


@tw.kernel
def weights_stored(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
    w: tw.Tensor["M", "T"],
):
    """A walk that multiplies stores, too."""
    i, t, e, f = tw.axes("M T E F")
    weights = tw.relu(tw.dot(q[i, e], k[t, e], over=e) * 0.2)
    o[i, f] = tw.dot(weights, v[t, f], over=t)
    w[i, t] = weights


@tw.kernel
def two_gradients(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["M", "F"],
    g: tw.Tensor["T", "F"],
    s: tw.Tensor["T", tw.f32],
    o: tw.Tensor["M", "E"],
    p: tw.Tensor["M", "F"],
):
    """Two sums over different columns, whose right operands are operands of the scores as well."""
    i, t, e, f = tw.axes("M T E F")
    weights = tw.sigmoid(tw.dot(q[i, e], k[t, e], over=e) * 0.2 - s[t])
    p[i, f] = tw.dot(weights, g[t, f], over=t)
    o[i, e] = tw.dot(weights * tw.dot(v[i, f], g[t, f], over=f), k[t, e], over=t) * 0.25


@tw.kernel
def scores_stored(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
    w: tw.Tensor["M", "T"],
):
    """What is stored is no operand: it is rounded before it is one."""
    i, t, e, f = tw.axes("M T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) * 0.2
    o[i, f] = tw.dot(tw.relu(scores), v[t, f], over=t)
    w[i, t] = scores
