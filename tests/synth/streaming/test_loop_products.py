# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Loops over products as walks: the sum stays the same, and what is no plain sum is left alone."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels import grouped_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade_facts import cascade_axes
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import dots, the_program
from tilewright.synth.streaming.loop_products import as_walk

DIMS = {"M": 5, "N": 6, "K": 7}


@tw.kernel
def product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], b: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = tw.relu(acc + b[j])


@tw.kernel
def gated(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], v: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    first, second = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        first += tw.dot(x[i, k], w[j, k].T)
        second += tw.dot(x[i, k], v[j, k].T)
    y[i, j] = first * second


@tw.kernel
def computed(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((x[i, k] * 2.0).to(tw.bf16), w[j, k].T)
    y[i, j] = acc


@tw.kernel
def turned(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], r: tw.Tensor["N", "M"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = acc + r[j, i].T


def traced(kernel: Kernel, element: Element = Element.BF16, dims: Mapping[str, int] = DIMS) -> ModuleOp:
    return trace(kernel, dims, dict.fromkeys((each.name for each in kernel.parameters), element), None)


@pytest.mark.parametrize("kernel", [product, gated, computed, turned], ids=lambda each: each.name)
def test_sums_are_walks_and_mean_the_same(kernel: Kernel) -> None:
    module = traced(kernel)
    found = as_walk(module)
    assert found is not None and found is not module
    program = the_program(found)
    (loop,) = [op for op in program.walk() if isinstance(op, tile.LoopOp)]
    assert loop.streamed is not None and not dots(program)
    count = len(dots(the_program(module)))
    assert count, "the program itself is left as it was"
    assert len([op for op in program.walk() if isinstance(op, ContractOp)]) == count
    random = np.random.default_rng(0)
    shapes = {"x": (5, 7), "w": (6, 7), "v": (6, 7), "b": (6,), "r": (6, 5)}
    names = [each.name for each in kernel.parameters if each.name != "y"]
    arrays = {name: random.random(shapes[name]).astype(ml_dtypes.bfloat16) for name in names}
    before, after = (evaluate(each, arrays) for each in (module, found))
    np.testing.assert_array_equal(after["y"], before["y"])


@pytest.mark.parametrize("swapped", [False, True])
def test_rows_in_groups_are_those_of_tiles(swapped: bool) -> None:
    kernel = grouped_kernel("none", biased=False)
    module = trace(kernel, {"T": 8, "G": 2, "N": 8, "K": 8}, elements_of(kernel, "bf16"), None)
    found = as_walk(module, swapped=swapped)
    assert found is not None
    axes = cascade_axes(the_program(found))
    assert (axes.row, axes.column, axes.batch, axes.group) == ("T", "N", ("G",), "G")


def test_a_sum_of_8_bit_products_is_a_walk_too() -> None:
    found = as_walk(traced(product, Element.F8E4M3))
    assert found is not None and not dots(the_program(found))
