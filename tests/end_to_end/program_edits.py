"""Edits of an `ac` program: find an operation, drop it, repeat it, move it, change a property."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import ExecutionAttr, int_array

Op = TypeVar("Op", bound=Operation)
Edit = Callable[[ModuleOp], None]


def every(module: ModuleOp, kind: type[Op]) -> list[Op]:
    return [op for op in module.walk() if isinstance(op, kind)]


def within(role: str, module: ModuleOp, kind: type[Op]) -> list[Op]:
    """Operations of a kind in the role of a name."""
    (found,) = [op for op in every(module, ac.RoleOp) if op.sym_name.data == role]
    return [op for op in found.walk() if isinstance(op, kind)]


def erase(op: Operation) -> None:
    op.detach()
    op.erase()


def drop(kind: type[Operation], number: int = 0) -> Edit:
    """Remove the number-th operation of a kind, which has no result in use."""
    return lambda module: erase(every(module, kind)[number])


def bypass(kind: type[Operation], number: int, operand: int) -> Edit:
    """Remove an operation; whoever used its result uses its operand."""

    def edit(module: ModuleOp) -> None:
        op = every(module, kind)[number]
        op.results[0].replace_all_uses_with(op.operands[operand])
        erase(op)

    return edit


def repeat(kind: type[Operation], number: int = 0) -> Edit:
    """The number-th operation of a kind twice in a row."""

    def edit(module: ModuleOp) -> None:
        op = every(module, kind)[number]
        after(op, op.clone())

    return edit


def chain(kind: type[Operation], number: int, operand: int) -> Edit:
    """The operation twice in a row, the second on the first one's result."""

    def edit(module: ModuleOp) -> None:
        op = every(module, kind)[number]
        clone = op.clone()
        after(op, clone)
        op.results[0].replace_uses_with_if(clone.results[0], lambda use: use.operation is not clone)
        clone.operands[operand] = op.results[0]

    return edit


def after(op: Operation, new: Operation) -> None:
    block = op.parent_block()
    assert block is not None
    block.insert_op_after(new, op)


def before(op: Operation, new: Operation) -> None:
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(new, op)


def change(kind: type[Operation], number: int, name: str, how: Callable[[int], int]) -> Edit:
    """Change an integer property of the number-th operation of a kind."""

    def edit(module: ModuleOp) -> None:
        op = every(module, kind)[number]
        old = op.properties[name]
        assert isinstance(old, IntAttr)
        new = how(old.data)
        assert new != old.data, "the edit changes nothing"
        op.properties[name] = IntAttr(new)

    return edit


def word(kind: type[Operation], number: int, name: str, value: str) -> Edit:
    """Change a string property of the number-th operation of a kind."""

    def edit(module: ModuleOp) -> None:
        op = every(module, kind)[number]
        assert op.properties[name] != StringAttr(value), "the edit changes nothing"
        op.properties[name] = StringAttr(value)

    return edit


def to(number: int) -> Callable[[int], int]:
    return lambda _: number


def plus(number: int) -> Callable[[int], int]:
    return lambda old: old + number


def times(number: float) -> Callable[[int], int]:
    return lambda old: int(old * number)


# ---------------------------------------------------------------- edits of several operations


def announce(how: Callable[[int], int]) -> Edit:
    """Announce other bytes, every token's type made to match, so that no type gives it away."""

    def edit(module: ModuleOp) -> None:
        (op,) = every(module, ac.ArriveExpectOp)
        size = how(op.bytes.data)
        difference = size - op.bytes.data
        op.properties["bytes"] = IntAttr(size)
        for token in (op, *every(module, ac.CopyIssueOp)):
            kind = token.results[0].type
            assert isinstance(kind, ac.TransactionType)
            object.__setattr__(
                token.results[0], "_type", ac.TransactionType(kind.ring, IntAttr(kind.bytes.data + difference))
            )

    return edit


def copy_of_other_operand(module: ModuleOp) -> None:
    """The first copy writes into the other operand's slots."""
    copies = every(module, ac.CopyIssueOp)
    copies[0].operands[1] = copies[-1].operands[1]


def wgmma_of_other_operand(module: ModuleOp) -> None:
    """In the loop, B is read from A's slots."""
    issue = every(module, ac.WgmmaIssueOp)[1]
    issue.operands[2] = issue.operands[1]


def release_before_retire(module: ModuleOp) -> None:
    """The slot is released as soon as it has been waited for, while the wgmma that reads it is yet to come."""
    wait = within("consumer", module, ac.BarrierWaitOp)[1]
    arrive = every(module, ac.ArriveOp)[0]
    arrive.detach()
    after(wait, arrive)
    arrive.operands[0] = wait.results[0]


