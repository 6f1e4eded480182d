"""Factors of 1 for the operand that has none: the two programs mean what the one did."""

import ml_dtypes
import numpy as np
import pytest
from tests.end_to_end.factor_programs import (
    of_numbers,
    of_one_operand,
    of_other_operand,
    of_wide_blocks_of_one,
    scaled,
)
from xdsl.dialects.builtin import ModuleOp

from tilewright.driver.compile.compile import elements_of
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cut.factors_before import factors_before
from tilewright.targets import target

BLACKWELL, HOPPER = target("sm_100a"), target("sm_90a")
DIMS = {"M": 6, "N": 5, "K": 72}
F8, FACTOR = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)


def traced(kernel: Kernel) -> ModuleOp:
    narrow = {each.name: "f8e4m3" for each in kernel.parameters if each.element is None}
    return trace(kernel, DIMS, elements_of(kernel, narrow), None)


@pytest.mark.parametrize(("kernel", "rows", "factors"), [(of_one_operand, 5, 6), (of_other_operand, 6, 5)])
def test_both_mean_what_the_one_did(kernel: Kernel, rows: int, factors: int) -> None:
    module = traced(kernel)
    found = factors_before(module, BLACKWELL)
    assert found is not None
    ones, rest = found
    assert the_program(ones).extents == {"N" if rows == 5 else "M": rows, "blocks": 3}
    random = np.random.default_rng(0)
    arrays = {"x": random.standard_normal((6, 72)).astype(F8), "w": random.standard_normal((5, 72)).astype(F8)}
    arrays["s" if factors == 6 else "t"] = np.exp2(random.integers(-3, 4, (factors, 3))).astype(FACTOR)
    stored = {name: array.view(FACTOR) for name, array in evaluate(ones, {}).items()}
    assert all((array == 1).all() for array in stored.values())
    np.testing.assert_array_equal(evaluate(rest, arrays | stored)["y"], evaluate(module, arrays)["y"])
    assert factors_before(rest, BLACKWELL) is None


@pytest.mark.parametrize("kernel", [scaled, of_numbers, of_wide_blocks_of_one])
def test_no_other_product_has_any(kernel: Kernel) -> None:
    """Of both operands, of plain numbers, of blocks that no tensor core has."""
    assert factors_before(traced(kernel), BLACKWELL) is None


def test_no_other_target_takes_any() -> None:
    assert factors_before(traced(of_one_operand), HOPPER) is None
