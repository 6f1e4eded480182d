"""What does the judge remember of a running cluster? Warps and their clocks, engines' operations, barriers, memory.

Plain records, mutated by `happens_before` and `phase_ledger`; nothing here knows a rule. A warp's epoch counts its
events from 1; epoch e of a warp is known to a clock that holds at least e on the warp's track.

A warp has two clocks. `clock` says what is visible to it, by release and acquire. `order` says what has happened for
certain, visible or not, and so knows more: that a phase has ended means that the copies it counts were issued, and that
a wgmma is done means that four warps came to it, though neither publishes what those warps had written. Waits have
returned and phases have ended, once that is so: the second clock judges them. A store, an arrival or an expect_tx that
was executed may still be on its way until an acquire sees it: the first clock judges those.

Many of these records are made: their containers begin as `{}` and `[]`, since to call `dict[int, Mark]` takes six times
as long.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from tilewright.base.span import Span
from tilewright.base.value import dataclass, value
from tilewright.contract.history.atom_memory import AtomMemory
from tilewright.contract.history.atoms import Atoms
from tilewright.contract.history.granules import Footprints
from tilewright.contract.history.shadow_memory import (
    COARSE_BYTES,
    COARSE_GLOBAL_BYTES,
    Completion,
    Record,
    ShadowMemory,
)
from tilewright.contract.judge.order.out_of_scope_order import OutOfScopeOrder
from tilewright.contract.judge.tensor_state import TensorState
from tilewright.contract.judge.vector_clock import Tracks, VectorClock
from tilewright.machine.core.event import Actor, CopyActor, Ranges, TensorCoreActor, TensorMemoryActor, WarpActor

if TYPE_CHECKING:
    from tilewright.contract.judge.order.strong_words import Holding
    from tilewright.contract.judge.register_budgets import Budget

ALL_LANES = 0xFFFF_FFFF
NO_TRACK = 1 << 40
"""Stands for the track of what was never said: no clock knows anything along it."""
Space = Literal["shared", "global"]
Fenced = Literal["shared", "peers", "global"]
"""What a proxy fence orders: accesses of shared memory of the own CTA, of other CTAs, and of global memory."""


def name_of(actor: Actor, issuer: Actor | None = None) -> str:
    """An actor in words."""
    tail = f" of {name_of(issuer)}" if issuer is not None else ""
    match actor:
        case WarpActor(cta, warp):
            return f"CTA {cta} warp {warp}"
        case CopyActor(copy):
            return f"bulk copy {copy}{tail}"
        case TensorCoreActor(operation):
            return f"wgmma {operation}{tail}"
        case TensorMemoryActor(operation):
            return f"tcgen05 operation {operation}{tail}"


@value
class Mark:
    """One event of a warp, to be found again in clocks."""

    actor: WarpActor
    track: int
    epoch: int
    span: Span

    def known_to(self, clock: VectorClock) -> bool:
        """Does the clock hold the event?"""
        return clock.at(self.track) >= self.epoch


@dataclass(slots=True)
class BulkThread:
    """Bulk groups of one thread. read_waited: groups whose sources it knows to have been read. waits: how often it has
    waited; waited_after: the last wait came after the last group; known_read, known_done: of each wait that showed that
    more groups were read, or done, how many, and at which event of the warp. read_track, write_track: on which that is
    known, from the thread's first copy on; most threads have none."""

    read_track: int = -1
    write_track: int = -1
    uncommitted: list[CopyState] = field(default_factory=lambda: [])
    groups: int = 0
    read_waited: int = 0
    last_span: Span | None = None
    waits: int = 0
    waited_after: bool = False
    known_read: list[tuple[int, int]] = field(default_factory=lambda: [])
    known_done: list[tuple[int, int]] = field(default_factory=lambda: [])


