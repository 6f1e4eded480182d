"""Epilogues in the asynchronous contract: an accumulator's values are loaded beside, mapped, staged and stored.

Bytes that leave by bulk copies pass from threads to the copy engine as `!ac.staged` tokens, whose states the types say.
The dialect they belong to is `ac`. Checked by: tests/ir/ac/test_text.py, and by `contract` on every kernel.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    var_operand_def,
)

from tilewright.ir.ac.format import AcOperation
from tilewright.ir.ac.types import (
    DescriptorType,
    FragmentType,
    GlobalType,
    IndexType,
    ScalarType,
    StagedType,
)
from tilewright.ir.tier import MemoryType


@irdl_op_definition
class FragmentLoadOp(AcOperation):
    """Plain loads of a global array at the accumulator's places; out-of-bounds places read as 0. row and column are the
    fragment's first element; axes of the result say which of them the array has. ahead: 1 where the numbers are taken
    into registers here, else each is loaded where it is used. blocks: for each axis of the result, how many places side
    by side have one number of the array in common; 1 each where absent. Places are not negative then. pairs: 1 where
    two columns side by side are loaded at once, which begin at a multiple of their size.

    through: nothing; or, of a vector along the columns, a buffer and the unit's number. Then a warp loads each number
    once, neighbouring ones at a time, keeps them in a part of its own of the unit's instance of the buffer, and reads
    them there where they are used, before it loads others into the part. part: which of the warp's, each as long as the
    vector, in float32."""

    name = "ac.fragment.load"
    ahead = opt_prop_def(IntAttr)
    blocks = opt_prop_def(ArrayAttr[IntAttr])
    pairs = opt_prop_def(IntAttr)
    part = opt_prop_def(IntAttr)
    source = operand_def(GlobalType)
    row = operand_def(IndexType)
    column = operand_def(IndexType)
    through = var_operand_def()
    result = result_def(FragmentType)


@irdl_op_definition
class ScalarOp(AcOperation):
    """A float32 function of one to three scalars, by its name in `tilewright.ir.function`."""

    name = "ac.scalar"
    LEAD: ClassVar[tuple[str, ...]] = ("function",)
    function = prop_def(StringAttr)
    inputs = var_operand_def(ScalarType)
    result = result_def(ScalarType)


@irdl_op_definition
class RoundOp(AcOperation):
    """A float32 rounded to `element` and back."""

    name = "ac.round"
    LEAD: ClassVar[tuple[str, ...]] = ("to element",)
    element = prop_def(StringAttr)
    input = operand_def(ScalarType)
    result = result_def(ScalarType)


@irdl_op_definition
class ConstantOp(AcOperation):
    """A float32 constant by its 32-bit image."""

    name = "ac.constant"
    bits = prop_def(IntAttr)
    result = result_def(ScalarType)


@irdl_op_definition
class StageWriteOp(AcOperation):
    """Generic-proxy stores of columns [column_begin, column_end) of a fragment into a slot of a staging buffer.

    plan: the exchange (`ir.exchange`) whose stores bring the fragment's values there; without it each row's columns
    follow one another, under the buffer's swizzle, which is where a plan brings them too. block: of the fragment's
    blocks of 64 rows the one that is stored, by a plan that puts each column's rows one after another; all without it.
    """

    name = "ac.stage.write"
    plan = opt_prop_def(DictionaryAttr)
    block = opt_prop_def(IntAttr)
    column_begin = prop_def(IntAttr)
    column_end = prop_def(IntAttr)
    slot = prop_def(IntAttr)
    fragment = operand_def(FragmentType)
    buffer = operand_def(MemoryType)
    unit = operand_def(IndexType)
    result = result_def(StagedType)


@irdl_op_definition
class FenceProxyOp(AcOperation):
    """fence.proxy.async.shared::cta by every thread of the unit."""

    name = "ac.fence.proxy_async"
    staged = operand_def(StagedType)
    result = result_def(StagedType)


@irdl_op_definition
class NamedBarrierSyncOp(AcOperation):
    """bar.sync of the unit's 128 threads on named barrier `first_barrier` + unit. Turns fenced bytes ready, if
    given."""

    name = "ac.named_barrier.sync"
    first_barrier = prop_def(IntAttr)
    threads = prop_def(IntAttr)
    unit = operand_def(IndexType)
    staged = opt_operand_def(StagedType)
    result = opt_result_def(StagedType)


@irdl_op_definition
class CopyStoreOp(AcOperation):
    """One bulk tensor store of a staged box, by the unit's first thread; it belongs to the next committed group.

    lines: how many of the staged lines are stored, the first ones, where others belong to the next tile; all without
    it.
    """

    name = "ac.tma.store"
    slot = prop_def(IntAttr)
    box_bytes = prop_def(IntAttr)
    lines = opt_prop_def(IntAttr)
    descriptor = operand_def(DescriptorType)
    buffer = operand_def(MemoryType)
    unit = operand_def(IndexType)
    staged = operand_def(StagedType)
    coordinates = var_operand_def(IndexType)


@irdl_op_definition
class BulkCommitOp(AcOperation):
    """cp.async.bulk.commit_group by the unit's first thread."""

    name = "ac.bulk.commit_group"
    unit = operand_def(IndexType)


@irdl_op_definition
class BulkWaitOp(AcOperation):
    """cp.async.bulk.wait_group by the unit's first thread; read 1 waits only until sources have been read."""

    name = "ac.bulk.wait_group"
    pending = prop_def(IntAttr)
    read = prop_def(IntAttr)
    unit = operand_def(IndexType)


@irdl_op_definition
class GlobalStoreOp(AcOperation):
    """Plain bounds-checked stores of a fragment to a global array.

    through: nothing; or a buffer and the unit's number. Then each warp takes its rows through a part of its own of the
    unit's instance of the buffer, so that it stores along them. vectors 1: 16 bytes at a time, of an array that begins,
    and whose rows begin and end, at multiples of that.
    """

    name = "ac.global.store"
    vectors = opt_prop_def(IntAttr)
    fragment = operand_def(FragmentType)
    destination = operand_def(GlobalType)
    row = operand_def(IndexType)
    column = operand_def(IndexType)
    through = var_operand_def()


@irdl_op_definition
class RowsStoreOp(AcOperation):
    """Plain stores of a fragment to the rows before `row_end` of a global array, and within its columns.

    Each warp takes its rows through a part of its own of the unit's instance of `buffer`, so that it stores along them.
    vectors 1: 16 bytes at a time, of an array that begins, and whose rows begin and end, at multiples of that.
    """

    name = "ac.rows.store"
    vectors = prop_def(IntAttr)
    fragment = operand_def(FragmentType)
    destination = operand_def(GlobalType)
    row = operand_def(IndexType)
    column = operand_def(IndexType)
    row_end = operand_def(IndexType)
    buffer = operand_def(MemoryType)
    unit = operand_def(IndexType)
