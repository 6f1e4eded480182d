"""Is a run of a kernel free of races and hangs in every interleaving, not just in the one that happened?

The judge takes a run's events one at a time and decides of the partial order that they imply. Clocks (`vector_clock`)
say what a warp knows; an access conflicts with an earlier one if both touch a byte and one writes (`shadow_memory`):

- two ordinary accesses must be ordered: the later warp knows the earlier event;
- an ordinary access and a later one by an engine (bulk copy, wgmma): whoever issues the engine must know a proxy fence
  that follows the access;
- an engine's access and anything later: the later one must know what reports the engine's completion: the mbarrier
  phase of a load, the bulk group of a store, the wgmma group.

Mbarriers are judged by `phase_ledger`. If every synchronization is so ordered that it would be the same in any
interleaving, and no access races, then values and control flow are the same too, and one run that ends stands for all.

What is taken on trust, and named in `ASSUMPTIONS`: the lanes of a warp are ordered among themselves. Taken from the
caller: a wait that fails is tried again (`retried_waits` reads that off the text). Atomics and strong accesses
synchronize in ways that are not followed: they make the judge doubt. Not handled: non-bulk cp.async, tensor maps
changed by the kernel, scopes narrower than the cluster, tcgen05.
Checked by: tests/contract/test_happens_before.py, tests/contract/test_happens_before_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.contract import phase_ledger
from tilewright.contract.exit_rules import check_exit
from tilewright.contract.race import describe_race, describe_unfenced, overlap
from tilewright.contract.replay_codes import RunFindings
from tilewright.contract.run_state import (
    ALL_LANES,
    BulkThread,
    ClusterState,
    CopyState,
    NamedState,
    OperationState,
    Space,
    WarpgroupState,
    WarpState,
    is_ordered,
    name_of,
)
from tilewright.contract.shadow_memory import Completion, Record, ShadowMemory
from tilewright.contract.vector_clock import VectorClock, common
from tilewright.machine.event import (
    Access,
    BarrierArrive,
    BarrierComplete,
    BarrierExpect,
    BarrierInit,
    BarrierInvalidate,
    BarrierWait,
    BulkCommit,
    BulkWait,
    ClusterArrive,
    ClusterBarrier,
    ClusterWait,
    CopyActor,
    CopyIssue,
    Event,
    Exit,
    MemoryFence,
    NamedBarrier,
    NamedBarrierArrive,
    PhaseEnd,
    ProxyFence,
    Ranges,
    RegisterBudget,
    RegisterHazard,
    TensorCoreActor,
    WarpActor,
    WgmmaCommit,
    WgmmaFence,
    WgmmaIssue,
    WgmmaWait,
)

WARPGROUP_WARPS = 4
ASSUMPTIONS = (
    "lanes of one warp are ordered among themselves by program order and reconvergence",
    "no value that steers control or addresses comes from a clock",
)
_WARP_THREADS = 32
_WIDE_SCOPES = ("cluster", "gpu", "sys")


@dataclass(frozen=True, slots=True)
class Readings:
    """Contested readings of the PTX ISA, each with a strict side and a tolerant one; the strict one is the default, but
    for fenced_init.

    proxy_fence: "writer": the fence must be executed by the threads that made the accesses; "path": by any thread
    between them and the issuer. fence_before_refill: does an ordinary read need a proxy fence before an asynchronous
    write of the same bytes? fenced_init: does an mbarrier need a fence after init (fence.mbarrier_init, or a proxy or
    cluster-wide fence) for its own CTA's copies as well, or for peers only? The ISA asks for it in clusters; NVIDIA's
    examples of one CTA fence too, widely used compilers do not. With "peers", its lack is a finding for review, and so
    among the assumptions of a proof.
    """

    proxy_fence: Literal["writer", "path"] = "writer"
    fence_before_refill: bool = True
    fenced_init: Literal["always", "peers"] = "peers"


class HappensBefore:
    """The judge of one launch. Feed it every event in order, then ask `finish`; `doubts` are reasons why a clean run
    would not stand for all interleavings."""

    def __init__(self, launch: Launch, readings: Readings | None = None) -> None:
        self._launch = launch
        self._readings = readings or Readings()
        self._findings = RunFindings()
        self._clusters: dict[int, ClusterState] = {}
        self._copies: dict[int, CopyState] = {}
        self._operations: dict[int, OperationState] = {}
        self._between_clusters = ShadowMemory(readers_kept=2)
        self._strong: set[Space] = set()
        self._current: ClusterState | None = None
        self._retired: set[int] = set()
        self._warps_in_cluster = prod(launch.cluster) * -(-prod(launch.block) // _WARP_THREADS)
        self._finished = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            Access: self._access,
            BarrierInit: self._barrier_init,
            BarrierInvalidate: self._barrier_invalidate,
            BarrierArrive: self._barrier_arrive,
            BarrierExpect: self._barrier_expect,
            BarrierComplete: self._barrier_complete,
            PhaseEnd: self._phase_end,
            BarrierWait: self._barrier_wait,
            CopyIssue: self._copy_issue,
            BulkCommit: self._bulk_commit,
            BulkWait: self._bulk_wait,
            WgmmaFence: self._wgmma_fence,
            WgmmaIssue: self._wgmma_issue,
            WgmmaCommit: self._wgmma_commit,
            WgmmaWait: self._wgmma_wait,
            RegisterHazard: self._register_hazard,
            ProxyFence: self._proxy_fence,
            MemoryFence: self._memory_fence,
            NamedBarrierArrive: self._named_arrive,
            NamedBarrier: self._named_barrier,
            ClusterArrive: self._cluster_arrive,
            ClusterBarrier: self._cluster_barrier,
            ClusterWait: self._cluster_wait,
            RegisterBudget: self._register_budget,
            Exit: self._exit,
        }

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """Findings so far, before anything is judged that only the end can show."""
        return tuple(self._findings.found.values())

    @property
    def doubts(self) -> tuple[str, ...]:
        return tuple(self._findings.doubts)

    def feed(self, event: Event) -> None:
        """Take the next event of the run. Raises KeyError on an event of a kind that is not in `machine.event`."""
        self._handlers[type(event)](event)

    def finish(self) -> tuple[Diagnostic, ...]:
        """The run has ended: judge what is left, and return all findings. Findings of level REVIEW refute nothing."""
        if not self._finished:
            self._finished = True
            for cluster in self._clusters.values():
                check_exit(cluster, self._findings)
            self._weigh_strong_accesses()
        return self.findings

    def _weigh_strong_accesses(self) -> None:
        """Where a program synchronizes through memory, what looks like a race may be ordered: doubt, not refutation."""
        if not self._strong:
            return
        spaces = " and ".join(sorted(self._strong))
        self._findings.doubt(f"atomics or strong accesses in {spaces} memory may synchronize or steer; not followed")
        racy = {"shared": ("NB101", "TM101"), "global": ("CL101", "TM101")}
        codes = {code for space in self._strong for code in racy[space]}
        for key, finding in list(self._findings.found.items()):
            if finding.code in codes:
                self._findings.doubt(f"{finding.primary}: {finding.message}, unless they are ordered through memory")
                del self._findings.found[key]

    # ---------------------------------------------------------------- who and where

    def _cluster_of(self, cta: int) -> ClusterState:
        x, y, _ = self._launch.grid
        sx, sy, sz = self._launch.cluster
        index = (cta % x // sx) + (x // sx) * ((cta // x % y // sy) + (y // sy) * (cta // (x * y) // sz))
        current = self._current
        if current is not None and current.index == index:
            return current
        found = self._clusters.get(index)
        if found is None:
            self._retire()
            if index in self._retired:
                self._findings.doubt(f"cluster {index} goes on after all of its warps have exited")
            found = self._clusters[index] = ClusterState(index)
        self._current = found
        return found

    def _retire(self) -> None:
        """Judge the end of clusters all of whose warps have exited, and forget them."""
        for index, cluster in list(self._clusters.items()):
            if cluster.exited >= self._warps_in_cluster:
                check_exit(cluster, self._findings)
                self._retired.add(index)
                del self._clusters[index]
                for copy in cluster.copies:
                    del self._copies[copy.actor.copy]
                for group in cluster.warpgroups.values():
                    for operation in group.operations:
                        del self._operations[operation.actor.operation]

    def _step(self, actor: WarpActor) -> tuple[ClusterState, WarpState]:
        """A warp's next event begins."""
        cluster = self._cluster_of(actor.cta)
        warp = cluster.warps.get(actor) or cluster.warp(actor)
        warp.tick()
        return cluster, warp

    # ---------------------------------------------------------------- accesses

    def _access(self, event: Access) -> None:
        match event.actor:
            case WarpActor():
                self._warp_access(event, event.actor)
            case CopyActor(number):
                copy = self._copies.get(number)
                if copy is None:
                    self._findings.doubt(f"{event.span}: bulk copy {number} accesses memory and was never issued")
                else:
                    self._copy_access(event, copy)
            case TensorCoreActor(number):
                # Judged at issue: what is unordered then stays so.
                if number not in self._operations:
                    self._findings.doubt(f"{event.span}: wgmma {number} reads memory and was never issued")

    def _warp_access(self, event: Access, actor: WarpActor) -> None:
        cluster, warp = self._step(actor)
        if event.atomic:
            self._strong.add(event.space)
        record = Record(
            actor,
            (warp.track, event.lanes),
            event.write,
            event.atomic,
            event.span,
            event.ranges,
            warp.track,
            warp.epoch,
            event.lanes,
            operation="writes" if event.write else "reads",
        )
        if event.space == "global":
            self._enter_global(cluster, record, warp.clock)
            return
        self._check_barrier_bytes(cluster, event.cta, event.ranges, event.span)
        if event.cta != actor.cta:
            self._remote(cluster, warp, event.cta, event.span)
        self._enter(cluster.shared_memory(event.cta), cluster, record, warp.clock, "shared")

    def _copy_access(self, event: Access, copy: CopyState) -> None:
        loads = copy.direction == "load"
        if event.space == "shared" and event.write == loads:
            return  # judged at issue
        if loads:
            # Copies that signal one barrier complete in the order of its phases, so the newest stands for them.
            cta, done = next(iter(copy.writes.items()))
            agent: tuple[Any, ...] = ("load", cta, copy.barrier_address)
        else:
            agent, done = ("copy", copy.actor), copy.written
        record = self._copy_record(copy, agent, event.write, event.ranges, done)
        if event.space == "global":
            self._enter_global(copy.cluster, record, copy.clock)
        else:
            self._enter(copy.cluster.shared_memory(event.cta), copy.cluster, record, copy.clock, "shared")

    def _copy_record(
        self, copy: CopyState, agent: tuple[Any, ...], write: bool, ranges: Ranges, done: Completion
    ) -> Record:
        return Record(
            copy.actor,
            agent,
            write,
            False,
            copy.span,
            ranges,
            completion=done,
            issuer=copy.issuer.actor,
            operation=f"{'writes' if write else 'reads'} ({copy.direction})",
        )

    def _enter_global(self, cluster: ClusterState, record: Record, clock: VectorClock) -> None:
        self._enter(cluster.global_memory, cluster, record, clock, "global")
        outer = Record(
            record.actor, cluster.index, record.write, record.atomic, record.span, record.ranges,
            issuer=record.issuer, operation=record.operation,
        )  # fmt: skip
        for earlier in self._between_clusters.conflicts(outer):
            if earlier.agent != cluster.index and not (earlier.atomic and record.atomic):
                first, last = overlap(earlier, outer)
                self._findings.report(
                    "CL101",
                    f"{name_of(outer.actor, outer.issuer)} {outer.operation} global bytes [{first:#x}, {last:#x}) that "
                    f"{name_of(earlier.actor, earlier.issuer)}, of another CTA, {earlier.operation}",
                    outer.span,
                    earlier.span,
                    (
                        f"{name_of(earlier.actor, earlier.issuer)} {earlier.operation} them ({earlier.span})",
                        "CTAs of different clusters are not ordered",
                        f"{name_of(outer.actor, outer.issuer)} {outer.operation} them ({outer.span}), before or after",
                    ),
                )

    def _enter(
        self, memory: ShadowMemory, cluster: ClusterState, record: Record, clock: VectorClock, space: Space
    ) -> None:
        """Enter an access into a memory's history and judge it against what it conflicts with."""
        for earlier in memory.conflicts(record):
            if earlier.atomic and record.atomic:
                continue
            if not is_ordered(earlier, clock):
                code, message, steps = describe_race(earlier, record, space)
                self._findings.report(code, message, record.span, earlier.span, steps)
            elif record.completion is not None and earlier.completion is None:
                if not (earlier.write or self._readings.fence_before_refill):
                    continue
                if not self._is_fenced(cluster, earlier, clock, space):
                    code, message, steps = describe_unfenced(earlier, record, space)
                    self._findings.report(code, message, record.span, earlier.span, steps)

    def _is_fenced(self, cluster: ClusterState, earlier: Record, clock: VectorClock, space: Space) -> bool:
        """Does `clock` know a proxy fence that follows the ordinary access `earlier`?"""
        track, epoch = earlier.warp_track, earlier.epoch
        if cluster.at(clock, ("fence", space, track)) >= epoch:
            return True
        if self._readings.proxy_fence == "path" and cluster.at(clock, ("path fence", space, track)) >= epoch:
            return True
        lanes = [lane for lane in range(32) if earlier.lanes >> lane & 1]
        return all(cluster.at(clock, ("fence", space, track, lane)) >= epoch for lane in lanes)

    def _check_barrier_bytes(self, cluster: ClusterState, cta: int, ranges: Ranges, span: Span) -> None:
        low, high = cluster.barrier_bounds.get(cta, (0, 0))
        if not ranges or ranges[0][0] >= high or ranges[-1][1] <= low:
            return
        for address, barrier in cluster.barriers[cta].items():
            for begin, end in ranges:
                if begin < address + phase_ledger.BARRIER_BYTES and address < end:
                    self._findings.report(
                        "MB102",
                        f"an access touches the bytes of {barrier}, which is live",
                        span,
                        barrier.init.span,
                        (f"{barrier} is initialised ({barrier.init.span})", f"its bytes are accessed ({span})"),
                    )

    def _remote(self, cluster: ClusterState, warp: WarpState, cta: int, span: Span) -> None:
        """A warp reaches into a peer CTA: it must have started, and must not end before."""
        self._check_started(cluster, warp, cta, span)
        cluster.remote[cta, warp.track] = warp.mark(span)

    def _check_started(self, cluster: ClusterState, warp: WarpState, cta: int, span: Span) -> None:
        if not cluster.at(warp.order, ("start", cta)):
            self._findings.report(
                "CL102",
                f"{name_of(warp.actor)} reaches into CTA {cta}, which may not have started",
                span,
                None,
                (
                    f"CTA {cta} of the cluster has not begun",
                    f"{name_of(warp.actor)}, which has not synchronized with it, accesses its memory ({span})",
                ),
            )

    # ---------------------------------------------------------------- mbarriers

    def _barrier_init(self, event: BarrierInit) -> None:
        cluster, warp = self._step(event.actor)
        span = ((event.address, event.address + phase_ledger.BARRIER_BYTES),)
        for earlier in cluster.shared_memory(event.cta).touched(span):
            if not is_ordered(earlier, warp.clock):
                record = Record(event.actor, warp.track, True, False, event.span, span, operation="initialises")
                code, message, steps = describe_race(earlier, record, "shared")
                self._findings.report(code, message, event.span, earlier.span, steps)
        phase_ledger.initialise(cluster, warp, event, self._findings)
        low, high = cluster.barrier_bounds.get(event.cta, span[0])
        cluster.barrier_bounds[event.cta] = (min(low, span[0][0]), max(high, span[0][1]))

    def _barrier_invalidate(self, event: BarrierInvalidate) -> None:
        phase_ledger.invalidate(*self._step(event.actor), event, self._findings)

    def _barrier_arrive(self, event: BarrierArrive) -> None:
        cluster, warp = self._step(event.actor)
        if event.cta != event.actor.cta:
            self._remote(cluster, warp, event.cta, event.span)
        phase_ledger.arrive(cluster, warp, event, self._findings)

    def _barrier_expect(self, event: BarrierExpect) -> None:
        cluster, warp = self._step(event.actor)
        if event.cta != event.actor.cta:
            self._remote(cluster, warp, event.cta, event.span)
        phase_ledger.expect(cluster, warp, event, self._findings)

    def _barrier_complete(self, event: BarrierComplete) -> None:
        copy = self._copies.get(event.actor.copy)
        if copy is None:
            self._findings.doubt(f"{event.span}: bulk copy {event.actor.copy} completes and was never issued")
            return
        phase_ledger.complete(copy.cluster, copy, event, self._findings)

    def _phase_end(self, event: PhaseEnd) -> None:
        phase_ledger.end_phase(self._cluster_of(event.cta), event, self._findings)

    def _barrier_wait(self, event: BarrierWait) -> None:
        phase_ledger.wait(*self._step(event.actor), event, self._findings)

    # ---------------------------------------------------------------- bulk copies

    def _copy_issue(self, event: CopyIssue) -> None:
        cluster, warp = self._step(event.actor)
        copy = CopyState(
            event.copy, warp, cluster, event.direction, warp.clock.copy(), warp.order.copy(), event.span,
            event.barrier_address,
        )  # fmt: skip
        self._copies[event.copy.copy] = copy
        cluster.copies.append(copy)
        if event.direction == "store":
            thread = self._bulk_thread(cluster, warp, event.lane)
            thread.uncommitted.append(copy)
            thread.last_span = event.span
            agent = ("bulk", warp.track, event.lane)
            record = self._copy_record(copy, agent, False, event.shared, copy.reads)
            for cta in event.destinations:
                self._enter(cluster.shared_memory(cta), cluster, record, copy.clock, "shared")
            return
        for cta in event.destinations:
            done = copy.writes[cta] = Completion()
            if cta != event.actor.cta:  # how long the copy reaches into the peer is judged by its completion
                self._check_started(cluster, warp, cta, event.span)
            barrier = cluster.barriers.get(cta, {}).get(-1 if event.barrier_address is None else event.barrier_address)
            if barrier is None:
                self._findings.report(
                    "MB101",
                    f"a bulk copy into CTA {cta} signals no live mbarrier ({event.barrier_address})",
                    event.span,
                )
            else:
                engine = Level.ERROR if self._readings.fenced_init == "always" else Level.REVIEW
                phase_ledger.check_init(cluster, barrier, copy.clock, warp, event.span, self._findings, engine)
                barrier.users[warp.track] = warp.mark(event.span)
            self._check_barrier_bytes(cluster, cta, event.shared, event.span)
            record = self._copy_record(copy, ("copy", copy.actor, cta), True, event.shared, done)
            self._enter(cluster.shared_memory(cta), cluster, record, copy.clock, "shared")

    def _bulk_thread(self, cluster: ClusterState, warp: WarpState, lane: int) -> BulkThread:
        thread = warp.bulk.get(lane)
        if thread is None:
            thread = warp.bulk[lane] = BulkThread(
                cluster.tracks.of(("bulk read", warp.actor, lane)), cluster.tracks.of(("bulk write", warp.actor, lane))
            )
        return thread

    def _bulk_commit(self, event: BulkCommit) -> None:
        cluster, warp = self._step(event.actor)
        thread = self._bulk_thread(cluster, warp, event.lane)
        members = {copy.copy for copy in event.copies}
        for copy in thread.uncommitted:
            if copy.actor.copy in members:
                copy.reads.track, copy.reads.value = thread.read_track, event.group + 1
                copy.written.track, copy.written.value = thread.write_track, event.group + 1
        thread.uncommitted = [copy for copy in thread.uncommitted if copy.actor.copy not in members]
        thread.groups = event.group + 1

    def _bulk_wait(self, event: BulkWait) -> None:
        _, warp = self._step(event.actor)
        thread = warp.bulk.get(event.lane)
        if thread is None:
            return
        done = thread.groups - event.pending
        if done > 0:
            thread.read_waited = max(thread.read_waited, done)
            warp.advance(thread.read_track, done)
            if not event.read:
                warp.advance(thread.write_track, done)

    # ---------------------------------------------------------------- wgmma

    def _warpgroup(self, cluster: ClusterState, actor: WarpActor) -> WarpgroupState:
        key = (actor.cta, actor.warp // WARPGROUP_WARPS)
        group = cluster.warpgroups.get(key)
        if group is None:
            group = cluster.warpgroups[key] = WarpgroupState(cluster.tracks.of(("wgmma", *key)))
        return group

    def _wgmma_fence(self, event: WgmmaFence) -> None:
        _, warp = self._step(event.actor)
        warp.wgmma_fenced = True

    def _wgmma_issue(self, event: WgmmaIssue) -> None:
        cluster, warp = self._step(event.actor)
        if not warp.wgmma_fenced:
            self._findings.report(
                "WG101",
                f"{name_of(warp.actor)} issues a wgmma without a wgmma.fence before it",
                event.span,
                None,
                (
                    f"{name_of(warp.actor)} sets the registers of a wgmma",
                    f"it issues the wgmma ({event.span}); nothing orders its register accesses before it",
                ),
            )
        number = event.operation.operation
        operation = self._operations.get(number)
        if operation is None:
            operation = self._operations[number] = OperationState(event.operation, warp, Completion(), event.span)
            self._warpgroup(cluster, event.actor).operations.append(operation)
        # The tensor core may start once all four warps have issued; it knows what all of them know.
        operation.issuers.add(warp.actor)
        operation.order.join(warp.order)
        operation.clocks.append(warp.clock.copy())
        if len(operation.issuers) < WARPGROUP_WARPS:
            return
        clocks, operation.clocks = operation.clocks, []
        if not event.shared:
            return
        record = Record(
            event.operation,
            ("wgmma", event.actor.cta, event.actor.warp // WARPGROUP_WARPS),
            False,
            False,
            event.span,
            event.shared,
            completion=operation.done,
            issuer=operation.issuer.actor,
            operation="reads",
        )
        self._enter(cluster.shared_memory(event.actor.cta), cluster, record, common(clocks), "shared")

    def _wgmma_commit(self, event: WgmmaCommit) -> None:
        cluster, warp = self._step(event.actor)
        group = self._warpgroup(cluster, event.actor)
        group.committed[warp.actor] = event.group + 1
        for actor in event.operations:
            operation = self._operations.get(actor.operation)
            if operation is None:
                self._findings.doubt(f"{event.span}: wgmma {actor.operation} is committed and was never issued")
                continue
            operation.done.track = group.track
            operation.done.value = max(operation.done.value, event.group + 1)
            group.last[event.group] = operation

    def _wgmma_wait(self, event: WgmmaWait) -> None:
        cluster, warp = self._step(event.actor)
        group = self._warpgroup(cluster, event.actor)
        done = group.committed.get(warp.actor, 0) - event.pending
        if done <= 0:
            return
        warp.advance(group.track, done)
        # A wgmma is done only after all four warps have come to it, though that makes none of their writes visible.
        last = next((group.last[number] for number in range(done - 1, -1, -1) if number in group.last), None)
        if last is not None:
            warp.order.join(last.order)

    def _register_hazard(self, event: RegisterHazard) -> None:
        _, warp = self._step(event.actor)
        operation = self._operations.get(event.operation.operation)
        verb = "writes" if event.write else "reads"
        self._findings.report(
            "WG104",
            f"{name_of(warp.actor)} {verb} {event.register}, which wgmma {event.operation.operation} may still use",
            event.span,
            operation.span if operation is not None else None,
            (
                f"wgmma {event.operation.operation} is issued" + (f" ({operation.span})" if operation else ""),
                "no wgmma.wait_group covers it",
                f"{name_of(warp.actor)} {verb} {event.register} ({event.span})",
            ),
        )

    # ---------------------------------------------------------------- fences, barriers, the end

    def _proxy_fence(self, event: ProxyFence) -> None:
        cluster, warp = self._step(event.actor)
        spaces: tuple[Space, ...] = ("shared", "global") if event.space == "all" else (event.space,)
        for space in spaces:
            if event.lanes == ALL_LANES:
                cluster.advance(warp.clock, ("fence", space, warp.track), warp.epoch)
            else:
                for lane in range(32):
                    if event.lanes >> lane & 1:
                        cluster.advance(warp.clock, ("fence", space, warp.track, lane), warp.epoch)
            if self._readings.proxy_fence == "path":
                for other in cluster.warps.values():
                    if other is not warp:
                        cluster.advance(warp.clock, ("path fence", space, other.track), warp.clock.at(other.track))

    def _memory_fence(self, event: MemoryFence) -> None:
        cluster, warp = self._step(event.actor)
        if event.kind == "mbarrier_init" or event.scope in _WIDE_SCOPES:
            cluster.advance(warp.clock, ("init", warp.track), warp.epoch)

    def _named(self, cluster: ClusterState, cta: int, barrier: int) -> NamedState:
        state = cluster.named.get((cta, barrier))
        if state is None:
            state = cluster.named[cta, barrier] = NamedState(cluster.tracks.of(("named", cta, barrier)))
        return state

    def _named_arrive(self, event: NamedBarrierArrive) -> None:
        cluster, warp = self._step(event.actor)
        state = self._named(cluster, event.cta, event.barrier)
        twice = state.arrivals.get(warp.actor)
        if twice is not None or warp.order.at(state.track) < state.generation:
            self._findings.report(
                "NB102",
                f"{name_of(warp.actor)} arrives at named barrier {event.barrier} of CTA {event.cta} without knowing "
                "that its use before has completed",
                event.span,
                twice or state.previous,
                (
                    f"named barrier {event.barrier} still lacks arrivals of its use before ({twice or state.previous})",
                    f"{name_of(warp.actor)} arrives for the next use ({event.span})",
                    "the arrival counts in the use before, which completes too early",
                ),
            )
        state.arrivals[warp.actor] = event.span
        state.clock.join(warp.clock)
        state.order.join(warp.order)

    def _named_barrier(self, event: NamedBarrier) -> None:
        cluster = self._cluster_of(event.cta)
        state = self._named(cluster, event.cta, event.barrier)
        state.generation += 1
        for actor in event.synchronized:
            warp = cluster.warp(actor)
            warp.clock.join(state.clock)
            warp.order.join(state.order)
            warp.advance(state.track, state.generation)
        state.clock = VectorClock()
        state.order = VectorClock()
        state.arrivals = {}
        state.previous = event.span

    def _cluster_arrive(self, event: ClusterArrive) -> None:
        cluster, warp = self._step(event.actor)
        warp.cluster_generation = cluster.cluster_generation
        cluster.arriving_order.join(warp.order)
        if not event.relaxed:
            cluster.arriving.join(warp.clock)
            return
        # A relaxed arrival publishes the inits that fence.mbarrier_init has released, and nothing else.
        init = ("init", warp.track)
        cluster.advance(cluster.arriving, init, cluster.at(warp.clock, init))

    def _cluster_barrier(self, event: ClusterBarrier) -> None:
        if not event.warps:
            return
        cluster = self._cluster_of(event.warps[0].cta)
        cluster.cluster_published[cluster.cluster_generation] = (cluster.arriving, cluster.arriving_order)
        cluster.cluster_published.pop(cluster.cluster_generation - 2, None)
        cluster.cluster_generation += 1
        cluster.arriving, cluster.arriving_order = VectorClock(), VectorClock()

    def _cluster_wait(self, event: ClusterWait) -> None:
        cluster, warp = self._step(event.actor)
        published = cluster.cluster_published.get(warp.cluster_generation)
        if published is None:
            self._findings.doubt(f"{event.span}: a cluster wait passes before its barrier is complete")
            return
        warp.clock.join(published[0])
        warp.order.join(published[1])

    def _register_budget(self, event: RegisterBudget) -> None:
        cluster, warp = self._step(event.actor)
        warp.budgets.append((event.registers, event.increase, event.span))
        warp.registers_taken += event.registers - event.before
        key = ("raised", event.actor.cta)
        if event.increase:
            cluster.advance(warp.order, key, cluster.at(warp.order, key) + 1)
        elif cluster.at(warp.order, key):
            self._findings.doubt(
                f"{event.span}: registers are given back after others were taken; whether every order of setmaxnreg "
                "ends is not decided"
            )

    def _exit(self, event: Exit) -> None:
        cluster, warp = self._step(event.actor)
        warp.exit_span = event.span
        cluster.exited += 1
