"""Which products are issued together, which late, and what is loaded meanwhile: decisions that a lowering follows."""

from collections.abc import Mapping

import pytest
from tests.lower import cascade_programs

from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels_attention import key_gradients_kernel
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import products_of
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.types import value_type
from tilewright.synth.decide import decide
from tilewright.targets import target

ATTENTION = {"B": 1, "H": 2, "Q": 192, "T": 256, "E": 64, "F": 64}


def decided(kernel: Kernel, dims: Mapping[str, int], on: str = "sm_90a") -> CascadeDecisions:
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), target(on))
    found = decide(the_program(module), target(on))
    assert isinstance(found, CascadeDecisions)
    return found


def test_the_sum_that_is_only_carried_on_is_issued_late() -> None:
    found = decided(cascade_programs.attention, ATTENTION)
    assert (found.late, found.issued_together, found.loaded_along) == ((1,), (), ())


def test_two_gradients_are_issued_together_and_what_rows_need_is_loaded_along() -> None:
    kernel = key_gradients_kernel(0.125, causal=False, sharing=1)
    dims = {axis.split("/")[0]: ATTENTION.get(axis, 64) for each in kernel.parameters for axis in each.axes}
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), target("sm_90a"))
    found, products = decided(kernel, dims), products_of(the_program(module))
    ((first, second),) = found.issued_together
    over = {products[number].op.axis.data for number in (first, second)}
    assert len(over) == 1 and found.late == () and len(found.loaded_along) == 2
    assert all(over <= set(value_type(products[number].held).axis_names) for number in (first, second))


@pytest.mark.parametrize("kernel", [cascade_programs.attention])
def test_where_sums_stand_in_tensor_memory_each_product_is_waited_for(kernel: Kernel) -> None:
    found = decided(kernel, ATTENTION, "sm_100a")
    assert (found.late, found.issued_together, found.loaded_along) == ((), (), ())
