"""Slots and columns of factors of blocks, on the target that takes them and on others."""

from tests.end_to_end.factor_programs import gated, scaled

from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CELL_FACTORS, FACTOR_ROWS, CascadeDecisions
from tilewright.ir.cascade_facts import cascade_axes, products_of
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.decide import decide_cascade
from tilewright.synth.cascade.sums.pairs import no_pairs
from tilewright.synth.cascade.sums.tensor_factors import scaling_remedy, tensor_factors
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BLACKWELL, HOPPER = target("sm_100a"), target("sm_90a")


def decided(kernel: Kernel, columns: int) -> CascadeDecisions:
    narrow = {each.name: "f8e4m3" for each in kernel.parameters if each.element is None}
    dims = {"M": 1024, "N": 1024, "K": 1024}
    wanted = Wanted(tile=(128, columns))
    module = walked(trace(kernel, dims, elements_of(kernel, narrow), None), BLACKWELL, wanted)
    program = the_program(module)
    assert all(tensor_factors(each, BLACKWELL) and not tensor_factors(each, HOPPER) for each in products_of(program))
    assert "factors of blocks" in no_pairs(program, cascade_axes(program), BLACKWELL)
    return decide_cascade(program, BLACKWELL, wanted)


def test_each_slot_has_columns_of_its_own() -> None:
    d = decided(scaled, 192)
    x, s, t = (next(each for each in d.slots if each.buffer == name) for name in "xst")
    assert (s.rows, s.inner_elements, s.slot_bytes, s.piece_bytes) == (128, 4, 512, 4)
    assert (t.rows, t.slot_bytes) == (256, 1024)
    assert (s.factor_columns, t.factor_columns, x.factor_columns) == (4 * s.slots, 8 * t.slots, 0)
    assert d.factor_columns == 48 and d.sum_slots == 2 and d.tensor_columns == 512
    assert d.sum_slots * 192 + d.factor_columns <= d.tensor_columns


def test_sums_that_leave_no_columns_have_one_slot() -> None:
    """Two slots of 256 columns are all there are."""
    d = decided(scaled, 256)
    assert (d.sum_slots, d.tensor_columns) == (1, 512)


def test_factors_that_products_share_are_copied_once() -> None:
    d = decided(gated, 96)
    assert [each.buffer for each in d.slots if each.factors] == ["s", "t", "u"]


def test_a_remedy_names_what_is_supported() -> None:
    assert scaling_remedy(128, HOPPER) == "use blocks of a multiple of 128 elements"
    assert "ue8m0 factors of 32 elements" in scaling_remedy(128, BLACKWELL)


def test_cells_are_those_of_the_target() -> None:
    """`ir.cascade` says how decisions count them; a target that had others would be counted wrong."""
    facts = target("sm_100a")
    assert facts.limit("block_scales.column_factors") == CELL_FACTORS
    assert facts.limit("block_scales.column_rows") == FACTOR_ROWS
