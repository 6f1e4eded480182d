"""An array whose elements lie where arrays of integers say: page tables, rows by number.

`tile.gather %k places ["[0]", "T%64", "H", "E"] by %table` is `K[table[b, t // 64], t % 64, h, e]` for every b, t, h
and e: an array over (B, T, H, E) that stands nowhere by itself. A load from it is like any other load: at one index per
axis. Of each dimension of the tensor, `places` says where an element of that array lies along it:
- `H` or `H/4`: the axis of the dimension itself;
- `T%64`: the place in a block of 64 elements of T;
- `[0]`: the integer that the first of `tables` holds for the element; tables are over axes, or blocks of axes.

An integer that is no place along its dimension gives elements of 0, as what a displaced load finds outside an array
does. So no promise about tables is needed for a program to have a meaning, and none for its memory accesses to be safe:
a tensor map gives zeros for coordinates outside the array, and plain loads are guarded.

Not here: arithmetic on integers that were loaded, tables of tables, stores through tables. Checked by:
tests/ir/tile/test_gather.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure

from tilewright.base.element import Element
from tilewright.base.value import value
from tilewright.ir.tile.axes import base_axis, block_axis, block_size
from tilewright.ir.tile.types import GatheredType, RuleViolation, TensorType, axes_text, tensor_type

_REMAINDER = re.compile(r"(?P<axis>[^%\[\]/]+)%(?P<size>[1-9][0-9]*)")
_TABLE = re.compile(r"\[(?P<number>[0-9]+)\]")


@value
class Direct:
    """The element's place along an axis, or the block of it that the element lies in."""

    axis: str


@value
class Remainder:
    """The element's place within its block of `size` elements of an axis."""

    axis: str
    size: int

    @property
    def blocks(self) -> str:
        """The axis of these blocks."""
        return block_axis(self.axis, self.size)


@value
class Table:
    """What a tensor of integers holds for the element."""

    tensor: SSAValue

    @property
    def axes(self) -> tuple[str, ...]:
        return tensor_type(self.tensor).axis_names


Where = Direct | Remainder | Table


@value
class Dimension:
    """One dimension of an array that is read: its elements, their distance in elements, where it is read, and the
    array's own axis."""

    extent: int
    stride: int
    where: Where
    axis: str


def remainder_place(axis: str, size: int) -> str:
    """How `places` says the place in a block of `size` elements of an axis."""
    return f"{axis}%{size}"


def table_place(number: int) -> str:
    """How `places` says what a table holds, by the table's number."""
    return f"[{number}]"


