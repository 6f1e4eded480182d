"""Need all folds and products of a walk bound their operands where the streamed axis ends, or is one bound enough?

The last tile reaches past the axis's end. A fold takes its identity there, a product 0. Where every other operand
follows from the first fold's, as a softmax's weights follow from its scores, that one alone is bounded: -inf as a score
is 0 as a weight. What follows is asked of one element past the end, value by value:

- the first fold's operand is the fold's identity;
- a row's bound that is guarded, `where(x == -inf, 0, x)`, is above -inf, and so is what a positive number makes of it;
- -inf less what is above -inf is -inf, and exp of that is 0; all of it with signs turned likewise.

A row's bound may be NaN (or leave float32 when it is scaled). What is computed of it by sums, products and exp is then
NaN in every column of the row, of which the tile has some before the axis's end: folds and products give NaN either
way. So a number past the end may be NaN there, as long as nothing but these functions follows.

Not handled: conditions on what is computed of a row's bound; loops whose first fold has another operand than all that
follows. Each operand is bounded by itself then. Checked by: tests/synth/cascade/walk/test_past_end.py,
tests/lower/cascade.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from xdsl.ir import Block, Operation, SSAValue

from tilewright.ir.cascade_facts import CascadeAxes, is_of_slots, products_of
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loops
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.repeats import bare

IDENTITIES = {Function.ADD: 0.0, Function.MAX: -math.inf, Function.MIN: math.inf}
"""Of folds: what leaves everything as it is."""

_LEAST_NORMAL = 2.0**-126


class _Past(Enum):
    """What a value is past the axis's end."""

    ZERO = auto()
    LEAST = auto()
    MOST = auto()
    """-inf and inf; these three may be NaN where the row's bound is."""
    ABOVE = auto()
    BELOW = auto()
    """More than -inf, less than inf; or NaN, in the whole row."""
    FINITE = auto()
    """A number of the program, not 0."""
    ANY = auto()


_OF = {0.0: _Past.ZERO, -math.inf: _Past.LEAST, math.inf: _Past.MOST}
_TURNED = {_Past.LEAST: _Past.MOST, _Past.MOST: _Past.LEAST, _Past.ABOVE: _Past.BELOW, _Past.BELOW: _Past.ABOVE}


def bounded_once(program: tile.ProgramOp, axes: CascadeAxes) -> tuple[int, ...]:
    """The folds, by their numbers in the program, that bound their operands for all that is computed of them: the first
    of each walk where that is enough."""
    listed = folds(program)
    held = [each for each in products_of(program) if each.op.axis.data == axes.streamed]
    found: list[int] = []
    for loop in loops(program):
        inside = [each for each in listed if each.parent_op() is loop]
        if not inside or isinstance(bare(inside[0].operand).owner, tile.LoadOp):
            continue  # what is loaded is no value that stays in registers
        element = _Element(axes, {bare(inside[0].operand): _identity(inside[0])})
        multiplied = [each.held for each in held if each.op.parent_op() is loop and not is_of_slots(program, each)]
        if all(element.past(each.operand) is _identity(each) for each in inside) and all(
            element.past(value) is _Past.ZERO for value in multiplied
        ):
            found.append(listed.index(inside[0]))
    return tuple(found)


def _identity(fold: ReduceOp) -> _Past:
    return _OF[IDENTITIES[fold.function.data]]


def folds(program: tile.ProgramOp) -> list[ReduceOp]:
    """All of a program, in its order."""
    return [op for op in program.walk() if isinstance(op, ReduceOp)]


@dataclass(slots=True)
class _Element:
    """One past the end. known: what values are there."""

    axes: CascadeAxes
    known: dict[SSAValue, _Past]

    def past(self, value: SSAValue) -> _Past:
        value = bare(value)
        if value not in self.known:
            self.known[value] = _Past.ANY if isinstance(value.owner, Block) else self.made(value.owner)
        return self.known[value]

    def made(self, op: Operation) -> _Past:
        match op:
            case tile.ConstantOp() | tile.FullOp():
                number = op.value.value.data
                return _OF.get(number, _Past.FINITE if math.isfinite(number) else _Past.ANY)
            case tile.CastOp():
                of = self.past(op.operand)
                return of if of is _Past.ZERO else _Past.ANY
            case tile.UnaryOp() if op.function.data is Function.NEG:
                of = self.past(op.operand)
                return _TURNED.get(of, of)
            case tile.UnaryOp() if op.function.data is Function.EXP:
                return _Past.ZERO if self.past(op.operand) is _Past.LEAST else _Past.ANY
            case tile.BinaryOp():
                return self.of_two(op)
            case tile.SelectOp():
                return self.guarded(op)
            case _:
                return _Past.ANY

    def of_two(self, op: tile.BinaryOp) -> _Past:
        left, right = self.past(op.left), self.past(op.right)
        match op.function.data:
            case Function.ADD:
                return _sum(left, right)
            case Function.SUB:
                return _sum(left, _TURNED.get(right, right))
            case Function.MUL:
                for one, other in ((left, op.right), (right, op.left)):
                    number = _number(other)
                    if number and one is not _Past.FINITE:
                        return one if number > 0 else _TURNED.get(one, one)
                return _Past.ANY
            case _:
                return _Past.ANY

    def guarded(self, op: tile.SelectOp) -> _Past:
        """where(x == -inf, a number, x), or the same of inf, of a row's bound."""
        condition, number = bare(op.condition).owner, _number(op.chosen)
        if number is None or not isinstance(condition, tile.BinaryOp) or condition.function.data is not Function.EQ:
            return _Past.ANY
        if self.axes.streamed in self.axes.kept(bare(op.other)):
            return _Past.ANY  # a number that is NaN past the end alone
        for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
            infinite = self.past(other)
            if bare(one) is bare(op.other) and infinite in (_Past.LEAST, _Past.MOST):
                return _Past.ABOVE if infinite is _Past.LEAST else _Past.BELOW
        return _Past.ANY


def _number(value: SSAValue) -> float | None:
    """Of the program, 0 or one that float32 has all digits of; None for anything else."""
    owner = bare(value).owner
    if not isinstance(owner, tile.ConstantOp | tile.FullOp):
        return None
    number = owner.value.value.data
    return number if number == 0 or _LEAST_NORMAL <= abs(number) < math.inf else None


def _sum(left: _Past, right: _Past) -> _Past:
    for one, other in ((left, right), (right, left)):
        numbers = (_Past.ZERO, _Past.FINITE)
        if one is _Past.LEAST and other in (_Past.LEAST, _Past.BELOW, *numbers):
            return _Past.LEAST
        if one is _Past.MOST and other in (_Past.MOST, _Past.ABOVE, *numbers):
            return _Past.MOST
    return _Past.ANY
