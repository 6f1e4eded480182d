"""Values of a program at one place of a fragment: what is emitted for them.

exp is 2^(x log2 e) by the approximate instruction here: an error of x's rounding, and of 2^-22, which the 16-bit
operands that it ends in do not show.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue

from tilewright.base.size import Size
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade_facts import CascadeAxes
from tilewright.ir.function import Function
from tilewright.ir.sizes import SizeAttr
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import index_offset
from tilewright.ir.tile.repeats import bare, in_order, is_computed_tile
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import INDEX, Build, affine
from tilewright.lower.expression import constant, point_value, scalar_function

_ELEMENTWISE = (tile.UnaryOp, tile.BinaryOp, tile.SelectOp, tile.CastOp, tile.BroadcastOp, tile.TransposeOp)
_LOG2E = math.log2(math.e)
_MOST_JOINED = 2.0**126
"""Of numbers that are multiplied by log2 e while compiling: the product is a float32."""
_HUGE = 2.0**29
"""Of numbers up to here, log2 e times x is rounded by less than 2^6, and 2^64 is a float32."""


def stride_along(tensor: SSAValue, axis: str) -> int:
    """Elements from one place along an axis to the next, of an array."""
    kind = tensor_type(tensor)
    return kind.stride_elements[kind.axis_names.index(axis)]


def numbered_axis(op: tile.PositionOp) -> str:
    """The axis whose index, or whose blocks' index, is taken as a number."""
    kind = op.index.type
    assert isinstance(kind, tile.IndexType)
    return base_axis(kind.axis.data)


def position_at(build: Build, op: tile.PositionOp, at: Mapping[str, SSAValue]) -> SSAValue:
    """An index as a number, at the place of an element."""
    kind = op.index.type
    assert isinstance(kind, tile.IndexType)
    axis = kind.axis.data
    index = at[base_axis(axis)]
    if block_size(axis) > 1:
        size = {"size": IntAttr(block_size(axis))}
        index = build.value(ac.IndexDivideOp.create(operands=[index], properties=size, result_types=[INDEX]))
    shift = index_offset(op.index)
    index = affine(build, [(index, 1)], shift) if shift else index
    return build.value(ac.IndexNumberOp.create(operands=[index], result_types=[ac.ScalarType()]))


def end_of_axis(build: Build, size: Size) -> SSAValue:
    """Where an axis ends, as a number."""
    if isinstance(size, int):
        return constant(build, float(size))
    extent = ac.ExtentOp.create(properties={"size": SizeAttr(StringAttr(str(size)))}, result_types=[INDEX])
    return build.value(ac.IndexNumberOp.create(operands=[build.value(extent)], result_types=[ac.ScalarType()]))


def follows_of_places(value: SSAValue) -> bool:
    """Whether a value is computed of indices and numbers alone."""
    made = in_order(value, lambda each: isinstance(each.owner, _ELEMENTWISE))
    return all(isinstance(each.owner, (*_ELEMENTWISE, tile.PositionOp, tile.ConstantOp, tile.FullOp)) for each in made)


def numbers_of_rows(
    program: tile.ProgramOp, loop: tile.LoopOp, axes: CascadeAxes, known: Container[SSAValue]
) -> list[SSAValue]:
    """What results behind a walk take that has a number for each row alone, and follows of what is known when it ends:
    it may be computed while the walk's last product runs."""

    def is_of_rows(value: SSAValue) -> bool:
        computed = isinstance(value.owner, tile.UnaryOp | tile.BinaryOp | tile.SelectOp)
        return computed and axes.kept(value) == frozenset({axes.row})

    def is_known(value: SSAValue) -> bool:
        made = in_order(value, lambda each: each not in known and isinstance(each.owner, _ELEMENTWISE))
        return all(
            each in known or isinstance(each.owner, (*_ELEMENTWISE, tile.ConstantOp, tile.FullOp)) for each in made
        )

    block = program.body.block
    behind = list(block.ops)[block.get_operation_index(loop) + 1 :]
    taken = [bare(each) for op in behind for each in op.operands if not any(map(is_of_rows, op.results))]
    return [each for each in dict.fromkeys(taken) if is_of_rows(each) and is_known(each)]


