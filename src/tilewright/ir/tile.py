"""What a kernel author writes: tiles loaded, multiplied, mapped elementwise and stored. No threads, no memory tiers.

Theory: a program runs once per tile of the grid's axes. Its meaning does not depend on how large the compiler makes the
tiles, because the rules allow only what is blind to it:
- a loop visits every tile of an axis, and all it may do to a carried value is add products contracted over that axis;
- a program stores its own tile, at the grid's indices, unshifted, once per tensor, and reads no tensor that it stores;
- elementwise functions take float32 (narrower tiles are widened exactly by `tile.cast`) and tiles over the same axes.
Elements outside a tensor read as zero. A loop over K contracts exactly the K elements 0 .. K-1: what a last, partial
tile holds past them must not count.

Each op carries `place`, the author's "file:line". Text form: custom assembly, which round-trips.
Not here: reductions other than dot, nested loops, gathers, more than two axes. Whole-program rules are in `tile_rules`.
Checked by tests/ir/test_tile_dialect.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    f32,
    i64,
)
from xdsl.ir import Attribute, Data, Dialect, Region, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile_types import (
    IndexType,
    RuleViolation,
    TensorType,
    ValueType,
    axes_text,
    tensor_type,
    value_type,
)

DOT_ELEMENTS = (Element.BF16, Element.F16)
"""What tensor cores multiply exactly. float32 operands would be rounded to TF32 unasked, so they are refused."""


@irdl_attr_definition
class FunctionAttr(Data[Function], SpacedOpaqueSyntaxAttribute):
    name = "tile.function"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Function:
        name = parser.parse_identifier("an elementwise function")
        try:
            return Function(name)
        except ValueError:
            parser.raise_error(f"no elementwise function is called {name}")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data.value)


def _check_indices(tensor: TensorType, indices: Sequence[SSAValue], verb: str) -> None:
    axes = tuple(index.type.axis.data for index in indices if isinstance(index.type, IndexType))
    if axes == tensor.axis_names:
        return
    remedy = f"index it by {axes_text(tensor.axis_names)}"
    if axes == tensor.axis_names[::-1]:
        remedy += ", and transpose the tile with .T"
    raise RuleViolation(f"a tensor over {axes_text(tensor.axis_names)} is {verb} at {axes_text(axes)}", remedy)


# ---------------------------------------------------------------- structure


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """One program. parameters: the tensors' names, one per region argument; axes: extent of every axis, in elements."""

    name = "tile.program"
    sym_name = prop_def(SymbolNameConstraint())
    parameters = prop_def(ArrayAttr[StringAttr])
    axes = prop_def(DictionaryAttr)
    place = prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = "$sym_name $parameters `axes` $axes `at` $place attr-dict-with-keyword $body"

    def __init__(self, name: str, parameters: Sequence[str], axes: Mapping[str, int], body: Region, place: str) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "parameters": ArrayAttr([StringAttr(parameter) for parameter in parameters]),
                "axes": DictionaryAttr({axis: IntegerAttr(extent, i64) for axis, extent in axes.items()}),
                "place": StringAttr(place),
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

    def verify_(self) -> None:
        from tilewright.ir.tile_rules import violations

        for _, violation in violations(self):
            raise violation


@irdl_op_definition
class ReturnOp(IRDLOperation):
    name = "tile.return"
    traits = traits_def(IsTerminator(), HasParent(ProgramOp))
    assembly_format = "attr-dict"


