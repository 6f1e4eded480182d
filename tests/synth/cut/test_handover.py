"""Which values are handed over, what the programs on both sides are, and what refutes a wrong one."""

import pytest
from tests.synth.cut.cut_programs import (
    batch_with_logsumexp,
    how_often_largest,
    layers,
    matmul_in_loop,
    norm_of_product,
    product_of_norm,
    softmax_of_product,
    softmax_of_rows,
    sums_both_ways,
    traced,
)
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.cascade_facts import contractions
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers, reductions, stores, the_program
from tilewright.synth.cut.certificate import require_same
from tilewright.synth.cut.handover import Cut, apart, cuts

_DIMS = {
    softmax_of_product: {"M": 70, "N": 33, "K": 40},
    norm_of_product: {"M": 70, "N": 33, "K": 40},
    product_of_norm: {"M": 70, "N": 33, "K": 40},
    layers: {"M": 70, "N": 33, "K": 40, "L": 50},
    batch_with_logsumexp: {"B": 3, "M": 70, "N": 33, "K": 40},
    sums_both_ways: {"M": 70, "N": 33},
    how_often_largest: {"M": 70, "N": 33},
}


def _cuts(kernel: Kernel) -> list[Cut]:
    return list(cuts(the_program(traced(kernel, **_DIMS[kernel]))))


def _handed(cut: Cut) -> tuple[Element, tuple[int, ...], tuple[int, ...]]:
    found = {buffer.name: buffer for buffer in buffers(the_program(cut.programs[0]))}[cut.workspaces[0]]
    again = {buffer.name: buffer for buffer in buffers(the_program(cut.programs[1]))}[cut.workspaces[0]]
    assert (found.role, again.role) == ("output", "input")
    assert found.elements == again.elements
    return found.element, found.shape, found.strides


def test_a_product_is_handed_over_as_it_is_and_its_rows_begin_at_whole_runs() -> None:
    (cut,) = (each for each in _cuts(softmax_of_product) if each.divides_sums)
    assert _handed(cut) == (Element.F32, (70, 33), (36, 1))
    assert len(contractions(the_program(cut.programs[0]))) == 1
    assert not contractions(the_program(cut.programs[1]))
    assert len(reductions(the_program(cut.programs[1]))) == 2


def test_a_number_along_an_axis_is_handed_over_as_arithmetic_takes_it() -> None:
    (cut,) = (each for each in _cuts(how_often_largest) if each.divides_sums)
    assert _handed(cut) == (Element.F32, (70,), (1,))
    require_same(the_program(traced(how_often_largest, M=70, N=33)), cut)


def test_an_operand_is_handed_over_as_the_product_takes_it() -> None:
    handed = [_handed(cut) for cut in _cuts(product_of_norm) if cut.divides_sums]
    assert (Element.BF16, (70, 40), (40, 1)) in handed  # the normalised rows
    assert (Element.F32, (70,), (1,)) in handed  # or one number for each


def test_what_two_results_have_in_common_is_computed_once() -> None:
    found = [cut for cut in _cuts(batch_with_logsumexp) if len(reductions(the_program(cut.programs[1]))) >= 2]
    assert [_handed(cut)[1:] for cut in found] == [((3, 70, 33), (2520, 36, 1))]


def test_both_sums_of_a_softmax_are_handed_over_together() -> None:
    (cut,) = (each for each in cuts(the_program(traced(softmax_of_rows, M=70, N=33))) if not each.divides_sums)
    before, after = map(the_program, cut.programs)
    assert len(cut.workspaces) == len(reductions(before)) == 2
    assert not reductions(after)
    require_same(the_program(traced(softmax_of_rows, M=70, N=33)), cut)


@pytest.mark.parametrize("kernel", list(_DIMS), ids=lambda kernel: kernel.name)
def test_no_sum_is_computed_on_both_sides(kernel: Kernel) -> None:
    whole = the_program(traced(kernel, **_DIMS[kernel]))
    found = _cuts(kernel)
    assert found
    for cut in found:
        sides = [the_program(side) for side in cut.programs]
        assert sum(len(contractions(side)) for side in sides) == len(contractions(whole))
        require_same(whole, cut)


@pytest.mark.parametrize("number", [0, 1])
def test_the_certificate_refutes_other_numbers_on_either_side(number: int) -> None:
    whole = the_program(traced(softmax_of_product, **_DIMS[softmax_of_product]))
    (cut,) = (each for each in _cuts(softmax_of_product) if each.divides_sums)
    sides = [the_program(side) for side in cut.programs]
    require_same(whole, cut)
    (store,) = stores(sides[number])
    doubled = store.value.owner.operand if isinstance(store.value.owner, tile.CastOp) else store.value
    sum_ = tile.BinaryOp(Function.ADD, doubled, doubled, "here:1")
    Rewriter.insert_op(sum_, InsertPoint.after(doubled.owner))
    doubled.replace_uses_with_if(sum_.result, lambda use: use.operation is not sum_)
    with pytest.raises(TilewrightError, match="other numbers in y"):
        require_same(whole, cut)


def test_what_loops_or_groups_is_not_cut() -> None:
    loops = the_program(traced(matmul_in_loop, M=70, N=33, K=40))
    assert not list(cuts(loops))


def test_results_may_be_computed_apart() -> None:
    """Each by a program of its own, without a workspace; a single result has no such cut."""
    whole = the_program(traced(batch_with_logsumexp, **_DIMS[batch_with_logsumexp]))
    cut = apart(whole)
    assert cut is not None and cut.workspaces == () and len(cut.programs) == len(list(stores(whole))) == 2
    require_same(whole, cut)
    with pytest.raises(TilewrightError, match="stores other numbers in"):
        require_same(whole, Cut((cut.programs[0],), (), 0, cut.place, True))
    assert apart(the_program(traced(softmax_of_rows, M=3, N=5))) is None