def emit_exponentials(
    build: Build, value: SSAValue, leaves: dict[SSAValue, SSAValue], is_of_row: Callable[[SSAValue], bool]
) -> None:
    """Emit the exponentials of an expression, the inner ones first, as powers of 2. is_of_row: whether a value is the
    same along a row."""
    for each in in_order(value, lambda each: is_computed_tile(each) and each not in leaves):
        owner = each.owner
        if each not in leaves and isinstance(owner, tile.UnaryOp) and owner.function.data is Function.EXP:
            leaves[each] = scalar_function(build, "exp2", _in_base_2(build, bare(owner.operand), leaves, is_of_row))


def _in_base_2(
    build: Build, value: SSAValue, leaves: dict[SSAValue, SSAValue], is_of_row: Callable[[SSAValue], bool]
) -> SSAValue:
    """x log2 e; of a difference by one multiply-add, where what is taken off is the same along a row. A number that a
    side is multiplied by joins log2 e.

    Of what is taken off and huge, as the largest of a row is that a mask's -1e30 fills, x log2 e rounds by more than an
    exponent may be, and x - x would not be 0. There the power is one of 2: float32 has no two numbers of this size that
    differ by less than 64, and exponents are 0 or far from it. Where each column has another number to take off, that
    would cost more than to take the difference first, by one multiply-add as well."""
    owner = value.owner
    if value not in leaves and isinstance(owner, tile.BinaryOp) and owner.function.data is Function.SUB:
        left, right = (_times_number(side, leaves) for side in (owner.left, owner.right))
        taken = point_value(build, right[0], leaves)
        if not is_of_row(bare(owner.right)):
            if right[1] != 1.0:
                taken = scalar_function(build, Function.MUL.value, taken, constant(build, right[1]))
            taken = scalar_function(build, Function.NEG.value, taken)
            factor = constant(build, left[1])
            found = scalar_function(build, Function.FMA.value, point_value(build, left[0], leaves), factor, taken)
            return scalar_function(build, Function.MUL.value, found, constant(build, _LOG2E))
        size = scalar_function(build, Function.ABS.value, taken)
        huge = scalar_function(build, Function.LT.value, constant(build, _HUGE), size)
        factor, less = (
            scalar_function(build, Function.WHERE.value, huge, constant(build, by), constant(build, _LOG2E * by))
            for by in (left[1], -right[1])
        )
        taken = scalar_function(build, Function.MUL.value, taken, less)
        return scalar_function(build, Function.FMA.value, point_value(build, left[0], leaves), factor, taken)
    inner, number = _times_number(value, leaves)
    return scalar_function(build, "mul", point_value(build, inner, leaves), constant(build, _LOG2E * number))


def _times_number(value: SSAValue, leaves: Mapping[SSAValue, SSAValue]) -> tuple[SSAValue, float]:
    """A value as another one and the number that it is multiplied by, 1 where float32 has no room for more."""
    value = bare(value)
    owner = value.owner
    if value not in leaves and isinstance(owner, tile.BinaryOp) and owner.function.data is Function.MUL:
        for one, other in ((owner.left, owner.right), (owner.right, owner.left)):
            number = bare(other).owner
            if isinstance(number, tile.ConstantOp | tile.FullOp) and abs(number.value.value.data) <= _MOST_JOINED:
                return bare(one), number.value.value.data
    return value, 1.0


def value_inside(
    build: Build, value: SSAValue, leaves: dict[SSAValue, SSAValue], inside: SSAValue, bound: float
) -> SSAValue:
    """The scalar code of a value where a condition holds, and of a number elsewhere. A value that is that number where
    another condition does not hold, as a mask's is, becomes one selection by both, which a tile may pass over."""
    owner = bare(value).owner
    if isinstance(owner, tile.SelectOp) and bare(value) not in leaves and _is_truth(owner.condition):
        other = bare(owner.other).owner
        if isinstance(other, tile.ConstantOp | tile.FullOp) and other.value.value.data == bound:
            condition = point_value(build, owner.condition, leaves)
            inside = scalar_function(build, Function.MIN.value, inside, condition)
            value = owner.chosen
    result = point_value(build, value, leaves)
    return scalar_function(build, Function.WHERE.value, inside, result, constant(build, bound))


def _is_truth(value: SSAValue) -> bool:
    """Whether a condition is 1 or 0 by what makes it."""
    owner = bare(value).owner
    if not isinstance(owner, tile.BinaryOp):
        return False
    match owner.function.data:
        case Function.LT | Function.LE | Function.EQ:
            return True
        case Function.MIN | Function.MAX:
            return _is_truth(owner.left) and _is_truth(owner.right)
        case _:
            return False
