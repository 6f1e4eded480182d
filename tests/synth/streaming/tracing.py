"""Programs for tests, written as sums of values over named axes: every axis in the grid, no loops."""

from __future__ import annotations

import math

from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp, contracted_axes
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.types import TensorType, value_type

INFINITY = math.inf


class Value:
    """A tile under construction; arithmetic broadcasts by axis names."""

    def __init__(self, program, value):
        self.program, self.value = program, value

    @property
    def axes(self):
        return value_type(self.value).axis_names

    def __add__(self, other):
        return self.program.binary(Function.ADD, self, other)

    def __sub__(self, other):
        return self.program.binary(Function.SUB, self, other)

    def __mul__(self, other):
        return self.program.binary(Function.MUL, self, other)

    def __truediv__(self, other):
        return self.program.binary(Function.DIV, self, other)

    def __radd__(self, other):
        return self.program.binary(Function.ADD, other, self)

    def __rsub__(self, other):
        return self.program.binary(Function.SUB, other, self)

    def __rmul__(self, other):
        return self.program.binary(Function.MUL, other, self)

    def __rtruediv__(self, other):
        return self.program.binary(Function.DIV, other, self)

    def __neg__(self):
        return neg(self)

    def __le__(self, other):
        return self.program.binary(Function.LE, self, other)

    def __lt__(self, other):
        return self.program.binary(Function.LT, self, other)

    def to(self, element):
        return self.program.add(tile.CastOp(self.value, element, self.program.place()))


class Program:
    """A module with one program. Each op stands on a line of its own."""

    def __init__(self, **extents):
        self.extents = dict(extents)
        self.line = 1
        self.block = Block()
        self.builder = Builder(InsertPoint.at_end(self.block))
        self.tensors = []
        axes = [axis for axis in extents if "/" not in axis]
        grid = self.builder.insert(tile.GridOp(axes, self.place()))
        self.index = dict(zip(axes, grid.indices, strict=True))

    def place(self):
        self.line += 1
        return f"m.py:{self.line}"

    def add(self, op):
        return Value(self, self.builder.insert(op).results[0])

    def _tensor(self, name, axes, element):
        shape = [self.extents[axis] for axis in axes]
        strides = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
        self.tensors.append(name)
        return self.block.insert_arg(TensorType.of(axes, shape, strides, element), len(self.block.args))

    def _at(self, axis):
        if axis in self.index:
            return self.index[axis]
        base, _, size = axis.partition("/")
        return self.builder.insert(tile.BlockOp(self.index[base], int(size), self.place())).result

    def load(self, name, *axes, element=Element.F32, shift=None):
        tensor = self._tensor(name, axes, element)
        indices = [self._at(axis) for axis in axes]
        for axis, offset in (shift or {}).items():
            at = axes.index(axis)
            indices[at] = self.builder.insert(tile.ShiftOp(indices[at], offset, self.place())).result
        loaded = self.add(tile.LoadOp(tensor, indices, self.place()))
        return loaded

    def position(self, axis):
        return self.add(tile.PositionOp(self._at(axis), self.place()))

    def number(self, value):
        return self.add(tile.ConstantOp(value, self.place()))

    def spread(self, value, axes):
        value = value if isinstance(value, Value) else self.number(value)
        return value if value.axes == tuple(axes) else self.add(tile.BroadcastOp(value.value, axes, self.place()))

    def joined(self, *values):
        values = [value if isinstance(value, Value) else self.number(value) for value in values]
        named = {axis for value in values for axis in value.axes}
        axes = [axis for axis in [*self.index, *self.extents] if axis in named]
        axes = list(dict.fromkeys(axes))
        axes = [axis for axis in axes if "/" not in axis or axis.partition("/")[0] not in named]
        for value in values:
            if set(value.axes) == set(axes):
                axes = value.axes
        return [self.spread(value, axes) for value in values]

    def binary(self, function, left, right):
        left, right = self.joined(left, right)
        return self.add(tile.BinaryOp(function, left.value, right.value, self.place()))

    def where(self, condition, chosen, other):
        operands = self.joined(condition, chosen, other)
        return self.add(tile.SelectOp(*(each.value for each in operands), self.place()))

    def reduce(self, function, value, over):
        return self.add(ReduceOp(function, value.value, over, self.place()))

    def sum(self, value, over):
        return self.reduce(Function.ADD, value, over)

    def max(self, value, over):
        return self.reduce(Function.MAX, value, over)

    def min(self, value, over):
        return self.reduce(Function.MIN, value, over)

    def dot(self, left, right, over):
        wanted = contracted_axes(value_type(left.value), value_type(right.value), over)
        axes = [axis for axis in [*self.index, *self.extents] if axis in wanted]
        return self.add(ContractOp(left.value, right.value, over, list(dict.fromkeys(axes)), self.place()))

    def softmax(self, value, over):
        weights = exp(value - self.max(value, over))
        return weights / self.sum(weights, over)

    def store(self, value, name, *axes, element=Element.F32):
        if value_type(value.value).element_kind is not element:
            value = value.to(element)
        tensor = self._tensor(name, axes, element)
        value = self.spread(value, axes)
        self.builder.insert(tile.StoreOp(value.value, tensor, [self._at(axis) for axis in axes], self.place()))

    def module(self):
        self.builder.insert(tile.ReturnOp())
        body = Region(self.block)
        module = ModuleOp([tile.ProgramOp("p", self.tensors, self.extents, body, "m.py:1")])
        module.verify()
        return module


def unary(function, value):
    return value.program.add(tile.UnaryOp(function, value.value, value.program.place()))


def exp(value):
    return unary(Function.EXP, value)


def log(value):
    return unary(Function.LOG, value)


def neg(value):
    return unary(Function.NEG, value)


def sigmoid(value):
    return unary(Function.SIGMOID, value)


def silu(value):
    return unary(Function.SILU, value)


def rsqrt(value):
    return unary(Function.RSQRT, value)
