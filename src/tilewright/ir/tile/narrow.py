"""Which operations along a row have a quicker form whose error results of few bits do not show?

An exponential is a power of 2 by the hardware's approximation, of a product rounded once more. A quotient by what is
the same along the row is a product with a reciprocal, and one step that corrects its rounding.

Checked by: tests/lower/points/test_narrow_rows.py.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.types import value_type


def is_simplified(op: Operation, axis: str) -> bool:
    """Whether an operation has such a form in rows along an axis."""
    match op:
        case tile.UnaryOp():
            return op.function.data is Function.EXP and axis in value_type(op.result).axis_names
        case tile.BinaryOp():
            return (
                op.function.data is Function.DIV
                and axis in value_type(op.result).axis_names
                and not varies(op.right, axis)
            )
        case _:
            return False


def varies(value: SSAValue, axis: str) -> bool:
    """Whether a value, broadcast or not, is another from place to place along an axis."""
    while isinstance(value.owner, tile.BroadcastOp | tile.TransposeOp):
        (value,) = value.owner.operands
    return axis in value_type(value).axis_names
