# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
"""An axis in parts: what each part's program stores, what combines it, and what refutes a wrong combination."""

import math
from collections.abc import Callable

import pytest
from examples.fused import attention, causal_attention, grouped_heads
from tests.synth.cut.cut_programs import softmax_of_product, sums_both_ways, traced
from tests.synth.cut.split_programs import largest_and_logsumexp, sum_of_rows
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.base.error import TilewrightError
from tilewright.frontends.tile import language as tw
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.elementwise import FunctionAttr
from tilewright.ir.tile.facts import buffers, loops, reductions, the_program
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.synth.cut.certificate import require_same
from tilewright.synth.cut.split import in_parts, splits
from tilewright.synth.cut.time import Parts


@tw.kernel
def two_lengths(x: tw.Tensor["M", "N"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "K"], z: tw.Tensor["M"]):
    i, j, k = tw.axes("M N K")
    y[i, k] = tw.dot(tw.exp(x[i, j]), w[j, k], over=j)
    z[i] = tw.max(x[i, j], over=j)


@tw.kernel
def weighed_by_power(
    Q: tw.Tensor["Q", "E"], K: tw.Tensor["T", "E"], V: tw.Tensor["T", "F"], w: tw.Tensor["T"], y: tw.Tensor["Q", "F"]
):
    """Without an extreme, and with a condition that is any number."""
    q, t, e, f = tw.axes("Q T E F")
    p = tw.where(w[t], tw.exp(tw.dot(Q[q, e], K[t, e], over=e)), 0.0)
    y[q, f] = tw.dot(p, V[t, f], over=t) / tw.sum(p, over=t)


