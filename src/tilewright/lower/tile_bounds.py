"""Does a condition of a map's region hold at every place of the unit's tile? Asked at run time, by a few instructions.

Theory: comparisons of sums of row, column and numbers are linear inequalities. One that holds where its two sides come
closest to each other, at a corner of the tile, holds at every place; so it becomes an inequality in the tile's first
row and column. A conjunction, the smaller of two truth values, becomes two. Two that no tile meets at once, as those of
a narrow window, are found to exclude each other, and nothing is asked.

Rows and columns as float32 keep their order, and are exact below 2^24, beyond which no array's axis reaches that is
compared. Not handled (None): equality, quotients, and what is loaded; a branch on that would let data decide what the
text does. What is emitted is the same in all threads of the unit. Checked by: tests/lower/test_tile_bounds.py.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from xdsl.ir import Operation, SSAValue

from tilewright.ir import ac
from tilewright.ir.function import Function
from tilewright.lower.emit import Text
from tilewright.lower.lowering import integers


@dataclass(frozen=True, slots=True)
class Linear:
    """row * (row) + column * (column) + constant."""

    row: int
    column: int
    constant: Fraction

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        return Linear(
            self.row + sign * other.row, self.column + sign * other.column, self.constant + sign * other.constant
        )

    def times(self, factor: int) -> Linear:
        return Linear(factor * self.row, factor * self.column, factor * self.constant)


def inequalities(condition: SSAValue, places: Sequence[SSAValue], shape: tuple[int, int]) -> tuple[Linear, ...] | None:
    """Linear forms, of the tile's first row and column, which are all at least 0 only if the condition holds at every
    place of a tile of this shape (rows, columns); None where it is no such condition, or no tile meets it.

    places: the region's arguments for the row and the column of a place."""
    forms = _conjuncts(condition, places)
    if forms is None:
        return None
    rows, columns = shape
    corners = tuple(
        Linear(
            each.row, each.column, each.constant + min(each.row, 0) * (rows - 1) + min(each.column, 0) * (columns - 1)
        )
        for each in forms
    )
    for one, other in itertools.combinations(corners, 2):
        opposite = (one.row, one.column) == (-other.row, -other.column)
        if opposite and one.constant + other.constant < 0:
            return None
    return corners


def _conjuncts(condition: SSAValue, places: Sequence[SSAValue]) -> tuple[Linear, ...] | None:
    """Forms that are at least 0 at a place if and only if the condition holds there."""
    op = condition.owner
    if not isinstance(op, ac.ScalarOp):
        return None
    match op.function.data:
        case Function.LT.value | Function.LE.value:
            left, right = (_linear(each, places) for each in op.inputs)
            if left is None or right is None:
                return None
            difference = right.plus(left, -1)
            # The rest is whole: at least 0 with the constant rounded down, and above 0 means at least 1.
            is_strict = op.function.data == Function.LT.value
            constant = math.ceil(difference.constant) - 1 if is_strict else math.floor(difference.constant)
            return (Linear(difference.row, difference.column, Fraction(constant)),)
        case Function.MIN.value:
            found = [_conjuncts(each, places) for each in op.inputs]
            return None if None in found else tuple(form for forms in found for form in forms or ())
        case _:
            return None


def _linear(value: SSAValue, places: Sequence[SSAValue]) -> Linear | None:
    """A scalar or an index of the region."""
    if value in places:
        at = list(places).index(value)
        return Linear(1 - at, at, Fraction(0))
    op = value.owner
    if not isinstance(op, Operation):
        return None
    match op:
        case ac.ConstantOp():
            (number,) = struct.unpack("<f", struct.pack("<I", op.bits.data))
            return Linear(0, 0, Fraction(number)) if math.isfinite(number) else None
        case ac.IndexNumberOp():
            return _linear(op.operand, places)
        case ac.AffineOp():
            total: Linear | None = Linear(0, 0, Fraction(op.constant.data))
            for factor, operand in zip(integers(op.coefficients), op.operands_, strict=True):
                term = _linear(operand, places)
                total = None if total is None or term is None else total.plus(term.times(factor))
            return total
        case ac.ScalarOp() if op.function.data in (Function.ADD.value, Function.SUB.value):
            left, right = (_linear(each, places) for each in op.inputs)
            sign = 1 if op.function.data == Function.ADD.value else -1
            return None if left is None or right is None else left.plus(right, sign)
        case _:
            return None


def emit_all_hold(text: Text, forms: Sequence[Linear], first: tuple[str, str]) -> str:
    """A predicate that every form is at least 0. first: registers with the tile's first row and column."""
    found = ""
    for form in forms:
        total = text.into("b32", "mov.u32", int(form.constant))
        for factor, register in ((form.row, first[0]), (form.column, first[1])):
            if factor:
                total = text.into("b32", "mad.lo.s32", register, factor, total)
        holds = text.into("pred", "setp.ge.s32", total, 0)
        found = text.into("pred", "and.pred", found, holds) if found else holds
    return found
