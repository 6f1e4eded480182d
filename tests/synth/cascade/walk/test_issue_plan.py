"""Which products are issued together, which late, and what is loaded meanwhile: decisions that a lowering follows."""

from collections.abc import Callable, Mapping

import pytest
from tests.lower import cascade_programs

from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels_attention import key_gradients_kernel, query_gradient_kernel
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import products_of
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.types import value_type
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

ATTENTION = {"B": 1, "H": 2, "Q": 192, "T": 256, "E": 64, "F": 64}


def decided(
    kernel: Kernel, dims: Mapping[str, int], on: str = "sm_90a", wanted: Wanted | None = None
) -> CascadeDecisions:
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), target(on))
    found = decide(the_program(module), target(on), wanted or Wanted())
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


def of_gradients(kernel: Kernel, wanted: Wanted) -> CascadeDecisions:
    return decided(kernel, {**ATTENTION, "B": 8, "H": 8, "Q": 1024, "T": 1024}, wanted=wanted)


@pytest.mark.parametrize("made", [key_gradients_kernel, query_gradient_kernel])
def test_two_consumers_that_wait_for_all_products_issue_in_order(made: Callable[..., Kernel]) -> None:
    kernel = made(0.125, causal=False, sharing=1)
    found = of_gradients(kernel, Wanted())
    assert found.consumers == 2 and found.ordered
    assert not of_gradients(kernel, Wanted(consumers=2, ordered=False)).ordered
    assert not of_gradients(kernel, Wanted(consumers=1)).ordered


def test_three_consumers_that_wait_for_all_products_are_in_no_order() -> None:
    kernel = query_gradient_kernel(0.125, causal=False, sharing=1)
    three = of_gradients(kernel, Wanted(consumers=3))
    assert three.consumers == 3 and not three.ordered


def forward(size: int, wanted: Wanted) -> CascadeDecisions:
    return decided(cascade_programs.attention, {**ATTENTION, "Q": 1024, "E": size, "F": size}, wanted=wanted)


@pytest.mark.parametrize(("size", "consumers", "expected"), [(64, 2, 0), (64, 3, 1), (128, 2, 1), (256, 2, 0)])
def test_with_a_product_left_consumers_are_in_order_where_the_others_products_fill_what_one_computes(
    size: int, consumers: int, expected: int
) -> None:
    found = forward(size, Wanted(consumers=consumers))
    assert found.late and (found.consumers, found.ordered) == (consumers, expected)
    for ordered in (False, True):
        assert forward(size, Wanted(consumers=consumers, ordered=ordered)).ordered == ordered


def test_a_walk_that_stores_on_the_way_is_in_no_order() -> None:
    found = decided(cascade_programs.weights_stored, {"M": 192, "T": 256, "E": 64, "F": 64}, wanted=Wanted(consumers=2))
    assert found.consumers == 2 and not found.ordered
