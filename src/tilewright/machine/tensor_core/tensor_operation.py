"""How do tcgen05 operations proceed in a running cluster? Each thread's mma, cp, shift and commit run in order, later.

A thread issues without waiting. What it issued is executed at any later time, one after the other: this is the order
that the ISA promises for its pipelined pairs, and that hardware keeps for the others (whether a kernel may rely on it
is judged from the events). A commit is an item of the same order, and tells each of its mbarriers at any time after.
Operations of different threads are unordered. `tcgen05.st` writes at any time before `wait::st` lets its warp pass;
`tcgen05.ld` reads at once, and its registers count as in flight until `wait::ld`. Source: PTX ISA, tcgen05: Memory
Consistency Model, Asynchronous operations; tcgen05.commit. Checked by: tests/machine/tensor_core/test_tcgen05.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tilewright.base.span import Span
from tilewright.machine.barrier import mbarrier, signals
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import (
    Access,
    CommitArrive,
    Ranges,
    SharedMatrix,
    TensorBlock,
    TensorMemoryActor,
    TensorMemoryCommit,
    TensorMemoryIssue,
)
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.hazard import settle
from tilewright.machine.core.state import Cta, Strand, Warp

Kind = Literal["mma", "cp", "shift"]
Shared = tuple[tuple[Cta, Ranges], ...]
Matrices = tuple[tuple[int, SharedMatrix | None, SharedMatrix], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RegisterUse:
    """Registers (slots) of a tcgen05.ld (kind "ld", written) or tcgen05.st (kind "st", read) in flight. span: of the
    instruction."""

    operation: TensorMemoryActor
    kind: Literal["ld", "st"]
    slots: frozenset[int]
    span: Span


@dataclass(slots=True, eq=False)
class Thread:
    """What one thread issued: items to run in order, and every operation since the start."""

    queue: deque[Callable[[], None]] = field(default_factory=deque[Callable[[], None]])
    operations: list[TensorMemoryActor] = field(default_factory=list[TensorMemoryActor])


class WarpTensorState:
    """A warp's tcgen05 operations: by lane those of its threads, and its own loads and stores."""

    __slots__ = ("stores", "threads", "uses", "waiters")

    def __init__(self) -> None:
        self.threads: dict[int, Thread] = {}
        self.uses: list[RegisterUse] = []
        self.stores = 0
        self.waiters: list[tuple[Warp, Strand]] = []


def state_of(warp: Warp) -> WarpTensorState:
    """The tcgen05 state of a warp."""
    if warp.tensor is None:
        warp.tensor = WarpTensorState()
    return warp.tensor


def new_operation(warp: Warp) -> TensorMemoryActor:
    """Number a new operation."""
    counts = warp.cta.cluster.counts
    counts.tensor_operations += 1
    return TensorMemoryActor(counts.tensor_operations - 1)


def _enqueue(warp: Warp, lane: int, span: Span, item: Callable[[], None]) -> None:
    """Put an item behind what the thread issued before."""
    queue = thread_of(warp, lane).queue
    pending = warp.cta.cluster.pending

    def run() -> None:
        try:
            item()
        except EngineFault as fault:
            raise MachineFault(fault.code, fault.name, fault.message, span) from fault
        queue.popleft()
        if queue:
            pending.append(queue[0])

    queue.append(run)
    if len(queue) == 1:
        pending.append(run)


def thread_of(warp: Warp, lane: int) -> Thread:
    """What a thread issued so far."""
    return state_of(warp).threads.setdefault(lane, Thread())


def issue(
    warp: Warp, lane: int, kind: Kind, reads: tuple[TensorBlock, ...], writes: tuple[TensorBlock, ...],
    shared: Shared, cta_group: int, span: Span, action: Callable[[], None], matrices: Matrices = (),
    accumulates: bool = True,
) -> None:  # fmt: skip
    """A thread issues an mma, cp or shift; `action` is performed in the thread's order, at any later time. matrices,
    accumulates: as the event has them."""
    operation = new_operation(warp)
    thread_of(warp, lane).operations.append(operation)
    observe = warp.cta.cluster.observe
    if observe is not None:
        operands = tuple((cta.linear, ranges) for cta, ranges in shared)
        observe(
            TensorMemoryIssue(
                warp.actor, lane, operation, kind, reads, writes, operands, cta_group, (), span,
                matrices=matrices, accumulates=accumulates,
            )
        )  # fmt: skip

    def perform() -> None:
        action()
        if observe is not None:
            for cta, ranges in shared:
                observe(Access(operation, "shared", cta.linear, ranges, False, "async", span))

    _enqueue(warp, lane, span, perform)


def commit(warp: Warp, lane: int, barriers: tuple[tuple[Cta, int], ...], cta_group: int, span: Span) -> None:
    """`tcgen05.commit`: one arrival on every barrier (CTA, offset) once all earlier operations are complete."""
    cluster = warp.cta.cluster
    number = cluster.counts.tensor_commits
    cluster.counts.tensor_commits += 1
    if cluster.observe is not None:
        operations = tuple(thread_of(warp, lane).operations)
        where = tuple((cta.linear, offset) for cta, offset in barriers)
        cluster.observe(TensorMemoryCommit(warp.actor, lane, number, operations, where, cta_group, span))

    def complete() -> None:
        for cta, offset in barriers:
            cluster.pending.append(_arrival(number, cta, offset, span))

    _enqueue(warp, lane, span, complete)


def _arrival(number: int, cta: Cta, offset: int, span: Span) -> Callable[[], None]:
    def arrive() -> None:
        before = cta.barriers.get(offset)
        try:
            after = mbarrier.arrive(before)
        except EngineFault as fault:
            raise MachineFault(fault.code, fault.name, fault.message, span) from fault
        assert before is not None, "mbarrier.arrive refuses a missing object"
        if cta.cluster.observe is not None:
            cta.cluster.observe(CommitArrive(number, cta.linear, offset, before.phase, span))
        signals.store_barrier(cta, offset, before, after)

    return arrive


def hold(
    warp: Warp, operation: TensorMemoryActor, kind: Literal["ld", "st"], slots: frozenset[int], span: Span
) -> None:
    """Registers belong to a load or store until its wait.

    Where the same instruction comes again with no wait between, its registers are the later operation's: whoever
    touches one of them is reported once, as before its wait. The later load itself was reported as overwriting the
    registers of the earlier one, and what was unread of that is known. A loop without waits would else report each
    register once for each of its iterations."""
    state = state_of(warp)
    state.uses = [use for use in state.uses if not (use.kind == kind and use.span == span and use.slots <= slots)]
    state.uses.append(RegisterUse(operation, kind, slots, span))
    warp.in_flight = warp.in_flight | slots


def release(warp: Warp, kind: Literal["ld", "st"]) -> None:
    """`wait::ld` or `wait::st` passed: registers of all earlier operations of that kind are free."""
    state = state_of(warp)
    gone = [use for use in state.uses if use.kind == kind]
    if not gone:
        return
    state.uses = [use for use in state.uses if use.kind != kind]
    settle(warp)


def store_later(warp: Warp, span: Span, action: Callable[[], None]) -> None:
    """Queue the write of a tcgen05.st; `wait::st` counts it."""
    state = state_of(warp)
    state.stores += 1

    def run() -> None:
        try:
            action()
        except EngineFault as fault:
            raise MachineFault(fault.code, fault.name, fault.message, span) from fault
        state.stores -= 1
        if not state.stores:
            warp.cta.cluster.wake(state.waiters)

    warp.cta.cluster.pending.append(run)
