"""Products by tiles of many shapes: proved, staged where the map expects it, and equal to the reference."""

import pytest
from tests.lower.lowered_programs import (
    Lowered,
    assert_close,
    gemm,
    lower,
    matmul,
    matmul_bias_relu,
    random_inputs,
    residual,
)

from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.address_proof import SameAddresses, staged_stores
from tilewright.driver.reproof.reproof import reprove
from tilewright.ir.decisions import turned_arrays
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def proved(lowered: Lowered) -> Lowered:
    for kernel in lowered.kernels:
        assert isinstance(verify(kernel, HOPPER), Proven), verify(kernel, HOPPER)
    verdict = reprove(lowered.module, lowered.ptx, "sm_90a", "product")
    assert isinstance(verdict, Proven), verdict
    for staged in staged_stores(lowered.parsed, lowered.plan.launches, turned_arrays(lowered.decisions)):
        assert isinstance(staged.verdict, SameAddresses), staged
    return lowered


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [(64, 8), (64, 24), (128, 16), (128, 176), (64, 104), (128, 72), (192, 48)])
@pytest.mark.parametrize("transposed", [False, True])
def test_columns_in_any_multiple_of_eight(tile, transposed):
    """`transposed`: the right operand is contiguous along the contracted axis."""
    strides = {"b": (1, 96)} if transposed else {}
    dims = {"M": tile[0] + 8, "N": tile[1] + 8, "K": 96}
    lowered = proved(lower(matmul, dims, strides=strides, wanted=Wanted(tile, swapped=False)))
    assert (lowered.decisions.tile_rows, lowered.decisions.tile_columns) == tile
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.sample(2)
@pytest.mark.parametrize("depth", [64, 128, 256])
@pytest.mark.parametrize("transposed", [False, True])
def test_stages_several_rows_deep(depth, transposed):
    lowered = proved(
        lower(
            matmul,
            {"M": 72, "N": 40, "K": 600},
            strides={"b": (1, 600)} if transposed else {},
            wanted=Wanted((64, 32), depth=depth, swapped=False),
        )
    )
    assert lowered.decisions.tile_streamed == depth
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_rows_shared_by_one_two_or_three_warpgroups(consumers):
    lowered = proved(gemm(200, 72, 128, tile=(64 * consumers, 64), consumers=consumers, swapped=False))
    assert lowered.decisions.consumers == consumers
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.sample(2)
@pytest.mark.parametrize("m", [1, 3, 8, 17, 24])
def test_a_product_of_few_rows_is_transposed(m):
    lowered = proved(gemm(m, 192, 264))
    assert lowered.decisions.row == "N" and lowered.decisions.tile_columns < 64 + m
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.parametrize("m", [48, 64])
def test_a_product_whose_rows_nearly_fill_an_instruction_stands_as_written(m):
    lowered = proved(gemm(m, 192, 264))
    assert lowered.decisions.row == "M" and lowered.decisions.tile_rows == 64
    assert_close(lowered, random_inputs(lowered))


def test_epilogues_of_transposed_products():
    for kernel in (matmul_bias_relu, residual):
        lowered = proved(lower(kernel, {"M": 5, "N": 136, "K": 64}, wanted=Wanted(swapped=True)))
        assert lowered.decisions.row == "N"
        assert_close(lowered, random_inputs(lowered))
