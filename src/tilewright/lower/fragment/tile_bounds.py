"""Does a condition of a map's region hold at every place of the unit's tile? Asked at run time, by a few instructions.

Theory: comparisons of sums of row, column and numbers are linear inequalities. One that holds where its two sides come
closest to each other, at a corner of the tile, holds at every place; so it becomes an inequality in the tile's first
row and column. A conjunction, the smaller of two truth values, becomes two. Two that no tile meets at once, as those of
a narrow window, are found to exclude each other, and nothing is asked. Indices that a tile has one of each, as the
number of the part of an axis that it lies in, stand in these sums as they are.

The region compares float32 numbers, the inequalities are exact. So every number on the way must be one that float32
has: whole, and at most 2^24, for rows, columns and multiples of other indices below 2^22. That these are is asked at
run time, too; so such an index stands in one term of a comparison alone. Only what is compared as it is written may be
a fraction.

What is compared with such a form may be a number that is the same at all places of the tile, as a sequence's length is,
which memory holds, or what follows of such indices: the form's number at the corner is compared with it as float32
compares them, so that with NaN nothing is passed over. Data then decide which arithmetic is passed over, and nothing
else.

Not handled (None): equality, quotients, sums of fractions, sums of a form and what is loaded. What is emitted is the
same in all threads of the unit. Checked by: tests/lower/fragment/test_tile_bounds.py.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.function import Function
from tilewright.ir.tile.repeats import in_order
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import integers

_EXACT = 1 << 24
"""Up to here float32 has every whole number."""
_PLACES = 1 << 22
"""Rows and columns of tiles that are asked about."""
_TILE = 1 << 8
"""More than a tile's rows or columns."""


@dataclass(frozen=True, slots=True)
class Linear:
    """row * (row) + column * (column) + constant, and other indices, by which of the places' they are, each times a
    factor."""

    row: int
    column: int
    constant: Fraction
    others: tuple[tuple[int, int], ...] = ()

    def plus(self, other: Linear, sign: int = 1) -> Linear | None:
        """None where an index would stand in two terms."""
        if {at for at, _ in self.others} & {at for at, _ in other.others}:
            return None
        others = (*self.others, *((at, sign * factor) for at, factor in other.others))
        row, column = self.row + sign * other.row, self.column + sign * other.column
        return Linear(row, column, self.constant + sign * other.constant, others)

    def times(self, factor: int) -> Linear:
        others = tuple((at, factor * each) for at, each in self.others if factor)
        return Linear(factor * self.row, factor * self.column, factor * self.constant, others)

    def exact(self) -> Linear | None:
        """The same, if it is a whole number that float32 has at every place."""
        factors = (self.row, self.column, *(1 if factor > 0 else -1 for _, factor in self.others))
        least, most = (self.constant + _PLACES * sum(way(each, 0) for each in factors) for way in (min, max))
        is_whole = self.constant.denominator == 1
        return self if is_whole and max(-least, most) <= _EXACT else None


@dataclass(frozen=True, slots=True)
class Compared:
    """`form` compared with a number that all places of a tile have in common: below it, or above; strictly, or not."""

    form: Linear
    number: SSAValue
    below: bool
    strictly: bool


Condition = Linear | Compared
"""A form that is at least 0, or one that is compared."""


def inequalities(
    condition: SSAValue,
    places: Sequence[SSAValue],
    shape: tuple[int, int],
    is_common: Callable[[SSAValue], bool] = lambda value: False,
) -> tuple[Condition, ...] | None:
    """Conditions on the tile's first row and column, which all hold only if the condition holds at every place of a
    tile of this shape (rows, columns); None where it is no such condition, or no tile meets it.

    places: the region's arguments for the row and the column of a place, and for indices that all places of a tile
    have in common. is_common: whether they have a number in common."""
    found = conjuncts(condition, places, is_common)
    if found is None or max(shape) > _TILE:
        return None
    corners = tuple(
        replace(each, form=_corner(each.form, shape, max if each.below else min))
        if isinstance(each, Compared)
        else _corner(each, shape, min)
        for each in found
    )
    forms = [each for each in corners if isinstance(each, Linear)]
    for one, other in itertools.combinations(forms, 2):
        opposite = (one.row, one.column, one.others) == (-other.row, -other.column, other.times(-1).others)
        if opposite and one.constant + other.constant < 0:
            return None
    return corners


def _corner(form: Linear, shape: tuple[int, int], end: Callable[[int, int], int]) -> Linear:
    """A form of places, at the corner of a tile where it is least (`min`) or most, as one of the tile's first place."""
    ends = zip((form.row, form.column), shape, strict=True)
    return replace(form, constant=form.constant + sum(end(factor, 0) * (extent - 1) for factor, extent in ends))


def is_exact_within(extents: Sequence[int]) -> bool:
    """Whether forms are exact at every place of tiles that begin within so many rows and columns."""
    return max(extents) < _PLACES - _TILE


