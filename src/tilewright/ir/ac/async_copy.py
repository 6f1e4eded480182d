"""Copies by threads into a ring's slot, in the asynchronous contract: for arrays that no tensor map describes.

A warpgroup fills the slot. Each of its threads copies pieces of 4, 8 or 16 bytes with `cp.async` to where the swizzle
wants them, and then has its arrival on the slot's full barrier deferred until its own copies have landed. A slot's full
phase therefore counts one arrival of the elected thread, which announces what the copy engine brings besides (nothing,
where it brings nothing), and one of each of the 128 threads.

The bytes are written through the generic proxy, and the tensor core reads through the async proxy: whoever waited for
the phase must fence before it multiplies.

Source: PTX ISA, cp.async, cp.async.mbarrier.arrive.noinc, fence.proxy.async. Checked by:
tests/contract/typestate/steps/test_async_copy_steps.py and tests/lower/ptx/copies/test_async_copy.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import AcOperation
from tilewright.ir.tier import MemoryType

COPYING_THREADS = 128
"""Threads of the warpgroup that fills; each arrives once on a slot's full barrier."""


@irdl_op_definition
class AsyncCopyIssueOp(AcOperation):
    """Copies of a box of an array into the slot, at `offset_bytes`, in pieces of `piece_bytes` by all of the unit's
    threads.

    The box has `box[1]` rows of `box[0]` elements, which fill one row of the buffer's swizzle. Row r of it begins at
    the array's element with index `coordinates[0]` along dimension `dimensions[0]`, along which elements are
    contiguous, `coordinates[1]` + r along `dimensions[1]`, and `coordinates[i]` along the others. What lies past the
    array's end along either of the first two is written as 0, and not read. Coordinates are never negative.

    factors: 1 where rows are factors of blocks, of one piece for each cell, which go to where tcgen05.cp takes them
    from (`ac.tensor.factors`).
    """

    name = "ac.async_copy.issue"
    offset_bytes = prop_def(IntAttr)
    box = prop_def(ArrayAttr[IntAttr])
    dimensions = prop_def(ArrayAttr[IntAttr])
    piece_bytes = prop_def(IntAttr)
    factors = opt_prop_def(IntAttr)
    source = operand_def(ac.GlobalType)
    buffer = operand_def(MemoryType)
    tx = operand_def(ac.TransactionType)
    coordinates = var_operand_def(ac.IndexType)
    result = result_def(ac.TransactionType)

    def verify_(self) -> None:
        if self.tx.type != self.result.type:
            raise VerifyException("copies by threads pay for no announced byte, so both tokens are of one type")
        if len(self.box) != 2 or len(self.dimensions) != len(self.coordinates) or len(self.dimensions) < 2:
            raise VerifyException("a box has two extents, and each of two dimensions or more a coordinate")


@irdl_op_definition
class AsyncCopyArriveOp(AcOperation):
    """Each of the unit's threads arrives on the slot's full barrier once all its copies so far have landed
    (cp.async.mbarrier.arrive.noinc). The slot is filled as far as the unit is concerned: no announced byte is left."""

    name = "ac.async_copy.arrive"
    tx = operand_def(ac.TransactionType)


@irdl_op_definition
class AsyncCopyFenceOp(AcOperation):
    """fence.proxy.async.shared::cta by every thread of a unit that has waited for a full slot: what threads copied into
    it is then visible to the unit's wgmma, or to what its one thread issues."""

    name = "ac.async_copy.fence"
    phase = operand_def(ac.PhaseType)
    result = result_def(ac.PhaseType)


@irdl_op_definition
class AsyncCopyWaitOp(AcOperation):
    """cp.async.wait_all by every thread of the unit: no thread ends while its copies are on their way."""

    name = "ac.async_copy.wait"
