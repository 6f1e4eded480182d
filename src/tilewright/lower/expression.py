"""How elementwise tile expressions become scalar code at one point.

Axes go by name, so an expression has a value at a named point, and broadcasts and transposes are only renamings: they
emit nothing. Leaves are loads, constants, fresh accumulators of one value, and the loop's result.
Checked by: tests/lower/test_values.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import index_offset
from tilewright.ir.tile.gather import Direct, GatherOp, Remainder, Table, Where
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.repeats import in_order
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.lower.build import Build, affine

_SCALAR = ac.ScalarType()
_COMPUTED = (
    tile.UnaryOp, tile.BinaryOp, tile.SelectOp, tile.CastOp, tile.BroadcastOp, tile.TransposeOp, ReduceOp, ArgReduceOp,
)  # fmt: skip


def loads_in(value: SSAValue) -> list[tile.LoadOp]:
    """The loads an expression reads, without what lies behind a loop; each once, in order."""
    made = in_order(value, lambda each: isinstance(each.owner, _COMPUTED))
    return [each.owner for each in made if isinstance(each.owner, tile.LoadOp)]


def positions_in(value: SSAValue) -> list[tile.PositionOp]:
    """The indices that an expression uses as numbers; each once, in order."""
    made = in_order(value, lambda each: not isinstance(each.owner, tile.LoadOp | tile.LoopOp | tile.PositionOp))
    return [each.owner for each in made if isinstance(each.owner, tile.PositionOp)]


def constant(build: Build, value: float) -> SSAValue:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return build.value(ac.ConstantOp.create(properties={"bits": IntAttr(bits)}, result_types=[_SCALAR]))


def scalar_function(build: Build, function: str, *inputs: SSAValue) -> SSAValue:
    """A function of scalars by its name in `ir.function`."""
    return build.value(
        ac.ScalarOp.create(operands=list(inputs), properties={"function": StringAttr(function)}, result_types=[_SCALAR])
    )


def unrounded(value: SSAValue) -> SSAValue:
    """What is stored of a value: whoever stores it rounds to its element, so that a cast of float32 at the very end is
    left to it."""
    last = value.owner
    if isinstance(last, tile.CastOp) and value_type(last.operand).element_kind is Element.F32:
        return last.operand
    return value


def point_value(build: Build, value: SSAValue, leaves: dict[SSAValue, SSAValue]) -> SSAValue:
    """Emit the scalar code of an expression whose loads and loop results are given in `leaves`: a float32, or an index
    if the expression is of integers."""
    for each in in_order(value, lambda each: each not in leaves and isinstance(each.owner, _COMPUTED)):
        if each not in leaves:
            leaves[each] = _from_operands(build, each, leaves)
    return leaves[value]


def _from_operands(build: Build, value: SSAValue, leaves: Mapping[SSAValue, SSAValue]) -> SSAValue:
    """The scalar code of one operation, whose operands are given."""
    owner = value.owner
    match owner:
        case tile.ConstantOp() | tile.FullOp():
            result = constant(build, owner.value.value.data)
        case tile.BroadcastOp() | tile.TransposeOp():
            result = leaves[owner.operand]
        case tile.CastOp():
            result = leaves[owner.operand]
            source, target = value_type(owner.operand).element_kind, value_type(owner.result).element_kind
            if source is Element.S32:
                result = build.value(ac.IndexNumberOp.create(operands=[result], result_types=[_SCALAR]))
            if target is not Element.F32 and source is not target:
                rounding = ac.RoundOp.create(
                    operands=[result],
                    properties={"element": StringAttr(target.value)},
                    result_types=[_SCALAR],
                )
                result = build.value(rounding)
        case tile.UnaryOp():
            result = scalar_function(build, owner.function.data.value, leaves[owner.operand])
        case tile.BinaryOp():
            result = scalar_function(build, owner.function.data.value, leaves[owner.left], leaves[owner.right])
        case tile.SelectOp():
            result = scalar_function(build, "where", *(leaves[each] for each in owner.operands))
        case ReduceOp():
            function = StringAttr(owner.function.data.value)
            fold = ac.FoldOp.create(
                operands=[leaves[owner.operand]], properties={"function": function}, result_types=[_SCALAR]
            )
            result = build.value(fold)
        case ArgReduceOp():
            function = StringAttr(owner.function.data.value)
            where = ac.ArgFoldOp.create(
                operands=[leaves[owner.operand]], properties={"function": function}, result_types=[ac.IndexType()]
            )
            result = build.value(where)
        case _:
            raise AssertionError(f"{owner} has no value at a point")
    return result


def element_body(
    build: Build,
    value: SSAValue,
    places: dict[str, SSAValue],
    sources: dict[SSAValue, SSAValue],
    padded: frozenset[str] = frozenset(),
) -> SSAValue:
    """The expression `value` at the point `places` (an index per axis), with its loads as element loads.

    sources: the global array of each tensor that it loads. padded: axes whose index may lie past the tensors' end,
    where loads give 0.
    """
    leaves: dict[SSAValue, SSAValue] = {
        load.result: element_load(build, load, places, sources, padded) for load in loads_in(value)
    }
    leaves |= {each.result: position(build, each, places) for each in positions_in(value)}
    return point_value(build, value, leaves)


def element_load(
    build: Build,
    load: tile.LoadOp,
    places: dict[str, SSAValue],
    sources: dict[SSAValue, SSAValue],
    padded: frozenset[str] = frozenset(),
) -> SSAValue:
    """One load at the point `places`; as in `element_body`. What is gathered may lie outside of its array."""
    if isinstance(load.tensor.owner, GatherOp):
        gather = load.tensor.owner
        where = [_place_at(build, each.where, places, sources) for each in gather.dimensions]
        return build.value(
            ac.ElementLoadOp.create(
                operands=[sources[gather.tensor], *where], properties={"fill": IntAttr(1)}, result_types=[_SCALAR]
            )
        )
    tensor = tensor_type(load.tensor)
    indices: list[SSAValue] = []
    leaves_array = bool(padded.intersection(map(base_axis, tensor.axis_names)))
    for index in load.indices:
        leaves_array |= bool(index_offset(index))
        indices.append(_index_at(build, index, places))
    return build.value(
        ac.ElementLoadOp.create(
            operands=[sources[load.tensor], *indices],
            properties={"fill": IntAttr(int(leaves_array))},
            result_types=[_SCALAR],
        )
    )


def _index_at(build: Build, index: SSAValue, places: Mapping[str, SSAValue]) -> SSAValue:
    """An index of the program at the point `places`."""
    assert isinstance(index.type, tile.IndexType | tile.GroupType)
    axis, shift = index.type.axis.data, index_offset(index)
    place = _divided(build, places[base_axis(axis)], block_size(axis))
    return affine(build, [(place, 1)], shift) if shift else place


def _divided(build: Build, place: SSAValue, size: int) -> SSAValue:
    if size == 1:
        return place
    properties = {"size": IntAttr(size)}
    return build.value(ac.IndexDivideOp.create(operands=[place], properties=properties, result_types=[ac.IndexType()]))


def _place_at(
    build: Build, where: Where, places: Mapping[str, SSAValue], sources: Mapping[SSAValue, SSAValue]
) -> SSAValue:
    """Where along a dimension what is gathered lies, at the point `places`."""

    def along(axis: str) -> SSAValue:
        return _divided(build, places[base_axis(axis)], block_size(axis))

    match where:
        case Direct(axis):
            return along(axis)
        case Remainder(axis, size):
            place = places[axis]
            return affine(build, [(place, 1), (_divided(build, place, size), -size)], 0)
        case Table(table):
            operands = [sources[table], *map(along, where.axes)]
            return build.value(ac.IndexLoadOp.create(operands=operands, result_types=[ac.IndexType()]))


def position(build: Build, op: tile.PositionOp, places: Mapping[str, SSAValue]) -> SSAValue:
    """An index as a number, at the point `places`."""
    index = _index_at(build, op.index, places)
    return build.value(ac.IndexNumberOp.create(operands=[index], result_types=[_SCALAR]))
