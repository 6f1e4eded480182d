"""Values in a unit's registers, in the asynchronous contract: computed, folded along rows, multiplied, carried on.

A `!ac.fragment` that these operations make is held in registers, spread over a warpgroup's threads as wgmma spreads an
accumulator. Axes "mn": a number at each place; "m": one for each row, the same in the four threads that share the row.
So it is a plain value: it may be read as often as one likes and be carried round loops. 16-bit fragments over "mn" lie
as wgmma wants its left operand in registers, so that a product's result, computed on, is the next one's operand. Axes
"mk" are those of 8-bit elements that are such an operand and nothing else.

- `ac.fragment.map` computes fragments, element by element, of accumulators, other fragments, and the places' numbers.
- `ac.fragment.fold` folds each row.
- `ac.fragment.read` reads a unit's rows of a slot.
- `ac.accumulator.start` makes an accumulator that begins as a fragment.
- `ac.accumulator.parts` gives the accumulators that stand side by side in one.
- `ac.wgmma.issue_fragment` multiplies a fragment with a slot's B.

Source: PTX ISA, wgmma: register fragments of A and D. Checked by: tests/contract/typestate/steps/test_fragment.py and
tests/lower/fragment/test_registers.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import AcOperation, Values, types_of
from tilewright.ir.ac.types import FragmentType, InflightType, issued_types
from tilewright.ir.tier import MemoryType


@irdl_op_definition
class FragmentFullOp(AcOperation):
    """The float32 whose 32-bit image is `bits` at every place, of axes "mn" or "m"."""

    name = "ac.fragment.full"
    bits = prop_def(IntAttr)
    result = result_def(FragmentType)


@irdl_op_definition
class FragmentMapOp(AcOperation):
    """Element by element: the region computes one float32 for each result from the elements of `inputs`, rounded to
    that result's element.

    inputs: settled accumulators, fragments in registers, loaded fragments (`ac.fragment.load`), all of one m, and of
    one n but for those over "m", whose n says nothing; an axis that one does not have is repeated. A result over "m"
    may not change along a row (`region_axes`). places: nothing, or the row and column of the unit's first place, and
    then any further indices; the region takes, after the inputs' elements, the row and column of its own place and
    those further ones, as indices, of which it may compute others. The inputs stay as they are. reach: rows and
    columns that there are, where results depend on places; beyond them any number will do. deferred: 1
    where the one result, over rows and columns, is stored and nothing else: each number is computed where it is stored,
    so that few of them live at a time. skips_ones: 1 where the one result is a product with a number of each row, and
    a warp is to pass over rows whose numbers are all 1.
    """

    name = "ac.fragment.map"
    reach = opt_prop_def(ArrayAttr[IntAttr])
    deferred = opt_prop_def(IntAttr)
    skips_ones = opt_prop_def(IntAttr)
    ARGUMENT: ClassVar[Attribute] = ac.ScalarType()
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("x",)
    inputs = var_operand_def(FragmentType | ac.AccumulatorType)
    places = var_operand_def(ac.IndexType)
    outputs = var_result_def(FragmentType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def is_deferred(self) -> bool:
        return self.deferred is not None and self.deferred.data != 0


@irdl_op_definition
class FragmentFoldOp(AcOperation):
    """Each row of a float32 fragment over "mn", folded by a function of `ir.function.REDUCERS` in an order of its own:
    a fragment over "m". late: 1 where threads are to keep their parts of a sum as long as a loop only carries it on."""

    name = "ac.fragment.fold"
    LEAD: ClassVar[tuple[str, ...]] = ("function",)
    function = prop_def(StringAttr)
    late = opt_prop_def(IntAttr)
    fragment = operand_def(FragmentType)
    result = result_def(FragmentType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        kinds = types_of(FragmentType, operands, "fragment")
        return {"result": FragmentType(kinds[0].m, kinds[0].n, StringAttr("m"), kinds[0].element)} if kinds else {}


@irdl_op_definition
class FragmentReadOp(AcOperation):
    """Read a unit's rows of a full slot's A into a fragment of 16-bit elements, and hand the slot on.

    Where the rows lie is said as in `ac.operand.read`; so are the fence and the named barrier that end it.
    """

    name = "ac.fragment.read"
    step_bytes = prop_def(ArrayAttr[IntAttr])
    block_bytes = prop_def(IntAttr)
    instance_bytes = prop_def(IntAttr)
    first_barrier = prop_def(IntAttr)
    phase = operand_def(ac.PhaseType)
    a = operand_def(MemoryType)
    unit = operand_def(ac.IndexType)
    result = result_def(FragmentType)
    held = result_def(ac.PhaseType)


@irdl_op_definition
class AccumulatorStartOp(AcOperation):
    """An accumulator that begins with the numbers of a float32 fragment over "mn", in registers of its own, or in those
    of an accumulator that its loop carries (`taken_over`)."""

    name = "ac.accumulator.start"
    fragment = operand_def(FragmentType)
    result = result_def(InflightType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        kinds = types_of(FragmentType, operands, "fragment")
        return {"result": InflightType(kinds[0].m, kinds[0].n)} if kinds else {}


@irdl_op_definition
class AccumulatorPartsOp(AcOperation):
    """The parts of a settled accumulator: as many of equal width, side by side, as there are results. They are its
    registers."""

    name = "ac.accumulator.parts"
    accumulator = operand_def(ac.AccumulatorType)
    parts = var_result_def(ac.AccumulatorType)


def taken_over(op: AccumulatorStartOp) -> SSAValue | None:
    """The carried accumulator of a loop whose registers the operation writes: what is in flight at the end of a body
    cannot be moved. The sum that begins here is what the body yields in that one's place, and of the one carried
    nothing is read any more: the body has waited for it, and has mapped what came of it to registers, all before this
    operation. None where that is not so."""
    block, value = op.parent_block(), cast("SSAValue", op.result)
    while isinstance(user := _only_user(value), FragmentIssueOp | ac.WgmmaIssueOp) and user.accumulator is value:
        value = user.inflight
    loop = block.parent_op() if block is not None else None
    if block is None or not isinstance(user, ac.YieldOp) or not isinstance(loop, ac.LoopOp) or user.parent is not block:
        return None
    argument = block.args[1 + list(user.values).index(value)]
    wait = _only_user(argument)
    if not isinstance(wait, ac.WgmmaWaitOp) or wait.parent is not block or wait.settled is None:
        return None
    order = {each: number for number, each in enumerate(block.ops)}
    # Only a map to registers reads the numbers where it stands; others do so where their result is used.
    late = any(
        not isinstance(use.operation, FragmentMapOp)
        or use.operation.is_deferred
        or order.get(use.operation, len(order)) >= order[op]
        for use in wait.settled.uses
    )
    return None if late or order[wait] >= order[op] else argument


def _only_user(value: SSAValue) -> Operation | None:
    users = [use.operation for use in value.uses]
    return users[0] if len(users) == 1 else None


@irdl_op_definition
class FragmentIssueOp(AcOperation):
    """Multiply a fragment of 16-bit elements over "mn", or of 8-bit ones over "mk", as A in registers, with a slot's B.

    The fragment is k columns wide, steps of 32 bytes. It is moved to A's registers, which are those of every product of
    the kernel of this shape and bank, and `wgmma.fence` follows; so no product of the bank may be in flight, and no
    operand is computed while any is. bank: a set of A's registers, 0 by default. exchanged: 1 if the threads of a row
    exchange 8-bit elements before, so that k counts columns as they are; else it counts them in the order in which
    threads have them (`lower.fragment.narrow_operand`), and so must B's slot. What B's properties mean is said at
    `ac.wgmma.issue`.
    """

    name = "ac.wgmma.issue_fragment"
    m = prop_def(IntAttr)
    n = prop_def(IntAttr)
    steps = prop_def(IntAttr)
    element = prop_def(StringAttr)
    b_major = prop_def(StringAttr)
    b_leading_bytes = prop_def(IntAttr)
    b_stride_bytes = prop_def(IntAttr)
    b_step_bytes = prop_def(ArrayAttr[IntAttr])
    bank = opt_prop_def(IntAttr)
    exchanged = opt_prop_def(IntAttr)
    a = operand_def(FragmentType)
    phase = operand_def(ac.PhaseType)
    b = operand_def(MemoryType)
    accumulator = opt_operand_def(InflightType)
    inflight = result_def(InflightType)
    reading = result_def(ac.ReadingType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        return issued_types(properties, [kind.ring for kind in types_of(ac.PhaseType, operands, "phase")])

    @property
    def bank_number(self) -> int:
        return 0 if self.bank is None else self.bank.data

    @property
    def is_exchanged(self) -> bool:
        return self.exchanged is not None and self.exchanged.data != 0


def region_axes(block: Block, arguments: Sequence[str]) -> dict[SSAValue, str]:
    """Along which axes each value of a map's region changes, "m" before "n". arguments: along which its own do."""
    axes: dict[SSAValue, str] = dict(zip(block.args, arguments, strict=False))
    for op in block.ops:
        along = "".join(axis for axis in "mn" if any(axis in axes.get(value, "") for value in op.operands))
        axes.update(dict.fromkeys(op.results, along))
    return axes