@irdl_op_definition
class GridOp(IRDLOperation):
    """This program's tile: one index per axis."""

    name = "tile.grid"
    axes = prop_def(ArrayAttr[StringAttr])
    place = prop_def(StringAttr)
    indices = var_result_def(IndexType)
    traits = traits_def(HasParent(ProgramOp))  # not Pure: a program without a grid is none, so it stays
    assembly_format = "$axes `at` $place attr-dict `:` type($indices)"

    def __init__(self, axes: Sequence[str], place: str) -> None:
        super().__init__(
            properties={"axes": ArrayAttr([StringAttr(axis) for axis in axes]), "place": StringAttr(place)},
            result_types=[[IndexType.of(axis) for axis in axes]],
        )

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.axes)

    def verify_(self) -> None:
        axes = self.axis_names
        if not 1 <= len(axes) <= 2:
            raise RuleViolation(f"a grid over {axes_text(axes)} has {len(axes)} axes", "use one or two")
        if len(set(axes)) != len(axes):
            raise RuleViolation(f"a grid over {axes_text(axes)} names an axis twice", "name the axes apart")
        if tuple(index.type for index in self.indices) != tuple(IndexType.of(axis) for axis in axes):
            raise RuleViolation(f"a grid over {axes_text(axes)} yields other indices", "yield one index per axis")


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
class LoopOp(IRDLOperation):
    """Visits every tile of `axis`. Region arguments: the tile's index, then the carried values.

    A carried value may only pass through `tile.dot` as the accumulator, from its region argument to the yield.
    """

    name = "tile.loop"
    axis = prop_def(StringAttr)
    place = prop_def(StringAttr)
    carried = var_operand_def(ValueType)
    outputs = var_result_def(ValueType)
    body = region_def("single_block")
    traits = lazy_traits_def(lambda: (RecursiveMemoryEffect(), HasParent(ProgramOp)))
    assembly_format = (
        "$axis `(` $carried `)` `at` $place attr-dict-with-keyword `:` type($carried) `->` type($outputs) $body"
    )

    def __init__(self, axis: str, carried: Sequence[SSAValue], body: Region, place: str) -> None:
        super().__init__(
            operands=[carried],
            properties={"axis": StringAttr(axis), "place": StringAttr(place)},
            result_types=[[value.type for value in carried]],
            regions=[body],
        )

    def verify_(self) -> None:
        axis, block = self.axis.data, self.body.block
        carried = tuple(value.type for value in self.carried)
        if not carried:
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