@dataclass(slots=True)
class WarpState:
    """One warp: its clock (own epoch included) and what it has under way.

    budgets: its setmaxnreg. access_track and access_epoch: of its ordinary accesses; lane_tracks: of each lane's, once
    a lane has signalled alone (`NO_TRACK` of those that have not), and whole_track: of what would be known if its
    signal spoke for the warp; synchronized_epoch: up to which its lanes know each other's accesses;
    partly_synchronized: later events at which some lanes did, and which; released_init_epoch: up to which all of them
    know its inits, by a fence and a barrier of the cluster. fences: at which epochs it executed proxy fences, and what
    it knew then. tensor_order: what had happened at its last tcgen05.fence::after_thread_sync. release: what its last
    fence releases, to scope release_scope; to_acquire: what its next fence acquires. tensor_maps: the last
    acquires of each tensor map, of any scope, and of one that reaches beyond its CTA, by the lanes that executed them:
    at which event, and what it knew then. arrivals: of its last
    arriving instruction. view: of its last wgmmas; warpgroup: once it has touched one. initialises: it has
    initialised an mbarrier, so that its fences may publish one; inits: those since it has fenced, each with its
    lane. waited: at which event it last waited for an mbarrier; idle: up to which it has done nothing since but read
    what no thread writes; followed: of its waits, those after which it waited again, idle until then. repeated: at
    which event it issued a store at a place last, and what names that store.
    peers_started: CTAs of which it was found to know that they have started.
    """

    actor: WarpActor
    track: int
    clock: VectorClock
    order: VectorClock
    epoch: int = 0
    bulk: dict[int, BulkThread] = field(default_factory=lambda: {})
    wgmma_fenced: bool = False
    cluster_generation: int = -1
    budgets: list[Budget] = field(default_factory=lambda: [])
    exit_span: Span | None = None
    access_track: int = -1
    lane_tracks: list[int] = field(default_factory=lambda: [])
    whole_track: int = -1
    access_epoch: int = 0
    synchronized_epoch: int = 0
    partly_synchronized: list[tuple[int, int]] = field(default_factory=lambda: [])
    released_init_epoch: int = 0
    fences: dict[Fenced, list[tuple[int, VectorClock]]] = field(default_factory=lambda: {})
    tensor_order: VectorClock = field(default_factory=VectorClock)
    release: VectorClock | None = None
    release_scope: str = "cta"
    to_acquire: list[Holding] = field(default_factory=lambda: [])
    async_copies: AsyncCopyThread | None = None
    tensor_maps: dict[tuple[int, bool], dict[int, tuple[int, VectorClock]]] = field(default_factory=lambda: {})
    arrivals: Arrivals | None = None
    view: IssueView | None = None
    warpgroup: WarpgroupState | None = None
    initialises: bool = False
    inits: list[tuple[Mark, int]] = field(default_factory=lambda: [])
    waited: int = -1
    idle: int = -1
    followed: set[int] = field(default_factory=set[int])
    repeated: dict[Span, tuple[int, tuple[int, ...]]] = field(default_factory=lambda: {})
    peers_started: set[int] = field(default_factory=set[int])

    def tick(self) -> int:
        """Begin the warp's next event."""
        self.epoch = epoch = self.epoch + 1
        # Nobody is ahead of the warp along its own track, for which its clocks have had room from the beginning.
        self.clock.values[self.track] = epoch
        self.order.values[self.track] = epoch
        return epoch

    def bulk_thread(self, lane: int) -> BulkThread:
        """The bulk groups of one of its threads."""
        thread = self.bulk.get(lane)
        if thread is None:
            thread = self.bulk[lane] = BulkThread()
        return thread

    def advance(self, track: int, value: int) -> None:
        """Learn a fact in both senses."""
        self.clock.advance(track, value)
        self.order.advance(track, value)

    def fence_before(self, space: Fenced, epoch: int) -> VectorClock | None:
        """What the warp knew at its newest proxy fence of `space` that is no later than its event `epoch`."""
        for at, known in reversed(self.fences.get(space, [])):
            if at <= epoch:
                return known
        return None

    def follow(self) -> None:
        """It waits for an mbarrier, or looks whether it has to: has it been idle since it did so last?"""
        if self.epoch == self.idle + 1:
            self.followed.add(self.waited)
        self.waited = self.idle = self.epoch

    def stay_idle(self) -> None:
        """The current event reads what no thread writes, as an index that all warps of a role compute."""
        if self.epoch == self.idle + 1:
            self.idle = self.epoch

    def only_follows(self, epoch: int) -> bool:
        """Was it idle after a wait until it waited again, or exited?"""
        exits = self.exit_span is not None and self.waited == epoch and self.epoch == self.idle + 1
        return exits or epoch in self.followed

    def mark(self, span: Span) -> Mark:
        """The current event."""
        return Mark(self.actor, self.track, self.epoch, span)


