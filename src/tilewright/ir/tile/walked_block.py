"""The block of a walked axis in which a tile of the walk lies, as a value of one place along that axis.

A value over rows and blocks of the walked axis has, within a tile of the walk that no block's end cuts, one number for
each row: that of the tile's own block. One over these blocks alone has one number for all. Only the compiler writes
this, in loops that it has derived, and takes tiles that lie within blocks. Checked by:
tests/synth/cascade/test_scaled_walks.py, tests/end_to_end/test_blackwell.py and test_blackwell_scales.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.ir.tile.axes import blocks_of
from tilewright.ir.tile.types import RuleViolation, ValueType, axes_text, value_type


@irdl_op_definition
class WalkedBlockOp(IRDLOperation):
    """The numbers of the block, along the axis of blocks `axis`, that this tile of the walk lies in."""

    name = "tile.walked_block"
    operand = operand_def(ValueType)
    axis = prop_def(StringAttr)
    place = prop_def(StringAttr)
    result = result_def(ValueType)
    traits = traits_def(Pure())
    assembly_format = "$operand `of` $axis `at` $place attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue, axis: str, place: str) -> None:
        kind = value_type(operand)
        left = [each for each in kind.axis_names if each != axis]
        super().__init__(
            operands=[operand],
            properties={"axis": StringAttr(axis), "place": StringAttr(place)},
            result_types=[ValueType.of(left, kind.element_kind)],
        )

    def verify_(self) -> None:
        kind, axis = value_type(self.operand), self.axis.data
        left = [each for each in kind.axis_names if each != axis]
        if blocks_of(axis) is None or axis not in kind.axis_names:
            raise RuleViolation(f"a block of {axis} of a tile over {axes_text(kind.axis_names)}", "name its blocks")
        if self.result.type != ValueType.of(left, kind.element_kind):
            raise RuleViolation(f"a block of {kind} gives {self.result.type}", "leave its axis out")
