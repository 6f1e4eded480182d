"""Which sums that a loop carries stay in the registers in which the tensor core adds to them?

A sum is carried as a fragment: an iteration starts an accumulator with it, and yields what the accumulator came to.
Written as copies, both cost a move of every register in every iteration, which ptxas (12.9, 13.0) leaves where another
accumulator's registers must lie together. Where nothing else reads the fragment, and what is yielded is the
accumulator's numbers as they are, one set of registers serves: the accumulator takes the argument's, and the result of
the map that only repeats its numbers is where these are. Of a sum that is rescaled before it is carried on, only the
start's moves would go, and others come at the end of the loop.

Behind the loop, a sum to which a last product is added begins where the loop has left it, if nothing else reads it.

Where consumers issue in order, sums are carried in flight, and nothing is to be decided. That no thread reads or writes
them while a product runs is what the proof of the text asks of every accumulator.
Checked by: tests/lower/fragment/test_carried_sum.py.
"""

from __future__ import annotations

from xdsl.ir import BlockArgument, OpResult, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorStartOp, FragmentIssueOp, FragmentMapOp
from tilewright.lower.fragment.promotion import used_once
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import AccumulatorPlace, FragmentPlace


def carried_start(lowering: Lowering, op: AccumulatorStartOp) -> AccumulatorPlace | None:
    """The registers of a loop's argument, where an accumulator begins as it and is carried on as it ends; or those of
    what a loop before it has left for it alone."""
    value = op.fragment
    if isinstance(value, OpResult) and isinstance(value.op, ac.LoopOp):
        left, alone = lowering.place(value), value.op.parent is op.parent and used_once(value)
        return AccumulatorPlace(left.blocks, left.columns) if alone and isinstance(left, FragmentPlace) else None
    if not isinstance(value, BlockArgument) or not isinstance(value.block.parent_op(), ac.LoopOp):
        return None
    place = lowering.place(value)
    alone = value.block is op.parent and used_once(value) and isinstance(place, FragmentPlace)
    if not alone or _carried_as(op) is not value:
        return None
    assert isinstance(place, FragmentPlace)
    return AccumulatorPlace(place.blocks, place.columns)


def carried_result(lowering: Lowering, op: FragmentMapOp) -> FragmentPlace | None:
    """Where a sum is that the loop carries on as it is; None where it has to be computed, or moved."""
    argument = _repeated_in(op)
    if argument is None:
        return None
    place, head = lowering.place(op.inputs[0]), lowering.place(argument)
    stays = isinstance(place, AccumulatorPlace) and isinstance(head, FragmentPlace) and head.blocks == place.blocks
    return head if stays and isinstance(head, FragmentPlace) else None


def _carried_as(op: AccumulatorStartOp) -> SSAValue | None:
    """The argument of the loop in whose place the sum that begins here is carried on, as the product leaves it."""
    value: SSAValue = op.result
    while used_once(value):
        (use,) = value.uses
        match use.operation:
            case FragmentIssueOp() as issue if issue.accumulator is value:
                value = issue.inflight
            case ac.WgmmaWaitOp() as wait if wait.settled is not None:
                value = wait.settled
            case FragmentMapOp() as repeats:
                return _repeated_in(repeats)
            case _:
                return None
    return None


def _repeated_in(op: FragmentMapOp) -> SSAValue | None:
    """The argument of its loop in whose place a map yields nothing but its input's numbers; None of any other map."""
    body, loop, block = op.body.block, op.parent_op(), op.parent_block()
    if len(op.inputs) != 1 or len(op.outputs) != 1 or len(list(body.ops)) != 1 or not isinstance(loop, ac.LoopOp):
        return None
    (result,) = op.outputs
    kind = result.type
    if kind.element.data != "f32" or block is None or not used_once(result):
        return None
    (use,) = result.uses
    return block.args[1 + use.index] if isinstance(use.operation, ac.YieldOp) else None