@irdl_op_definition
class LoadOp(IRDLOperation):
    """A tensor's tile at `indices`, one per axis in the tensor's order. Elements outside the tensor are zero."""

    name = "tile.load"
    tensor = operand_def(TensorType)
    indices = var_operand_def(IndexType)
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
            result_types=[ValueType.of(tensor_type(tensor).axis_names, tensor_type(tensor).element_kind)],
        )

    def verify_(self) -> None:
        tensor = tensor_type(self.tensor)
        _check_indices(tensor, self.indices, "read")
        if self.result.type != ValueType.of(tensor.axis_names, tensor.element_kind):
            raise RuleViolation(f"a load from {tensor} gives {self.result.type}", "keep the tensor's axes and element")


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Writes the part of the tile that lies inside the tensor."""

    name = "tile.store"
    value = operand_def(ValueType)
    tensor = operand_def(TensorType)
    indices = var_operand_def(IndexType)
    place = prop_def(StringAttr)
    traits = traits_def(HasParent(ProgramOp))
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


def float32(value: float) -> FloatAttr[Float32Type]:
    """`value` rounded to float32. Raises RuleViolation if it is not finite there."""
    if not abs(value) < 2.0**128 - 2.0**103:
        raise RuleViolation(f"the constant {value} is not a finite float32", "use a smaller number")
    return FloatAttr(value, f32)


@irdl_op_definition
class FullOp(IRDLOperation):
    """A fresh accumulator tile of one float32 value."""

    name = "tile.full"
    value = prop_def(base(FloatAttr))
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure(), HasParent(ProgramOp))
    assembly_format = "$value `at` $place attr-dict `:` type($result)"

    def __init__(self, value: float, axes: Sequence[str], place: str) -> None:
        super().__init__(
            properties={"value": float32(value), "place": StringAttr(place)},
            result_types=[ValueType.of(axes, Element.F32)],
        )

    def verify_(self) -> None:
        result = value_type(self.result)
        if result.element_kind is not Element.F32 or not result.axis_names:
            raise RuleViolation(f"an accumulator has type {result}", "make it a float32 tile")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """One float32 number, a tile without axes."""

    name = "tile.constant"
    value = prop_def(base(FloatAttr))
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = "$value `at` $place attr-dict `:` type($result)"

    def __init__(self, value: float, place: str) -> None:
        super().__init__(
            properties={"value": float32(value), "place": StringAttr(place)},
            result_types=[ValueType.of((), Element.F32)],
        )

    def verify_(self) -> None:
        if self.result.type != ValueType.of((), Element.F32):
            raise RuleViolation(f"a constant has type {self.result.type}", "make it a float32 without axes")


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """Repeats a tile along the axes it lacks, matching those it has by name."""

    name = "tile.broadcast"
    operand = operand_def(ValueType)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = "$operand `at` $place attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue, axes: Sequence[str], place: str) -> None:
        source = value_type(operand)
        super().__init__(
            operands=[operand],
            properties={"place": StringAttr(place)},
            result_types=[ValueType.of(axes, source.element_kind)],
        )

    def verify_(self) -> None:
        source, target = value_type(self.operand), value_type(self.result)
        if source.element != target.element:
            raise RuleViolation(f"a broadcast of {source} gives {target}", "keep the element")
        if not set(source.axis_names) < set(target.axis_names):
            remedy = "broadcast to more axes"
            if source.axis_names == target.axis_names[::-1] and source != target:
                remedy = "transpose one of the tiles with .T"
            raise RuleViolation(
                f"a tile over {axes_text(source.axis_names)} does not broadcast to {axes_text(target.axis_names)}",
                remedy,
            )


@irdl_op_definition
class TransposeOp(IRDLOperation):
    name = "tile.transpose"
    operand = operand_def(ValueType)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = "$operand `at` $place attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue, place: str) -> None:
        source = value_type(operand)
        super().__init__(
            operands=[operand],
            properties={"place": StringAttr(place)},
            result_types=[ValueType.of(source.axis_names[::-1], source.element_kind)],
        )

    def verify_(self) -> None:
        source = value_type(self.operand)
        if len(source.axis_names) != 2:
            raise RuleViolation(
                f"a tile over {axes_text(source.axis_names)} has no transpose", "give a tile of two axes"
            )
        if self.result.type != ValueType.of(source.axis_names[::-1], source.element_kind):
            raise RuleViolation(f"a transpose of {source} gives {self.result.type}", "reverse the axes, no more")


@irdl_op_definition
class CastOp(IRDLOperation):
    """Converts elements, rounding to nearest even; widening is exact."""

    name = "tile.cast"
    operand = operand_def(ValueType)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = "$operand `at` $place attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue, element: Element, place: str) -> None:
        source = value_type(operand)
        super().__init__(
            operands=[operand],
            properties={"place": StringAttr(place)},
            result_types=[ValueType.of(source.axis_names, element)],
        )

    def verify_(self) -> None:
        if value_type(self.operand).axis_names != value_type(self.result).axis_names:
            raise RuleViolation(f"a cast of {self.operand.type} gives {self.result.type}", "keep the axes")


@irdl_op_definition
class UnaryOp(IRDLOperation):
    T: ClassVar = VarConstraint("T", base(ValueType))
    name = "tile.unary"
    function = prop_def(FunctionAttr)
    operand = operand_def(T)
    place = prop_def(StringAttr)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$function $operand `at` $place attr-dict `:` type($operand)"

    def __init__(self, function: Function, operand: SSAValue, place: str) -> None:
        super().__init__(
            operands=[operand],
            properties={"function": FunctionAttr(function), "place": StringAttr(place)},
            result_types=[operand.type],
        )

    def verify_(self) -> None:
        _check_elementwise(self.function.data, 1, self.result.type)


@irdl_op_definition
class BinaryOp(IRDLOperation):
    T: ClassVar = VarConstraint("T", base(ValueType))
    name = "tile.binary"
    function = prop_def(FunctionAttr)
    left = operand_def(T)
    right = operand_def(T)
    place = prop_def(StringAttr)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$function $left `,` $right `at` $place attr-dict `:` type($result)"

    def __init__(self, function: Function, left: SSAValue, right: SSAValue, place: str) -> None:
        super().__init__(
            operands=[left, right],
            properties={"function": FunctionAttr(function), "place": StringAttr(place)},
            result_types=[left.type],
        )

    def verify_(self) -> None:
        _check_elementwise(self.function.data, 2, self.result.type)


def _check_elementwise(function: Function, operands: int, result: Attribute) -> None:
    if function.arity != operands:
        raise RuleViolation(f"{function.value} takes {function.arity} operands, not {operands}", "mend the call")
    if not isinstance(result, ValueType) or result.element_kind is not Element.F32:
        raise RuleViolation(f"{function.value} works on {result}", "cast the operands to f32")


@irdl_op_definition
class DotOp(IRDLOperation):
    """accumulator (P, R) + left (P, Q) times right (Q, R), in float32, over this tile of the loop's axis Q."""

    name = "tile.dot"
    left = operand_def(ValueType)
    right = operand_def(ValueType)
    accumulator = operand_def(ValueType)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure(), HasParent(LoopOp))
    assembly_format = (
        "$left `,` $right `,` $accumulator `at` $place attr-dict `:` "
        "type($left) `,` type($right) `,` type($accumulator) `->` type($result)"
    )

    def __init__(self, left: SSAValue, right: SSAValue, accumulator: SSAValue, place: str) -> None:
        super().__init__(
            operands=[left, right, accumulator],
            properties={"place": StringAttr(place)},
            result_types=[accumulator.type],
        )

    def verify_(self) -> None:
        product = product_type(value_type(self.left), value_type(self.right))
        accumulator = value_type(self.accumulator)
        if accumulator != product or self.result.type != product:
            raise RuleViolation(
                f"a product over {axes_text(product.axis_names)} is added to {_shown(accumulator)}",
                f"use a float32 accumulator over {axes_text(product.axis_names)}",
            )
        loop = self.parent_op()
        if isinstance(loop, LoopOp):
            check_contraction(value_type(self.left), loop.axis.data)


