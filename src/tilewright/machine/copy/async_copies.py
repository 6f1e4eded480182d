"""How does a `cp.async` proceed in a running CTA? Its bytes land at some later time, until its thread has waited.

One warp instruction is one copy in flight for all its lanes. A `commit_group` closes, for every lane that executes it,
the copies which that lane has not yet committed; groups of a thread are counted from the newest, so only the order of
a warp's commits is kept. `mbarrier.arrive` ties a lane's earlier copies to an mbarrier: without `.noinc` the pending
count grows at once, and the arrival comes when they have landed. Nothing orders one copy against another. Source: PTX
ISA, Non-Bulk Asynchronous Copy; `cp.async.mbarrier.arrive`.

Not handled: lanes of one instruction that land at different times, or whose source is read earlier than it lands.
Checked by: tests/machine/copy/test_async_copy.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.machine.barrier import mbarrier
from tilewright.machine.barrier.signals import store_barrier
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import (
    Access,
    AsyncCopyArrive,
    AsyncCopyArriveIssue,
    AsyncCopyIssue,
    CopyActor,
    LaneRows,
    Places,
)
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import indices, selector, to_bits
from tilewright.machine.core.memory import Region, merge_ranges
from tilewright.machine.core.state import Cta, Strand, Warp


@dataclass(slots=True, eq=False)
class AsyncCopy:
    """One cp.async of a warp. lanes: who issued it; open_lanes: who has not committed it yet."""

    actor: CopyActor
    lanes: int
    open_lanes: int
    landed: bool = False


@dataclass(slots=True, eq=False)
class Commit:
    """A commit_group by the lanes `lanes`: their copies until then."""

    lanes: int
    copies: tuple[AsyncCopy, ...]


@dataclass(slots=True, eq=False)
class DeferredArrival:
    """A cp.async.mbarrier.arrive that waits for `copies` to land."""

    copies: list[AsyncCopy]
    arrive: Callable[[], None]


@dataclass(slots=True, eq=False)
class AsyncCopies:
    """The cp.asyncs of one warp: in flight or not yet waited for, in the order of issue."""

    copies: list[AsyncCopy] = field(default_factory=list[AsyncCopy])
    commits: list[Commit] = field(default_factory=list[Commit])
    deferred: list[DeferredArrival] = field(default_factory=list[DeferredArrival])
    waiters: list[tuple[Warp, Strand]] = field(default_factory=list["tuple[Warp, Strand]"])
    arrivals: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LanePiece:
    """Some lanes' part of a copy: `size_bytes` to `shared_offsets`, from `source` or, where that is None, zeros.

    read_bytes: how many bytes come from the source; the rest are zeros.
    """

    source: Region | None
    source_offsets: npt.NDArray[np.int64]
    shared_offsets: npt.NDArray[np.int64]
    read_bytes: int
    lanes: int


def state_of(warp: Warp) -> AsyncCopies:
    """The warp's cp.asyncs."""
    state: AsyncCopies | None = warp.async_copies
    if state is None:
        state = warp.async_copies = AsyncCopies()
    return state


def issue(warp: Warp, mask: int, pieces: list[LanePiece], size_bytes: int, span: Span) -> None:
    """Begin one copy for the lanes of `mask`: `pieces` cover them all, all in the warp's own CTA."""
    cluster, cta = warp.cta.cluster, warp.cta
    actor = CopyActor(cluster.counts.copies)
    cluster.counts.copies += 1
    observe = cluster.observe
    if observe is not None:
        every = pieces[0].shared_offsets
        if len(pieces) > 1:
            every = np.concatenate([piece.shared_offsets for piece in pieces])
            every = every[np.argsort(np.concatenate([indices(piece.lanes) for piece in pieces]))]
        lanes = to_bits(mask)
        places = Places((LaneRows(lanes, every, size_bytes),))
        observe(AsyncCopyIssue(warp.actor, lanes, actor, merge_ranges(every, size_bytes), span, places))

    def land() -> None:
        for piece in pieces:
            _land(cta, actor, piece, size_bytes, span)

    begin(warp, mask, actor, land)


def begin(warp: Warp, mask: int, actor: CopyActor, land: Callable[[], None]) -> None:
    """A copy by the lanes of `mask` is in flight. land: moves its bytes, once."""
    state = state_of(warp)
    copy = AsyncCopy(actor, mask, mask)
    state.copies.append(copy)

    def landing() -> None:
        land()
        copy.landed = True
        _landed(warp, state)

    warp.cta.cluster.pending.append(landing)


def _land(cta: Cta, actor: CopyActor, piece: LanePiece, size_bytes: int, span: Span) -> None:
    observe = cta.cluster.observe
    decoder = cta.cluster.program.decoder
    moves = decoder.dropped is None or decoder.mathematics
    if piece.source is not None and piece.read_bytes and observe is not None:
        where = piece.source
        shared, base = where.cta >= 0, 0 if where.cta >= 0 else where.base
        ranges = merge_ranges(piece.source_offsets + base, piece.read_bytes)
        space = "shared" if shared else "global"
        observe(Access(actor, space, where.cta, ranges, False, "generic", span, lanes=to_bits(piece.lanes)))
    if moves or decoder.dropped is None:
        values = np.zeros((piece.shared_offsets.size, size_bytes), np.uint8)
        if piece.source is not None and piece.read_bytes:
            reach = np.arange(piece.read_bytes)
            values[:, : piece.read_bytes] = piece.source.data[piece.source_offsets[:, None] + reach]
        cta.shared.data[piece.shared_offsets[:, None] + np.arange(size_bytes)] = values
    else:
        decoder.dropped.drop(cta.shared)
    if observe is not None:
        ranges = merge_ranges(piece.shared_offsets, size_bytes)
        observe(Access(actor, "shared", cta.linear, ranges, True, "generic", span, lanes=to_bits(piece.lanes)))


