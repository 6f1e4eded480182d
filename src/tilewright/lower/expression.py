"""How elementwise tile expressions become scalar code at one point.

Axes go by name, so an expression has a value at a named point, and broadcasts and transposes are only renamings: they
emit nothing. Leaves are loads, constants, fresh accumulators of one value, and the loop's result.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.base.element import Element
from tilewright.ir import ac, tile
from tilewright.ir.tier import int_array

_SCALAR = ac.ScalarType()
_INDEX = ac.IndexType()


class Building(Protocol):
    """Where ops go."""

    def add(self, op: Operation) -> Operation: ...
    def value(self, op: Operation) -> SSAValue: ...
    def inside(self, block: Block) -> Building: ...


@dataclass(frozen=True, slots=True)
class Expression:
    """A tile value, to be computed at one point."""

    value: SSAValue


@dataclass(frozen=True, slots=True)
class Accumulated:
    """The accumulator's axes and the size of one unit's part of it."""

    rows: str
    columns: str
    m: int
    n: int


def loads_in(value: SSAValue) -> list[tile.LoadOp]:
    """The loads an expression reads, without what lies behind a loop; each once, in order."""
    found: list[tile.LoadOp] = []

    def visit(item: SSAValue) -> None:
        owner = item.owner
        match owner:
            case tile.LoadOp():
                if owner not in found:
                    found.append(owner)
            case tile.UnaryOp() | tile.BinaryOp() | tile.CastOp() | tile.BroadcastOp() | tile.TransposeOp():
                for operand in owner.operands:
                    visit(operand)
            case _:
                pass

    visit(value)
    return found


def index_shift(index: SSAValue) -> int:
    """Elements by which an index is displaced from its tile's first element."""
    owner = index.owner
    return owner.offset.value.data + index_shift(owner.index) if isinstance(owner, tile.ShiftOp) else 0


def _constant(build: Building, value: float) -> SSAValue:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return build.value(ac.ConstantOp.create(properties={"bits": IntAttr(bits)}, result_types=[_SCALAR]))


def _scalar(build: Building, function: str, *inputs: SSAValue) -> SSAValue:
    return build.value(
        ac.ScalarOp.create(operands=list(inputs), properties={"function": StringAttr(function)}, result_types=[_SCALAR])
    )


def _emit(build: Building, value: SSAValue, leaves: dict[SSAValue, SSAValue]) -> SSAValue:
    """Emit the scalar code of an expression whose loads and loop results are given in `leaves`."""
    known = leaves.get(value)
    if known is not None:
        return known
    owner = value.owner
    match owner:
        case tile.ConstantOp() | tile.FullOp():
            result = _constant(build, owner.value.value.data)
        case tile.BroadcastOp() | tile.TransposeOp():
            result = _emit(build, owner.operand, leaves)
        case tile.CastOp():
            result = _emit(build, owner.operand, leaves)
            source, target = owner.operand.type, owner.result.type
            assert isinstance(source, tile.ValueType) and isinstance(target, tile.ValueType)
            if target.element_kind is not Element.F32 and source.element_kind is not target.element_kind:
                rounding = ac.RoundOp.create(
                    operands=[result],
                    properties={"element": StringAttr(target.element_kind.value)},
                    result_types=[_SCALAR],
                )
                result = build.value(rounding)
        case tile.UnaryOp():
            result = _scalar(build, owner.function.data.value, _emit(build, owner.operand, leaves))
        case tile.BinaryOp():
            left = _emit(build, owner.left, leaves)
            result = _scalar(build, owner.function.data.value, left, _emit(build, owner.right, leaves))
        case _:
            raise AssertionError(f"{owner} has no value at a point")
    leaves[value] = result
    return result


