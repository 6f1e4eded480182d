"""Programs of products, folds and products of them: each names its axes and says what is computed, and no more.

Which of them are compiled, docs/tile-language.md says. `tests/frontends/test_fused_programs.py` holds what each means
against NumPy.
"""

import math

import tilewright as tw

WINDOW = 128
"""Keys that `sliding` attends to."""
HEADS_PER_GROUP = 4


@tw.kernel
def linear_relu(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.relu(tw.dot(x[i, k], w[j, k], over=k))


@tw.kernel
def attention(
    Q: tw.Tensor["B", "H", "Q", "E"],
    K: tw.Tensor["B", "H", "T", "E"],
    V: tw.Tensor["B", "H", "T", "F"],
    O: tw.Tensor["B", "H", "Q", "F"],
):
    b, h, q, t, e, f = tw.axes("B H Q T E F")
    s = tw.dot(Q[b, h, q, e], K[b, h, t, e], over=e) * 0.125
    O[b, h, q, f] = tw.dot(tw.softmax(s, over=t), V[b, h, t, f], over=t)


@tw.kernel
def causal_attention(
    Q: tw.Tensor["B", "H", "Q", "E"],
    K: tw.Tensor["B", "H", "T", "E"],
    V: tw.Tensor["B", "H", "T", "F"],
    O: tw.Tensor["B", "H", "Q", "F"],
    L: tw.Tensor["B", "H", "Q"],
):
    b, h, q, t, e, f = tw.axes("B H Q T E F")
    s = tw.dot(Q[b, h, q, e], K[b, h, t, e], over=e) * 0.125
    s = tw.where(t <= q, s, -math.inf)
    O[b, h, q, f] = tw.dot(tw.softmax(s, over=t), V[b, h, t, f], over=t)
    L[b, h, q] = tw.logsumexp(s, over=t)


@tw.kernel
def sliding(
    Q: tw.Tensor["B", "H", "Q", "E"],
    K: tw.Tensor["B", "H", "T", "E"],
    V: tw.Tensor["B", "H", "T", "F"],
    O: tw.Tensor["B", "H", "Q", "F"],
):
    b, h, q, t, e, f = tw.axes("B H Q T E F")
    s = tw.dot(Q[b, h, q, e], K[b, h, t, e], over=e) * 0.125
    s = tw.where((t <= q) & (t > q - WINDOW), s, -math.inf)
    O[b, h, q, f] = tw.dot(tw.softmax(s, over=t), V[b, h, t, f], over=t)


@tw.kernel
def grouped_heads(
    Q: tw.Tensor["B", "H", "Q", "E"],
    K: tw.Tensor["B", "H/4", "T", "E"],
    V: tw.Tensor["B", "H/4", "T", "F"],
    O: tw.Tensor["B", "H", "Q", "F"],
):
    b, h, q, t, e, f = tw.axes("B H Q T E F")
    g = h // HEADS_PER_GROUP
    s = tw.dot(Q[b, h, q, e], K[b, g, t, e], over=e) * 0.125
    O[b, h, q, f] = tw.dot(tw.softmax(s, over=t), V[b, g, t, f], over=t)


@tw.kernel
def variable_lengths(
    Q: tw.Tensor["B", "H", "Q", "E"],
    K: tw.Tensor["B", "H", "T", "E"],
    V: tw.Tensor["B", "H", "T", "F"],
    lengths: tw.Tensor["B", tw.i32],
    O: tw.Tensor["B", "H", "Q", "F"],
):
    b, h, q, t, e, f = tw.axes("B H Q T E F")
    s = tw.dot(Q[b, h, q, e], K[b, h, t, e], over=e) * 0.125
    s = tw.where(t < lengths[b], s, -math.inf)
    O[b, h, q, f] = tw.dot(tw.softmax(s, over=t), V[b, h, t, f], over=t)


@tw.kernel
def decode_attention(
    Q: tw.Tensor["B", "H", "E"],
    K: tw.Tensor["B", "T", "H/4", "E"],
    V: tw.Tensor["B", "T", "H/4", "F"],
    lengths: tw.Tensor["B", tw.i32],
    O: tw.Tensor["B", "H", "F"],
):
    b, h, t, e, f = tw.axes("B H T E F")
    g = h // HEADS_PER_GROUP
    s = tw.dot(Q[b, h, e], K[b, t, g, e], over=e) * 0.125
    s = tw.where(t < lengths[b], s, -math.inf)
    O[b, h, f] = tw.dot(tw.softmax(s, over=t), V[b, t, g, f], over=t)


def decode_in_pages(page: int) -> tw.Kernel:
    """`decode_attention` of keys that lie in pages of so many rows, wherever a table says."""

    @tw.kernel
    def paged_attention(
        Q: tw.Tensor["B", "H", "E"],
        K: tw.Tensor["P", "S", "H/4", "E"],
        V: tw.Tensor["P", "S", "H/4", "F"],
        table: tw.Tensor["B", f"T/{page}", tw.i32],
        lengths: tw.Tensor["B", tw.i32],
        O: tw.Tensor["B", "H", "F"],
    ):
        b, h, t, e, f = tw.axes("B H T E F")
        g, at = h // HEADS_PER_GROUP, table[b, t // page]
        s = tw.dot(Q[b, h, e], K[at, t % page, g, e], over=e) * 0.125
        s = tw.where(t < lengths[b], s, -math.inf)
        O[b, h, f] = tw.dot(tw.softmax(s, over=t), V[at, t % page, g, f], over=t)

    return paged_attention


paged_attention = decode_in_pages(64)


@tw.kernel
def gathered_matmul(
    x: tw.Tensor["R", "K"], rows: tw.Tensor["M", tw.i32], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]
):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[rows[i], k], w[j, k], over=k)


@tw.kernel
def embedding(table: tw.Tensor["R", "N"], tokens: tw.Tensor["M", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = table[tokens[i], j]


@tw.kernel
def matmul_softmax(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.softmax(tw.dot(x[i, k], w[j, k], over=k), over=j)


@tw.kernel
def matmul_rms_norm(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], g: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    s = tw.dot(x[i, k], w[j, k], over=k)
    y[i, j] = s * tw.rsqrt(tw.mean(s * s, over=j) + 1e-6) * g[j]


@tw.kernel
def matmul_argmax(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", tw.i32]):
    i, j, k = tw.axes("M N K")
    y[i] = tw.argmax(tw.dot(x[i, k], w[j, k], over=k), over=j)


@tw.kernel
def rms_norm_matmul(x: tw.Tensor["M", "K"], g: tw.Tensor["K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    scale = tw.rsqrt(tw.mean(x[i, k] * x[i, k], over=k) + 1e-6)
    y[i, j] = tw.dot(x[i, k] * scale * g[k], w[j, k], over=k)


@tw.kernel
def mlp(x: tw.Tensor["M", "K"], up: tw.Tensor["L", "K"], down: tw.Tensor["N", "L"], y: tw.Tensor["M", "N"]):
    i, j, k, h = tw.axes("M N K L")
    hidden = tw.silu(tw.dot(x[i, k], up[h, k], over=k))
    y[i, j] = tw.dot(hidden, down[j, h], over=h)