_OPERATIONS = ("reads (store)", "writes (store)"), ("reads (load)", "writes (load)")
"""Of a store and of a load: what it does where it reads, and where it writes."""
_NOT_A_STORE = Completion()
"""Never changed."""


@dataclass(slots=True, eq=False)
class CopyState:
    """One bulk copy. clock, order: what its issuer knew; lanes: the one that issued it. writes: completion in each
    destination CTA of a load; owners: the CTAs whose barriers are told, one for each of these, empty where each is the
    destination's own; source: the CTA whose shared memory a load reads, -1 of one that reads global memory; constant:
    names what a store writes, if lanes of a warp issue it several times; reads and written: completions of a store's
    source and destination."""

    actor: CopyActor
    issuer: WarpState
    cluster: ClusterState
    direction: Literal["load", "store"]
    clock: VectorClock
    order: VectorClock
    span: Span
    barrier_address: int | None
    lanes: int
    writes: dict[int, Completion]
    owners: tuple[int, ...] = ()
    source: int = -1
    constant: tuple[int, ...] = ()
    reads: Completion = field(default=_NOT_A_STORE)
    written: Completion = field(default=_NOT_A_STORE)

    def told_by(self, owner: int) -> tuple[Completion, ...]:
        """The completions that a barrier of CTA `owner` reports."""
        if not self.owners:
            done = self.writes.get(owner)
            return () if done is None else (done,)
        return tuple(done for told, done in zip(self.owners, self.writes.values(), strict=True) if told == owner)

    def record(
        self, agent: tuple[Any, ...], write: bool, ranges: Ranges, done: Completion, *, uncertain: bool = False,
        atomic: bool = False, cluster: int = -1, by_peer: bool = False,
    ) -> Record:  # fmt: skip
        """An access of the copy, done when `done` says. cluster: of one of global memory; by_peer: as of a `Record`."""
        loads = self.direction == "load"
        operation = _OPERATIONS[loads][write]
        return Record(
            self.actor, agent, write, atomic, self.span, ranges, -1, 0, self.lanes, done, self.issuer.actor, operation,
            True, uncertain, constant=self.constant, cluster=cluster, by_peer=by_peer,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class IssueView:
    """What a warp knew when it began to issue wgmmas, one right after the other; epoch: of the last of these events."""

    clock: VectorClock
    order: VectorClock
    epoch: int


@dataclass(slots=True)
class OperationState:
    """One wgmma: done, for whoever knows enough of its group.

    issuers: the warps that have issued it; views: what each of them knew, by its place in the warpgroup, until all
    have, and own_rows the bytes of A that are its own; order: what had happened before any of them issued it.
    """

    actor: TensorCoreActor
    span: Span
    issuer: WarpState
    done: Completion
    issuers: set[WarpActor] = field(default_factory=set[WarpActor])
    views: dict[int, IssueView] = field(default_factory=lambda: {})
    own_rows: dict[int, Ranges] = field(default_factory=lambda: {})
    order: VectorClock = field(default_factory=VectorClock)


@dataclass(slots=True)
class WarpgroupState:
    """wgmma groups of four warps. committed: groups so far, by the warp that commits; last: the last wgmma of each
    group that has one."""

    track: int
    committed: dict[WarpActor, int] = field(default_factory=lambda: {})
    last: dict[int, OperationState] = field(default_factory=lambda: {})
    operations: list[OperationState] = field(default_factory=lambda: [])


@dataclass(slots=True)
class NamedState:
    """A named barrier: the current use (generation), who arrived in it and what they published."""

    track: int
    clock: VectorClock = field(default_factory=VectorClock)
    order: VectorClock = field(default_factory=VectorClock)
    generation: int = 0
    arrivals: dict[WarpActor, Span] = field(default_factory=lambda: {})
    previous: Span | None = None


@dataclass(slots=True)
class PhaseState:
    """A phase under way.

    published: what is visible to releasing arrivals, by warps of the barrier's own CTA; published_by_peers: the same of
    other CTAs, at cluster scope; order: what happened before any contribution, the issue of copies included;
    signals_by_peers: what other CTAs say of tensor memory, at cluster scope; held_open_for: what an arrival
    must follow, and in words (a bare expect_tx, arrivals added to the count); arrived: what is visible to any arrival
    since the first of these (nobody who arrived before it knew of any), None while there is none; contributors: the
    newest arrival of each warp, and arriving_lanes its lanes; by_engine: some arrival came later than what caused it;
    last_expect, last_copy: where bytes were expected, and a copy issued that brought bytes, last.
    """

    published: VectorClock = field(default_factory=VectorClock)
    published_by_peers: VectorClock | None = None
    order: VectorClock = field(default_factory=VectorClock)
    signals_by_peers: VectorClock | None = None
    arrived: VectorClock | None = None
    arrivals: int = 0
    expected_bytes: int = 0
    completed_bytes: int = 0
    held_open_for: list[tuple[Mark, str]] = field(default_factory=lambda: [])
    contributors: dict[int, Mark] = field(default_factory=lambda: {})
    arriving_lanes: dict[int, int] = field(default_factory=lambda: {})
    by_engine: bool = False
    last_span: Span | None = None
    last_expect: Span | None = None
    last_copy: Span | None = None

    def hold_open_for(self, mark: Mark, what: str) -> None:
        """The phase must not end before an arrival that knows of `mark`."""
        self.held_open_for.append((mark, what))
        if self.arrived is None:
            self.arrived = VectorClock()

    def has_ended_for(self, clock: VectorClock) -> bool:
        """Of a phase that has ended: does `clock` know every contribution, and so that it has? What an engine
        contributes, bytes or arrivals, comes later than anything that is known of its issuer."""
        known = all(mark.known_to(clock) for mark in self.contributors.values())
        return known and not self.completed_bytes and not self.by_engine


@value
class Signal:
    """An arrival or expect_tx, and the phase in which it counted."""

    mark: Mark
    phase: int


@value
class EngineSignal:
    """An arrival that an engine performs later, and the phase in which it counted. number: of its likes along their
    track, which a thread's engine is widely held to perform in order; None where it is not."""

    mark: Mark
    phase: int
    number: int | None


@dataclass(frozen=True, slots=True)
class LateWait:
    """A wait on the phase before `phase`, of which the arrivals at `phase` (the last at `last_span`) do not know."""

    mark: Mark
    phase: int
    last_span: Span | None


@dataclass(slots=True)
class BarrierState:
    """A live mbarrier. before, earlier: the last phase that has ended, and the one before it. waits: the newest wait
    of each warp on the phase before the current one; late: those that the phases did not wait for; users: the newest
    use of each warp; using_lanes: its lanes that have arrived or waited since all of them have synchronized; signals:
    the newest arrival or expect_tx of each; by_engine: the newest arrival that an engine was asked for, by the track
    along which its likes are counted; remote: those of warps of other CTAs; release_track: the track along which a
    fence.mbarrier_init by who initialised it is known, -1 while there has been none; informed: the tracks of warps
    that know such a fence after its init; repeats: inits by other warps, with the same count and before any use, the
    newest of each; initialisers: the track and lane of whoever initialised it.
    """

    cta: int
    address: int
    track: int
    init: Mark
    count: int
    next_count: int
    phase: int = 0
    current: PhaseState = field(default_factory=PhaseState)
    before: PhaseState | None = None
    earlier: PhaseState | None = None
    waits: dict[int, Mark] = field(default_factory=lambda: {})
    users: dict[int, Mark] = field(default_factory=lambda: {})
    using_lanes: dict[int, int] = field(default_factory=lambda: {})
    signals: dict[int, Signal] = field(default_factory=lambda: {})
    by_engine: dict[int, EngineSignal] = field(default_factory=lambda: {})
    remote: dict[int, Signal] = field(default_factory=lambda: {})
    late: list[LateWait] = field(default_factory=lambda: [])
    release_track: int = -1
    informed: set[int] = field(default_factory=set[int])
    repeats: dict[int, Mark] = field(default_factory=lambda: {})
    initialisers: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])

    def __str__(self) -> str:
        return f"mbarrier +{self.address:#x} of CTA {self.cta}"

    @property
    def is_unused(self) -> bool:
        """Has nobody arrived, waited or expected bytes here since its init?"""
        return not self.users and not self.signals and self.phase == 0 and not self.current.completed_bytes

    def is_released_to(self, clock: VectorClock) -> bool:
        """Does `clock` know that a fence.mbarrier_init has published the init? Not asked where several initialised."""
        return not self.repeats and self.release_track >= 0 and clock.at(self.release_track) >= self.init.epoch

    def has_counted(self, signal: Signal, clock: VectorClock) -> bool:
        """Does `clock` know that a signal has been performed? A phase that has ended has counted its own, whatever
        they publish."""
        return signal.mark.known_to(clock) or clock.at(self.track) > signal.phase


