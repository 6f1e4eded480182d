"""What a kernel author writes: tiles loaded, multiplied, mapped elementwise and stored. No threads, no memory tiers.

Theory: a program runs once per tile of the grid's axes. Its meaning does not depend on how large the compiler makes the
tiles, because the rules allow only what is blind to it:
- a loop visits every tile of an axis, and all it may do to a carried value is add products contracted over that axis;
- a program stores its own tile, at the grid's indices, unshifted, once per tensor, and reads no tensor that it stores;
- a reduction folds every element along an axis of the grid, by a function that takes them in any order;
- elementwise functions take float32 (narrower tiles are widened exactly by `tile.cast`) and tiles over the same axes.
Where an axis of the grid is cut into consecutive groups, a tile lies in one; its index picks a part of a tensor.
Elements outside a tensor read as zero. A loop over K contracts exactly the K elements 0 .. K-1: what a last, partial
tile holds past them must not count.

Each op carries `place`, the author's "file:line". Text form: custom assembly, which round-trips.
Not here: nested loops, tiles of more than five axes. What multiplies is in `tile.product` and `tile.contract`, what is
computed element by element in `tile.elementwise`, what is folded in `tile.reduce`; arrays that tables of integers lead
to are in `tile.gather`, and whole-program rules in `tile.rules`.
Checked by tests/ir/test_tile_dialect.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, get_args

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    i64,
)
from xdsl.ir import Dialect, Region, SSAValue
from xdsl.irdl import (
    AnyOf,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)

from tilewright.base.element import Element
from tilewright.base.size import Range, Size
from tilewright.ir.sizes import RangeAttr, ranges_attr, ranges_of
from tilewright.ir.tile.axes import axis_size, block_axis, blocks_of
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.elementwise import (
    BinaryOp,
    BroadcastOp,
    CastOp,
    ConstantOp,
    FunctionAttr,
    SelectOp,
    TransposeOp,
    UnaryOp,
    number,
)
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.product import check_contraction, check_scale, product_type
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.types import (
    KEPT_ELEMENTS,
    GatheredType,
    GroupType,
    IndexType,
    RuleViolation,
    TensorType,
    ValueType,
    axes_text,
    read_type,
    tensor_type,
    value_type,
)
from tilewright.ir.tile.walked_block import WalkedBlockOp


def _check_indices(tensor: TensorType | GatheredType, indices: Sequence[SSAValue], verb: str) -> None:
    axes = tuple(index.type.axis.data for index in indices if isinstance(index.type, IndexType | GroupType))
    if axes == tensor.axis_names:
        return
    remedy = f"index it by {axes_text(tensor.axis_names)}"
    if axes == tensor.axis_names[::-1]:
        remedy += ", and transpose the tile with .T"
    raise RuleViolation(f"a tensor over {axes_text(tensor.axis_names)} is {verb} at {axes_text(axes)}", remedy)


# ---------------------------------------------------------------- structure


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """One program. parameters: the tensors' names, one per region argument; axes: extent of every axis, in elements.
    ranges: of axes whose extents only a launch knows, what they may be; `axes` and the tensors' types then have one of
    these extents, by which choices are made."""

    name = "tile.program"
    sym_name = prop_def(SymbolNameConstraint())
    parameters = prop_def(ArrayAttr[StringAttr])
    axes = prop_def(DictionaryAttr)
    ranges = opt_prop_def(DictionaryAttr)
    place = prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = "$sym_name $parameters `axes` $axes (`ranges` $ranges^)? `at` $place attr-dict-with-keyword $body"

    def __init__(
        self,
        name: str,
        parameters: Sequence[str],
        axes: Mapping[str, int],
        body: Region,
        place: str,
        ranges: Mapping[str, Range] | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "parameters": ArrayAttr([StringAttr(parameter) for parameter in parameters]),
                "axes": DictionaryAttr({axis: IntegerAttr(extent, i64) for axis, extent in axes.items()}),
                "place": StringAttr(place),
                **({"ranges": ranges_attr(ranges)} if ranges else {}),
            },
            regions=[body],
        )

    @property
    def extents(self) -> dict[str, int]:
        """Elements along each axis."""
        result: dict[str, int] = {}
        for axis, extent in self.axes.data.items():
            if not isinstance(extent, IntegerAttr):
                raise RuleViolation(f"the extent of axis {axis} is {extent}", "give an integer")
            result[axis] = extent.value.data
        return result

    @property
    def run_time(self) -> dict[str, Range]:
        """What the extents of axes may be that only a launch knows."""
        return ranges_of(self.ranges)

    @property
    def sizes(self) -> dict[str, Size]:
        """Elements along each axis: a number, or what the launch says; of blocks of a run-time axis, how many."""
        ranges = self.run_time
        return {axis: axis_size(axis, extent, ranges) for axis, extent in self.extents.items()}

    def verify_(self) -> None:
        from tilewright.ir.tile.rules import violations

        for _, violation in violations(self):
            raise violation


@irdl_op_definition
class ReturnOp(IRDLOperation):
    name = "tile.return"
    traits = traits_def(IsTerminator(), HasParent(ProgramOp))
    assembly_format = "attr-dict"


GroupingKind = Literal["consecutive", "within"]
MAX_GRID_AXES = 8


@irdl_op_definition
class GridOp(IRDLOperation):
    """This program's tile: one index per axis.

    bounds, with one 32-bit integer per group, may limit the axis `ragged`, whose tiles then do not straddle groups:
    - "consecutive": group g is the elements bounds[g - 1] (0 for g = 0) to bounds[g] - 1 of the axis, and the grid's
      index of the axis of groups is a `tile.group`. Elements at bounds[last] and beyond are in no tile.
    - "within": the axis of groups is one of the grid; of group g, elements bounds[g] and beyond are in no tile.
    Bounds do not change while the program runs; consecutive ones do not decrease; none is below 0 or above the extent.
    """

    name = "tile.grid"
    axes = prop_def(ArrayAttr[StringAttr])
    grouping = opt_prop_def(StringAttr)
    ragged = opt_prop_def(StringAttr)
    bounds = opt_operand_def(TensorType)
    place = prop_def(StringAttr)
    indices = var_result_def(AnyOf((base(IndexType), base(GroupType))))
    traits = traits_def(HasParent(ProgramOp))  # not Pure: a program without a grid is none, so it stays
    assembly_format = (
        "$axes (`grouped` $grouping^ $ragged `by` $bounds `:` type($bounds))? `at` $place attr-dict `:` type($indices)"
    )

    def __init__(
        self, axes: Sequence[str], place: str, grouping: tuple[GroupingKind, str, SSAValue] | None = None
    ) -> None:
        """grouping: its kind, the axis it limits, and the tensor of bounds."""
        properties = {"axes": ArrayAttr([StringAttr(axis) for axis in axes]), "place": StringAttr(place)}
        picked = ""
        if grouping is not None:
            kind, ragged, bounds = grouping
            properties |= {"grouping": StringAttr(kind), "ragged": StringAttr(ragged)}
            picked = tensor_type(bounds).axis_names[0] if kind == "consecutive" else ""
        super().__init__(
            operands=[[] if grouping is None else [grouping[2]]],
            properties=properties,
            result_types=[[GroupType.of(axis) if axis == picked else IndexType.of(axis) for axis in axes]],
        )

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.axes)

    @property
    def tile_axes(self) -> tuple[str, ...]:
        """The axes of this program's tile: those of its indices, but for the axis of consecutive groups."""
        return tuple(index.type.axis.data for index in self.indices if isinstance(index.type, IndexType))

    def verify_(self) -> None:
        axes = self.axis_names
        if not 1 <= len(axes) <= MAX_GRID_AXES:
            raise RuleViolation(f"a grid over {axes_text(axes)} has {len(axes)} axes", f"use one to {MAX_GRID_AXES}")
        if len(set(axes)) != len(axes):
            raise RuleViolation(f"a grid over {axes_text(axes)} names an axis twice", "name the axes apart")
        for axis in axes:
            if blocks_of(axis) is not None:
                raise RuleViolation(
                    f"a grid over {axes_text(axes)} names the blocks {axis}", "name an axis, and divide its index"
                )
        picked = self._verify_grouping(axes)
        wanted = tuple(GroupType.of(axis) if axis == picked else IndexType.of(axis) for axis in axes)
        if tuple(index.type for index in self.indices) != wanted:
            raise RuleViolation(f"a grid over {axes_text(axes)} yields other indices", "yield one index per axis")

    def _verify_grouping(self, axes: tuple[str, ...]) -> str:
        """The axis of consecutive groups, or ""."""
        if self.bounds is None or self.grouping is None or self.ragged is None:
            if any(part is not None for part in (self.bounds, self.grouping, self.ragged)):
                raise RuleViolation("a grid has a part of a grouping", "give its kind, its axis and its bounds")
            return ""
        kind, ragged, bounds = self.grouping.data, self.ragged.data, tensor_type(self.bounds)
        if kind not in get_args(GroupingKind):
            raise RuleViolation(f"a grid is grouped {kind}", "group it consecutive or within")
        if len(bounds.axis_names) != 1 or bounds.element_kind is not Element.S32:
            raise RuleViolation(
                f"groups of {ragged} end at a tensor over {axes_text(bounds.axis_names)} of {bounds.element}",
                "give one 32-bit integer per group: a tensor over the axis of groups, of element i32",
            )
        (group,) = bounds.axis_names
        if group == ragged or group not in axes or ragged not in axes:
            raise RuleViolation(
                f"a grid over {axes_text(axes)} has groups {group} of {ragged}", "name both axes in the grid"
            )
        return group if kind == "consecutive" else ""


