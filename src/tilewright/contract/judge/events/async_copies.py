"""cp.async, the copies that are not bulk: who knows that their bytes have landed?

A thread's copies are done for it once it has waited for their group (or for everything), and for whoever waits for the
mbarrier phase that its cp.async.mbarrier.arrive counts in. A warp's copies are counted in the order of their issue: a
copy is taken for done when it and all before it are, for all lanes that issued them. Their writes go through the
generic proxy, so that an engine that reads them needs a proxy fence by somebody who knows of their completion.
Source: PTX ISA 9.7.9.25.3 (cp.async), 9.7.13.15 (cp.async.mbarrier.arrive). Checked by:
tests/contract/judge/test_async_copies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.contract.history.shadow_memory import Completion, Record
from tilewright.contract.judge import phase_ledger
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.run_state import AsyncCopyState, AsyncCopyThread, ClusterState, WarpState
from tilewright.machine.core.event import (
    AsyncCopyArrive,
    AsyncCopyArriveIssue,
    AsyncCopyCommit,
    AsyncCopyIssue,
    AsyncCopyWait,
)

_ALL_LANES = 32


def _lanes(bits: int) -> list[int]:
    return [lane for lane in range(32) if bits >> lane & 1]


def _thread(cluster: ClusterState, warp: WarpState) -> AsyncCopyThread:
    if warp.async_copies is None:
        warp.async_copies = AsyncCopyThread(cluster.tracks.of(("cp.async", warp.actor)))
    return warp.async_copies


def issue(state: LaunchState, event: AsyncCopyIssue) -> None:
    """cp.async by some lanes of a warp."""
    cluster, warp = state.step(event.actor)
    thread = _thread(cluster, warp)
    thread.issued += 1
    done = Completion(thread.track, thread.issued)
    copy = AsyncCopyState(
        event.copy, warp, cluster, event.lanes, thread.issued, done, warp.clock.copy(), event.span, event.lanes
    )
    thread.open.append(copy)
    state.async_copies[event.copy.copy] = copy
    cluster.async_copies.append(copy)
    state.check_barrier_bytes(cluster, event.actor.cta, event.shared, event.span, warp.clock)
    record = Record(
        event.copy, ("cp.async", warp.track), True, False, event.span, event.shared, lanes=event.lanes,
        completion=done, issuer=warp.actor, operation="writes (cp.async)", places=event.places,
    )  # fmt: skip
    state.enter(cluster.shared_memory(event.actor.cta), cluster, record, warp.clock, "shared")


def commit(state: LaunchState, event: AsyncCopyCommit) -> None:
    """cp.async.commit_group: the lanes' open copies become their next group."""
    cluster, warp = state.step(event.actor)
    thread = _thread(cluster, warp)
    groups = {lane: thread.committed.get(lane, 0) for lane in _lanes(event.lanes)}
    thread.committed.update((lane, group + 1) for lane, group in groups.items())
    for copy in thread.open:
        fresh = copy.uncommitted & event.lanes
        if fresh:
            copy.groups.update((lane, groups[lane]) for lane in _lanes(fresh))
            copy.uncommitted &= ~fresh


def wait(state: LaunchState, event: AsyncCopyWait) -> None:
    """cp.async.wait_group and wait_all."""
    cluster, warp = state.step(event.actor)
    thread = _thread(cluster, warp)
    for lane in _lanes(event.lanes):
        done = thread.committed.get(lane, 0) - event.pending
        thread.waited[lane] = max(thread.waited.get(lane, 0), done)
        if event.everything:
            thread.everything[lane] = thread.issued
    before = thread.covered
    everyone = min(thread.everything.values()) if len(thread.everything) == _ALL_LANES else 0
    while thread.open and _is_done(thread, thread.open[0], everyone):
        thread.covered = thread.open.pop(0).ordinal
    if thread.covered > before:
        warp.advance(thread.track, thread.covered)
        thread.waits.append((warp.epoch, thread.covered))


def _is_done(thread: AsyncCopyThread, copy: AsyncCopyState, everyone: int) -> bool:
    """Is a copy done? everyone: all lanes know this many of the warp's copies to be."""
    return copy.ordinal <= everyone or all(
        thread.everything.get(lane, 0) >= copy.ordinal
        or copy.groups.get(lane, thread.waited.get(lane, 0)) < thread.waited.get(lane, 0)
        for lane in _lanes(copy.lanes)
    )


def arrive_issue(state: LaunchState, event: AsyncCopyArriveIssue) -> None:
    """cp.async.mbarrier.arrive is executed."""
    cluster, warp = state.step(event.actor)
    thread = _thread(cluster, warp)
    others = any(copy.lanes & ~event.lanes for copy in thread.open)
    covered = thread.covered if others else thread.issued
    thread.arrivals[event.arrival] = (warp.clock.copy(), warp.order.copy(), covered)
    if event.adds_to is not None:
        phase_ledger.add_arrivals(cluster, warp, event.adds_to, event.span)


def arrive(state: LaunchState, event: AsyncCopyArrive) -> None:
    """A deferred arrival counts."""
    cluster, warp = state.step(event.actor)
    thread = _thread(cluster, warp)
    issued = thread.arrivals.get(event.arrival)
    if issued is None:
        state.findings.doubt(f"{event.span}: a deferred arrival counts that was never issued")
        return
    phase_ledger.deferred_arrive(cluster, warp, event, thread.track, issued, state.findings)


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {
    AsyncCopyIssue: issue,
    AsyncCopyCommit: commit,
    AsyncCopyWait: wait,
    AsyncCopyArriveIssue: arrive_issue,
    AsyncCopyArrive: arrive,
}
