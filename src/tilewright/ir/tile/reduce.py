"""What a kernel author folds: all elements of a tile along one axis, by a function that takes them in any order.

A reduction is a value, like any other: it says what is computed, and not how the axis is walked. So it may stand in
other reductions' operands, as the largest element stands in a softmax's sum. `argreduce` says where along the axis the
element stands that a reduction chooses: an integer, since a float32 has no odd numbers past 2^24. The dialect they
belong to is `tile`.

Not here: masks, and functions whose order matters. Checked by: tests/ir/tile/test_reduce.py.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.base.element import Element
from tilewright.ir.function import ARG_REDUCERS, REDUCERS, Function
from tilewright.ir.tile.elementwise import FunctionAttr
from tilewright.ir.tile.types import RuleViolation, ValueType, axes_text, value_type


class _AlongAxis(IRDLOperation):
    """What both kinds of reductions have. FUNCTIONS: that they may fold by; RESULT: the element of what they give."""

    FUNCTIONS: ClassVar[tuple[Function, ...]]
    RESULT: ClassVar[Element]
    function = prop_def(FunctionAttr)
    axis = prop_def(StringAttr)
    operand = operand_def(ValueType)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = "$function $operand `over` $axis `at` $place attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, function: Function, operand: SSAValue, axis: str, place: str) -> None:
        kept = [name for name in value_type(operand).axis_names if name != axis]
        super().__init__(
            operands=[operand],
            properties={"function": FunctionAttr(function), "axis": StringAttr(axis), "place": StringAttr(place)},
            result_types=[ValueType.of(kept, self.RESULT)],
        )

    def verify_(self) -> None:
        source, axis, function = value_type(self.operand), self.axis.data, self.function.data
        if function not in self.FUNCTIONS:
            raise RuleViolation(
                f"a reduction by {function.value}", f"fold by {', '.join(each.value for each in self.FUNCTIONS)}"
            )
        if axis not in source.axis_names:
            raise RuleViolation(
                f"a tile over {axes_text(source.axis_names)} is reduced over {axis}, which it does not have",
                "name one of its axes",
            )
        kept = [name for name in source.axis_names if name != axis]
        if source.element_kind is not Element.F32 or self.result.type != ValueType.of(kept, self.RESULT):
            raise RuleViolation(f"a reduction of {source} gives {self.result.type}", "fold float32, without the axis")


@irdl_op_definition
class ReduceOp(_AlongAxis):
    """All elements along `axis`, folded by a function of `REDUCERS` in float32, in an order that nobody may rely on.

    NaN where an element is. The result has the operand's other axes.
    """

    name = "tile.reduce"
    FUNCTIONS: ClassVar[tuple[Function, ...]] = REDUCERS
    RESULT: ClassVar[Element] = Element.F32


@irdl_op_definition
class ArgReduceOp(_AlongAxis):
    """The number along `axis`, from 0, of the element that a function of `ARG_REDUCERS` chooses, as a 32-bit integer.

    Of equal elements, +0 and -0 among them, the first; the first NaN where there is one.
    """

    name = "tile.argreduce"
    FUNCTIONS: ClassVar[tuple[Function, ...]] = ARG_REDUCERS
    RESULT: ClassVar[Element] = Element.S32
