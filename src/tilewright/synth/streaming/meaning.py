"""What does a program compute of few elements, in exact arithmetic, however its streamed loops are cut into tiles?

An interpreter of the `tile` dialect for programs without `tile.dot`, at extents of the caller's choice: what a program
says does not depend on its extents. It shares nothing with the derivation but the numbers' definition of each function.

Not handled: groups (a program is one group here, of all elements). Checked by: tests/synth/streaming/test_meaning.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import index_offset, parameter_name
from tilewright.ir.tile.gather import Direct, GatherOp, Remainder, Table, Where
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.types import IndexType, read_type, tensor_type, value_type
from tilewright.synth.streaming.exact import FUNCTIONS, ZERO, Exact, exact, scrambled

Array = NDArray[Any]
_VECTORS: dict[Function, Any] = {
    function: np.frompyfunc(operation, function.arity, 1) for function, operation in FUNCTIONS.items()
}


def meaning(
    program: tile.ProgramOp,
    extents: Mapping[str, int],
    inputs: Mapping[str, Array],
    cut: Sequence[int],
    *,
    rounds: bool = False,
    numbers: Mapping[str, Callable[[int], int]] | None = None,
) -> dict[str, Array]:
    """What the program stores, by tensor's name. inputs: of `Exact`, of every tensor that is loaded, by its name; cut:
    elements of each tile of streamed loops, in order; rounds: products round an operand in float32 to the other's
    element, as they do, which a state that is corrected does not keep; numbers: what indices of an axis are as numbers,
    where these are others."""
    run = _Run(program, extents, inputs, cut, rounds, numbers or {})
    with np.errstate(all="ignore"):
        run.ops(program.body.block.ops)
    return run.stored


def cuts(length: int) -> list[tuple[int, ...]]:
    """Every way to cut an axis into tiles."""
    found: list[tuple[int, ...]] = []
    for marks in itertools.product((False, True), repeat=length - 1):
        ends = [place + 1 for place, mark in enumerate(marks) if mark] + [length]
        found.append(tuple(end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)))
    return found


def filled(shape: Sequence[int], value: Callable[[], Exact]) -> Array:
    """An array of numbers that are made one by one."""
    result = np.empty(tuple(shape), dtype=object)
    for place in np.ndindex(*shape):
        result[place] = value()
    return result


def _rounded(array: Array, element: Element) -> Array:
    scramble = np.frompyfunc(lambda x: scrambled(f"to {element.value}", x, x.about), 1, 1)
    return np.asarray(scramble(array), dtype=object)


class _Run:
    """tile: first element and elements of the axis's tile in the loop under way."""

    def __init__(
        self,
        program: tile.ProgramOp,
        extents: Mapping[str, int],
        inputs: Mapping[str, Array],
        cut: Sequence[int],
        rounds: bool,
        numbers: Mapping[str, Callable[[int], int]],
    ) -> None:
        self.program, self.inputs, self.cut, self.rounds, self.numbers = program, inputs, cut, rounds, numbers
        self.extents = {axis: -(-extents[base_axis(axis)] // block_size(axis)) for axis in program.extents}
        self.tile: dict[str, tuple[int, int]] = {}
        self.values: dict[SSAValue, Array] = {}
        self.stored: dict[str, Array] = {}

    def elements(self, axis: str) -> NDArray[np.int64]:
        """The numbers of an axis's elements, or of the blocks that they lie in, each once."""
        begin, count = self.tile.get(base_axis(axis), (0, self.extents[base_axis(axis)]))
        return np.unique((begin + np.arange(count)) // block_size(axis))

    def ops(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            self.step(op)

    def step(self, op: Operation) -> None:
        match op:
            case tile.GridOp() | tile.ShiftOp() | tile.BlockOp() | tile.ReturnOp() | tile.YieldOp():
                pass
            case tile.LoopOp():
                self.loop(op)
            case tile.StoreOp():
                self.store(op)
            case _:
                (result,) = op.results
                self.values[result] = self.value(op)

    def value(self, op: Operation) -> Array:
        operands = [self.values[value] for value in op.operands if value in self.values]
        match op:
            case GatherOp():
                return self.gathered(op)
            case tile.LoadOp():
                return self.load(op)
            case tile.FullOp() | tile.ConstantOp():
                shape = [len(self.elements(axis)) for axis in value_type(op.result).axis_names]
                return filled(shape, lambda: exact(op.value.value.data))
            case tile.PositionOp():
                assert isinstance(op.index.type, IndexType)
                axis = op.index.type.axis.data
                number, shift = self.numbers.get(axis, int), index_offset(op.index)
                numbers = iter([number(each) + shift for each in self.elements(axis).tolist()])
                return filled([len(self.elements(axis))], lambda: exact(next(numbers)))
            case tile.BroadcastOp():
                return self.spread(operands[0], op.operand, value_type(op.result).axis_names)
            case tile.TransposeOp():
                return operands[0].swapaxes(-1, -2)
            case tile.CastOp():
                return self.cast(op, operands[0])
            case tile.UnaryOp() | tile.BinaryOp():
                return np.asarray(_VECTORS[op.function.data](*operands), dtype=object)
            case tile.SelectOp():
                return np.asarray(_VECTORS[Function.WHERE](*operands), dtype=object)
            case ReduceOp():
                along = value_type(op.operand).axis_names.index(op.axis.data)
                return np.asarray(_VECTORS[op.function.data].reduce(operands[0], axis=along), dtype=object)
            case ArgReduceOp():
                along = value_type(op.operand).axis_names.index(op.axis.data)
                sign = 1 if op.function.data is Function.MAX else -1

                def chosen(row: Array) -> Exact:
                    values = [sign * each.about for each in row]
                    ranks = [math.inf if math.isnan(each) else each for each in values]
                    return exact(float(ranks.index(max(ranks))))

                return np.asarray(np.apply_along_axis(chosen, along, operands[0]), dtype=object)
            case ContractOp():
                axes = (*value_type(op.result).axis_names, op.axis.data)
                sides = ((op.left, op.right), (op.right, op.left))
                left, right = (self.spread(self.operand(side, other), side, axes) for side, other in sides)
                products = _VECTORS[Function.MUL](left, right)
                return np.asarray(_VECTORS[Function.ADD].reduce(products, axis=-1), dtype=object)
            case _:
                raise NotImplementedError(op.name)

    def operand(self, side: SSAValue, other: SSAValue) -> Array:
        """A product's operand, rounded to the other's element where it has more bits and was not widened from it."""
        element = value_type(other).element_kind
        owner = side.owner
        widened = isinstance(owner, tile.CastOp) and value_type(owner.operand).element_kind is element
        if not self.rounds or value_type(side).element_kind is not Element.F32 or element is Element.F32 or widened:
            return self.values[side]
        return _rounded(self.values[side], element)

    def cast(self, op: tile.CastOp, operand: Array) -> Array:
        source, target = value_type(op.operand).element_kind, value_type(op.result).element_kind
        if target in (Element.F32, source):
            return operand
        return _rounded(operand, target)

    def gathered(self, op: GatherOp) -> Array:
        """All that a gather makes: element by element what lies where tables say, 0 where that is no place."""
        axes = read_type(op.result).axis_names
        array = self.inputs[parameter_name(self.program, op.tensor)]
        result = filled([self.extents[axis] for axis in axes], lambda: ZERO)
        for place in np.ndindex(*result.shape):
            at = dict(zip(axes, place, strict=True))
            source = tuple(self.place(each.where, at) for each in op.dimensions)
            if all(0 <= number < extent for number, extent in zip(source, array.shape, strict=True)):
                result[place] = array[source]
        return result

    def place(self, where: Where, at: Mapping[str, int]) -> int:
        """Where along a dimension the element at these numbers lies."""

        def number(axis: str) -> int:
            return at[axis] if axis in at else at[base_axis(axis)] // block_size(axis)

        match where:
            case Direct(axis):
                return number(axis)
            case Remainder(axis, size):
                return number(axis) % size
            case Table(table):
                held = self.inputs[parameter_name(self.program, table)][tuple(map(number, where.axes))]
                return int(held.about)

    def load(self, op: tile.LoadOp) -> Array:
        gathered = self.values.get(op.tensor)
        array = self.inputs[parameter_name(self.program, op.tensor)] if gathered is None else gathered
        places: list[Array] = []
        for axis, index in zip(read_type(op.tensor).axis_names, op.indices, strict=True):
            if isinstance(index.type, IndexType):
                places.append(self.elements(axis) + index_offset(index))
            else:
                array = array.take([0], axis=len(places)).squeeze(len(places))
        result = filled([len(each) for each in places], lambda: ZERO)
        for place in np.ndindex(*result.shape):
            source = tuple(int(each[at]) for each, at in zip(places, place, strict=True))
            if all(0 <= at < extent for at, extent in zip(source, array.shape, strict=True)):
                result[place] = array[source]
        return result

    def spread(self, array: Array, value: SSAValue, axes: Sequence[str]) -> Array:
        """A tile over `axes`, in which each number of blocks stands for its block's elements."""
        source = value_type(value).axis_names
        for number, axis in enumerate(source):
            if axis not in axes:
                blocks = self.elements(axis).tolist()
                wanted = (self.elements(base_axis(axis)) // block_size(axis)).tolist()
                array = array.take([blocks.index(each) for each in wanted], axis=number)
        named = [axis if axis in axes else base_axis(axis) for axis in source]
        order = [named.index(axis) for axis in axes if axis in named]
        shape = [len(self.elements(axis)) for axis in axes]
        array = array.transpose(order).reshape(
            [extent if axis in named else 1 for axis, extent in zip(axes, shape, strict=True)]
        )
        return np.broadcast_to(array, shape)

    def loop(self, op: tile.LoopOp) -> None:
        axis, block, begin = op.axis.data, op.body.block, 0
        held = [self.values[value] for value in op.carried]
        for count in self.cut:
            self.tile[axis] = (begin, count)
            begin += count
            self.values.update(zip(block.args[1:], held, strict=True))
            self.ops(block.ops)
            last = block.last_op
            assert isinstance(last, tile.YieldOp)
            held = [self.values[value] for value in last.values]
        del self.tile[axis]
        self.values.update(zip(op.outputs, held, strict=True))

    def store(self, op: tile.StoreOp) -> None:
        axes = tensor_type(op.tensor).axis_names
        name = parameter_name(self.program, op.tensor)
        if name not in self.stored:
            self.stored[name] = np.full([self.extents[axis] for axis in axes], None, dtype=object)
        where = np.ix_(*(self.elements(axis) for axis in axes))
        self.stored[name][where] = self.values[op.value]
