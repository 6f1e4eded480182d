# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""`k // 16` and `k % 16` as numbers, of axes whose blocks no tensor has: masks of blocks, strides, neighbours."""

import math

import numpy as np
import pytest

import tilewright as tw
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import run_on_machine


@tw.kernel
def block_diagonal(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], y: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    s = tw.where(tw.equal(i // 16, t // 16), tw.dot(q[i, e], k[t, e], over=e) * 0.25, -math.inf)
    y[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)


@tw.kernel
def blocks_of_two_sizes(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], y: tw.Tensor["M", "F"]):
    """A value over blocks alone, of both axes: it repeats along the keys, and belongs into their walk."""
    i, t, e, f = tw.axes("M T E F")
    seen = (t <= i) & (tw.equal(i // 12, t // 12) | tw.equal(t % 7, 0))
    s = tw.where(seen, tw.dot(q[i, e], k[t, e], over=e) * 0.25, -math.inf)
    y[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)


@tw.kernel
def two_of_four(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(tw.where(k % 4 < 2, x[i, k], 0.0).to(tw.f16), w[j, k], over=k)


@tw.kernel
def rotated(x: tw.Tensor["M", "N"], c: tw.Tensor["M", "N"], s: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = x[i, j] * c[i, j] + tw.where(tw.equal(j % 2, 0), -x[i, j + 1], x[i, j - 1]) * s[i, j]


@tw.kernel
def weighted(x: tw.Tensor["M", "N"], y: tw.Tensor["M", tw.f32]):
    i, j = tw.axes("M N")
    y[i] = tw.sum(x[i, j] * (j // 7 - 2.5), over=j)


def attention(seen, q, k, v):
    scores = np.where(seen, q @ k.T * 0.25, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def rotation(x, c, s):
    turned = np.empty_like(x)
    turned[:, ::2], turned[:, 1::2] = -x[:, 1::2], x[:, ::2]
    return x * c + turned * s


ROW, KEY = np.ogrid[:140, :150]
ATTENTION = {"M": 140, "T": 150, "E": 16, "F": 16}
CASES = {
    "block diagonal": (block_diagonal, ATTENTION, lambda q, k, v: attention(ROW // 16 == KEY // 16, q, k, v)),
    "blocks of two sizes": (
        blocks_of_two_sizes,
        ATTENTION,
        lambda q, k, v: attention((KEY <= ROW) & ((ROW // 12 == KEY // 12) | (KEY % 7 == 0)), q, k, v),
    ),
    "two of four": (two_of_four, {"M": 20, "N": 24, "K": 45}, lambda x, w: x * (np.arange(45) % 4 < 2) @ w.T),
    "rotated": (rotated, {"M": 9, "N": 34}, rotation),
    "weighted": (weighted, {"M": 9, "N": 1001}, lambda x: (x * (np.arange(1001) // 7 - 2.5)).sum(axis=1)),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_numpys(name: str, target: str) -> None:
    kernel, dims, expected = CASES[name]
    made = compile_kernel(kernel, target=target, dims=dims, dtype={"y": "f32", **_f16(kernel)}, assembled=False)
    assert made.text_proof is not None
    random = np.random.default_rng(0)
    shapes = [tuple(dims[axis] for axis in each.axes) for each in kernel.parameters if each.name != "y"]
    inputs = tuple(random.standard_normal(shape).astype(np.float16) for shape in shapes)
    found = run_on_machine(made.bundle(), inputs).astype("f8")
    wanted = expected(*(each.astype("f8") for each in inputs))
    assert np.abs(found - wanted).max() < 3e-3 * np.abs(wanted).max()


def _f16(kernel: tw.Kernel) -> dict[str, str]:
    return {each.name: "f16" for each in kernel.parameters if each.name != "y"}
