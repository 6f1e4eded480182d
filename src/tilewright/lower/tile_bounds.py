"""At run time, by a few instructions: does a condition of a map's region hold at every place of the unit's tile?

Theory: interval evaluation at the tile's corners. An index lies between its first and its last value along rows or
columns; sums, differences, quotients by positive numbers and the rounding to float32 keep the order, and so their
bounds are bounds. `a < b` holds everywhere where the largest a is less than the smallest b; a conjunction, the smaller
of two truth values, where both do. What is the same at every place bounds itself.

Not handled (None): equality, anything that changes from place to place and is no such function of the place. What is
emitted is the same in all threads of the unit. Checked by: tests/lower/test_tile_bounds.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import OpResult, SSAValue

from tilewright.ir import ac
from tilewright.ir.function import Function
from tilewright.lower.emit import Text
from tilewright.lower.lowering import integers
from tilewright.lower.places import IndexPlace, Places
from tilewright.lower.scalar_region import lower_scalar_op, scalar_register


@dataclass(frozen=True, slots=True)
class Corners:
    """first: registers of the first row and column of the tile, by the region's arguments for them; last: how much
    further the last one is; same: what has one value at every place, by register."""

    text: Text
    first: dict[SSAValue, str]
    last: dict[SSAValue, int]
    same: dict[SSAValue, str]


def holds_everywhere(corners: Corners, condition: SSAValue) -> str | None:
    """A predicate that is true only if the condition is not 0 at every place; None where none can be given."""
    if not isinstance(condition, OpResult) or not isinstance(op := condition.op, ac.ScalarOp):
        return None
    match op.function.data:
        case Function.LT.value | Function.LE.value:
            left, right = _bound(corners, op.inputs[0], upper=True), _bound(corners, op.inputs[1], upper=False)
            if left is None or right is None:
                return None
            return corners.text.into("pred", f"setp.{op.function.data}.f32", left, right)
        case Function.MIN.value:
            both = [holds_everywhere(corners, each) for each in op.inputs]
            if None in both:
                return None
            return corners.text.into("pred", "and.pred", *(each for each in both if each is not None))
        case _:
            return None


def _bound(corners: Corners, value: SSAValue, *, upper: bool) -> str | None:
    """A register with the largest or the smallest number that a value of the region has in the tile."""
    if value in corners.same:
        return corners.same[value]
    if not isinstance(value, OpResult):
        return None
    op = value.op
    places: Places = {}
    match op:
        case ac.ConstantOp():
            pass
        case ac.IndexNumberOp():
            index = _index_bound(corners, op.operand, upper=upper)
            if index is None:
                return None
            places[op.operand] = IndexPlace(index)
        case ac.ScalarOp() if op.function.data in (Function.ADD.value, Function.SUB.value):
            sides = (upper, upper if op.function.data == Function.ADD.value else not upper)
            found = [_bound(corners, each, upper=side) for each, side in zip(op.inputs, sides, strict=True)]
            if None in found:
                return None
            return corners.text.into("f32", f"{op.function.data}.rn.f32", *(each for each in found if each is not None))
        case _:
            return None
    lower_scalar_op(corners.text, places, op)
    return scalar_register(places, value)


def _index_bound(corners: Corners, index: SSAValue, *, upper: bool) -> str | None:
    """The same of an index."""
    text = corners.text
    if index in corners.first:
        first, last = corners.first[index], corners.last[index]
        return text.into("b32", "add.s32", first, last) if upper and last else first
    match index.owner:
        case ac.IndexDivideOp() as op:
            found = _index_bound(corners, op.operand, upper=upper)
            return None if found is None else text.into("b32", "div.u32", found, op.size.data)
        case ac.AffineOp() as op:
            total = text.into("b32", "mov.u32", op.constant.data)
            for factor, operand in zip(integers(op.coefficients), op.operands_, strict=True):
                found = _index_bound(corners, operand, upper=upper if factor > 0 else not upper)
                if found is None:
                    return None
                total = text.into("b32", "mad.lo.s32", found, factor, total)
            return total
        case _:
            return None
