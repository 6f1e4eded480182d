"""Products whose accumulators stand in tensor memory, in the asynchronous contract.

A CTA allocates a block of columns before its roles begin and frees it after they have ended (`ac.tensor.alloc`,
`ac.tensor.dealloc`). Each unit of a role, a warpgroup, has an equal part of the columns, and an mbarrier of its own on
which the tensor core arrives. The unit's first thread issues, its first warp waits for slots that are only multiplied
(`issuer` of `ac.mbarrier.wait`), and its four warps read and write the quarter of lanes that the hardware gives each.

Where a role of its own issues, the columns are slots of a ring (`ring` of `ac.tensor.memory`), as shared memory's are.
One thread waits for an empty slot, fills it with the accumulators of one tile, and hands it over (`ac.tensor.fill`,
`ac.tensor.hand_over`): the tensor core arrives on its full barrier. The units of another role read and release it
(`ac.tensor.read`), while the next slot is filled. A product then has the rows of all units: of 128, unit u has in each
warp's quarter the 16 lanes from 16 u on, rows 32 w + 16 u + 0 to 15 for its warp w (`warp_rows` of `ac.role`).

Two CTAs of a cluster whose ranks differ in the last bit are a pair, and multiply as one (`pair` of
`ac.tensor.memory`): they allocate and free together, and each has the same columns. A role that only the first of them
has (`leader` of `ac.role`) issues for both: a product has the rows of both CTAs' units, of which each CTA has its own
in its own slot of A and its own lanes, and as many columns, of which each CTA has half of B in its slot. What that role
waits for is signalled to the first CTA, by both (`leader` of what signals); what it signals goes to both.

- `!ac.tensor_memory<columns, units>`: the block, and the barriers. Declared once, used by name.
- `!ac.tensor_filling<ring>`: a slot of the ring that products fill. Linear.
- `!ac.factors<ring, rows, cells, element>`: factors of blocks that are on their way from a slot to columns of
  tensor memory, of so many rows and cells of four each. Linear: products take them and hand them on, until the slot
  is released.
- `!ac.tensor_inflight<m, n, column>`: an accumulator that the tensor core owns, from a column of the unit's part on.
  Linear.
- `!ac.tensor_acc<m, n, column>`: one that nothing in flight writes. Linear: it is read once, and then its columns are
  free; or further products go on with it.
- `!ac.tensor_operand<m, k, column, element>`: a left operand in tensor memory, two elements of 16 bits in a cell.
  Linear: it is multiplied once, and its columns are free once that product is done.

What the threads of a unit do in tensor memory comes before what its first thread issues next only where all of them
have met (`ac.tensor.fence`). A commit covers all products that the thread has issued; the unit waits for it, all
threads, before the next commit on the same barrier.

A unit's rows are those of one tcgen05.mma of M = 64: warp w has rows 16 w to 16 w + 15, in the first 16 lanes of its
quarter. Read back by `tcgen05.ld.16x256b` they lie in registers as wgmma would leave them, so that fragments are one
thing on every architecture.

Source: PTX ISA, Tensor Memory; Data path layout organization, layouts D and F; tcgen05.ld, shapes .16x256b and
.16x128b; CTA pair; Block scaling. Checked by: tests/contract/typestate/steps/test_tensor_memory.py,
tests/contract/typestate/steps/test_tensor_slots.py and tests/end_to_end/test_blackwell.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from tilewright.ir.ac.format import AcOperation, Values, types_of
from tilewright.ir.ac.types import FragmentType, IndexType, PhaseType, ReadingType
from tilewright.ir.plain_attributes import PlainParameters
from tilewright.ir.tier import MemoryType

LEAST_COLUMNS, MOST_COLUMNS, COLUMN_STEP = 32, 512, 8
"""Of an allocation (PTX ISA, tcgen05.alloc)."""


@irdl_attr_definition
class TensorMemoryType(PlainParameters, TypeAttribute):
    """columns: allocated, a power of two; units: how many share them, in equal parts of whole multiples of 32."""

    name = "ac.tensor_memory"
    columns: IntAttr
    units: IntAttr

    def verify(self) -> None:
        columns, units = self.columns.data, self.units.data
        if not LEAST_COLUMNS <= columns <= MOST_COLUMNS or columns & (columns - 1):
            raise VerifyException(
                f"tensor memory is allocated by a power of two of {LEAST_COLUMNS} to {MOST_COLUMNS} columns, "
                f"not by {columns}"
            )
        if units < 1:
            raise VerifyException(f"{columns} columns for {units} units")


@irdl_attr_definition
class TensorInflightType(PlainParameters, TypeAttribute):
    name = "ac.tensor_inflight"
    m: IntAttr
    n: IntAttr
    column: IntAttr


@irdl_attr_definition
class TensorAccumulatorType(PlainParameters, TypeAttribute):
    name = "ac.tensor_acc"
    m: IntAttr
    n: IntAttr
    column: IntAttr


@irdl_attr_definition
class TensorOperandType(PlainParameters, TypeAttribute):
    name = "ac.tensor_operand"
    m: IntAttr
    k: IntAttr
    column: IntAttr
    element: StringAttr


@irdl_attr_definition
class TensorFillingType(PlainParameters, TypeAttribute):
    name = "ac.tensor_filling"
    ring: StringAttr


@irdl_attr_definition
class TensorFactorsType(PlainParameters, TypeAttribute):
    name = "ac.factors"
    ring: StringAttr
    rows: IntAttr
    cells: IntAttr
    element: StringAttr


# ---------------------------------------------------------------- of the whole CTA, outside of roles


@irdl_op_definition
class TensorMemoryOp(AcOperation):
    """The columns that a CTA will have, and at `address` of dynamic shared memory 8 bytes for the barrier of each unit,
    then 8 for the address that the allocation gives. ring: whose slots they are, in equal parts; then there is no
    barrier of a unit, but where ring_columns are: those many are its slots, and the rest in equal parts the units'.
    factor_columns: the last ones, which are not the ring's but those of factors of blocks.
    pair: 1 if the two CTAs of a pair have them together; units are then those of one CTA. asserts: 1 in a debug build,
    which asserts at run time what is done to them."""

    name = "ac.tensor.memory"
    sym_name = prop_def(StringAttr)
    address = prop_def(IntAttr)
    ring = opt_prop_def(StringAttr)
    ring_columns = opt_prop_def(IntAttr)
    factor_columns = opt_prop_def(IntAttr)
    pair = opt_prop_def(IntAttr)
    asserts = opt_prop_def(IntAttr)
    result = result_def(TensorMemoryType)

    def verify_(self) -> None:
        columns, units = self.result.type.columns.data, self.result.type.units.data
        if self.ring is None and (units > columns // LEAST_COLUMNS or self.ring_columns is not None):
            raise VerifyException(f"{columns} columns for {units} units")
        if self.ring_columns is not None and (
            self.ring_columns.data % COLUMN_STEP or not 0 < self.ring_columns.data < columns
        ):
            raise VerifyException(f"{self.ring_columns.data} of {columns} columns for slots of a ring")
        if self.factor_columns is not None and (
            self.ring is None or self.ring_columns is not None or not 0 < self.factor_columns.data < columns
        ):
            raise VerifyException(f"{self.factor_columns.data} of {columns} columns for factors beside a ring's slots")

    @property
    def units_issue(self) -> bool:
        """Whether units have parts, and barriers of their own."""
        return self.ring is None or self.ring_columns is not None

    @property
    def first_part(self) -> int:
        """The column at which the part of the first unit begins."""
        return 0 if self.ring_columns is None else self.ring_columns.data

    @property
    def part_columns(self) -> int:
        """Of each unit; the part of unit u begins at so many times u behind the first one's."""
        kind = self.result.type
        return (kind.columns.data - self.first_part) // kind.units.data // LEAST_COLUMNS * LEAST_COLUMNS

    def slot_columns(self, stages: int) -> int:
        """Of a slot of the ring, which has so many."""
        return (self.first_part or self.first_factor) // max(stages, 1)

    @property
    def first_factor(self) -> int:
        """The column at which those of factors begin: behind all, where there are none."""
        return self.result.type.columns.data - (0 if self.factor_columns is None else self.factor_columns.data)


