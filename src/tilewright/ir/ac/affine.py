"""Indices from indices, in the asynchronous contract: sums of multiples, quotients, and what arrays of integers hold.

A sum is written as one: `ac.affine 128 * %m + 64 * %unit + 8`. The dialect it belongs to is `ac`. Checked by:
tests/ir/ac/test_format.py.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.ir.ac.format import AcOperation, parse_defined
from tilewright.ir.ac.types import GlobalType, IndexType, ScalarType
from tilewright.ir.sizes import SizeAttr


@irdl_op_definition
class AffineOp(AcOperation):
    """constant + sum of coefficient * operand."""

    name = "ac.affine"
    coefficients = prop_def(ArrayAttr[IntAttr])
    constant = prop_def(IntAttr)
    operands_ = var_operand_def(IndexType)
    result = result_def(IndexType)

    def print(self, printer: Printer) -> None:
        coefficients = _numbers(self.properties.get("coefficients"))
        constant = self.properties.get("constant")
        added = cast("IntAttr", constant).data if isinstance(constant, IntAttr) else None
        plain = not self.attributes and self.result_types == (IndexType(),)
        if coefficients is None or added is None or len(coefficients) != len(self.operands) or not plain:
            super().print(printer)
            return
        for number, (coefficient, operand) in enumerate(zip(coefficients, self.operands, strict=True)):
            printer.print_string(f"{' +' if number else ''} {coefficient} * ")
            printer.print_ssa_value(operand)
        if not self.operands:
            printer.print_string(f" {added}")
        elif added:
            printer.print_string(f" + {added}")

    @classmethod
    def parse(cls, parser: Parser) -> AcOperation:
        first = parser.parse_optional_integer(allow_boolean=False)
        if first is None:
            return super().parse(parser)
        coefficients: list[IntAttr] = []
        operands: list[SSAValue] = []
        constant, number = 0, first
        while True:
            if parser.parse_optional_punctuation("*") is None:
                constant = number
                break
            coefficients.append(IntAttr(number))
            operands.append(parse_defined(parser))
            if parser.parse_optional_punctuation("+") is None:
                break
            number = parser.parse_integer(allow_boolean=False)
        return cls(
            operands=[operands],
            properties={"coefficients": ArrayAttr(coefficients), "constant": IntAttr(constant)},
            result_types=[IndexType()],
        )


def _numbers(attribute: Attribute | None) -> tuple[int, ...] | None:
    """The numbers of a list that has nothing else."""
    items = cast("ArrayAttr[Attribute]", attribute).data if isinstance(attribute, ArrayAttr) else None
    if items is None or not all(isinstance(each, IntAttr) for each in items):
        return None
    return tuple(each.data for each in cast("tuple[IntAttr, ...]", items))


@irdl_op_definition
class IndexDivideOp(AcOperation):
    """operand // size, of an index that is never negative."""

    name = "ac.index.divide"
    size = prop_def(IntAttr)
    operand = operand_def(IndexType)
    result = result_def(IndexType)


@irdl_op_definition
class IndexLoadOp(AcOperation):
    """What an array of 32-bit integers holds at these indices, outermost first, as an index: any number of 32 bits
    with a sign; -1 where the indices lie outside the array. So nothing bounds it but what it is used for: it may be
    a coordinate of a copy into shared memory, of any dimension but the innermost, where the engine fills what lies
    outside the array with zeros."""

    name = "ac.index.load"
    source = operand_def(GlobalType)
    indices = var_operand_def(IndexType)
    result = result_def(IndexType)


@irdl_op_definition
class ExtentOp(AcOperation):
    """A size that only the launch knows, as an index: where an axis ends."""

    name = "ac.extent"
    size = prop_def(SizeAttr)
    result = result_def(IndexType)


@irdl_op_definition
class IndexNumberOp(AcOperation):
    """An index as a float32: exact up to 2^24."""

    name = "ac.index.number"
    operand = operand_def(IndexType)
    result = result_def(ScalarType)
