"""Which tiles of rows and streamed columns do masks leave nothing of?

Interval analysis, over all pairs of tiles at once: an index lies between the tile's first and last, loaded elements and
products are unknown, and what a comparison decides for all elements of a tile is known there. A tile is empty if the
program's loops, begun with it, end with the states that they began with: an extreme of -inf (or +inf), sums of 0.
By the laws that the streaming algebra's derivation was checked for (`synth.streaming.certificate`), the tile then
changes no state that a walk has before it: its sums are 0 under one bound, so under all, and 0 is added.

A product of weights that are all 0 counts as 0, whatever it multiplies: of arrays with infinities or NaNs, what stands
where a whole tile is masked has no effect.

Not handled (nothing is left out then): loops that store as they walk, states that depend on an earlier loop, masks by
loaded numbers. Checked by: tests/synth/cascade/walk/test_masked_tiles.py, against each element.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Block, Operation, SSAValue

from tilewright.base.element import Element
from tilewright.ir.cascade_facts import CascadeAxes
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import index_offset, loops
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.types import value_type

_MOST_PAIRS = 1 << 22
_EXACT_INDICES = 1 << 24
"""Indices below are numbers of float32."""
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """What values of a tile lie between, by tile of rows and tile of columns. unsure: they may be no numbers."""

    low: Numbers
    high: Numbers
    unsure: NDArray[np.bool_]

    @property
    def known(self) -> NDArray[np.bool_]:
        return (self.low == self.high) & ~self.unsure


def between(low: Numbers, high: Numbers) -> Interval:
    return Interval(low, high, np.zeros(np.broadcast(low, high).shape, np.bool_))


def exactly(number: float) -> Interval:
    value = np.array([[number]])
    return between(value, value)


_ANYTHING = Interval(np.array([[-np.inf]]), np.array([[np.inf]]), np.array([[True]]))


def empty_tiles(
    program: tile.ProgramOp, axes: CascadeAxes, rows: int, columns: int, before: int = 0
) -> NDArray[np.bool_] | None:
    """By tile of so many rows, and tile of so many columns along the streamed axis, whether it changes no state; None
    where that is not known of any. before: rows by which the first tile begins before the axis does."""
    extents = program.extents
    counts = -(-(extents[axes.row] + before) // rows), -(-extents[axes.streamed] // columns)
    found = loops(program)
    placed = [op.index.type for op in program.walk() if isinstance(op, tile.PositionOp)]
    if (
        counts[0] * counts[1] > _MOST_PAIRS
        or max(extents.values()) > _EXACT_INDICES
        or not any(isinstance(kind, tile.IndexType) and base_axis(kind.axis.data) == axes.streamed for kind in placed)
        or any(isinstance(op, tile.StoreOp) for loop in found for op in loop.body.block.ops)
    ):
        return None
    empty = np.ones(counts, np.bool_)
    with np.errstate(all="ignore"):
        for loop in found:
            analysis = _Analysis(program, axes, rows, columns, before, {})
            states = [analysis.interval(value) for value in loop.carried]
            analysis.values.update(zip(loop.body.block.args[1:], states, strict=True))
            last = loop.body.block.last_op
            assert last is not None
            for state, value in zip(states, last.operands, strict=True):
                after = analysis.interval(value)
                empty &= state.known & after.known & (state.low == after.low)
    return empty if empty.any() else None


@dataclass(slots=True)
class _Analysis:
    program: tile.ProgramOp
    axes: CascadeAxes
    rows: int
    columns: int
    before: int
    values: dict[SSAValue, Interval]

    def interval(self, value: SSAValue) -> Interval:
        known = self.values.get(value)
        if known is None:
            owner = value.owner
            known = _ANYTHING if isinstance(owner, Block) else self.made_by(owner)
            self.values[value] = known
        return known

    def made_by(self, op: Operation) -> Interval:
        match op:
            case tile.PositionOp():
                return self.positions(op.index)
            case tile.ConstantOp() | tile.FullOp():
                return exactly(float(op.value.value.data))
            case tile.BroadcastOp() | tile.TransposeOp():
                return self.interval(op.operand)
            case tile.CastOp():
                operand = self.interval(op.operand)
                if value_type(op.result).element_kind is Element.F32:
                    return operand
                same = operand.known & ((operand.low == 0) | np.isinf(operand.low))  # in any element that has them
                return _where(same, operand, _ANYTHING)
            case tile.UnaryOp():
                return _of_one(op.function.data, self.interval(op.operand))
            case tile.BinaryOp() if (size := _remainder_of(op)) is not None:
                return self.remainders(*size)
            case tile.BinaryOp():
                return _of_two(op.function.data, self.interval(op.left), self.interval(op.right))
            case tile.SelectOp():
                return _select(*(self.interval(operand) for operand in op.operands))
            case ReduceOp():
                operand = self.interval(op.operand)
                if op.function.data is not Function.ADD:
                    return operand
                return _where(_is(operand, 0.0), operand, _ANYTHING)
            case ContractOp() if op.axis.data == self.axes.streamed:
                left, right = self.interval(op.left), self.interval(op.right)
                return _where(_is(left, 0.0) | _is(right, 0.0), exactly(0.0), _ANYTHING)
            case _:
                return _ANYTHING

    def positions(self, index: SSAValue) -> Interval:
        """Of the elements that a tile has along the index's axis."""
        kind = index.type
        assert isinstance(kind, tile.IndexType)
        axis, size = base_axis(kind.axis.data), block_size(kind.axis.data)
        low, high = (end // size + index_offset(index) for end in self.ends(axis))
        return between(low.astype(np.float64), high.astype(np.float64))

    def remainders(self, axis: str, size: int) -> Interval:
        """Of the elements' numbers by blocks of `size`: those of one block rise, those of several have them all."""
        first, last = self.ends(axis)
        several = first // size != last // size
        low, high = np.where(several, 0, first % size), np.where(several, size - 1, last % size)
        return between(low.astype(np.float64), high.astype(np.float64))

    def ends(self, axis: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and the last element that each tile has along an axis."""
        last = self.program.extents[axis] - 1
        step = {self.axes.row: self.rows, self.axes.streamed: self.columns}.get(axis, last + 1)
        shape = (1, -1) if axis == self.axes.streamed else (-1, 1)
        begin = -self.before if axis == self.axes.row else 0
        first = np.arange(begin, last + 1, step, dtype=np.int64).reshape(shape)
        return np.maximum(first, 0), np.minimum(first + step - 1, last)


def _remainder_of(op: tile.BinaryOp) -> tuple[str, int] | None:
    """The axis and the size of blocks where a difference is an element's number less those of all blocks before its
    own."""
    times = _bare(op.right).owner
    if op.function.data is not Function.SUB or not isinstance(times, tile.BinaryOp):
        return None
    whole, blocks, number = (_bare(each).owner for each in (op.left, times.left, times.right))
    if not isinstance(whole, tile.PositionOp) or not isinstance(blocks, tile.PositionOp):
        return None
    (axis,), (of_blocks,) = value_type(whole.result).axis_names, value_type(blocks.result).axis_names
    size = block_size(of_blocks)
    plain = block_size(axis) == 1 and base_axis(of_blocks) == axis and not index_offset(whole.index)
    found = plain and times.function.data is Function.MUL and not index_offset(blocks.index)
    if not found or not isinstance(number, tile.ConstantOp) or number.value.value.data != size:
        return None
    return axis, size


def _bare(value: SSAValue) -> SSAValue:
    """What a value only repeats."""
    while isinstance(value.owner, tile.BroadcastOp | tile.TransposeOp):
        value = value.owner.operand
    return value


def _is(interval: Interval, number: float) -> NDArray[np.bool_]:
    return interval.known & (interval.low == number)


def _where(condition: NDArray[np.bool_], one: Interval, other: Interval) -> Interval:
    low, high = np.where(condition, one.low, other.low), np.where(condition, one.high, other.high)
    return Interval(low, high, np.where(condition, one.unsure, other.unsure))


def _select(condition: Interval, one: Interval, other: Interval) -> Interval:
    holds = ~condition.unsure & ((condition.low > 0) | (condition.high < 0))
    either = Interval(
        np.minimum(one.low, other.low), np.maximum(one.high, other.high), one.unsure | other.unsure
    )  # fmt: skip
    return _where(holds, one, _where(_is(condition, 0.0), other, either))


def _of_one(function: Function, operand: Interval) -> Interval:
    match function:
        case Function.NEG:
            return Interval(-operand.high, -operand.low, operand.unsure)
        case Function.RELU:
            return Interval(np.maximum(operand.low, 0), np.maximum(operand.high, 0), operand.unsure)
        case Function.EXP:
            positive = Interval(np.array([[0.0]]), np.array([[np.inf]]), operand.unsure)
            inside = _where(_is(operand, 0.0), exactly(1.0), positive)
            return _where(_is(operand, -np.inf), exactly(0.0), inside)
        case _:
            return _ANYTHING


def _of_two(function: Function, left: Interval, right: Interval) -> Interval:
    unsure = left.unsure | right.unsure
    match function:
        case Function.MAX:
            return Interval(np.maximum(left.low, right.low), np.maximum(left.high, right.high), unsure)
        case Function.MIN:
            return Interval(np.minimum(left.low, right.low), np.minimum(left.high, right.high), unsure)
        case Function.LT:
            return _decided(left.high < right.low, left.low >= right.high, unsure)
        case Function.LE:
            return _decided(left.high <= right.low, left.low > right.high, unsure)
        case Function.EQ:
            same = left.known & right.known & (left.low == right.low)
            return _decided(same, (left.high < right.low) | (right.high < left.low), unsure)
        case Function.ADD:
            return _rounded([one + other for one, other in _ends(left, right)], unsure)
        case Function.SUB:
            return _of_two(Function.ADD, left, _of_one(Function.NEG, right))
        case Function.MUL:
            # Of 0 and an infinity inside the intervals there is no number, which the ends need not show.
            unsure = unsure | (_has_zero(left) & _is_unbounded(right)) | (_has_zero(right) & _is_unbounded(left))
            return _rounded([one * other for one, other in _ends(left, right)], unsure)
        case _:
            return _ANYTHING


def _decided(true: NDArray[np.bool_], false: NDArray[np.bool_], unsure: NDArray[np.bool_]) -> Interval:
    """A condition as a number, 1 where it holds."""
    return between(np.where(true & ~unsure, 1.0, 0.0), np.where(false & ~unsure, 0.0, 1.0))


def _ends(left: Interval, right: Interval) -> product[tuple[Numbers, Numbers]]:
    return product((left.low, left.high), (right.low, right.high))


def _rounded(ends: list[Numbers], unsure: NDArray[np.bool_]) -> Interval:
    """Between the least and the greatest of these, as float32 may round them."""
    low, high = ends[0], ends[0]
    for end in ends[1:]:
        low, high = np.minimum(low, end), np.maximum(high, end)
    narrow_low, narrow_high = low.astype(np.float32), high.astype(np.float32)
    low = np.where(narrow_low == low, low, np.nextafter(narrow_low, np.float32(-np.inf)))
    high = np.where(narrow_high == high, high, np.nextafter(narrow_high, np.float32(np.inf)))
    lost = np.isnan(low) | np.isnan(high)
    return Interval(np.where(lost, -np.inf, low), np.where(lost, np.inf, high), unsure | lost)


def _has_zero(interval: Interval) -> NDArray[np.bool_]:
    return (interval.low <= 0) & (interval.high >= 0)


def _is_unbounded(interval: Interval) -> NDArray[np.bool_]:
    return np.isinf(interval.low) | np.isinf(interval.high)