@irdl_op_definition
class TensorInitOp(AcOperation):
    """One thread initialises the units' barriers, each with a count of one arrival."""

    name = "ac.tensor.init"
    memory = operand_def(TensorMemoryType)


@irdl_op_definition
class TensorAllocOp(AcOperation):
    """The CTA's first warp allocates the columns; every thread has their address once the CTA is synchronized."""

    name = "ac.tensor.alloc"
    memory = operand_def(TensorMemoryType)


@irdl_op_definition
class TensorRelinquishOp(AcOperation):
    """The same warp says that this CTA allocates nothing any more, so that others on its multiprocessor may."""

    name = "ac.tensor.relinquish"
    memory = operand_def(TensorMemoryType)


@irdl_op_definition
class TensorDeallocOp(AcOperation):
    """The same warp frees the columns."""

    name = "ac.tensor.dealloc"
    memory = operand_def(TensorMemoryType)


# ---------------------------------------------------------------- of a unit


@irdl_op_definition
class TensorFenceOp(AcOperation):
    """What the unit's threads have read and written in tensor memory comes before what its first thread issues from
    here on: they meet on named barrier `first_barrier` + unit, between the two fences of tcgen05."""

    name = "ac.tensor.fence"
    first_barrier = prop_def(IntAttr)
    unit = operand_def(IndexType)


