# ruff: noqa: F821, E741  (axis names are quoted in annotations; O is the output)
"""Attention whose keys and values lie where tables of integers say: pages, grouped heads, slots of sequences."""

import math

import numpy as np

import tilewright as tw


def paged(page: int, group: int = 1):
    """Keys in pages of so many rows, each head of them for `group` heads of queries."""
    pages, heads = f"T/{page}", f"H/{group}" if group > 1 else "H"

    @tw.kernel
    def kernel(
        Q: tw.Tensor["B", "H", "Q", "E"],
        K: tw.Tensor["P", "S", heads, "E"],
        V: tw.Tensor["P", "S", heads, "F"],
        table: tw.Tensor["B", pages, tw.i32],
        lengths: tw.Tensor["B", tw.i32],
        O: tw.Tensor["B", "H", "Q", "F"],
    ):
        b, h, q, t, e, f = tw.axes("B H Q T E F")
        g, at = h // group if group > 1 else h, table[b, t // page]
        s = tw.dot(Q[b, h, q, e], K[at, t % page, g, e], over=e) * 0.125
        s = tw.where(t < lengths[b], s, -math.inf)
        O[b, h, q, f] = tw.dot(tw.softmax(s, over=t), V[at, t % page, g, f], over=t)

    return kernel


@tw.kernel
def slots(
    Q: tw.Tensor["B", "H", "Q", "E"],
    K: tw.Tensor["R", "H", "T", "E"],
    V: tw.Tensor["R", "H", "T", "F"],
    slot: tw.Tensor["B", tw.i32],
    O: tw.Tensor["B", "H", "Q", "F"],
):
    """Each sequence has all its keys in one slot of a cache."""
    b, h, q, t, e, f = tw.axes("B H Q T E F")
    s = tw.dot(Q[b, h, q, e], K[slot[b], h, t, e], over=e) * 0.125
    O[b, h, q, f] = tw.dot(tw.softmax(s, over=t), V[slot[b], h, t, f], over=t)


def tables(count: int, blocks: int, pages: int, seed: int = 0) -> np.ndarray:
    """Pages of sequences: in no order, some of several sequences."""
    return np.random.default_rng(seed).integers(0, pages, (count, blocks), dtype=np.int32)
