"""Ordinary accesses of warps, weak and strong: do they race, and what do strong ones order?

A release, by `.release` or a fence before a strong write, publishes what its threads know to the words it writes; an
atomic operation on such a word keeps what it holds, another write replaces it. An acquire, by `.acquire` or a fence
after a strong read, learns what the words held when they were read, if both scopes reach the other thread. Which write
is read may differ between interleavings: what then depends on it is for the caller to find, who knows the registers.
Source: PTX ISA 8.7 to 8.9. Checked by: tests/contract/judge/test_strong_accesses.py, test_happens_before_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.base.span import Span
from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge import initialised
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.order.global_order import Publication
from tilewright.contract.judge.order.strong_words import WORD_BYTES, Holding, reaches
from tilewright.contract.judge.race import ALLOCATES
from tilewright.contract.judge.run_state import ClusterState, Space, WarpState, published_by
from tilewright.machine.core.event import Access, CopyActor, MemoryFence, TensorCoreActor, WarpActor

_ACQUIRES = ("acquire", "acq_rel")
_RELEASES = ("release", "acq_rel")


def access(state: LaunchState, event: Access) -> None:
    """Any access: a warp's is judged here, an engine's was judged at its issue, but for global memory."""
    # By isinstance: most events of a run are accesses, and matching takes several times as long.
    actor = event.actor
    if isinstance(actor, WarpActor):
        _warp_access(state, event, actor)
    elif isinstance(actor, CopyActor):
        _copy_access(state, event, actor.copy)
    elif isinstance(actor, TensorCoreActor):
        if actor.operation not in state.operations:
            state.findings.doubt(f"{event.span}: wgmma {actor.operation} reads memory and was never issued")
    elif actor.operation not in state.tensor_operations:
        state.findings.doubt(f"{event.span}: tcgen05 operation {actor.operation} reads memory and was never issued")


def _warp_access(state: LaunchState, event: Access, actor: WarpActor) -> None:
    cluster, warp = state.step(actor)
    lane_order.note_access(warp)
    if event.read_only:
        warp.stay_idle()
    operation = "writes" if event.write else "reads"
    allocating = cluster.tensor.address_spans
    if allocating and event.write and event.span in allocating:
        operation = ALLOCATES
    is_global = event.space == "global"
    agent = lane_order.agent_of(warp, event)
    record = Record(
        actor,
        (cluster.index, agent) if is_global else agent,
        event.write,
        event.atomic,
        event.span,
        event.ranges,
        warp.access_track,
        warp.epoch,
        event.lanes,
        operation=operation,
        reads_value=not event.write or event.modifies,
        uncertain=event.uncertain,
        scope=event.scope,
        lane_tracks=warp.lane_tracks,
        constant=event.constant,
        places=event.places,
        read_only=event.read_only,
        cluster=cluster.index if is_global else -1,
        identity=event.identity,
        by_peer=not is_global and event.cta != actor.cta,
    )
    if is_global:
        state.check_grid(cluster, warp.clock, actor, event.lanes, event.write, event.span)
        state.enter_global(cluster, record, warp.clock, event.words)
    else:
        state.check_barrier_bytes(cluster, event.cta, event.ranges, event.span, warp.clock if event.write else None)
        if event.cta != actor.cta:
            state.remote(cluster, warp, event.cta, event.span)
        state.enter(cluster.shared_memory(event.cta), cluster, record, warp.clock, "shared")
    if event.atomic:
        _strong_access(state, cluster, warp, event)


def _copy_access(state: LaunchState, event: Access, number: int) -> None:
    copy = state.copies.get(number)
    if copy is None:
        group = state.async_copies.get(number)
        if group is None:
            state.findings.doubt(f"{event.span}: copy {number} accesses memory and was never issued")
        elif event.space == "global" or not event.write:
            is_global = event.space == "global"
            index = group.cluster.index if is_global else -1
            reader = ("cp.async", group.issuer.track)
            record = Record(
                event.actor, (index, reader) if is_global else reader, False, False, event.span, event.ranges,
                completion=group.done, issuer=group.issuer.actor, operation="reads (cp.async)", lanes=event.lanes,
                cluster=index,
            )  # fmt: skip
            if is_global:
                state.check_grid(group.cluster, group.clock, group.issuer.actor, event.lanes, False, event.span)
                state.enter_global(group.cluster, record, group.clock)
            else:
                memory = group.cluster.shared_memory(event.cta)
                state.enter(memory, group.cluster, record, group.clock, "shared")
        return
    loads = copy.direction == "load"
    if event.space == "shared" and event.write == loads:
        return  # judged at issue
    if event.space == "shared" and loads:
        agent: tuple[Any, ...] = ("copy", copy.actor)
        done = next(iter(copy.writes.values()))
        copy.source = event.cta
    elif loads:
        # Copies that signal one barrier complete in the order of its phases, so the newest stands for them.
        cta, done = next(iter(copy.writes.items()))
        agent = ("load", cta, copy.barrier_address)
    else:
        # A thread's groups are written in order, and reductions of several, which replace nothing, may be many.
        agent = ("reduce", copy.issuer.track, copy.lanes) if event.atomic else ("copy", copy.actor)
        done = copy.written
    is_global = event.space == "global"
    index = copy.cluster.index if is_global else -1
    record = copy.record(
        (index, agent) if is_global else agent, event.write, event.ranges, done, uncertain=event.uncertain,
        atomic=event.atomic, cluster=index,
    )  # fmt: skip
    if is_global:
        state.check_grid(copy.cluster, copy.clock, copy.issuer.actor, copy.lanes, event.write, event.span)
        state.enter_global(copy.cluster, record, copy.clock)
    else:
        state.enter(copy.cluster.shared_memory(event.cta), copy.cluster, record, copy.clock, "shared")


def _strong_access(state: LaunchState, cluster: ClusterState, warp: WarpState, event: Access) -> None:
    """What does a strong access publish, and what does it learn?"""
    scope = event.scope or ("sys" if event.order == "volatile" else "gpu")
    words: list[tuple[Space, int, int]] = [
        (event.space, event.cta, address)
        for begin, end in event.ranges
        for address in range(begin - begin % WORD_BYTES, end, WORD_BYTES)
    ]
    reads = not event.write or event.modifies
    holdings = state.strong_words
    learnt: list[Holding] = []
    if reads:
        ending = state.awaited.accepted(event.span, event.words)
        for word in words:
            if ending is not None and word[2] not in ending:
                continue  # a wait that goes on; in another run it may not look now
            for holding in holdings.get(word, ()):
                if reaches(holding, scope, warp.actor, cluster.index):
                    learnt.append(holding)
    if event.write:
        clock = published_by(cluster, warp, event.lanes) if event.order in _RELEASES else warp.release
        reach = scope if event.order in _RELEASES else min_scope(scope, warp.release_scope)
        keeps = event.modifies
        mine: list[Holding] = []
        if clock is not None:
            publication = state.global_order.publish(cluster, clock) if reach in ("gpu", "sys") else None
            mine = [Holding(clock.copy(), reach, warp.actor, cluster.index, publication)]
        for word in words:
            if mine or word in holdings:
                holdings[word] = [*(holdings.get(word, ()) if keeps else ()), *mine]
    if event.order in _ACQUIRES:
        for holding in learnt:
            _learn(state, cluster, warp, holding)
    elif learnt:
        warp.to_acquire.extend(learnt)


def min_scope(first: str, second: str) -> str:
    """The narrower of two scopes."""
    order = ("cta", "cluster", "gpu", "sys")
    return min(first, second, key=order.index)


def _learn(state: LaunchState, cluster: ClusterState, warp: WarpState, holding: Holding) -> None:
    if holding.cluster == cluster.index:
        warp.clock.join(holding.clock)
        warp.order.join(holding.clock)
    elif holding.publication is not None:
        publication: Publication = holding.publication
        state.global_order.learn(cluster, publication, warp.clock)


def memory_fence(state: LaunchState, event: MemoryFence) -> None:
    """fence, membar, bar.warp.sync (scope "warp") and fence.mbarrier_init."""
    cluster, warp = state.step(event.actor)
    if event.scope == "warp":
        lane_order.synchronize(warp, event.lanes)
        return
    if warp.initialises and (event.kind == "mbarrier_init" or event.scope in ("cluster", "gpu", "sys")):
        initialised.fence(cluster, warp, event, state.findings)
    if event.kind == "mbarrier_init" or event.restricted_to:
        return
    if event.order != "release":
        learnt, warp.to_acquire = warp.to_acquire, []
        for holding in learnt:
            if reaches(holding, event.scope, warp.actor, cluster.index):
                _learn(state, cluster, warp, holding)
    if event.order != "acquire":
        warp.release, warp.release_scope = published_by(cluster, warp, event.lanes).copy(), event.scope


def doubt_values(state: LaunchState, unread: frozenset[Span]) -> None:
    """Doubt what strong accesses read where an unordered write may change it."""
    for read, write in state.unordered_reads.items():
        if read not in unread:
            state.findings.doubt(
                f"{read}: what this reads may differ between interleavings, as {write} writes there too, unordered; "
                "whether control, addresses or synchronization depend on it would decide"
            )


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {Access: access, MemoryFence: memory_fence}
