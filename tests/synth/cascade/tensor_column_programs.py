# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs of several products whose sums share tensor memory."""

import tilewright.frontends.tile.language as tw


@tw.kernel
def two_layers(x: tw.Tensor["M", "K"], w: tw.Tensor["L", "K"], v: tw.Tensor["N", "L"], y: tw.Tensor["M", "N"]):
    i, j, k, m = tw.axes("M N K L")
    y[i, j] = tw.dot(tw.relu(tw.dot(x[i, k], w[m, k], over=k)), v[j, m], over=m)


@tw.kernel
def gradient(
    q: tw.Tensor["Q", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    do: tw.Tensor["Q", "F"],
    n: tw.Tensor["Q", tw.f32],
    dq: tw.Tensor["Q", "E"],
):
    i, t, e, f = tw.axes("Q T E F")
    weights = tw.exp(tw.dot(q[i, e], k[t, e], over=e) - n[i])
    dq[i, e] = tw.dot(weights * tw.dot(do[i, f], v[t, f], over=f), k[t, e], over=t)


@tw.kernel
def converted(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K", tw.i8], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].to(tw.bf16).T)
    y[i, j] = acc
