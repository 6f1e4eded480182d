"""Which results of a walk leave in boxes: those that a product of it takes, where a map has them."""

from collections.abc import Mapping

import pytest
from tests.lower import cascade_programs

from tilewright.base.element import Element
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

DIMS = {"M": 192, "T": 256, "E": 64, "F": 64}


def decided(
    kernel: Kernel, dims: Mapping[str, int], wanted: Wanted | None = None, on: str = "sm_90a"
) -> CascadeDecisions:
    elements = elements_of(kernel, "bf16")
    module = walked(trace(kernel, dims, elements, None), target(on))
    found = decide(the_program(module), target(on), wanted or Wanted())
    assert isinstance(found, CascadeDecisions)
    return found


@pytest.mark.parametrize(("depth", "boxes"), [(64, 1), (128, 2), (96, 3)])
def test_a_multiplied_result_has_a_slot_for_each_box(depth: int, boxes: int) -> None:
    found = decided(cascade_programs.weights_stored, DIMS, Wanted(consumers=1, depth=depth))
    (store,) = found.stores
    assert store.parameter == "w" and found.staging_slots == boxes
    assert store.chunk_columns * boxes == depth and store.map.box[:2] == (store.chunk_columns, 64)
    room = sum(each.slots * each.slot_bytes for each in found.slots) + found.staging_slots * found.staging_slot_bytes
    assert room <= found.smem_bytes <= target("sm_90a").limit("cta.shared_bytes_max")


def test_what_no_product_takes_is_stored_by_threads() -> None:
    assert decided(cascade_programs.scores_stored, DIMS).stores == ()


def test_rows_that_end_within_16_bytes_are_stored_by_threads() -> None:
    assert decided(cascade_programs.weights_stored, DIMS | {"T": 250}).stores == ()


def test_where_it_begins_at_no_multiple_of_16_bytes_threads_store_it() -> None:
    assert decided(cascade_programs.weights_stored, DIMS, Wanted(misaligned=("w",))).stores == ()


def test_float32_results_are_stored_by_threads() -> None:
    kernel = cascade_programs.weights_stored
    module = walked(trace(kernel, DIMS, elements_of(kernel, {"w": Element.F32}), None), target("sm_90a"))
    found = decide(the_program(module), target("sm_90a"))
    assert isinstance(found, CascadeDecisions) and found.stores == ()


def test_targets_with_tensor_memory_store_by_threads() -> None:
    assert decided(cascade_programs.weights_stored, DIMS, on="sm_100a").stores == ()
