"""Edits of a correct product in `ac`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.contract.gemm_program import RING
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Operation

from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import MemoryType

Op = TypeVar("Op", bound=Operation)


def every(module: ModuleOp, kind: type[Op]) -> list[Op]:
    return [op for op in module.walk() if isinstance(op, kind)]


def first(module: ModuleOp, kind: type[Op], number: int = 0) -> Op:
    return every(module, kind)[number]


def put(op: Operation, **numbers: int) -> None:
    for name, number in numbers.items():
        assert name in op.properties, name
        assert op.properties[name] != IntAttr(number), "the mutation changes nothing"
        op.properties[name] = IntAttr(number)


def bypass(op: Operation, operand: int = 0) -> None:
    """Remove `op`; whoever used its result uses its operand."""
    value = op.operands[operand]
    op.results[0].replace_all_uses_with(value)
    remove(op)


def remove(op: Operation) -> None:
    op.detach()
    op.erase()


def copy_after(op: Operation) -> Operation:
    block = op.parent_block()
    assert block is not None
    clone = op.clone()
    block.insert_op_after(clone, op)
    return clone


def retype(op: Operation, kind: ac.TransactionType | ac.PhaseType | MemoryType | ac.RingType | ac.StagedType) -> None:
    object.__setattr__(op.results[0], "_type", kind)
    assert op.results[0].type == kind


def no_advance(module: ModuleOp) -> None:
    bypass(first(module, ac.AdvanceOp))


def announced_bytes(size: int) -> Callable[[ModuleOp], None]:
    """Announce other bytes, with every type made to match, so that no type is suspicious."""

    def mutate(module: ModuleOp) -> None:
        announce = first(module, ac.ArriveExpectOp)
        change = size - announce.bytes.data
        put(announce, bytes=size)
        for op in (announce, *every(module, ac.CopyIssueOp)):
            kind = op.results[0].type
            assert isinstance(kind, ac.TransactionType)
            retype(op, ac.TransactionType(RING, IntAttr(kind.bytes.data + change)))

    return mutate


def copy_dropped(module: ModuleOp) -> None:
    bypass(first(module, ac.CopyIssueOp, 1), operand=2)


def late_retire(module: ModuleOp) -> None:
    put(first(module, ac.WgmmaWaitOp), pending=2)


def consumer_begins_late(module: ModuleOp) -> None:
    put(first(module, ac.LoopOp, 1), begin=2)


def producer_begins_late(module: ModuleOp) -> None:
    put(first(module, ac.LoopOp), begin=1)


def edit(kind: type[Operation], number: int = 0, **numbers: int) -> Callable[[ModuleOp], None]:
    """Set integer properties of the number-th operation of a kind."""
    return lambda module: put(first(module, kind, number), **numbers)
