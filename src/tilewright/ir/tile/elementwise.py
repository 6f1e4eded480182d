"""What a kernel author computes element by element: constants, casts, functions, and how a tile's axes are changed.

Functions take float32 tiles over the same axes, so a meaning never depends on how large tiles are; narrower tiles are
widened exactly by `tile.cast`. The dialect they belong to is `tile`.
Checked by: tests/ir/test_tile_dialect.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, FloatAttr, StringAttr, f32
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile.axes import covers
from tilewright.ir.tile.types import RuleViolation, ValueType, axes_text, value_type


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


def float32(value: float) -> FloatAttr[Float32Type]:
    """`value` rounded to float32. Raises RuleViolation if it is not finite there."""
    if not abs(value) < 2.0**128 - 2.0**103:
        raise RuleViolation(f"the constant {value} is not a finite float32", "use a number in its range")
    return FloatAttr(value, f32)


def number(value: float) -> FloatAttr[Float32Type]:
    """`value` rounded to float32, or an infinity as it is. Raises RuleViolation if a finite one is not finite there."""
    return FloatAttr(value, f32) if math.isinf(value) else float32(value)


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """One float32 number, finite or an infinity: a tile without axes."""

    name = "tile.constant"
    value = prop_def(base(FloatAttr))
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = "$value `at` $place attr-dict `:` type($result)"

    def __init__(self, value: float, place: str) -> None:
        super().__init__(
            properties={
                "value": number(value),
                "place": StringAttr(place),
            },
            result_types=[ValueType.of((), Element.F32)],
        )

    def verify_(self) -> None:
        if self.result.type != ValueType.of((), Element.F32):
            raise RuleViolation(f"a constant has type {self.result.type}", "make it a float32 without axes")


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """Repeats a tile along the axes it lacks, matching those it has by name, in any order. A number for a block of
    elements (axis `K/128`) is repeated for each of them, where the result has the elements' axis K. A tile over three
    axes or more may lack none: then it is put into another order, which no transpose of the last two may give."""

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
        covered = all(covers(target.axis_names, axis) for axis in source.axis_names)
        same = set(source.axis_names) == set(target.axis_names)
        if not covered or (same and (len(source.axis_names) < 3 or source == target)):
            remedy = "broadcast to more axes"
            if source.axis_names == target.axis_names[::-1] and source != target:
                remedy = "transpose one of the tiles with .T"
            raise RuleViolation(
                f"a tile over {axes_text(source.axis_names)} does not broadcast to {axes_text(target.axis_names)}",
                remedy,
            )


def _transposed(axes: tuple[str, ...]) -> tuple[str, ...]:
    return (*axes[:-2], *axes[:-3:-1])


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """The last two axes in the other order."""

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
            result_types=[ValueType.of(_transposed(source.axis_names), source.element_kind)],
        )

    def verify_(self) -> None:
        source = value_type(self.operand)
        if len(source.axis_names) < 2:
            raise RuleViolation(
                f"a tile over {axes_text(source.axis_names)} has no transpose", "give a tile of two axes or more"
            )
        if self.result.type != ValueType.of(_transposed(source.axis_names), source.element_kind):
            raise RuleViolation(
                f"a transpose of {source} gives {self.result.type}", "exchange the last two axes, no more"
            )


@irdl_op_definition
class CastOp(IRDLOperation):
    """Converts elements, rounding to nearest even; widening is exact. Nothing becomes an integer."""

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
        source, result = value_type(self.operand), value_type(self.result)
        if source.axis_names != result.axis_names:
            raise RuleViolation(f"a cast of {self.operand.type} gives {self.result.type}", "keep the axes")
        if result.element_kind is Element.S32:
            raise RuleViolation(f"a tile of {source.element} becomes one of integers", "store it to a tensor of floats")


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


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`chosen` where `condition` is not 0, else `other`: `Function.WHERE`."""

    T: ClassVar = VarConstraint("T", base(ValueType))
    name = "tile.select"
    condition = operand_def(T)
    chosen = operand_def(T)
    other = operand_def(T)
    place = prop_def(StringAttr)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$condition `,` $chosen `,` $other `at` $place attr-dict `:` type($result)"

    def __init__(self, condition: SSAValue, chosen: SSAValue, other: SSAValue, place: str) -> None:
        super().__init__(
            operands=[condition, chosen, other],
            properties={"place": StringAttr(place)},
            result_types=[condition.type],
        )

    def verify_(self) -> None:
        _check_elementwise(Function.WHERE, 3, self.result.type)


def _check_elementwise(function: Function, operands: int, result: Attribute) -> None:
    if function.arity != operands:
        raise RuleViolation(f"{function.value} takes {function.arity} operands, not {operands}", "fix the call")
    if not isinstance(result, ValueType) or result.element_kind is not Element.F32:
        raise RuleViolation(f"{function.value} works on {result}", "cast the operands to f32")