def _shown(value: ValueType) -> str:
    return f"a {value.element} tile over {axes_text(value.axis_names)}"


def product_type(left: ValueType, right: ValueType) -> ValueType:
    """The type of left times right, over (P, R) in float32. Raises RuleViolation if they do not multiply."""
    axes = f"{axes_text(left.axis_names)} and {axes_text(right.axis_names)}"
    if len(left.axis_names) != 2 or len(right.axis_names) != 2:
        raise RuleViolation(f"dot of tiles over {axes}", "give two tiles of two axes each")
    (outer, inner), (inner_right, outer_right) = left.axis_names, right.axis_names
    if inner != inner_right or outer == outer_right:
        raise RuleViolation(f"dot of tiles over {axes}", _transpose_remedy(left.axis_names, right.axis_names))
    if left.element != right.element:
        raise RuleViolation(f"dot of {left.element} with {right.element}", "cast one of them with .to(...)")
    if left.element_kind not in DOT_ELEMENTS:
        raise RuleViolation(
            f"dot of {left.element} tiles, which no tensor core multiplies exactly", "cast both with .to(tw.bf16)"
        )
    return ValueType.of((outer, outer_right), Element.F32)


def _transpose_remedy(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    (p, q), (r, s) = left, right
    if {p, q} == {r, s}:
        return "both operands share both axes; name one of the outer axes differently"
    if q == s:
        return "transpose the right tile with .T"
    if p == r:
        return "transpose the left tile with .T"
    if p == s:
        return "transpose both tiles with .T"
    return "give tiles over (P, Q) and (Q, R)"


def check_contraction(left: ValueType, loop_axis: str) -> None:
    """A product must contract the axis of its loop: otherwise it would count once per tile of that axis."""
    inner = left.axis_names[1]
    if inner != loop_axis:
        raise RuleViolation(
            f"dot contracts {inner} inside a loop over {loop_axis}", f"loop over {inner}, or contract {loop_axis}"
        )


Tile = Dialect(
    "tile",
    [
        ProgramOp,
        ReturnOp,
        GridOp,
        ShiftOp,
        LoopOp,
        YieldOp,
        LoadOp,
        StoreOp,
        FullOp,
        ConstantOp,
        BroadcastOp,
        TransposeOp,
        CastOp,
        UnaryOp,
        BinaryOp,
        DotOp,
    ],
    [TensorType, IndexType, ValueType, FunctionAttr],
)
