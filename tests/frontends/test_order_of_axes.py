# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Tiles over the same three axes or more meet in any order: no transpose of the last two would bring them together."""

import numpy as np
import pytest

import tilewright as tw
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import run_on_machine


@tw.kernel
def added(x: tw.Tensor["M", "B", "N"], w: tw.Tensor["N", "B", "M"], y: tw.Tensor["B", "M", "N"]):
    b, i, j = tw.axes("B M N")
    y[b, i, j] = x[i, b, j] + w[j, b, i]


@tw.kernel
def moved(x: tw.Tensor["N", "B", "M"], y: tw.Tensor["B", "M", "N"], largest: tw.Tensor["B", "M"]):
    b, i, j = tw.axes("B M N")
    y[b, i, j] = x[j, b, i] * 2.0
    largest[b, i] = tw.max(x[j, b, i], over=j)


@tw.kernel
def masked(x: tw.Tensor["B", "M", "K"], w: tw.Tensor["B", "N", "K"], mask: tw.Tensor["N", "B", "M", tw.i8],
           y: tw.Tensor["B", "M", "N"]):  # fmt: skip
    b, i, j, k = tw.axes("B M N K")
    y[b, i, j] = tw.where(mask[j, b, i] > 0, tw.dot(x[b, i, k], w[b, j, k], over=k), -1.0)


SIZES = {"B": 2, "M": 5, "N": 24}


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_elements_are_matched_by_name(target):
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype("f4") for shape in ((5, 2, 24), (24, 2, 5)))
    made = compile_kernel(added, target=target, dims=SIZES, dtype="f32", assembled=False)
    assert (run_on_machine(made.bundle(), (x, w)) == x.transpose(1, 0, 2) + w.transpose(1, 2, 0)).all()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_result_lies_as_the_program_names_its_axes(target):
    x = np.random.default_rng(1).standard_normal((24, 2, 5)).astype("f4")
    made = compile_kernel(moved, target=target, dims=SIZES, dtype="f32", assembled=False)
    y, largest = run_on_machine(made.bundle(), (x,))
    assert (y == 2 * x.transpose(1, 2, 0)).all() and (largest == x.max(axis=0)).all()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_mask_of_another_order_meets_a_product(target):
    random = np.random.default_rng(2)
    x, w = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((2, 5, 16), (2, 24, 16)))
    mask = random.integers(-1, 2, (24, 2, 5)).astype(np.int8)
    made = compile_kernel(masked, target=target, dims=SIZES | {"K": 16}, dtype="f16", assembled=False)
    expected = np.where(mask.transpose(1, 2, 0) > 0, x.astype("f4") @ w.astype("f4").transpose(0, 2, 1), -1)
    assert (run_on_machine(made.bundle(), (x, w, mask)) == expected).all()
