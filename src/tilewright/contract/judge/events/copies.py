"""Bulk copies: whose bytes do they touch, and who may touch those before the copy is known to be done?

A load is done for whoever knows that the mbarrier phase it completes in has ended; a store for whoever learnt of its
bulk group's wait from the thread that issued it. A tensor map that lies in global memory is read through the tensormap
proxy from the issue to the completion: who wrote it must have released it through that proxy, and the issuer acquired
it. Source: PTX ISA 9.7.9.25 to 9.7.9.27, 9.7.13.4. Checked by: tests/contract/judge/test_happens_before_rules.py,
test_tensor_maps.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Literal

from tilewright.base.diagnostic import Level
from tilewright.contract.history.shadow_memory import Completion, Record
from tilewright.contract.judge import initialised, phase_ledger
from tilewright.contract.judge.launch_state import TENSOR_MAP_BYTES, LaunchState
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.race import describe_race
from tilewright.contract.judge.run_state import ClusterState, CopyState, WarpState, is_ordered, name_of
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.machine.core.event import (
    BarrierComplete,
    BulkCommit,
    BulkWait,
    CopyIssue,
    TensorMapFence,
    WarpActor,
)

_WARP_LANES = 32


def issue(state: LaunchState, event: CopyIssue) -> None:
    """A bulk copy begins."""
    cluster, warp = state.step(event.actor)
    copy = CopyState(
        event.copy, warp, cluster, event.direction, warp.clock.copy(), warp.order.copy(), event.span,
        event.barrier_address, 1 << event.lane, {}, event.barrier_ctas,
    )  # fmt: skip
    state.copies[event.copy.copy] = copy
    state.roles.note(event.actor, event.direction)
    cluster.copies.append(copy)
    if event.direction == "store":
        _issue_store(state, cluster, warp, event, copy)
        return
    for cta, owner in zip(event.destinations, event.barrier_ctas or event.destinations, strict=True):
        _issue_load(state, cluster, warp, event, copy, cta, owner)


def _issue_store(
    state: LaunchState, cluster: ClusterState, warp: WarpState, event: CopyIssue, copy: CopyState
) -> None:  # fmt: skip
    copy.constant = _name_of_store(warp, event)
    copy.reads, copy.written = Completion(), Completion()
    thread = warp.bulk_thread(event.lane)
    if thread.read_track < 0:
        thread.read_track = cluster.tracks.of(("bulk read", warp.actor, event.lane))
        thread.write_track = cluster.tracks.of(("bulk write", warp.actor, event.lane))
    thread.uncommitted.append(copy)
    thread.last_span = event.span
    record = copy.record(("bulk", warp.track, event.lane), False, event.shared, copy.reads)
    for cta in event.destinations:
        state.enter(cluster.shared_memory(cta), cluster, record, copy.clock, "shared")
    _use_tensor_map(state, cluster, warp, event, copy, copy.reads)


def _issue_load(
    state: LaunchState, cluster: ClusterState, warp: WarpState, event: CopyIssue, copy: CopyState, cta: int, owner: int
) -> None:
    """A load into one CTA, which tells a barrier of CTA `owner`."""
    span, clock = event.span, copy.clock
    done = copy.writes[cta] = Completion()
    if cta != event.actor.cta:  # how long the copy reaches into the peer is judged by its completion
        state.check_started(cluster, warp, cta, span)
    address = -1 if event.barrier_address is None else event.barrier_address
    live = cluster.barriers.get(owner)
    barrier = None if live is None else live.get(address)
    if barrier is None:
        state.findings.report(
            "MB101",
            f"a bulk copy into CTA {cta} signals no live mbarrier (+{address:#x} of CTA {owner})",
            span,
        )
    else:
        engine = Level.ERROR if state.interpretations.fenced_init == "always" else Level.REVIEW
        initialised.check_init(cluster, barrier, clock, warp, span, state.findings, engine)
        barrier.users[warp.track] = warp.mark(span)
    state.check_barrier_bytes(cluster, cta, event.shared, span, clock)
    by_peer = event.stored and owner != event.actor.cta
    cluster.stored_by_peers = cluster.stored_by_peers or by_peer
    # Reductions that signal one barrier complete in the order of its phases, so the newest stands for them.
    agent = ("reduce", cta, owner, address) if event.reduces else ("copy", copy.actor, cta)
    record = copy.record(
        agent, True, event.shared, done, atomic=event.reduces, by_peer=by_peer
    )  # fmt: skip
    state.enter(cluster.shared_memory(cta), cluster, record, clock, "shared")
    if event.tensor_map is not None:
        _use_tensor_map(state, cluster, warp, event, copy, done)


def _name_of_store(warp: WarpState, event: CopyIssue) -> tuple[int, ...]:
    """Names the data of a store: the same for the lanes of a warp that issue it by one instruction."""
    begin, source = warp.repeated.get(event.span, (-1, ()))
    flat = tuple(bound for part in event.shared for bound in part)
    if begin < 0 or source[1:] != flat or begin + 1 != warp.epoch:
        source = (event.copy.copy, *flat)
    warp.repeated[event.span] = (warp.epoch, source)
    return source


def _use_tensor_map(
    state: LaunchState, cluster: ClusterState, warp: WarpState, event: CopyIssue, copy: CopyState, done: Completion
) -> None:
    """The copy reads a tensor map in global memory: it must be there, and stay."""
    if event.tensor_map is None:
        return
    cells = ((event.tensor_map, event.tensor_map + TENSOR_MAP_BYTES),)
    record = Record(
        copy.actor, ("tensor map", copy.actor), False, False, event.span, cells, completion=done,
        issuer=warp.actor, operation="reads (tensor map)", by_engine=True,
    )  # fmt: skip
    state.map_readers.add(cluster.index)
    if state.any_global_address:
        _doubt_tensor_map(state, cluster, warp, event.tensor_map, copy, record)
    for earlier in cluster.global_memory.conflicts(record):
        if not is_ordered(earlier, copy.clock):
            code, message, steps = describe_race(earlier, record, "global")
            state.findings.report(code, message, event.span, earlier.span, steps)
            continue
        covered, own = _is_published(cluster, warp, event.tensor_map, earlier, copy.lanes)
        severity: Level | None = Level.ERROR
        if covered:
            severity = None if own else state.interpretations.tensor_map_acquire
        if covered == "for lanes":
            severity = state.interpretations.lanes_in_step
        if severity is not None:
            lacking = "release by the lanes that write" if own else "acquire by the issuer"
            state.findings.report(
                "TM104",
                f"{name_of(copy.actor, warp.actor)} uses the tensor map at {event.tensor_map:#x}, which "
                f"{name_of(earlier.actor)} writes, without fence.proxy.tensormap ({lacking})",
                event.span,
                earlier.span,
                (
                    f"{name_of(earlier.actor)} writes the tensor map ({earlier.span}) through the generic proxy",
                    "the threads synchronize without fence.proxy.tensormap::generic.release and .acquire, of a scope "
                    "that has both of them",
                    f"{name_of(warp.actor)} issues a copy ({event.span}), which reads a stale tensor map",
                ),
                severity,
            )


def _doubt_tensor_map(
    state: LaunchState, cluster: ClusterState, warp: WarpState, address: int, copy: CopyState, record: Record
) -> None:
    """The same where addresses are made up, so that who wrote the map may have written another one."""
    for earlier in state.made_up_maps.use(cluster.index, record):
        covered, _ = _is_published(cluster, warp, address, earlier, copy.lanes)
        if not covered or not is_ordered(earlier, copy.clock):
            state.findings.doubt(
                f"{copy.span}: the copy uses a tensor map that the kernel seems to write at {earlier.span}, and "
                "nothing releases and acquires it on the way (fence.proxy.tensormap); give --launch"
            )


def _is_published(
    cluster: ClusterState, warp: WarpState, address: int, earlier: Record, lanes: int
) -> tuple[Literal["", "for lanes", "for all"], bool]:
    """Was what `earlier` wrote of a tensor map released and acquired on the way to these lanes of `warp`, each for a
    scope that has both ("for lanes": by another lane of the writer's warp, which does not know of the write); and was
    it acquired by `warp` itself? Of what an engine wrote nobody can say so."""
    writer = earlier.issuer or earlier.actor
    wide = not isinstance(writer, WarpActor) or writer.cta != warp.actor.cta
    own = _acquired_by(warp, (address, wide), lanes)
    acquired = own if own is not None else _acquired_for(cluster, warp, (address, wide))
    if acquired is None or earlier.by_engine:
        return "", own is not None
    release, epoch = ("tensor map release", earlier.warp_track, wide), earlier.epoch
    if cluster.at(acquired, release) < epoch:
        return "", own is not None
    writers = [lane for lane in range(_WARP_LANES) if earlier.lanes >> lane & 1]
    by_all = all(cluster.at(acquired, (*release, lane)) >= epoch for lane in writers)
    return "for all" if by_all else "for lanes", own is not None


def _acquired_by(warp: WarpState, tensor_map: tuple[int, bool], lanes: int) -> VectorClock | None:
    """What a warp knew at its last acquire of a tensor map that these of its lanes know of: they executed it, or have
    synchronized with one that did."""
    acquires = warp.tensor_maps.get(tensor_map, {})
    known = [each for by, each in acquires.items() if lane_order.lanes_know_of(warp, by, each[0], lanes)]
    return max(known, key=operator.itemgetter(0))[1] if known else None


def _acquired_for(cluster: ClusterState, warp: WarpState, tensor_map: tuple[int, bool]) -> VectorClock | None:
    """What another warp of the CTA knew at an acquire of a tensor map that `warp` knows of."""
    for other in cluster.warps.values():
        if other is warp or other.actor.cta != warp.actor.cta:
            continue
        for epoch, known in other.tensor_maps.get(tensor_map, {}).values():
            if warp.clock.at(other.track) >= epoch:
                return known
    return None


def tensor_map_fence(state: LaunchState, event: TensorMapFence) -> None:
    """fence.proxy.tensormap::generic: a release of what was written, or an acquire of one tensor map. One of the CTA's
    scope is none for threads of other CTAs."""
    cluster, warp = state.step(event.actor)
    for wide in (False, True)[: 1 if event.scope == "cta" else 2]:
        if event.kind == "release":
            release = ("tensor map release", warp.access_track, wide)
            cluster.advance(warp.clock, release, warp.epoch)
            for lane in range(_WARP_LANES):  # what another lane has done is released once both have synchronized
                epoch = warp.epoch if event.lanes >> lane & 1 else warp.synchronized_epoch
                cluster.advance(warp.clock, (*release, lane), epoch)
        elif event.address is not None:
            acquires = warp.tensor_maps.setdefault((event.address, wide), {})
            acquires[event.lanes] = warp.epoch, warp.clock.copy()


def complete(state: LaunchState, event: BarrierComplete) -> None:
    """A copy's bytes are counted by a barrier."""
    copy = state.copies.get(event.actor.copy)
    if copy is None:
        phase_ledger.complete_by_hand(state.cluster_of(event.cta), event, state.findings)
        return
    phase_ledger.complete(copy.cluster, copy, event, state.findings)


def commit(state: LaunchState, event: BulkCommit) -> None:
    """cp.async.bulk.commit_group."""
    _, warp = state.step(event.actor)
    thread = warp.bulk_thread(event.lane)
    if event.copies:  # most threads of a warp commit groups of nothing
        members = {copy.copy for copy in event.copies}
        for copy in thread.uncommitted:
            if copy.actor.copy in members:
                copy.reads.track, copy.reads.value = thread.read_track, event.group + 1
                copy.written.track, copy.written.value = thread.write_track, event.group + 1
        thread.uncommitted = [copy for copy in thread.uncommitted if copy.actor.copy not in members]
    thread.groups = event.group + 1
    thread.waited_after = False


def wait(state: LaunchState, event: BulkWait) -> None:
    """cp.async.bulk.wait_group, and .read."""
    _, warp = state.step(event.actor)
    thread = warp.bulk_thread(event.lane)
    thread.waits += 1
    thread.waited_after = True
    done = thread.groups - event.pending
    if done > 0 and thread.read_track < 0:
        thread.read_waited = max(thread.read_waited, done)
    elif done > 0:
        for known in (thread.known_read,) if event.read else (thread.known_read, thread.known_done):
            if not known or known[-1][0] < done:
                known.append((done, warp.epoch))
        thread.read_waited = max(thread.read_waited, done)
        warp.advance(thread.read_track, done)
        if not event.read:
            warp.advance(thread.write_track, done)


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {
    CopyIssue: issue,
    BulkCommit: commit,
    BulkWait: wait,
    BarrierComplete: complete,
    TensorMapFence: tensor_map_fence,
}
