# ruff: noqa: F821, E741  (axis names are quoted in annotations; O is the output)
"""Programs that read where tables say: attention over pages, and rows by number."""

import tilewright as tw


@tw.kernel
def paged(
    Q: tw.Tensor["H", "Q", "E"],
    K: tw.Tensor["P", "S", "E"],
    V: tw.Tensor["P", "S", "F"],
    table: tw.Tensor["H", "T/16", tw.i32],
    O: tw.Tensor["H", "Q", "F"],
):
    h, q, t, e, f = tw.axes("H Q T E F")
    s = tw.dot(Q[h, q, e], K[table[h, t // 16], t % 16, e], over=e)
    O[h, q, f] = tw.dot(tw.softmax(s, over=t), V[table[h, t // 16], t % 16, f], over=t)


@tw.kernel
def embedded(x: tw.Tensor["R", "N"], ids: tw.Tensor["M", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = x[ids[i], j]
