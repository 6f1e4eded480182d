"""Which sums of rows do the threads of a row add up behind the loop that carries them?

A fold goes over a thread's own numbers first, and then through the four threads that share the row. A sum that a loop
only carries on, multiplied by a number of the row and added to, is linear in what is folded. So each thread may carry
its own part of it: what the loop does to the sum it does to the parts, and their sum behind the loop is the sum. Then
an iteration has no exchange, which takes two shuffles of each row, one waiting for the other.

What a walk begins with is such a part too: 0, or what a first iteration by itself gives, as long as nobody else reads
it. A number of the row is not: added to each part, it would be added four times.

Not handled: extremes, which an iteration needs whole. Checked by: tests/lower/fragment/test_late_fold.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.fragment import FragmentFoldOp, FragmentFullOp, FragmentMapOp
from tilewright.ir.function import Function
from tilewright.lower.fragment.promotion import used_once

Kind = Literal["row", "part", "zero"]
"""Of a number: the row's, the same in its threads; a thread's part of it; 0, which is both."""


def is_finished_late(op: FragmentFoldOp) -> bool:
    """Whether a fold leaves each thread its own part, which a loop carries on."""
    if not _is_part(op.result):
        return False
    (use,) = op.result.uses
    return any(_is_carried_in_parts(loop, at) for loop, at in _carried_at(use.operation))


def carried_in_parts(loop: ac.LoopOp) -> list[int]:
    """Which of the values that a loop carries are in parts."""
    return [at for at in range(len(loop.outputs)) if _is_carried_in_parts(loop, at)]


def _carried_at(op: Operation) -> Iterator[tuple[ac.LoopOp, int]]:
    """Where a map's results are carried: by a loop that yields them, or that begins with them."""
    for result in op.results if isinstance(op, FragmentMapOp) else ():
        for use in result.uses:
            match use.operation:
                case ac.LoopOp() as loop:
                    at = next((at for at, value in enumerate(loop.carried) if value is result), None)
                    if at is not None:
                        yield loop, at
                case ac.YieldOp() as end:
                    loop = end.parent_op()
                    if isinstance(loop, ac.LoopOp) and end.parent is loop.body.block:
                        yield loop, use.index
                case _:
                    pass


def _is_carried_in_parts(loop: ac.LoopOp, at: int) -> bool:
    argument, begin, end = loop.body.block.args[1 + at], loop.carried[at], loop.body.block.last_op
    kind = argument.type
    if not isinstance(kind, ac.FragmentType) or kind.axes.data != "m" or not isinstance(end, ac.YieldOp):
        return False
    folds = _given_in_parts(end.values[at], loop, argument)
    begins = _is_zero(begin) or _given_in_parts(begin, loop, None)
    return folds and begins


def _given_in_parts(value: SSAValue, loop: ac.LoopOp, argument: BlockArgument | None) -> bool:
    """Whether a map gives a value for the loop alone that is linear in a fold, and in what the loop carries of it."""
    op = value.owner
    if not isinstance(op, FragmentMapOp) or not used_once(value) or isinstance(op.parent_op(), FragmentMapOp):
        return False
    if argument is not None and (op.parent is not loop.body.block or not used_once(argument)):
        return False
    kinds: dict[SSAValue, Kind] = {}
    for inner, each in zip(op.body.block.args, op.inputs, strict=False):
        kinds[inner] = "zero" if _is_zero(each) else "part" if each is argument or _is_part(each) else "row"
    end = op.body.block.last_op
    assert isinstance(end, ac.YieldOp)
    if "part" not in kinds.values() or (argument is not None and argument not in op.inputs):
        return False
    for each in op.body.block.ops:
        if each is end:
            break
        found = _kind(each, [kinds.get(operand, "row") for operand in each.operands])
        if found is None:
            return False
        kinds.update(dict.fromkeys(each.results, found))
    given = {result: kinds.get(inner, "row") for result, inner in zip(op.outputs, end.values, strict=True)}
    # Others see the row's own numbers.
    return all((kind != "row") if each is value else (kind == "row") for each, kind in given.items())


def _kind(op: Operation, operands: list[Kind]) -> Kind | None:
    """Of what a region's operation gives; None where it is not linear in parts."""
    function = op.function.data if isinstance(op, ac.ScalarOp) else ""
    match function, operands:
        case Function.FMA.value, [left, right, other]:
            return _added(_multiplied(left, right), other)
        case Function.MUL.value, [left, right]:
            return _multiplied(left, right)
        case ((Function.ADD.value | Function.SUB.value), [left, right]):
            return _added(left, right)
        case Function.NEG.value, [one]:
            return one
        case _:
            return None if "part" in operands else "row"


def _multiplied(left: Kind, right: Kind) -> Kind | None:
    if "zero" in (left, right):
        return "zero"
    return "row" if left == right == "row" else None if left == right else "part"


def _added(left: Kind | None, right: Kind) -> Kind | None:
    match left, right:
        case (None, _) | ("part", "row") | ("row", "part"):
            return None
        case "zero", _:
            return right
        case _:
            return left


def _is_part(value: SSAValue) -> bool:
    """Whether a value is a sum of rows that one map reads, and whose parts threads are to keep."""
    op = value.owner
    is_late = isinstance(op, FragmentFoldOp) and is_set(op.late) and op.function.data == Function.ADD.value
    return is_late and used_once(value)


def _is_zero(value: SSAValue) -> bool:
    return isinstance(value, OpResult) and isinstance(value.op, FragmentFullOp) and value.op.bits.data == 0
