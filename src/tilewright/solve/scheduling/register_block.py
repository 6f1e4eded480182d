"""In which order are the operations of a straight-line block run, so that few registers are live at once?

A value lives from the operation that computes it to the last that reads it, what is kept behind the block to its end.
The pressure of an order is the most registers live between two operations, results that nobody reads counted where they
are computed. For a tree Sethi and Ullman's order is the best: subtrees that need more registers first. Where values are
read several times the question is NP-complete; then the best of three orders is taken: as given, Sethi and Ullman's,
and one that always takes what frees most. `bound` says below what no order comes; `solve.scheduling.register_order`
searches for the least there is.

Sources: R. Sethi and J. D. Ullman, "The generation of optimal code for arithmetic expressions", J. ACM 17 (1970);
R. Sethi, "Complete register allocation problems", SIAM J. Comput. 4 (1975).
Not handled: instructions that may overwrite an operand but not another; latencies. Checked by:
tests/solve/scheduling/test_register_order.py, against all orders of small blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockOperation:
    """registers: of its result, 0 for none; reads: earlier operations whose results it reads, or that must come first
    (those without a result)."""

    registers: int
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RegisterBlock:
    """Operations in an order that is possible. kept: those whose results are live behind the block."""

    operations: tuple[BlockOperation, ...]
    kept: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for number, operation in enumerate(self.operations):
            if operation.registers < 0 or any(not 0 <= read < number for read in operation.reads):
                raise ValueError(f"operation {number} reads what comes behind it")
        if any(not 0 <= number < len(self.operations) for number in self.kept):
            raise ValueError("what is kept is computed in the block")


def pressure(block: RegisterBlock, order: Sequence[int]) -> int:
    """Registers live at once, at most. Raises ValueError for an order that is none: it judges those of any solver."""
    if sorted(order) != list(range(len(block.operations))):
        raise ValueError("an order has every operation once")
    readers = _reader_counts(block)
    done: set[int] = set()
    live = most = 0
    for number in order:
        operation = block.operations[number]
        if not done.issuperset(operation.reads):
            raise ValueError(f"operation {number} comes before what it reads")
        done.add(number)
        for read in set(operation.reads):
            readers[read] -= 1
            if not readers[read] and read not in block.kept:
                live -= block.operations[read].registers
        live += operation.registers
        most = max(most, live)
        if not readers[number] and number not in block.kept:
            live -= operation.registers
    return most


def bound(block: RegisterBlock) -> int:
    """Registers that every order needs: for what is kept, before any operation for its operands, behind it for its
    result and what others still read of them."""
    found = sum(block.operations[number].registers for number in block.kept)
    for operation in block.operations:
        operands = sum(block.operations[read].registers for read in set(operation.reads))
        found = max(found, operands, operation.registers)
    return found


def fast_order(block: RegisterBlock) -> tuple[int, ...]:
    """The best of three orders, the given one where it is as good, in time about quadratic."""
    orders = [tuple(range(len(block.operations))), _by_need(block), _by_freeing(block)]
    return min(orders, key=lambda order: pressure(block, order))


def _reader_counts(block: RegisterBlock) -> list[int]:
    counts = [0] * len(block.operations)
    for operation in block.operations:
        for read in set(operation.reads):
            counts[read] += 1
    return counts


def _by_need(block: RegisterBlock) -> tuple[int, ...]:
    """Sethi and Ullman's order, shared subtrees computed where they are first wanted."""
    operations = block.operations
    need: list[int] = []
    for operation in operations:
        held = most = 0
        reads = sorted(set(operation.reads), key=lambda read: need[read] - operations[read].registers, reverse=True)
        for read in reads:
            most = max(most, held + need[read])
            held += operations[read].registers
        need.append(max(most, operation.registers))
    roots = [number for number, count in enumerate(_reader_counts(block)) if not count]
    order: list[int] = []
    done: set[int] = set()
    pending = [(root, False) for root in reversed(roots)]
    while pending:
        number, ready = pending.pop()
        if number in done:
            continue
        if ready:
            done.add(number)
            order.append(number)
            continue
        pending.append((number, True))
        reads = sorted(set(operations[number].reads), key=lambda read: need[read] - operations[read].registers)
        pending += [(read, False) for read in reads]
    return tuple(order)


def _by_freeing(block: RegisterBlock) -> tuple[int, ...]:
    """Always what adds fewest registers, of as good ones what reads the newest value."""
    operations, left = block.operations, _reader_counts(block)
    waiting = [len(set(operation.reads)) for operation in operations]
    readers: list[list[int]] = [[] for _ in operations]
    for number, operation in enumerate(operations):
        for read in set(operation.reads):
            readers[read].append(number)
    ready = [number for number, count in enumerate(waiting) if not count]
    place: dict[int, int] = {}

    def added(number: int) -> tuple[int, int, int]:
        reads = set(operations[number].reads)
        freed = sum(operations[read].registers for read in reads if left[read] == 1 and read not in block.kept)
        return operations[number].registers - freed, -max((place[read] for read in reads), default=-1), number

    while ready:
        number = min(ready, key=added)
        ready.remove(number)
        place[number] = len(place)
        for read in set(operations[number].reads):
            left[read] -= 1
        for reader in readers[number]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return tuple(place)