@irdl_op_definition
class ShiftOp(IRDLOperation):
    """An index displaced by `offset` elements."""

    T: ClassVar = VarConstraint("T", base(IndexType))
    name = "tile.shift"
    index = operand_def(T)
    offset = prop_def(IntegerAttr[IntegerType])
    place = prop_def(StringAttr)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$index `by` $offset `at` $place attr-dict `:` type($index)"

    def __init__(self, index: SSAValue, offset: int, place: str) -> None:
        super().__init__(
            operands=[index],
            properties={"offset": IntegerAttr(offset, i64), "place": StringAttr(place)},
            result_types=[index.type],
        )


@irdl_op_definition
class BlockOp(IRDLOperation):
    """Which block of `size` consecutive elements each element of an index lies in: an index along `K/size`."""

    name = "tile.block"
    index = operand_def(IndexType)
    size = prop_def(IntegerAttr[IntegerType])
    place = prop_def(StringAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$index `by` $size `at` $place attr-dict `:` type($index) `->` type($result)"

    def __init__(self, index: SSAValue, size: int, place: str) -> None:
        axis = index.type.axis.data if isinstance(index.type, IndexType) else ""
        super().__init__(
            operands=[index],
            properties={"size": IntegerAttr(size, i64), "place": StringAttr(place)},
            result_types=[IndexType.of(block_axis(axis, size))],
        )

    def verify_(self) -> None:
        axis, size = self.index.type, self.size.value.data
        if not isinstance(axis, IndexType) or blocks_of(axis.axis.data) is not None:
            raise RuleViolation(f"the blocks of {axis} are divided into blocks", "divide the index of an axis, once")
        if size < 2 or self.result.type != IndexType.of(block_axis(axis.axis.data, size)):
            raise RuleViolation(f"blocks of {size} elements of {axis.axis.data}", "divide by 2 or more")
        if isinstance(self.index.owner, ShiftOp):
            raise RuleViolation("a displaced index is divided into blocks", "divide first, then displace by blocks")


MOST_EXACT_POSITION = 1 << 24
"""Up to here every whole number is a float32."""


@irdl_op_definition
class PositionOp(IRDLOperation):
    """The number of each element along an index, from 0, as float32; of blocks, the block's number."""

    name = "tile.position"
    index = operand_def(IndexType)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = "$index `at` $place attr-dict `:` type($index) `->` type($result)"

    def __init__(self, index: SSAValue, place: str) -> None:
        axis = index.type.axis.data if isinstance(index.type, IndexType) else ""
        super().__init__(
            operands=[index],
            properties={"place": StringAttr(place)},
            result_types=[ValueType.of([axis], Element.F32)],
        )

    def verify_(self) -> None:
        if isinstance(self.index.type, IndexType) and self.result.type != ValueType.of(
            [self.index.type.axis.data], Element.F32
        ):
            raise RuleViolation(f"positions along {self.index.type.axis.data} are {self.result.type}", "keep the axis")


@irdl_op_definition
class LoopOp(IRDLOperation):
    """Visits every tile of `axis`. Region arguments: the tile's index, then the carried values.

    A carried value may only pass through `tile.dot` as the accumulator, from its region argument to the yield. But for
    loops that the compiler has derived (`streamed`): there any float32 value may be carried, and reductions and
    contractions over the axis are of the tile's own elements, those past the axis's end being absent. `whole`: such a
    loop has one iteration, of the whole axis.
    """

    name = "tile.loop"
    axis = prop_def(StringAttr)
    streamed = opt_prop_def(UnitAttr)
    whole = opt_prop_def(UnitAttr)
    place = prop_def(StringAttr)
    carried = var_operand_def(ValueType)
    outputs = var_result_def(ValueType)
    body = region_def("single_block")
    traits = lazy_traits_def(lambda: (RecursiveMemoryEffect(), HasParent(ProgramOp)))
    assembly_format = (
        "$axis (`streamed` $streamed^)? (`whole` $whole^)? `(` $carried `)` `at` $place attr-dict-with-keyword "
        "`:` type($carried) `->` type($outputs) $body"
    )

    def __init__(
        self, axis: str, carried: Sequence[SSAValue], body: Region, place: str, *, streamed: bool = False
    ) -> None:
        properties = {"axis": StringAttr(axis), "place": StringAttr(place)}
        super().__init__(
            operands=[carried],
            properties={**properties, "streamed": UnitAttr()} if streamed else properties,
            result_types=[[value.type for value in carried]],
            regions=[body],
        )

    def make_whole(self) -> None:
        """Say that the loop has one iteration, of the whole axis."""
        self.properties["whole"] = UnitAttr()

    def verify_(self) -> None:
        axis, block = self.axis.data, self.body.block
        carried = tuple(value.type for value in self.carried)
        if not carried and self.streamed is None:
            raise RuleViolation(
                f"the loop over {axis} updates no accumulator", "write `acc += tw.dot(x, y)` in its body"
            )
        if tuple(argument.type for argument in block.args) != (IndexType.of(axis), *carried):
            raise RuleViolation(
                f"the arguments of a loop over {axis} do not match what it carries",
                "take an index of that axis, then the carried values",
            )
        last = block.last_op
        if not isinstance(last, YieldOp):
            raise RuleViolation(f"the loop over {axis} does not end in tile.yield", "yield the carried values")
        if tuple(value.type for value in last.values) != carried or tuple(self.outputs.types) != carried:
            raise RuleViolation(f"the loop over {axis} does not yield what it carries", "yield the carried values")
        if self.streamed is not None:
            return
        for initial in self.carried:
            if isinstance(initial.owner, FullOp) and math.isinf(initial.owner.value.value.data):
                raise RuleViolation(f"a sum in the loop over {axis} starts from an infinity", "start from 0")
        for argument, final in zip(block.args[1:], last.values, strict=True):
            self._verify_chain(argument, final)

    def _verify_chain(self, argument: SSAValue, final: SSAValue) -> None:
        value = argument
        while value is not final:
            uses = tuple(value.uses)
            user = uses[0].operation if len(uses) == 1 else None
            if not (isinstance(user, DotOp) and user.accumulator is value and user.parent is self.body.block):
                raise RuleViolation(
                    f"a value carried by the loop over {self.axis.data} is not just added to",
                    "update it by `acc += tw.dot(x, y)` alone and read it after the loop",
                )
            value = user.result
        if final is argument:
            raise RuleViolation(
                f"a value carried by the loop over {self.axis.data} never changes", "leave it out of the loop"
            )
        if len(tuple(final.uses)) != 1:
            raise RuleViolation(
                f"a value carried by the loop over {self.axis.data} is read before the loop ends",
                "read it after the loop",
            )


@irdl_op_definition
class YieldOp(IRDLOperation):
    name = "tile.yield"
    values = var_operand_def(ValueType)
    traits = traits_def(IsTerminator(), HasParent(LoopOp))
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[values])


