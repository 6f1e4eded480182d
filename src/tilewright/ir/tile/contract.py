"""What a kernel author multiplies as a value: a sum of products over an axis, of which nobody says how it is walked.

Like a reduction, a contraction says what is computed; it may stand in other contractions and reductions. Axes that both
operands have, but for the one that is summed over, are the result's as they are: a product of matrices for each place
along them. Where one operand has an axis and the other its blocks, the result has the axis. An operand that was
computed in float32 may meet one of a narrower element: then it is rounded to that element as it is multiplied, after
any factor that does not change along the axis was taken out or put in. That rounding is the operand's precision and no
part of what the program means; whoever wants it where it stands writes a cast. The dialect it belongs to is `tile`.

Not here: sums of `tile.dot` in loops, which say how an axis is walked. Checked by: tests/ir/tile/test_contract.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.base.element import Element
from tilewright.ir.tile.axes import covers
from tilewright.ir.tile.product import DOT_ELEMENTS
from tilewright.ir.tile.types import RuleViolation, ValueType, axes_text, value_type


def contracted_axes(left: ValueType, right: ValueType, axis: str) -> frozenset[str]:
    """The axes that left times right, summed over `axis`, has. Raises RuleViolation where they do not multiply."""
    shown = f"a product of tiles over {axes_text(left.axis_names)} and {axes_text(right.axis_names)}"
    if axis not in left.axis_names or axis not in right.axis_names:
        raise RuleViolation(f"{shown} summed over {axis}", "name an axis that both have")
    elements = {left.element_kind, right.element_kind}
    if len(elements - {Element.F32}) > 1:
        raise RuleViolation(f"{shown} of {left.element} and {right.element}", "cast one of them with .to(...)")
    if not elements & set(DOT_ELEMENTS):
        raise RuleViolation(
            f"{shown} of {left.element}, which no tensor core multiplies exactly", "cast one with .to(tw.bf16)"
        )
    named = {*left.axis_names, *right.axis_names} - {axis}
    return frozenset(each for each in named if not any(other != each and covers((other,), each) for other in named))


@irdl_op_definition
class ContractOp(IRDLOperation):
    """left times right, summed over `axis` in float32 and in an order that nobody may rely on."""

    name = "tile.contract"
    axis = prop_def(StringAttr)
    left = operand_def(ValueType)
    right = operand_def(ValueType)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = (
        "$left `,` $right `over` $axis `at` $place attr-dict `:` type($left) `,` type($right) `->` type($result)"
    )

    def __init__(self, left: SSAValue, right: SSAValue, axis: str, axes: Sequence[str], place: str) -> None:
        """axes: the result's, in order."""
        super().__init__(
            operands=[left, right],
            properties={"axis": StringAttr(axis), "place": StringAttr(place)},
            result_types=[ValueType.of(axes, Element.F32)],
        )

    def verify_(self) -> None:
        wanted = contracted_axes(value_type(self.left), value_type(self.right), self.axis.data)
        result = value_type(self.result)
        if result.element_kind is not Element.F32 or frozenset(result.axis_names) != wanted:
            raise RuleViolation(
                f"a product over {axes_text(sorted(wanted))} gives {result}", "keep these axes, in float32"
            )
