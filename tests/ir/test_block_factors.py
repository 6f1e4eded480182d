# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Which products have factors of blocks that a tensor core might take."""

import pytest
from tests.end_to_end.factor_programs import of_columns, of_matrices, of_numbers, of_one_operand, of_wide_blocks, scaled

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.compile import elements_of
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.block_factors import BlockFactors, block_factors
from tilewright.ir.cascade_facts import products_of
from tilewright.ir.tile.facts import parameter_name, the_program
from tilewright.synth.streaming.loop_products import as_walk


@tw.kernel
def of_two_sizes(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/32", tw.ue8m0],
    t: tw.Tensor["N", "K/64", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 32] * t[j, k // 64].T
    y[i, j] = acc


@tw.kernel
def of_blocks_of_columns(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/32", tw.ue8m0],
    t: tw.Tensor["N/32", "K/32", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 32] * t[j // 32, k // 32].T
    y[i, j] = acc


@tw.kernel
def of_squares(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/32", tw.ue8m0],
    t: tw.Tensor["N", "K/32", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * (s[i, k // 32] * s[i, k // 32]) * t[j, k // 32].T
    y[i, j] = acc


def factors_of(kernel: Kernel) -> BlockFactors | None:
    narrow = {each.name: "f8e4m3" for each in kernel.parameters if each.element is None}
    dims = {"B": 2, "M": 64, "N": 64, "K": 256}
    dims = {axis: dims[axis] for axis in dims if any(axis in each.axes for each in kernel.parameters)}
    module = as_walk(trace(kernel, dims, elements_of(kernel, narrow), None))
    assert module is not None
    (product,) = products_of(the_program(module))
    return block_factors(product)


@pytest.mark.parametrize(
    ("kernel", "block"), [(scaled, 32), (of_columns, 32), (of_matrices, 32), (of_wide_blocks, 128)]
)
def test_a_factor_for_each_row_of_either_operand(kernel: Kernel, block: int) -> None:
    found = factors_of(kernel)
    assert found is not None and found.block == block
    program = found.held.parent_op().parent_op()
    assert [parameter_name(program, each.tensor) for each in found.loads] == ["s", "t"]


@pytest.mark.parametrize(
    "kernel", [of_numbers, of_one_operand, of_two_sizes, of_blocks_of_columns, of_squares], ids=lambda each: each.name
)
def test_what_has_none(kernel: Kernel) -> None:
    assert factors_of(kernel) is None
