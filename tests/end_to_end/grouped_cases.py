# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products of groups, and how many rows each group has."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.end_to_end.expert_programs import experts, masked_experts

import tilewright as tw
from tilewright.frontends.tile.kernel import Kernel

HELD = 7.0
"""What results hold before: rows of no group keep it."""


@tw.kernel
def gated_experts(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "K", "N"],
    v: tw.Tensor["G", "K", "N"],
    bias: tw.Tensor["G", "N"],
    share: tw.Tensor["T"],
    r: tw.Tensor["T", "N"],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
    z: tw.Tensor["T", "N", tw.f32],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    gate, up = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], w[g, k, j])
        up += tw.dot(x[i, k], v[g, k, j])
    y[i, j] = (tw.silu(gate) * up + bias[g, j]) * share[i] + r[i, j]
    z[i, j] = gate


@tw.kernel
def masked_with_epilogue(
    x: tw.Tensor["G", "M", "K"],
    w: tw.Tensor["K", "N"],
    bias: tw.Tensor["G", "N"],
    share: tw.Tensor["G", "M"],
    r: tw.Tensor["G", "M", "N"],
    counts: tw.Tensor["G", tw.i32],
    y: tw.Tensor["G", "M", "N"],
):
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[k, j])
    y[g, i, j] = (acc + bias[g, j]) * share[g, i] + r[g, i, j]


@tw.kernel
def weights_on_the_left(
    x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N"]
):
    j, g, i = tw.grid("N", tw.group("G", "T", ends))
    acc = tw.zeros(j, i)
    for k in tw.loop("K"):
        acc += tw.dot(w[g, j, k], x[i, k].T)
    y[i, j] = acc.T


@tw.kernel
def of_gathered_rows(
    x: tw.Tensor["R", "K"],
    rows: tw.Tensor["T", tw.i32],
    w: tw.Tensor["G", "N", "K"],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[rows[i], k], w[g, j, k].T)
    y[i, j] = acc


EIGHT = {"x": "f8e4m3", "w": "f8e4m3"}


ODD_ENDS = [[0, 70, 70, 150], [0, 0, 0, 0], [1, 64, 129, 149], [150] * 4, [63, 63, 128, 129]]


CASES: list[tuple[Kernel, dict[str, int], tuple[int, int] | None, Any, list[list[int]]]] = [
    (experts, {"T": 150, "G": 4, "N": 72, "K": 80}, None, "bf16", ODD_ENDS),
    (experts, {"T": 300, "G": 3, "N": 200, "K": 136}, (128, 96), "f16", [[0, 129, 300], [128, 256, 299], [1, 2, 3]]),
    (experts, {"T": 1, "G": 1, "N": 1, "K": 8}, None, "bf16", [[0], [1]]),
    (experts, {"T": 150, "G": 4, "N": 67, "K": 51}, None, "bf16", ODD_ENDS[:1]),
    (experts, {"T": 150, "G": 4, "N": 72, "K": 160}, (128, 80), EIGHT, ODD_ENDS[:3]),
    (masked_experts, {"G": 3, "M": 40, "N": 64, "K": 64}, None, "bf16", [[40, 0, 13], [0, 0, 0], [1, 39, 40]]),
    (masked_experts, {"G": 2, "M": 129, "N": 40, "K": 72}, (128, 48), "bf16", [[129, 128], [127, 1]]),
    (gated_experts, {"T": 150, "G": 4, "N": 72, "K": 80}, (128, 48), "bf16", ODD_ENDS[:3]),
    (masked_with_epilogue, {"G": 3, "M": 140, "N": 72, "K": 72}, (128, 80), "bf16", [[40, 0, 13], [129, 140, 1]]),
    (weights_on_the_left, {"T": 150, "G": 4, "N": 72, "K": 80}, None, "bf16", ODD_ENDS[:1]),
    (of_gathered_rows, {"T": 150, "G": 4, "N": 72, "K": 80, "R": 33}, None, "bf16", ODD_ENDS[:2]),
]


def rows_of_groups(shape: Sequence[int], ends: Sequence[int]) -> NDArray[np.bool_]:
    """Which rows of a result some group has: those before the last end, or of each group as many as it says."""
    if len(shape) == 2:
        return np.arange(shape[0]) < ends[-1]
    return np.arange(shape[1]) < np.array(ends)[:, None]