def _issued(
    operands: Values, properties: Mapping[str, Attribute], slots: Sequence[tuple[str, str]]
) -> Mapping[str, Attribute]:
    """Types of what a product gives. slots: operand and result, of each slot that it reads."""
    m, n, column = (properties.get(name) for name in ("m", "n", "column"))
    if not (isinstance(m, IntAttr) and isinstance(n, IntAttr) and isinstance(column, IntAttr)):
        return {}
    found: dict[str, Attribute] = {
        "inflight": TensorInflightType(cast("IntAttr", m), cast("IntAttr", n), cast("IntAttr", column))
    }
    for operand, result in slots:
        kinds = types_of(PhaseType, operands, operand)
        found |= {result: ReadingType(kinds[0].ring)} if kinds else {}
    return found


@irdl_op_definition
class TensorIssueOp(AcOperation):
    """Multiply two slots into an accumulator of the unit: its first thread issues `steps` tcgen05.mma of depth 16.

    No accumulator operand means that the first step overwrites. What the other properties mean is said at
    `ac.wgmma.issue`; a unit has 64 rows, so that A needs no advance from block to block.
    """

    name = "ac.tensor.issue"
    m = prop_def(IntAttr)
    n = prop_def(IntAttr)
    column = prop_def(IntAttr)
    steps = prop_def(IntAttr)
    element = prop_def(StringAttr)
    a_major = prop_def(StringAttr)
    a_leading_bytes = prop_def(IntAttr)
    a_stride_bytes = prop_def(IntAttr)
    a_step_bytes = prop_def(ArrayAttr[IntAttr])
    a_instance_bytes = prop_def(IntAttr)
    b_major = prop_def(StringAttr)
    b_leading_bytes = prop_def(IntAttr)
    b_stride_bytes = prop_def(IntAttr)
    b_step_bytes = prop_def(ArrayAttr[IntAttr])
    memory = operand_def(TensorMemoryType)
    a_phase = operand_def(PhaseType)
    a = operand_def(MemoryType)
    phase = operand_def(PhaseType)
    b = operand_def(MemoryType)
    unit = operand_def(IndexType)
    accumulator = opt_operand_def(TensorInflightType)
    inflight = result_def(TensorInflightType)
    a_reading = result_def(ReadingType)
    reading = result_def(ReadingType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        return _issued(operands, properties, (("a_phase", "a_reading"), ("phase", "reading")))


@irdl_op_definition
class TensorStoreOp(AcOperation):
    """The unit's threads write a fragment of 16-bit elements over "mn", or of 8-bit ones over "mk", to tensor memory,
    from `column` of the unit's part on, and wait until it is there. Those of 8 bits are exchanged before, so that the
    columns are in order."""

    name = "ac.tensor.store"
    column = prop_def(IntAttr)
    memory = operand_def(TensorMemoryType)
    fragment = operand_def(FragmentType)
    unit = operand_def(IndexType)
    result = result_def(TensorOperandType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        kinds, column = types_of(FragmentType, operands, "fragment"), properties.get("column")
        if not kinds or not isinstance(column, IntAttr):
            return {}
        return {"result": TensorOperandType(kinds[0].m, kinds[0].n, cast("IntAttr", column), kinds[0].element)}


@irdl_op_definition
class TensorIssueStoredOp(AcOperation):
    """Multiply an operand in tensor memory with a slot's B into an accumulator of the unit."""

    name = "ac.tensor.issue_stored"
    m = prop_def(IntAttr)
    n = prop_def(IntAttr)
    column = prop_def(IntAttr)
    steps = prop_def(IntAttr)
    element = prop_def(StringAttr)
    b_major = prop_def(StringAttr)
    b_leading_bytes = prop_def(IntAttr)
    b_stride_bytes = prop_def(IntAttr)
    b_step_bytes = prop_def(ArrayAttr[IntAttr])
    memory = operand_def(TensorMemoryType)
    a = operand_def(TensorOperandType)
    phase = operand_def(PhaseType)
    b = operand_def(MemoryType)
    unit = operand_def(IndexType)
    accumulator = opt_operand_def(TensorInflightType)
    inflight = result_def(TensorInflightType)
    reading = result_def(ReadingType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        return _issued(operands, properties, (("phase", "reading"),))


@irdl_op_definition
class TensorReleaseOp(AcOperation):
    """Release a slot once the products issued so far have read it, or its factors: the tensor core arrives on its empty
    barrier (tcgen05.commit). pair: 1 if on that of each CTA of the pair."""

    name = "ac.tensor.release"
    pair = opt_prop_def(IntAttr)
    reading = operand_def()

    def verify_(self) -> None:
        if not isinstance(self.reading.type, ReadingType | TensorFactorsType):
            kinds = f"{ReadingType.name} or {TensorFactorsType.name}"
            raise VerifyException(f"{self.reading.type}, which is released, should be of base attribute {kinds}")


@irdl_op_definition
class TensorCommitOp(AcOperation):
    """The tensor core arrives on the unit's barrier once all products issued so far are done (tcgen05.commit)."""

    name = "ac.tensor.commit"
    memory = operand_def(TensorMemoryType)
    unit = operand_def(IndexType)


@irdl_op_definition
class TensorWaitOp(AcOperation):
    """All threads of the unit wait for its last commit; the accumulator is then theirs, and so are slots that were
    read: they may be multiplied again."""

    name = "ac.tensor.wait"
    memory = operand_def(TensorMemoryType)
    unit = operand_def(IndexType)
    inflight = operand_def(TensorInflightType)
    readings = var_operand_def(ReadingType)
    settled = result_def(TensorAccumulatorType)
    retired = var_result_def(PhaseType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        kinds, read = types_of(TensorInflightType, operands, "inflight"), types_of(ReadingType, operands, "readings")
        found: dict[str, Attribute] = {}
        found |= {"settled": TensorAccumulatorType(kinds[0].m, kinds[0].n, kinds[0].column)} if kinds else {}
        return found | ({"retired": PhaseType(read[0].ring, StringAttr("retired"))} if len(read) == 1 else {})


@irdl_op_definition
class TensorGoOnOp(AcOperation):
    """An accumulator that products go on with: it is the tensor core's again, as it stands."""

    name = "ac.tensor.go_on"
    accumulator = operand_def(TensorAccumulatorType)
    result = result_def(TensorInflightType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        kinds = types_of(TensorAccumulatorType, operands, "accumulator")
        return {"result": TensorInflightType(kinds[0].m, kinds[0].n, kinds[0].column)} if kinds else {}


@irdl_op_definition
class TensorLoadOp(AcOperation):
    """The unit's threads read an accumulator into registers, as a float32 fragment over "mn"."""

    name = "ac.tensor.load"
    memory = operand_def(TensorMemoryType)
    accumulator = operand_def(TensorAccumulatorType)
    unit = operand_def(IndexType)
    result = result_def(FragmentType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        kinds = types_of(TensorAccumulatorType, operands, "accumulator")
        return {"result": FragmentType(kinds[0].m, kinds[0].n, StringAttr("mn"), StringAttr("f32"))} if kinds else {}


# ---------------------------------------------------------------- slots of a ring


@irdl_op_definition
class TensorFactorsOp(AcOperation):
    """Copy a full slot's factors of blocks into tensor memory, by one thread: of `rows` rows, in units of 128, `cells`
    cells of four factors each (tcgen05.cp, 32x128b.warpx4). Each slot of the ring has columns of its own, rows / 32 for
    each cell, the first slot from column `column` of those for factors on; so they are free again when the slot is.

    In the slot the first cells of all rows come before the second ones; row r of a unit has its four bytes at byte
    16 (r % 32) + 4 (r / 32).
    """

    name = "ac.tensor.factors"
    column = prop_def(IntAttr)
    rows = prop_def(IntAttr)
    cells = prop_def(IntAttr)
    memory = operand_def(TensorMemoryType)
    phase = operand_def(PhaseType)
    buffer = operand_def(MemoryType)
    result = result_def(TensorFactorsType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        kinds, buffers = types_of(PhaseType, operands, "phase"), types_of(MemoryType, operands, "buffer")
        rows, cells = properties.get("rows"), properties.get("cells")
        if not kinds or not buffers or not isinstance(rows, IntAttr) or not isinstance(cells, IntAttr):
            return {}
        shape = cast("IntAttr", rows), cast("IntAttr", cells)
        return {"result": TensorFactorsType(kinds[0].ring, *shape, buffers[0].element)}


@irdl_op_definition
class TensorFillOp(AcOperation):
    """Multiply two slots into an accumulator at a column of a slot of tensor memory: `steps` tcgen05.mma, by one
    thread. into: an empty slot, or one that products fill already; a_phase, phase: full slots, or such as products read
    already. accumulate: 0, and the first step overwrites, or 1. pair: 1 if the two CTAs of a pair multiply together: m
    has the rows of both. factors: of A's rows and of B's columns, or none: each step takes the next one, two or four
    of a row's, as the elements ask. They are handed on. What the other properties mean is said at `ac.wgmma.issue`."""

    name = "ac.tensor.fill"
    m = prop_def(IntAttr)
    n = prop_def(IntAttr)
    column = prop_def(IntAttr)
    accumulate = prop_def(IntAttr)
    pair = opt_prop_def(IntAttr)
    steps = prop_def(IntAttr)
    element = prop_def(StringAttr)
    a_major = prop_def(StringAttr)
    a_leading_bytes = prop_def(IntAttr)
    a_stride_bytes = prop_def(IntAttr)
    a_step_bytes = prop_def(ArrayAttr[IntAttr])
    b_major = prop_def(StringAttr)
    b_leading_bytes = prop_def(IntAttr)
    b_stride_bytes = prop_def(IntAttr)
    b_step_bytes = prop_def(ArrayAttr[IntAttr])
    memory = operand_def(TensorMemoryType)
    into = operand_def()
    a_phase = operand_def()
    a = operand_def(MemoryType)
    phase = operand_def()
    b = operand_def(MemoryType)
    factors = var_operand_def(TensorFactorsType)
    filling = result_def(TensorFillingType)
    a_reading = result_def(ReadingType)
    reading = result_def(ReadingType)
    kept = var_result_def(TensorFactorsType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        found: dict[str, Attribute] = {}
        into = (*types_of(PhaseType, operands, "into"), *types_of(TensorFillingType, operands, "into"))
        found |= {"filling": TensorFillingType(into[0].ring)} if into else {}
        for operand, result in (("a_phase", "a_reading"), ("phase", "reading")):
            kinds = (*types_of(PhaseType, operands, operand), *types_of(ReadingType, operands, operand))
            found |= {result: ReadingType(kinds[0].ring)} if kinds else {}
        return found | {"kept": ArrayAttr(types_of(TensorFactorsType, operands, "factors"))}


@irdl_op_definition
class TensorHandOverOp(AcOperation):
    """The tensor core arrives on the slot's full barrier once all products issued so far are done (tcgen05.commit).
    pair: 1 if on that of each CTA of the pair."""

    name = "ac.tensor.hand_over"
    pair = opt_prop_def(IntAttr)
    filling = operand_def(TensorFillingType)


@irdl_op_definition
class TensorReadOp(AcOperation):
    """The unit's threads read its rows of an accumulator, at a column of a full slot, into registers: a float32
    fragment over "mn". The slot is handed on."""

    name = "ac.tensor.read"
    column = prop_def(IntAttr)
    memory = operand_def(TensorMemoryType)
    phase = operand_def(PhaseType)
    unit = operand_def(IndexType)
    result = result_def(FragmentType)
    held = result_def(PhaseType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        kinds = types_of(PhaseType, operands, "phase")
        return {"held": kinds[0]} if kinds else {}


TensorOp = (
    TensorFenceOp
    | TensorIssueOp
    | TensorStoreOp
    | TensorIssueStoredOp
    | TensorReleaseOp
    | TensorCommitOp
    | TensorWaitOp
    | TensorLoadOp
    | TensorGoOnOp
)
"""What a unit does."""
TensorSlotOp = TensorFactorsOp | TensorFillOp | TensorHandOverOp | TensorReadOp
"""What is done in slots of a ring."""
TensorSetUp = TensorInitOp | TensorAllocOp | TensorRelinquishOp | TensorDeallocOp
"""What the whole CTA does, before and after its roles."""
UNIT_OPERATIONS: tuple[type[Operation], ...] = (
    TensorFenceOp, TensorIssueOp, TensorStoreOp, TensorIssueStoredOp, TensorReleaseOp, TensorCommitOp, TensorWaitOp,
    TensorLoadOp,
    TensorGoOnOp,
)  # fmt: skip
SLOT_OPERATIONS: tuple[type[Operation], ...] = (TensorFactorsOp, TensorFillOp, TensorHandOverOp, TensorReadOp)
OPERATIONS = (
    TensorMemoryOp, TensorInitOp, TensorAllocOp, TensorRelinquishOp, TensorDeallocOp, *UNIT_OPERATIONS,
    *SLOT_OPERATIONS,
)  # fmt: skip