@dataclass(slots=True)
class Arrivals:
    """The arrivals of one instruction: the phases they counted in, each with the clock that it publishes to, if any,
    and the track along which it does."""

    span: Span
    epoch: int = 0
    phases: list[tuple[PhaseState, VectorClock | None, int]] = field(default_factory=lambda: [])


@dataclass(slots=True)
class AsyncCopyState:
    """One cp.async of a warp. groups: the number of the group of each lane that has committed it; uncommitted: the
    lanes that have not."""

    actor: CopyActor
    issuer: WarpState
    cluster: ClusterState
    lanes: int
    ordinal: int
    done: Completion
    clock: VectorClock
    span: Span
    uncommitted: int
    groups: dict[int, int] = field(default_factory=lambda: {})


@dataclass(slots=True)
class AsyncCopyThread:
    """The cp.asyncs of a warp's threads: committed groups of each lane, groups that each has waited for, and the
    copies not known to be done, in order. covered: so many copies, from the first, are done; waits: the warp's events
    at which a wait told that, with the number. arrivals: deferred arrivals by their number, with what their issuer
    knew."""

    track: int
    committed: dict[int, int] = field(default_factory=lambda: {})
    waited: dict[int, int] = field(default_factory=lambda: {})
    everything: dict[int, int] = field(default_factory=lambda: {})
    open: list[AsyncCopyState] = field(default_factory=lambda: [])
    issued: int = 0
    covered: int = 0
    waits: list[tuple[int, int]] = field(default_factory=lambda: [])
    arrivals: dict[int, tuple[VectorClock, VectorClock, int]] = field(default_factory=lambda: {})