def conjuncts(
    condition: SSAValue, places: Sequence[SSAValue], is_common: Callable[[SSAValue], bool] = lambda value: False
) -> tuple[Condition, ...] | None:
    """What holds at a place if and only if the condition does."""
    parts = [each for each in in_order(condition, _is_of_both) if not _is_of_both(each)]
    found = [_comparison(each, places, is_common) for each in parts]
    known = [each for each in found if each is not None]
    return tuple(known) if len(known) == len(found) else None


def _is_of_both(condition: SSAValue) -> bool:
    """Whether a condition holds where both of two do."""
    return isinstance(condition.owner, ac.ScalarOp) and condition.owner.function.data == Function.MIN.value


def _comparison(
    condition: SSAValue, places: Sequence[SSAValue], is_common: Callable[[SSAValue], bool]
) -> Condition | None:
    op = condition.owner
    if not isinstance(op, ac.ScalarOp):
        return None
    match op.function.data:
        case Function.LT.value | Function.LE.value:
            left, right = (_number(each) or _linear(each, places) for each in op.inputs)
            is_strict = op.function.data == Function.LT.value
            if left is None or right is None:
                form, number = (left, op.inputs[1]) if right is None else (right, op.inputs[0])
                if form is None or form.exact() is None or not is_common(number):
                    return None
                return Compared(form, number, right is None, is_strict)
            difference = right.plus(left, -1)
            if difference is None:
                return None
            # The rest is whole: at least 0 with the constant rounded down, and above 0 means at least 1.
            constant = math.ceil(difference.constant) - 1 if is_strict else math.floor(difference.constant)
            return replace(difference, constant=Fraction(constant))
        case _:
            return None


def _number(value: SSAValue) -> Linear | None:
    """A number, of which at most fractions count where whole ones are compared with it."""
    op = value.owner
    if not isinstance(op, ac.ConstantOp):
        return None
    (number,) = struct.unpack("<f", struct.pack("<I", op.bits.data))
    return Linear(0, 0, Fraction(number)) if abs(number) <= _EXACT else None


def _linear(value: SSAValue, places: Sequence[SSAValue]) -> Linear | None:
    """A scalar or an index of the region, a whole number that float32 has."""
    if value in places:
        at = list(places).index(value)
        return Linear(1 - at, at, Fraction(0)) if at < 2 else Linear(0, 0, Fraction(0), ((at, 1),))
    op, found = value.owner, _number(value)
    match op:
        case ac.IndexNumberOp():
            found = _linear(op.operand, places)
        case ac.AffineOp():
            found = Linear(0, 0, Fraction(op.constant.data))
            for factor, operand in zip(integers(op.coefficients), op.operands_, strict=True):
                term = _linear(operand, places)
                found = None if found is None or term is None else found.plus(term.times(factor))
        case ac.ScalarOp() if op.function.data in (Function.ADD.value, Function.SUB.value):
            left, right = (_linear(each, places) for each in op.inputs)
            sign = 1 if op.function.data == Function.ADD.value else -1
            found = None if left is None or right is None else left.plus(right, sign)
        case ac.ScalarOp() if op.function.data == Function.MUL.value:
            for one, factor in (op.inputs, reversed(op.inputs)):
                number, term = _number(factor), _linear(one, places)
                if term is not None and number is not None and number.constant.denominator == 1:
                    found = term.times(int(number.constant))
        case _:
            pass
    return None if found is None else found.exact()


def emit_all_hold(
    text: Text, conditions: Sequence[Condition], first: Sequence[str], register_of: Callable[[SSAValue], str]
) -> str:
    """A predicate that every condition holds, at places for which forms are exact. first: registers with the tile's
    first row and column, and with the other indices; register_of: that of a number in common."""
    forms = [each.form if isinstance(each, Compared) else each for each in conditions]
    bounds: dict[int, int] = {0: _PLACES - _TILE, 1: _PLACES - _TILE}
    for at, factor in (each for form in forms for each in form.others):
        bounds[at] = min(bounds.get(at, _PLACES), _PLACES // abs(factor))
    found = ""
    for at, bound in bounds.items():
        inside = text.into("pred", "setp.lt.u32", first[at], bound)
        found = text.into("pred", "and.pred", found, inside) if found else inside
    for each, form in zip(conditions, forms, strict=True):
        total = text.into("b32", "mov.u32", int(form.constant))
        for at, factor in ((0, form.row), (1, form.column), *form.others):
            register = first[at]
            if factor:
                total = text.into("b32", "mad.lo.s32", register, factor, total)
        if isinstance(each, Compared):
            how = ("lt" if each.below else "gt") if each.strictly else ("le" if each.below else "ge")
            total = text.into("f32", "cvt.rn.f32.s32", total)
            holds = text.into("pred", f"setp.{how}.f32", total, register_of(each.number))
        else:
            holds = text.into("pred", "setp.ge.s32", total, 0)
        found = text.into("pred", "and.pred", found, holds)
    return found
