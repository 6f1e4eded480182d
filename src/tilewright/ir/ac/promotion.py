"""Two-level accumulation in the asynchronous contract: partial products, scaled, are added to a total by the threads.

A product whose terms are scaled by numbers of blocks of the contracted axis cannot be summed by the tensor core alone.
So each slot's product goes to an accumulator of its own, and is promoted: total += scale * partial, where the scale is
the same for all terms of the slot. It also keeps the long sum in float32, of which tensor cores keep fewer bits for
8-bit operands.

- `!ac.promoted<m, n>`: a total in a warpgroup's registers, laid out as an accumulator is. Linear: its registers are
  added to in place.
- `!ac.scales<m, n>`: numbers at an accumulator's places, loaded for one slot.

Checked by: tests/contract/typestate/steps/test_promotion.py and tests/lower/test_block_scales.py.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
)

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import AcOperation
from tilewright.ir.plain_attributes import PlainParameters


@irdl_attr_definition
class PromotedType(PlainParameters, TypeAttribute):
    name = "ac.promoted"
    m: IntAttr
    n: IntAttr


@irdl_attr_definition
class ScalesType(PlainParameters, TypeAttribute):
    name = "ac.scales"
    m: IntAttr
    n: IntAttr


@irdl_op_definition
class PromotedStartOp(AcOperation):
    """A total of zeros."""

    name = "ac.promoted.start"
    result = result_def(PromotedType)


@irdl_op_definition
class ScalesLoadOp(AcOperation):
    """Plain loads of a global array at the accumulator's places in one slice of the contracted axis; out-of-bounds
    places read as 0.

    axes: a letter for each dimension of the array: m and n for the accumulator's rows and columns, k for the contracted
    axis, each at most once. blocks: elements of that axis that share one number of the array; a place's index along the
    dimension is its element divided by it. row and column: the fragment's first element; slice: number of the slice,
    which begins at element slice * depth. column_run: divides the first column, the fragment's columns and the block
    along n, so that as many neighbouring columns always share a number.
    """

    name = "ac.scales.load"
    axes = prop_def(StringAttr)
    blocks = prop_def(ArrayAttr[IntAttr])
    depth = prop_def(IntAttr)
    column_run = prop_def(IntAttr)
    source = operand_def(ac.GlobalType)
    row = operand_def(ac.IndexType)
    column = operand_def(ac.IndexType)
    slice = operand_def(ac.IndexType)
    result = result_def(ScalesType)


@irdl_op_definition
class PromoteOp(AcOperation):
    """total + scale * partial, each term rounded once (a fused multiply-add). The region computes the scale of a place
    from the scales' numbers there."""

    name = "ac.promote"
    ARGUMENT: ClassVar[Attribute] = ac.ScalarType()
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("x",)
    total = operand_def(PromotedType)
    partial = operand_def(ac.AccumulatorType)
    scales = var_operand_def(ScalesType)
    result = result_def(PromotedType)
    body = region_def("single_block")


@irdl_op_definition
class PromotedReadOp(AcOperation):
    """The total as an accumulator that no wgmma writes."""

    name = "ac.promoted.read"
    total = operand_def(PromotedType)
    result = result_def(ac.AccumulatorType)