@dataclass(slots=True)
class CommitState:
    """A tcgen05.commit: what was visible to its issuer and had happened, and how many of the issuer's operations it
    covers (`ordinal`, along `track`). number: of the thread's commits, along `commits`."""

    issuer: WarpState
    cluster: ClusterState
    clock: VectorClock
    order: VectorClock
    track: int
    ordinal: int
    commits: int
    number: int
    span: Span


class ClusterState:
    """The CTAs that may synchronize with each other."""

    def __init__(self, index: int, atoms: Atoms | None = None, footprints: Footprints | None = None) -> None:
        self.index = index
        self._atoms = Atoms(COARSE_BYTES) if atoms is None else atoms
        self.tracks = Tracks()
        self.out_of_scope = OutOfScopeOrder(self.tracks)
        self.stored_by_peers = False
        self.warps: dict[WarpActor, WarpState] = {}
        self.shared: dict[int, ShadowMemory] = {}
        self.global_memory = ShadowMemory(granule_bytes=COARSE_GLOBAL_BYTES, footprints=footprints)
        self.barriers: dict[int, dict[int, BarrierState]] = {}
        self.barrier_generations: dict[tuple[int, int], int] = {}
        self.barrier_bounds: dict[int, tuple[int, int]] = {}
        self.ended_barriers: list[BarrierState] = []
        self.named: dict[tuple[int, int], NamedState] = {}
        self.warpgroups: dict[tuple[int, int], WarpgroupState] = {}
        self.copies: list[CopyState] = []
        self.remote: dict[tuple[int, int, bool], Mark] = {}
        self.arriving = VectorClock()
        self.arriving_order = VectorClock()
        self.cluster_generation = 0
        self.cluster_published: dict[int, tuple[VectorClock, VectorClock]] = {}
        self.exited = 0
        self._fences: dict[Fenced, dict[int, int]] = {"shared": {}, "peers": {}, "global": {}}
        self.tensor = TensorState()
        self.commits: list[int] = []
        self.async_copies: list[AsyncCopyState] = []
        self.grid_waits: list[tuple[WarpState, Record]] = []

    def let_go(self) -> None:
        """The cluster has been judged to its end: what it did no longer names it, so that all is freed without a
        search for circles."""
        self.copies.clear()
        self.async_copies.clear()
        self.commits.clear()
        self.grid_waits.clear()
        self.tensor.operations.clear()
        for group in self.warpgroups.values():
            group.operations.clear()
        for warp in self.warps.values():
            warp.warpgroup = warp.async_copies = None  # which name their operations, and they their warps
        self.warps.clear()

    def warp(self, actor: WarpActor) -> WarpState:
        """The state of a warp, which begins with its first event."""
        state = self.warps.get(actor)
        if state is None:
            state = WarpState(actor, self.tracks.of(("warp", actor)), VectorClock(), VectorClock())
            state.advance(state.track, 0)
            state.access_track = self.tracks.of(("access", actor))
            state.order.advance(self.tracks.of(("start", actor.cta)), 1)
            self.warps[actor] = state
        return state

    def fence_track(self, space: Fenced, access_track: int) -> int:
        """The track of the proxy fences of a warp, which is named by the track of its accesses."""
        tracks = self._fences[space]
        track = tracks.get(access_track)
        if track is None:
            track = tracks[access_track] = self.tracks.of(("fence", space, access_track))
        return track

    def barrier_at(self, cta: int, address: int) -> BarrierState | None:
        """The live mbarrier at an address of a CTA's shared memory."""
        live = self.barriers.get(cta)
        return None if live is None else live.get(address)

    def shared_memory(self, cta: int) -> ShadowMemory:
        """The history of a CTA's shared memory."""
        memory = self.shared.get(cta)
        if memory is None:
            memory = self.shared[cta] = AtomMemory(self._atoms)
        return memory

    def known_in(self, cta: int) -> VectorClock:
        """What the warps of a CTA know to have happened: once they have all exited, before the CTA's end."""
        clock = VectorClock()
        for actor, warp in self.warps.items():
            if actor.cta == cta:
                clock.join(warp.order)
        return clock

    def visible_in(self, cta: int) -> VectorClock:
        """What is visible to the warps of a CTA: once they have all exited, performed before the CTA's end."""
        clock = VectorClock()
        for actor, warp in self.warps.items():
            if actor.cta == cta:
                clock.join(warp.clock)
        return clock

    def advance(self, clock: VectorClock, key: Hashable, value: int) -> None:
        clock.advance(self.tracks.of(key), value)

    def at(self, clock: VectorClock, key: Hashable) -> int:
        track = self.tracks.known(key)
        return 0 if track is None else clock.at(track)