def element_body(
    build: Building, expression: Expression, places: dict[str, SSAValue], sources: dict[SSAValue, SSAValue]
) -> SSAValue:
    """The expression at the point `places` (an index per axis), with its loads as element loads."""
    leaves: dict[SSAValue, SSAValue] = {}
    for load in loads_in(expression.value):
        tensor = load.tensor.type
        assert isinstance(tensor, tile.TensorType)
        indices: list[SSAValue] = []
        shifted = False
        for axis, index in zip(tensor.axis_names, load.indices, strict=True):
            shift = index_shift(index)
            place = places[axis]
            if shift:
                shifted = True
                place = _displaced(build, place, shift)
            indices.append(place)
        leaves[load.result] = build.value(
            ac.ElementLoadOp.create(
                operands=[sources[load.tensor], *indices],
                properties={"fill": IntAttr(int(shifted))},
                result_types=[_SCALAR],
            )
        )
    return _emit(build, expression.value, leaves)


def _displaced(build: Building, index: SSAValue, shift: int) -> SSAValue:
    properties = {"coefficients": int_array([1]), "constant": IntAttr(shift)}
    return build.value(ac.AffineOp.create(operands=[index], properties=properties, result_types=[_INDEX]))


def fragment_body(
    build: Building,
    expression: Expression,
    accumulator: SSAValue,
    shape: Accumulated,
    origin: tuple[SSAValue, SSAValue],
    sources: dict[SSAValue, SSAValue],
    program: tile.ProgramOp,
) -> SSAValue:
    """A map over the accumulator that computes the expression, with its loads as fragments. origin: row and column of
    the unit's first element."""
    loads = loads_in(expression.value)
    fragments: list[SSAValue] = []
    for load in loads:
        fragments.append(_fragment(build, load, shape, origin, sources))
    body = Block(arg_types=[_SCALAR] * (1 + len(loads)))
    inner = build.inside(body)
    leaves: dict[SSAValue, SSAValue] = {}
    for load, argument in zip(loads, body.args[1:], strict=True):
        leaves[load.result] = argument
    for loop in (op for op in program.body.block.ops if isinstance(op, tile.LoopOp)):
        for initial, output in zip(loop.carried, loop.outputs, strict=True):
            start = initial.owner
            value: SSAValue = body.args[0]
            if isinstance(start, tile.FullOp) and start.value.value.data != 0.0:
                value = _scalar(inner, "add", value, _constant(inner, start.value.value.data))
            leaves[output] = value
    # Whoever stores the fragment rounds to its element, so a cast at the very end is left to it.
    last = expression.value.owner
    result = _emit(inner, last.operand if isinstance(last, tile.CastOp) else expression.value, leaves)
    inner.add(ac.YieldOp.create(operands=[result]))
    stored = expression.value.type
    assert isinstance(stored, tile.ValueType)
    kind = ac.FragmentType(IntAttr(shape.m), IntAttr(shape.n), StringAttr("mn"), StringAttr(stored.element_kind.value))
    return build.value(ac.MapOp.create(operands=[accumulator, *fragments], result_types=[kind], regions=[Region(body)]))


def _fragment(
    build: Building,
    load: tile.LoadOp,
    shape: Accumulated,
    origin: tuple[SSAValue, SSAValue],
    sources: dict[SSAValue, SSAValue],
) -> SSAValue:
    tensor = load.tensor.type
    assert isinstance(tensor, tile.TensorType)
    letters = {shape.rows: "m", shape.columns: "n"}
    axes = "".join(letters[axis] for axis in tensor.axis_names)
    places = dict(zip("mn", origin, strict=True))
    for letter, index in zip(axes, load.indices, strict=True):
        shift = index_shift(index)
        if shift:
            places[letter] = _displaced(build, places[letter], shift)
    kind = ac.FragmentType(IntAttr(shape.m), IntAttr(shape.n), StringAttr(axes), StringAttr(tensor.element_kind.value))
    return build.value(
        ac.FragmentLoadOp.create(operands=[sources[load.tensor], places["m"], places["n"]], result_types=[kind])
    )
