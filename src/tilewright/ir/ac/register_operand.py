"""A product's left operand out of registers, in the asynchronous contract: read from a slot, computed, multiplied.

The copy engine brings the raw tile into a ring's slot. Each warp reads its rows of it as the tensor core wants them in
registers, computes an elementwise expression of every number in float32, rounds and packs; the product then takes A
from registers and B from the same slot. Nothing is written to memory in between.

- `!ac.computed<ring, m, k, element>`: a full slot of which this unit has read its part of A, with what was computed of
  it in registers. Linear: the slot's obligation goes with it, so that it can be released only after a product that
  needs what was read.
- `!ac.vector<k>`: numbers of a vector along the contracted axis in one slice, at the places of an operand.

Source: PTX ISA, wgmma.mma_async with A in registers. Checked by:
tests/contract/typestate/steps/test_register_operand.py and tests/lower/fragment/test_register_operand.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
)

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import AcOperation, Values, types_of
from tilewright.ir.ac.types import issued_types
from tilewright.ir.plain_attributes import PlainParameters
from tilewright.ir.tier import MemoryType


@irdl_attr_definition
class ComputedType(PlainParameters, TypeAttribute):
    name = "ac.computed"
    ring: StringAttr
    m: IntAttr
    k: IntAttr
    element: StringAttr


@irdl_attr_definition
class VectorType(PlainParameters, TypeAttribute):
    name = "ac.vector"
    k: IntAttr


@irdl_op_definition
class VectorLoadOp(AcOperation):
    """Plain loads of a global vector at elements slice * k to (slice + 1) * k; those past its end read as 0."""

    name = "ac.vector.load"
    source = operand_def(ac.GlobalType)
    slice = operand_def(ac.IndexType)
    result = result_def(VectorType)


@irdl_op_definition
class OperandReadOp(AcOperation):
    """Read a unit's rows of a slot's A into registers and compute the region of every element.

    Rows are K-major: 64-row block b of the unit begins `unit * instance_bytes + b * block_bytes` into the slot, and its
    16 elements of step s `step_bytes[s]` further. The region's arguments are the element widened to float32, then its
    row's number of each of `rows` (fragments along m), then its number of each of `along`; its value is rounded to the
    result's element. Then every thread fences its reads towards the async proxy, and the unit's threads meet on named
    barrier `first_barrier` + unit, so that each knows that all have read.
    """

    name = "ac.operand.read"
    ARGUMENT: ClassVar[Attribute] = ac.ScalarType()
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("x",)
    step_bytes = prop_def(ArrayAttr[IntAttr])
    block_bytes = prop_def(IntAttr)
    instance_bytes = prop_def(IntAttr)
    first_barrier = prop_def(IntAttr)
    phase = operand_def(ac.PhaseType)
    a = operand_def(MemoryType)
    unit = operand_def(ac.IndexType)
    rows = var_operand_def(ac.FragmentType)
    along = var_operand_def(VectorType)
    result = result_def(ComputedType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class ComputedIssueOp(AcOperation):
    """Move what was computed to the product's A registers, `wgmma.fence`, and multiply it with the slot's B.

    The A registers are those of every product of the kernel of this shape, so no product may be in flight. Otherwise as
    `ac.wgmma.issue`.
    """

    name = "ac.wgmma.issue_computed"
    m = prop_def(IntAttr)
    n = prop_def(IntAttr)
    steps = prop_def(IntAttr)
    element = prop_def(StringAttr)
    b_major = prop_def(StringAttr)
    b_leading_bytes = prop_def(IntAttr)
    b_stride_bytes = prop_def(IntAttr)
    b_step_bytes = prop_def(ArrayAttr[IntAttr])
    computed = operand_def(ComputedType)
    b = operand_def(MemoryType)
    accumulator = opt_operand_def(ac.InflightType)
    inflight = result_def(ac.InflightType)
    reading = result_def(ac.ReadingType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        return issued_types(properties, [kind.ring for kind in types_of(ComputedType, operands, "computed")])
