"""Which sums that a loop carries stay in the registers in which the tensor core adds to them?

A sum is carried as a fragment: an iteration starts an accumulator with it, and yields what the accumulator came to.
Written as copies, both cost a move of every register in every iteration, which ptxas (12.9, 13.0) leaves where another
accumulator's registers must lie together: 128 moves among 480 instructions in the gradients of keys and values of head
size 128. Where nothing else reads the fragment after its start, nor what is yielded before its end, one set of
registers serves: the accumulator takes the argument's, and the result of a map that only repeats the accumulator's
numbers is where these are.

That no thread reads or writes them while a product runs is what the proof of the text asks of every accumulator.
Checked by: tests/lower/fragment/test_carried_sum.py.
"""

from __future__ import annotations

from xdsl.ir import BlockArgument

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorStartOp, FragmentMapOp
from tilewright.lower.fragment.promotion import used_once
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import AccumulatorPlace, FragmentPlace


def carried_start(lowering: Lowering, op: AccumulatorStartOp) -> AccumulatorPlace | None:
    """The registers of a loop's argument, where an accumulator begins as it and nothing else reads it."""
    value = op.fragment
    if not isinstance(value, BlockArgument) or not isinstance(value.block.parent_op(), ac.LoopOp):
        return None
    place = lowering.place(value)
    if value.block is not op.parent or not used_once(value) or not isinstance(place, FragmentPlace):
        return None
    return AccumulatorPlace(place.blocks, place.columns)


def carried_result(lowering: Lowering, op: FragmentMapOp) -> FragmentPlace | None:
    """Where a sum is that the loop carries on as it is; None where it has to be computed, or moved."""
    if len(op.inputs) != 1 or len(op.outputs) != 1 or len(list(op.body.block.ops)) != 1:
        return None
    (result,), (source,) = op.outputs, op.inputs
    place, kind = lowering.place(source), result.type
    if not isinstance(place, AccumulatorPlace) or not isinstance(kind, ac.FragmentType) or not used_once(result):
        return None
    (use,) = result.uses
    loop = op.parent_op()
    if not isinstance(use.operation, ac.YieldOp) or not isinstance(loop, ac.LoopOp) or kind.element.data != "f32":
        return None
    head = lowering.place(loop.body.block.args[1 + use.index])
    if not isinstance(head, FragmentPlace) or head.blocks != place.blocks:
        return None
    return head
