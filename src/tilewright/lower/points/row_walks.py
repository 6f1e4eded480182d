"""Which walks over a row does an op make, and what does each of them need?

A walk ends in the folds of one level, or in the stores behind them. Levels count folds that wait for one another.
Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.function import Function
from tilewright.ir.rows import COSTLY

Fold = ac.FoldOp | ac.ArgFoldOp


@dataclass(frozen=True, slots=True)
class Walk:
    """ends: folds and stores; needed: what they are computed from and changes along the row, in order."""

    level: int
    ends: list[Operation]
    needed: list[Operation]

    def needed_by(self, ends: Sequence[Operation]) -> list[Operation]:
        """What some of the ends are computed from."""
        if len(ends) == len(self.ends):
            return self.needed
        behind = _behind(ends, set())
        return [each for each in self.needed if each in behind]


def walks_of(
    ops: Sequence[Operation], varying: set[Operation], levels: dict[Operation, int], *, keeps_costly: bool
) -> list[Walk]:
    """The walks of a row, in order. keeps_costly: whether what costs much is computed in the first that needs it."""
    found: list[Walk] = []
    keeps: set[Operation] = set()
    for level in range(1 + max(levels.values(), default=0)):
        ends: list[Operation] = [
            inner
            for inner in ops
            if (isinstance(inner, Fold) and levels[inner] == level + 1)
            or (isinstance(inner, ac.ElementStoreOp) and inner in varying and levels[inner] == level)
        ]
        if not ends:
            continue
        behind = _behind(ends, keeps)
        needed = [each for each in ops if each in behind and each in varying and each not in ends]
        found.append(Walk(level, ends, needed))
        if keeps_costly:
            keeps |= {each for each in needed if is_costly(each)}
    return found


def levels_of(op: ac.ElementwiseOp) -> tuple[set[Operation], dict[Operation, int]]:
    """The ops whose result changes along the row (stores: that go along it), and how many folds, one waiting for the
    other, must be known before each can be computed."""
    along = op.body.block.args[-1]
    varying: set[Operation] = set()
    levels: dict[Operation, int] = {}
    for inner in op.body.block.ops:
        owners = [operand.owner for operand in inner.operands]
        before = [levels[owner] for owner in owners if isinstance(owner, Operation) and owner in levels]
        levels[inner] = max(before, default=0) + isinstance(inner, Fold)
        moves = any(operand is along or operand.owner in varying for operand in inner.operands)
        if moves and not isinstance(inner, Fold):
            varying.add(inner)
    return varying, levels


def is_costly(op: Operation) -> bool:
    """Whether a thread keeps what an op gives, rather than compute it anew."""
    return isinstance(op, ac.ScalarOp) and op.function.data in COSTLY


def product_of(op: Operation) -> ac.ScalarOp | None:
    """The product that is rounded with a sum, or with a fold that adds: one that nothing else needs."""
    if not isinstance(op, ac.ScalarOp | ac.FoldOp) or op.function.data != Function.ADD.value:
        return None
    for operand in op.operands:
        owner = operand.owner
        if isinstance(owner, ac.ScalarOp) and owner.function.data == Function.MUL.value and operand.has_one_use():
            return owner
    return None


def joins_a_sum(op: Operation) -> bool:
    """Whether what an op gives is the product of a sum, with which it is computed."""
    users = [use.operation for result in op.results for use in result.uses]
    return len(users) == 1 and product_of(users[0]) is op


def words_of(fold: Fold) -> int:
    """Of each warp: of a value that stands somewhere, its place is a second word."""
    return 2 if isinstance(fold, ac.ArgFoldOp) else 1


def reached(op: Operation) -> tuple[Sequence[SSAValue], SSAValue] | None:
    """The indices of an access, and its array."""
    match op:
        case ac.ElementLoadOp():
            return op.indices, op.source
        case ac.ElementStoreOp():
            return op.indices, op.destination
        case _:
            return None


def _behind(ends: Sequence[Operation], known: set[Operation]) -> set[Operation]:
    """The ops, and all that they are computed from, up to what is known."""
    found: set[Operation] = set()
    open_ = list(ends)
    while open_:
        op = open_.pop()
        if op not in found and op not in known:
            found.add(op)
            open_ += [operand.owner for operand in op.operands if isinstance(operand.owner, Operation)]
    return found