# ---------------------------------------------------------------- memory


def _read_type(tensor: TensorType | GatheredType, indices: Sequence[SSAValue]) -> ValueType:
    """The tile that a load at `indices` gives: without the axes where a group picks a part; of integers, in float32."""
    if len(indices) != len(tensor.axis_names):
        axes: tuple[str, ...] = ()  # which the check of indices refuses
        return ValueType.of(axes, Element.F32)
    kept = tuple(
        axis for axis, index in zip(tensor.axis_names, indices, strict=True) if not isinstance(index.type, GroupType)
    )
    return ValueType.of(kept, tensor.element_kind if tensor.element_kind in KEPT_ELEMENTS else Element.F32)


@irdl_op_definition
class LoadOp(IRDLOperation):
    """A tensor's tile at `indices`, one per axis in the tensor's order, or that of what is gathered of one
    (`tile.gather`). Elements outside the tensor are zero.

    At the index of a group, the tile is of the part of that group, and has no such axis. Integers become float32:
    exactly up to 2^24, rounded to nearest even beyond.
    """

    name = "tile.load"
    tensor = operand_def(AnyOf((base(TensorType), base(GatheredType))))
    indices = var_operand_def(AnyOf((base(IndexType), base(GroupType))))
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = (
        "$tensor `[` $indices `]` `at` $place attr-dict `:` type($tensor) `,` type($indices) `->` type($result)"
    )

    def __init__(self, tensor: SSAValue, indices: Sequence[SSAValue], place: str) -> None:
        super().__init__(
            operands=[tensor, indices],
            properties={"place": StringAttr(place)},
            result_types=[_read_type(read_type(tensor), indices)],
        )

    def verify_(self) -> None:
        tensor = read_type(self.tensor)
        _check_indices(tensor, self.indices, "read")
        if isinstance(tensor, GatheredType) and any(
            isinstance(each.owner, ShiftOp) or isinstance(each.type, GroupType) for each in self.indices
        ):
            raise RuleViolation(
                "what is gathered is read at a displaced index, or in a group", "read it at indices as they are"
            )
        if self.result.type != _read_type(tensor, self.indices):
            raise RuleViolation(
                f"a load from {tensor} gives {self.result.type}",
                "keep the tensor's axes and element; of integers, give float32",
            )


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Writes the part of the tile that lies inside the tensor."""

    name = "tile.store"
    value = operand_def(ValueType)
    tensor = operand_def(TensorType)
    indices = var_operand_def(AnyOf((base(IndexType), base(GroupType))))
    place = prop_def(StringAttr)
    traits = traits_def(HasParent(ProgramOp, LoopOp))  # in a loop that the compiler has derived
    assembly_format = (
        "$value `,` $tensor `[` $indices `]` `at` $place attr-dict "
        "`:` type($value) `,` type($tensor) `,` type($indices)"
    )

    def __init__(self, value: SSAValue, tensor: SSAValue, indices: Sequence[SSAValue], place: str) -> None:
        super().__init__(operands=[value, tensor, indices], properties={"place": StringAttr(place)})

    def verify_(self) -> None:
        tensor, value = tensor_type(self.tensor), value_type(self.value)
        _check_indices(tensor, self.indices, "stored")
        if value.axis_names != tensor.axis_names:
            remedy = f"give a tile over {axes_text(tensor.axis_names)}"
            if value.axis_names == tensor.axis_names[::-1]:
                remedy = "transpose the tile with .T"
            further = [axis for axis in value.axis_names if axis not in tensor.axis_names]
            if further:
                remedy += f", folded along {', '.join(further)} as by tw.sum(tile, over=...), or store it to a tensor "
                remedy += f"over {axes_text(value.axis_names)}"
            raise RuleViolation(
                f"a tile over {axes_text(value.axis_names)} is stored to a tensor over {axes_text(tensor.axis_names)}",
                remedy,
            )
        if value.element != tensor.element:
            raise RuleViolation(
                f"a tile of {value.element} is stored to a tensor of {tensor.element}",
                "cast it to the tensor's element",
            )


# ---------------------------------------------------------------- values


@irdl_op_definition
class FullOp(IRDLOperation):
    """A fresh accumulator tile of one float32 value, finite or an infinity."""

    name = "tile.full"
    value = prop_def(base(FloatAttr))
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure(), HasParent(ProgramOp))
    assembly_format = "$value `at` $place attr-dict `:` type($result)"

    def __init__(self, value: float, axes: Sequence[str], place: str) -> None:
        super().__init__(
            properties={"value": number(value), "place": StringAttr(place)},
            result_types=[ValueType.of(axes, Element.F32)],
        )

    def verify_(self) -> None:
        result = value_type(self.result)
        if result.element_kind is not Element.F32 or not result.axis_names:
            raise RuleViolation(f"an accumulator has type {result}", "make it a float32 tile")


@irdl_op_definition
class DotOp(IRDLOperation):
    """accumulator (P, R) + left (P, Q) times right (Q, R), in float32, over this tile of the loop's axis Q.

    Either operand may have a batch axis before these, as the product then has; an operand without serves every batch
    element. scales: float32 tiles over axes of the product and blocks of axes, each over blocks of Q: every term
    left[p, q] right[q, r] counts times the scales of its p, r and q.
    """

    name = "tile.dot"
    left = operand_def(ValueType)
    right = operand_def(ValueType)
    accumulator = operand_def(ValueType)
    scales = var_operand_def(ValueType)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure(), HasParent(LoopOp))
    assembly_format = (
        "$left `,` $right `,` $accumulator (`scaled` `by` $scales^ `:` type($scales))? `at` $place attr-dict `:` "
        "type($left) `,` type($right) `,` type($accumulator) `->` type($result)"
    )

    def __init__(
        self, left: SSAValue, right: SSAValue, accumulator: SSAValue, place: str, scales: Sequence[SSAValue] = ()
    ) -> None:
        super().__init__(
            operands=[left, right, accumulator, list(scales)],
            properties={"place": StringAttr(place)},
            result_types=[accumulator.type],
        )

    @property
    def contracted(self) -> str:
        """The axis that is summed over."""
        return value_type(self.left).axis_names[-1]

    def verify_(self) -> None:
        left, right = value_type(self.left), value_type(self.right)
        product = product_type(left, right)
        accumulator = value_type(self.accumulator)
        if accumulator != product or self.result.type != product:
            raise RuleViolation(
                f"a product over {axes_text(product.axis_names)} is added to {_shown(accumulator)}",
                f"use a float32 accumulator over {axes_text(product.axis_names)}",
            )
        for scale in self.scales:
            check_scale(left, right, value_type(scale))
        loop = self.parent_op()
        if isinstance(loop, LoopOp):
            check_contraction(left, loop.axis.data)


def _shown(value: ValueType) -> str:
    return f"a {value.element} tile over {axes_text(value.axis_names)}"


Tile = Dialect(
    "tile",
    [
        ProgramOp,
        ReturnOp,
        GridOp,
        ShiftOp,
        BlockOp,
        LoopOp,
        YieldOp,
        GatherOp,
        LoadOp,
        StoreOp,
        FullOp,
        ConstantOp,
        BroadcastOp,
        TransposeOp,
        CastOp,
        UnaryOp,
        BinaryOp,
        SelectOp,
        PositionOp,
        ReduceOp,
        ArgReduceOp,
        ContractOp,
        DotOp,
        WalkedBlockOp,
    ],
    [TensorType, GatheredType, IndexType, GroupType, ValueType, FunctionAttr, RangeAttr],
)
