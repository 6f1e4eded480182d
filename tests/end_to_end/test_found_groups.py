# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Arrays that all groups read alike beside rows that stand apart: each group's rows begin at the array's first."""

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import run_on_machine

GROUPS, ROWS, COLUMNS, SUMMED = 3, 70, 24, 32
DIMS = {"G": GROUPS, "M": ROWS, "N": COLUMNS, "K": SUMMED}
COUNTS = np.array([70, 0, 65], np.int32)


@tw.kernel
def added(x: tw.Tensor["G", "M", "K"], w: tw.Tensor["G", "K", "N"], bias: tw.Tensor["M", "N"],
          counts: tw.Tensor["G", tw.i32], y: tw.Tensor["G", "M", "N"]):  # fmt: skip
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = acc + bias[i, j]


@tw.kernel
def scaled(x: tw.Tensor["G", "M", "K"], w: tw.Tensor["G", "K", "N"], bias: tw.Tensor["M"],
           counts: tw.Tensor["G", tw.i32], y: tw.Tensor["G", "M", "N"]):  # fmt: skip
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = acc * bias[i]


@tw.kernel
def shared(x: tw.Tensor["M", "K"], w: tw.Tensor["G", "K", "N"], bias: tw.Tensor["G", "N"],
           counts: tw.Tensor["G", tw.i32], y: tw.Tensor["G", "M", "N"]):  # fmt: skip
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, k, j])
    y[g, i, j] = acc + bias[g, j]


@tw.kernel
def shared_and_own(x: tw.Tensor["M", "K"], w: tw.Tensor["G", "K", "N"], bias: tw.Tensor["G", "M", "N"],
           counts: tw.Tensor["G", tw.i32], y: tw.Tensor["G", "M", "N"]):  # fmt: skip
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, k, j])
    y[g, i, j] = acc + bias[g, i, j]


def combined(name: str, total: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return {
        "added": lambda: total + bias,
        "scaled": lambda: total * bias[:, None],
        "shared": lambda: total + bias[:, None],
        "shared_and_own": lambda: total + bias,
    }[name]()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("kernel", [added, scaled, shared, shared_and_own], ids=lambda each: each.name)
def test_rows_of_an_array_without_groups_are_those_of_each_group(kernel: tw.Kernel, target: str) -> None:
    try:
        made = compile_kernel(kernel, target=target, dims=DIMS, dtype="f16", assembled=False)
    except TilewrightError as refusal:
        multiplied = "by a product in groups, each of which has its own rows" in refusal.message
        assert multiplied if kernel.name.startswith("shared") else target == "sm_90a", refusal
        assert refusal.span is not None and refusal.span.file == kernel.file
        return
    random = np.random.default_rng(0)
    sizes = {each.name: tuple(DIMS[axis] for axis in each.axes) for each in kernel.parameters}
    x, w, bias = (random.integers(-2, 3, sizes[name]).astype(np.float16) for name in ("x", "w", "bias"))
    total = np.matmul(x.astype("f4"), w.astype("f4"))
    expected = combined(kernel.name, total, bias.astype("f4"))
    expected *= np.arange(ROWS)[:, None] < COUNTS[:, None, None]
    assert (run_on_machine(made.bundle(), (x, w, bias, COUNTS)) == expected).all()
