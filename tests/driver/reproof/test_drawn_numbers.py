"""The small instance's numbers: of kernels with factors of blocks, against the program's meaning."""

from unittest.mock import patch

import pytest
from tests.end_to_end.factor_programs import gated, of_matrices, scaled

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.drawn_numbers import misnumbered_results
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.lower.ptx.products import tensor_memory
from tilewright.targets import Target

DIMS = {"M": 130, "N": 72, "K": 384}


def narrow(kernel: Kernel) -> dict[str, str]:
    return {each.name: "f8e4m3" for each in kernel.parameters if each.element is None}


@pytest.mark.sample(1)
@pytest.mark.parametrize("kernel", [scaled, gated])
def test_what_is_right_has_no_finding(kernel: Kernel) -> None:
    made = compile_kernel(kernel, target="sm_100a", dims=DIMS, dtype=narrow(kernel))
    assert isinstance(made.text_proof, Proven)
    assert misnumbered_results(made.tile, read(made.ptx, "own.ptx"), made.plan, {}) == ()


def test_what_is_past_the_largest_number_of_a_result_is_that_number() -> None:
    made = compile_kernel(
        of_matrices, target="sm_100a", dims={"B": 3, "M": 130, "N": 41, "K": 161}, dtype=narrow(of_matrices)
    )
    assert isinstance(made.text_proof, Proven)


def test_a_lowering_that_names_other_factors_is_refuted() -> None:
    """The text is what the lowering makes, and breaks no rule of the protocol: the numbers are wrong alone."""
    right = tensor_memory.scaled_instructions

    def reversed_steps(facts: Target, op: tensor_memory.TensorFillOp) -> list[int]:
        return right(facts, op)[::-1]

    with (
        patch("tilewright.lower.ptx.products.tensor_slots.scaled_instructions", reversed_steps),
        pytest.raises(TilewrightError, match="stores in y is not what the program defines"),
    ):
        compile_kernel(scaled, target="sm_100a", dims=DIMS, dtype=narrow(scaled))


def test_kernels_without_factors_are_not_run() -> None:
    made = compile_kernel(scaled, target="sm_90a", dims=DIMS, dtype=narrow(scaled))
    empty = read(".version 8.0\n.target sm_90a\n.address_size 64\n", "nothing.ptx")
    assert misnumbered_results(made.tile, empty, made.plan, {}) == ()