@irdl_op_definition
class GatherOp(IRDLOperation):
    """A tensor as an array over other axes, whose elements lie where `places` and the tables say."""

    name = "tile.gather"
    tensor = operand_def(TensorType)
    tables = var_operand_def(TensorType)
    places = prop_def(ArrayAttr[StringAttr])
    place = prop_def(StringAttr)
    result = result_def(GatheredType)
    traits = traits_def(Pure())
    assembly_format = (
        "$tensor `places` $places (`by` $tables^ `:` type($tables))? `at` $place attr-dict "
        "`:` type($tensor) `->` type($result)"
    )

    def __init__(
        self, tensor: SSAValue, tables: Sequence[SSAValue], places: Sequence[str], axes: Sequence[str], place: str
    ) -> None:
        """axes: of the result, in any order."""
        super().__init__(
            operands=[tensor, list(tables)],
            properties={"places": ArrayAttr([StringAttr(each) for each in places]), "place": StringAttr(place)},
            result_types=[GatheredType.of(axes, tensor_type(tensor).element_kind)],
        )

    @property
    def place_names(self) -> tuple[str, ...]:
        return tuple(each.data for each in self.places)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Of the tensor. Raises RuleViolation for a place that says nothing."""
        kind = tensor_type(self.tensor)
        where = [where_of(name, self.tables) for name in self.place_names]
        return tuple(map(Dimension, kind.extents, kind.stride_elements, where, kind.axis_names))

    def verify_(self) -> None:
        kind, name = tensor_type(self.tensor), axes_text(tensor_type(self.tensor).axis_names)
        if len(self.places) != len(kind.axis_names):
            raise RuleViolation(
                f"a tensor over {name} is gathered at {len(self.places)} places", "give a place for each of its axes"
            )
        for axis, each in zip(kind.axis_names, self.dimensions, strict=True):
            match each.where:
                case Direct(own) if own != axis:
                    raise RuleViolation(f"a tensor over {name} is read at {own} along {axis}", f"index it by {axis}")
                case Remainder(_, size) if size != each.extent or size < 2:
                    raise RuleViolation(
                        f"the axis {axis} of {each.extent} elements is read at places in blocks of {size}",
                        f"give {axis} as many elements as a block has, at least 2",
                    )
                case Table(tensor) if tensor_type(tensor).element_kind is not Element.S32:
                    raise RuleViolation(f"{axis} is read where no integers say", "use a tensor of tw.i32")
                case _:
                    pass
        axes = self.result.type.axis_names
        if set(axes) != set(gathered_axes(self.dimensions)):
            raise RuleViolation(
                f"what is gathered over {axes_text(gathered_axes(self.dimensions))} is declared over {axes_text(axes)}",
                "keep its axes",
            )
        if self.result.type != GatheredType.of(axes, kind.element_kind):
            raise RuleViolation(f"{kind.element} is gathered as {self.result.type}", "keep the element")


def where_of(name: str, tables: Sequence[SSAValue]) -> Where:
    """What one of `places` says. Raises RuleViolation where it names no table."""
    remainder, table = _REMAINDER.fullmatch(name), _TABLE.fullmatch(name)
    if remainder is not None:
        return Remainder(remainder["axis"], int(remainder["size"]))
    if table is None:
        return Direct(name)
    if int(table["number"]) >= len(tables):
        raise RuleViolation(f"{name} is none of {len(tables)} tables", "number the tables from 0")
    return Table(tables[int(table["number"])])


def _named(dimensions: Sequence[Dimension]) -> Iterator[str]:
    """The axes, and blocks of axes, that dimensions are read at."""
    for each in dimensions:
        match each.where:
            case Direct(axis) | Remainder(axis):
                yield axis
            case Table():
                yield from each.where.axes


def gathered_axes(dimensions: Sequence[Dimension]) -> tuple[str, ...]:
    """The axes of what is read at these places: an axis whose elements are distinguished, or blocks of it."""
    named = list(_named(dimensions))
    found: dict[str, None] = {}
    for axis in named:
        alike = {each for each in named if base_axis(each) == base_axis(axis)}
        found[axis if alike == {axis} else base_axis(axis)] = None
    return tuple(found)


def read_dimensions(tensor: SSAValue) -> tuple[Dimension, ...]:
    """The dimensions of the array that a load reads, of a tensor or of what is gathered of one, and where."""
    owner = tensor.owner
    if isinstance(owner, GatherOp):
        return owner.dimensions
    kind = tensor_type(tensor)
    return tuple(
        Dimension(extent, stride, Direct(axis), axis)
        for axis, extent, stride in zip(kind.axis_names, kind.extents, kind.stride_elements, strict=True)
    )


def read_tensor(tensor: SSAValue) -> SSAValue:
    """The parameter whose elements a load reads, of a tensor or of what is gathered of one."""
    return tensor.owner.tensor if isinstance(tensor.owner, GatherOp) else tensor


def blocks_along(dimensions: Sequence[Dimension], axis: str) -> tuple[int, ...]:
    """Sizes of the blocks of an axis within which elements that follow one another lie so in the array too: of places
    in blocks, and of blocks that tables are over. Empty where all elements of the axis do."""
    found: dict[int, None] = {}
    for each in dimensions:
        match each.where:
            case Remainder(own, size) if own == axis:
                found[size] = None
            case Table():
                found |= {block_size(name): None for name in each.where.axes if base_axis(name) == axis}
            case Direct(name) if base_axis(name) == axis and name != axis:
                found[block_size(name)] = None
            case _:
                pass
    return tuple(found)