def is_ordered(earlier: Record, clock: VectorClock) -> bool:
    """Does `clock` know that the access is done? Of an ordinary access, that means by each of its lanes."""
    done = earlier.completion
    if done is None:
        if clock.at(earlier.warp_track) >= earlier.epoch:
            return True
        tracks, lanes = earlier.lane_tracks, earlier.lanes
        return bool(tracks) and all(
            clock.at(tracks[lane]) >= earlier.epoch for lane in range(len(tracks)) if lanes >> lane & 1
        )
    return done.track >= 0 and clock.at(done.track) >= done.value


def is_ordered_but_for_lanes(earlier: Record, clock: VectorClock, cluster: ClusterState) -> bool:
    """Would `clock` know that an ordinary access is done if one lane's signal spoke for its whole warp?"""
    return earlier.completion is None and cluster.at(clock, ("whole", earlier.warp_track)) >= earlier.epoch


def published_by(cluster: ClusterState, warp: WarpState, lanes: int) -> VectorClock:
    """What a release by the lanes `lanes` of a warp publishes: their own accesses, and what they know of others'."""
    if lanes == ALL_LANES or warp.access_epoch <= warp.synchronized_epoch:
        return warp.clock
    if not warp.lane_tracks:
        warp.lane_tracks.extend([NO_TRACK] * 32)
        warp.whole_track = cluster.tracks.of(("whole", warp.access_track))
    published = warp.clock.copy()
    published.lower(warp.access_track, warp.synchronized_epoch)
    left = lanes
    while left:  # mostly it is one that was elected
        lane = left.bit_length() - 1
        left ^= 1 << lane
        track = warp.lane_tracks[lane]
        if track == NO_TRACK:
            track = warp.lane_tracks[lane] = cluster.tracks.of(("lane", warp.actor, lane))
        published.advance(track, warp.epoch)
    published.advance(warp.whole_track, warp.epoch)
    return published
