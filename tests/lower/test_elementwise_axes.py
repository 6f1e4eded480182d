# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Element-by-element programs over four and five axes, and of integers: each value on the CPU machine."""

import numpy as np
import pytest
from tests.lower.lowered_programs import lower, random_inputs, reference, run

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.lower.mlir.ac_to_nvgpu import lower_to_nvgpu


@tw.kernel
def four(x: tw.Tensor["A", "B", "M", "N"], z: tw.Tensor["B", "N"], y: tw.Tensor["A", "B", "M", "N"]):
    a, b, i, j = tw.axes("A B M N")
    y[a, b, i, j] = tw.where(j <= i, x[a, b, i, j + 1] * z[b, j], 1.0)


@tw.kernel
def five(x: tw.Tensor["A", "B", "C", "M", "N"], z: tw.Tensor["C", "N"], y: tw.Tensor["A", "B", "C", "M", "N"]):
    a, b, c, i, j = tw.axes("A B C M N")
    y[a, b, c, i, j] = x[a, b, c, i, j] * z[c, j]


@tw.kernel
def across(x: tw.Tensor["A", "B", "C", "N", "M"], y: tw.Tensor["A", "B", "C", "M", "N"]):
    a, b, c, i, j = tw.axes("A B C M N")
    y[a, b, c, i, j] = x[a, b, c, j, i].T


@tw.kernel
def integers(
    x: tw.Tensor["M", "N"], n: tw.Tensor["M", "N", tw.i32], ends: tw.Tensor["M", tw.i32], y: tw.Tensor["M", "N"]
):
    i, j = tw.axes("M N")
    y[i, j] = tw.where(j < ends[i], x[i, j] * 0.5 + n[i, j], n[i, j + 1])


@tw.kernel
def integers_across(n: tw.Tensor["N", "M", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = n[j, i].T


def lowered(kernel, element, **dims):
    sizes = {"A": 2, "B": 3, "C": 2, **dims}
    elements = {parameter.name: parameter.element or element for parameter in kernel.parameters}
    return lower(kernel, {axis: sizes[axis] for axis in kernel.axes}, elements)


@pytest.mark.sample(4)
@pytest.mark.parametrize("element", [Element.F32, Element.BF16], ids=lambda element: element.value)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 37), (48, 136)])
@pytest.mark.parametrize("kernel", [four, five, across, integers, integers_across], ids=lambda kernel: kernel.name)
def test_values(kernel, m, n, element):
    found = lowered(kernel, element, M=m, N=n)
    arrays = random_inputs(found, m)
    got = run(found, arrays)["y"]
    np.testing.assert_array_equal(got, reference(found, arrays)["y"].astype(got.dtype))


def test_integers_as_numbers_have_no_upstream_form():
    found = lowered(integers, Element.F32, M=8, N=8)
    with pytest.raises(TilewrightError, match="reads integers as numbers"):
        lower_to_nvgpu(found.kernels)