def _landed(warp: Warp, state: AsyncCopies) -> None:
    ready = [each for each in state.deferred if _has_landed(each)]
    if ready:
        state.deferred = [each for each in state.deferred if each not in ready]
        for each in ready:
            warp.cta.cluster.pending.append(each.arrive)
    if state.waiters:
        warp.cta.cluster.wake(state.waiters)


def _has_landed(arrival: DeferredArrival) -> bool:
    """Have all copies of a deferred arrival landed? Those at the end that have are not looked at again."""
    copies = arrival.copies
    while copies and copies[-1].landed:
        copies.pop()
    return not copies


def commit(warp: Warp, mask: int) -> None:
    """`cp.async.commit_group` by the lanes of `mask`."""
    state = state_of(warp)
    members: list[AsyncCopy] = []
    for copy in state.copies:
        if copy.open_lanes & mask:
            copy.open_lanes &= ~mask
            members.append(copy)
    state.commits.append(Commit(mask, tuple(members)))
    _forget(state)


def _forget(state: AsyncCopies) -> None:
    """Drop what has landed and can no longer be waited for: committed copies, and the oldest groups."""
    state.copies = [copy for copy in state.copies if copy.open_lanes or not copy.landed]
    done = 0
    for each in state.commits:
        if not all(copy.landed for copy in each.copies):
            break
        done += 1
    # A thread counts groups from its newest, so groups at the old end do not matter once they have landed.
    del state.commits[:done]


def waited(warp: Warp, mask: int, pending: int) -> bool:
    """Have all but the `pending` most recent groups of every lane in `mask` landed?"""
    state = state_of(warp)
    remaining = np.where(selector(mask), pending, -1)
    for each in reversed(state.commits):
        members = selector(each.lanes) & (remaining >= 0)
        due = members & (remaining == 0)
        if due.any() and any(not copy.landed and bool((selector(copy.lanes) & due).any()) for copy in each.copies):
            return False
        remaining = remaining - (members & (remaining > 0))
    return True


def all_landed(warp: Warp, mask: int) -> bool:
    """Have all copies of the lanes in `mask`, committed or not, landed?"""
    return all(copy.landed or not copy.lanes & mask for copy in state_of(warp).copies)


def arrive_when_landed(
    warp: Warp, mask: int, cta: Cta, offset: int, count: int, no_increment: bool, span: Span
) -> None:
    """`cp.async.mbarrier.arrive` by `count` lanes (`mask`) on the object at `offset` of `cta`."""
    state = state_of(warp)
    before = cta.barriers.get(offset)
    if before is None:
        raise MachineFault(
            "MB202", "mbarrier-not-initialized", "cp.async.mbarrier.arrive on memory that holds no mbarrier object",
            span, "PTX ISA, cp.async.mbarrier.arrive",
        )  # fmt: skip
    if not no_increment:
        if before.pending + count > before.limits.count_max:
            raise MachineFault(
                "MB201", "mbarrier-range", f"{count} more arrivals than {before.pending} leave the counter's range",
                span, "PTX ISA, cp.async.mbarrier.arrive",
            )  # fmt: skip
        cta.barriers[offset] = replace(before, pending=before.pending + count)

    number, state.arrivals = state.arrivals, state.arrivals + 1
    if cta.cluster.observe is not None:
        adds_to = None if no_increment else (cta.linear, offset)
        cta.cluster.observe(AsyncCopyArriveIssue(warp.actor, to_bits(mask), number, span, adds_to))

    def arrive() -> None:
        left = count
        while left:
            current = cta.barriers.get(offset)
            # As many lanes as the current phase still takes, so that one event names one phase.
            here = left if current is None else min(left, max(1, current.pending))
            try:
                after = mbarrier.arrive(current, here)
            except EngineFault as fault:
                raise MachineFault(fault.code, fault.name, fault.message, span) from fault
            assert current is not None, "mbarrier.arrive refuses a missing object"
            observe = cta.cluster.observe
            if observe is not None:
                lanes, phase = to_bits(mask), current.phase
                observe(AsyncCopyArrive(warp.actor, lanes, cta.linear, offset, phase, here, no_increment, span, number))
            store_barrier(cta, offset, current, after)
            left -= here

    earlier = [copy for copy in state.copies if copy.lanes & mask and not copy.landed]
    if earlier:
        state.deferred.append(DeferredArrival(earlier, arrive))
    else:
        warp.cta.cluster.pending.append(arrive)


def describe(state: Any) -> str:
    """What a wait for cp.asyncs still lacks, as one line."""
    missing = sum(not copy.landed for copy in state.copies)
    return f"waits for cp.async groups; {missing} copies have not landed"