@tw.kernel
def largest_and_least(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M"], z: tw.Tensor["M"]):
    """No mask of the one is one of the other."""
    i, j, k = tw.axes("M N K")
    s = tw.dot(x[i, k], w[j, k], over=k)
    y[i] = tw.max(s, over=j)
    z[i] = tw.min(s, over=j)


_DECODE = {"B": 2, "H": 4, "Q": 3, "T": 1024, "E": 16, "F": 16}
_CASES: list[tuple[Kernel, str, dict[str, int]]] = [
    (sum_of_rows, "N", {"M": 3, "N": 1024}),
    (largest_and_logsumexp, "N", {"M": 3, "N": 1024}),
    (two_lengths, "N", {"M": 3, "N": 1024, "K": 16}),
    (attention, "T", _DECODE),
    (causal_attention, "T", _DECODE),
    (grouped_heads, "T", _DECODE),
]


@pytest.mark.parametrize(("kernel", "axis", "dims"), _CASES, ids=lambda value: getattr(value, "name", ""))
def test_parts_and_their_combination_store_what_the_program_does(
    kernel: Kernel, axis: str, dims: dict[str, int]
) -> None:
    whole = the_program(traced(kernel, **dims))
    cut = in_parts(whole, axis, 4)
    before, *after = map(the_program, cut.programs)
    assert before.extents[axis] == dims[axis] // 4
    assert before.extents[f"{axis}_parts"] == 4
    stored = {each.name: each.elements for each in buffers(before) if each.role == "output"}
    loaded = {each.name: each.elements for side in after for each in buffers(side) if each.name in stored}
    assert stored == loaded
    assert not any(axis in program.extents and program.extents[axis] > 1 for program in after)
    require_same(whole, cut)


@pytest.mark.parametrize("overlap", [1, 5])
@pytest.mark.parametrize("kernel", [attention, causal_attention, grouped_heads, weighed_by_power])
def test_parts_that_overlap_count_each_element_once(kernel: Kernel, overlap: int) -> None:
    dims = {axis: size for axis, size in _DECODE.items() if axis in kernel.axes}
    whole = the_program(traced(kernel, **{**dims, "T": 1000 + overlap}))
    cut = in_parts(whole, "T", 4, 250)
    before = the_program(cut.programs[0])
    assert (before.extents["T"], cut.overlap) == (250 + overlap, overlap)
    require_same(whole, cut)
    counted = next(op for op in before.walk() if isinstance(op, tile.BinaryOp) and op.function.data is Function.LE)
    counted.properties["function"] = FunctionAttr(Function.LT)
    with pytest.raises(TilewrightError, match="other numbers"):
        require_same(whole, cut)


def _by_waves(wanted: float) -> Callable[[Parts], float]:
    """The time of parts of which so many keep multiprocessors at work, and what each has to be combined."""

    def time(parts: Parts) -> float:
        return math.ceil(parts.count / wanted) * parts.length / parts.whole + parts.count / 1000

    return time


def test_what_no_number_divides_is_in_parts_that_overlap() -> None:
    whole = the_program(traced(grouped_heads, **{**_DECODE, "T": 4099}))
    found = list(splits(whole, 3.0, _by_waves(3.0)))
    assert found
    for cut in found:
        (before, *_) = map(the_program, cut.programs)
        assert cut.overlap > 0
        assert cut.parts * (before.extents["T"] - cut.overlap) + cut.overlap == 4099
        require_same(whole, cut)
    assert not list(splits(the_program(traced(largest_and_least, M=3, N=4099, K=64)), 3.0, _by_waves(3.0)))


def test_a_part_of_products_is_one_walk_and_a_part_of_folds_has_none() -> None:
    (walked, *_) = in_parts(the_program(traced(attention, **_DECODE)), "T", 2).programs
    assert len(loops(the_program(walked))) == 1
    (folded, *_) = in_parts(the_program(traced(sum_of_rows, M=3, N=1024)), "N", 2).programs
    assert not loops(the_program(folded))


def test_arrays_are_read_where_they_lie() -> None:
    """Parts of an axis of stride s are T s apart, for T elements of a part."""
    whole = the_program(traced(grouped_heads, **_DECODE))
    (walked, *_) = in_parts(whole, "T", 4).programs
    found = {each.name: each for each in buffers(the_program(walked))}
    given = {each.name: each for each in buffers(whole)}
    assert found["Q"] == given["Q"]
    for name in ("K", "V"):
        assert found[name].strides == (256 * given[name].strides[-2], *given[name].strides)
        assert found[name].span_elements == given[name].span_elements


@pytest.mark.parametrize("which", [0, 1], ids=["sums that are not corrected", "the least in place of the largest"])
def test_the_certificate_refutes_a_wrong_combination(which: int) -> None:
    whole = the_program(traced(largest_and_logsumexp, M=3, N=1024))
    cut = in_parts(whole, "N", 2)
    after = the_program(cut.programs[1])
    if which:
        largest = next(op for op in reductions(after) if op.function.data is Function.MAX)
        assert isinstance(largest, ReduceOp)
        other = ReduceOp(Function.MIN, largest.operand, largest.axis.data, "here:1")
        Rewriter.insert_op(other, InsertPoint.before(largest))
        largest.result.replace_all_uses_with(other.result)
    else:
        summed = next(op for op in reductions(after) if op.function.data is Function.ADD)
        product = summed.operand.owner
        assert isinstance(product, tile.BinaryOp)
        summed.operands[0] = next(side for side in product.operands if isinstance(side.owner, tile.LoadOp))
    with pytest.raises(TilewrightError, match="other numbers"):
        require_same(whole, cut)


def _parts(program: tile.ProgramOp, wanted: float) -> list[int]:
    return [each.parts for each in splits(program, wanted, _by_waves(wanted))]


def test_what_is_stored_along_the_axis_or_does_not_divide_is_not_split() -> None:
    assert _parts(the_program(traced(sum_of_rows, M=3, N=4096)), 3.0) == [8, 16, 2]
    assert _parts(the_program(traced(sum_of_rows, M=3, N=3783 * 5)), 2.2) == [13, 15, 5]
    assert not _parts(the_program(traced(sum_of_rows, M=3, N=4097)), 3.0)
    assert not _parts(the_program(traced(sum_of_rows, M=3, N=300)), 3.0)
    assert not _parts(the_program(traced(softmax_of_product, M=3, N=4096, K=64)), 3.0)
    assert not _parts(the_program(traced(sums_both_ways, M=4096, N=4096)), 3.0)


def test_of_parts_as_quick_those_that_divide_the_axis_come_first_then_the_fewest() -> None:
    """Where more tiles than multiprocessors leave a last wave, more parts than one for each are tried."""
    program = the_program(traced(attention, **{**_DECODE, "T": 1280}))

    def tried(times: dict[int, float]) -> list[tuple[int, int]]:
        return [(each.parts, each.overlap) for each in splits(program, 0.7, lambda parts: times.get(parts.count, 9.0))]

    assert tried({3: 1.0, 5: 1.01, 8: 1.019}) == [(5, 0), (8, 0), (3, 2)]
    assert tried({3: 1.0, 5: 1.03, 7: 1.01}) == [(3, 2), (7, 6), (5, 0)]
    assert tried({8: 1.0, 4: 2.0, 2: 3.0})[0] == (8, 0)