def settle_after_use(module: ModuleOp) -> None:
    """The accumulator is read before the wait that settles it."""
    wait = every(module, ac.WgmmaWaitOp)[-1]
    assert wait.accumulator is not None and wait.settled is not None
    wait.settled.replace_all_uses_with(wait.accumulator)


def wait_bypassed(role: str) -> Edit:
    """A role's first wait is dropped; what it let through takes the ring itself for a phase."""

    def edit(module: ModuleOp) -> None:
        wait = within(role, module, ac.BarrierWaitOp)[0]
        wait.results[0].replace_all_uses_with(wait.operands[0])
        erase(wait)

    return edit


def wait_for_phase_before(module: ModuleOp) -> None:
    """In the loop, the wgmma reads the slot waited for before the loop."""
    waits = within("consumer", module, ac.BarrierWaitOp)
    every(module, ac.WgmmaIssueOp)[1].operands[0] = waits[0].results[0]


def write_before_reuse_wait(module: ModuleOp) -> None:
    wait, write = every(module, ac.BulkWaitOp)[0], every(module, ac.StageWriteOp)[0]
    wait.detach()
    after(write, wait)


def store_before_sync(module: ModuleOp) -> None:
    """The barrier between the staging writes and the store is dropped."""
    sync = next(op for op in every(module, ac.NamedBarrierSyncOp) if op.staged is not None)
    assert sync.result is not None and sync.staged is not None
    sync.result.replace_all_uses_with(sync.staged)
    erase(sync)


def all_bulk_commits(module: ModuleOp) -> None:
    for commit in every(module, ac.BulkCommitOp):
        erase(commit)


def all_reuse_waits(how: Callable[[int], int] | None) -> Edit:
    """Change, or drop, every wait for staging but the one at the end."""

    def edit(module: ModuleOp) -> None:
        for wait in every(module, ac.BulkWaitOp)[:-1]:
            if how is None:
                erase(wait)
            else:
                wait.properties["pending"] = IntAttr(how(wait.pending.data))

    return edit


def last_of(kind: type[Operation]) -> Edit:
    return lambda module: erase(every(module, kind)[-1])


def both_arrivals_to_self(module: ModuleOp) -> None:
    """Slots are released in the own CTA only, and the count is made to match."""
    for arrive in every(module, ac.ArriveOp):
        assert arrive.peers.data == 2
        arrive.properties["peers"] = IntAttr(1)
    (ring,) = every(module, ac.RingOp)
    ring.properties["empty_arrivals"] = IntAttr(ring.empty_arrivals.data // 2)


def one_peer(module: ModuleOp) -> None:
    """The releases go to the own CTA only."""
    for arrive in every(module, ac.ArriveOp):
        assert arrive.peers.data == 2
        arrive.properties["peers"] = IntAttr(1)


def multicast(width: int) -> Edit:
    """The shared copy reaches `width` CTAs."""

    def edit(module: ModuleOp) -> None:
        copy = next(op for op in every(module, ac.CopyIssueOp) if op.multicast.data == 2)
        copy.properties["multicast"] = IntAttr(width)

    return edit


def rank_ignored(module: ModuleOp) -> None:
    """Both CTAs write their part of the shared operand to the same place."""
    copy = next(op for op in every(module, ac.CopyIssueOp) if op.rank_offset_bytes.data)
    copy.properties["rank_offset_bytes"] = IntAttr(0)


def entry_sync_of_cta(module: ModuleOp) -> None:
    sync = every(module, ac.ClusterSyncOp)[0]
    before(sync, ac.CtaSyncOp.create())
    erase(sync)


def role_at(name: str, unit: str, count: int, first_thread: int) -> Edit:
    def edit(module: ModuleOp) -> None:
        (role,) = [op for op in every(module, ac.RoleOp) if op.sym_name.data == name]
        role.properties["execution"] = ExecutionAttr(StringAttr(unit), IntAttr(count), IntAttr(first_thread))

    return edit


def smaller_box(number: int) -> Edit:
    """A tensor map's box with half the rows."""

    def edit(module: ModuleOp) -> None:
        op = every(module, ac.TensorMapOp)[number]
        inner, outer = (size.data for size in op.box)
        op.properties["box"] = int_array((inner, outer // 2))

    return edit


def other_raster(module: ModuleOp) -> None:
    """Every role goes through the tiles in another order, the same for all."""
    for op in every(module, ac.TilesOp):
        op.properties["raster_group"] = IntAttr(op.raster_group.data + 1)
