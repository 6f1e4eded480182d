"""What the judge of one launch has at hand: clusters, engines' operations, findings; and how an access is entered.

`judge_*` modules hold one subject each and are fed events by `happens_before`; they share this state. An access is
judged where it is entered: against every earlier conflicting one, for order and then for the proxy fence.
Checked by: tests/contract/judge/test_happens_before.py, tests/contract/judge/test_happens_before_rules.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

from tilewright.base.diagnostic import Level
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.contract.history.atoms import Atoms
from tilewright.contract.history.granules import Footprints
from tilewright.contract.history.shadow_memory import COARSE_BYTES, Record, ShadowMemory, writes_same
from tilewright.contract.judge import barrier_life, phase_ledger
from tilewright.contract.judge.exit_rules import check_exit
from tilewright.contract.judge.made_up_maps import MadeUpMaps
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.order.awaited_words import AwaitedWords, Told
from tilewright.contract.judge.order.global_order import GlobalOrder, report_stale_read
from tilewright.contract.judge.order.grid_dependency import GridUse, knows_grids_before
from tilewright.contract.judge.order.strong_words import Holding
from tilewright.contract.judge.race import ALLOCATES, IF_BOTH_HAPPEN, describe_lanes, describe_race, describe_unfenced
from tilewright.contract.judge.roles import Roles
from tilewright.contract.judge.run_state import (
    AsyncCopyState,
    ClusterState,
    CommitState,
    CopyState,
    Fenced,
    OperationState,
    Space,
    WarpState,
    is_ordered,
    is_ordered_but_for_lanes,
    name_of,
)
from tilewright.contract.judge.tensor_state import TensorOperation
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.replay.below_shared import BelowShared
from tilewright.contract.replay.unwritten import Contents, UnwrittenReads, takes_value
from tilewright.contract.rules.interpretations import Interpretation, Interpretations
from tilewright.contract.rules.replay_codes import RunFindings
from tilewright.machine.core.event import Actor, Ranges, WarpActor
from tilewright.machine.protocol.loops.polls import Poll

_WARP_THREADS = 32
TENSOR_MAP_BYTES = 128
_SEVERITY: tuple[Interpretation, ...] = (None, Level.REVIEW, Level.ERROR)


class LaunchState:
    """The state of a judgement. copies, operations, tensor_operations, commits, async_copies: by their number in the
    launch, while their cluster runs. map_readers: clusters whose copies have read tensor maps in global memory, of
    which `global_order` is not told."""

    def __init__(
        self, launch: Launch, interpretations: Interpretations, *, any_global_address: bool = False,
        polls: Mapping[Span, Poll] | None = None, contents: Contents | None = None, reserved_bytes: int = 0,
        asking: frozenset[Span] = frozenset(),
    ) -> None:  # fmt: skip
        self.below_shared = BelowShared(reserved_bytes)
        self.unwritten = UnwrittenReads(contents)
        self.any_global_address = any_global_address
        self.launch = launch
        self.interpretations = interpretations
        self.findings = RunFindings(
            released_init=interpretations.level_of("released_init") or Level.REVIEW,
            narrow_release=interpretations.level_of("narrow_release") or Level.REVIEW,
            lanes_in_step=interpretations.lanes_in_step,
        )
        self.clusters: dict[int, ClusterState] = {}
        self.copies: dict[int, CopyState] = {}
        self.operations: dict[int, OperationState] = {}
        self.async_copies: dict[int, AsyncCopyState] = {}
        self.tensor_operations: dict[int, TensorOperation] = {}
        self.commits: dict[int, CommitState] = {}
        self._footprints = Footprints()
        self.global_order = GlobalOrder(self._footprints)
        self.awaited = AwaitedWords(polls or {})
        self.grid = GridUse(asking)
        self.roles = Roles()
        self.map_readers: set[int] = set()
        self.made_up_maps = MadeUpMaps()
        self.unordered_reads: dict[Span, Span] = {}
        self.repeated_stores: set[Span] = set()
        self.compared_stores: set[tuple[Span, Actor, Actor]] = set()
        self.strong_words: dict[tuple[Space, int, int], list[Holding]] = {}
        self._of_cta: dict[int, ClusterState] = {}
        self._acting: dict[WarpActor, tuple[ClusterState, WarpState]] = {}
        self._atoms = Atoms(COARSE_BYTES)  # CTAs of one kernel touch the same bytes of their shared memory
        self._retired: set[int] = set()
        self._warps_in_cluster = prod(launch.cluster) * -(-prod(launch.block) // _WARP_THREADS)

    def cluster_of(self, cta: int) -> ClusterState:
        """The cluster of a CTA, which begins with its first event."""
        found = self._of_cta.get(cta)
        if found is not None:
            return found
        x, y, _ = self.launch.grid
        sx, sy, sz = self.launch.cluster
        index = (cta % x // sx) + (x // sx) * ((cta // x % y // sy) + (y // sy) * (cta // (x * y) // sz))
        found = self.clusters.get(index)
        if found is None:
            self._retire()
            if index in self._retired:
                self.findings.doubt(f"cluster {index} goes on after all of its warps have exited")
            found = self.clusters[index] = ClusterState(index, self._atoms, self._footprints)
        self._of_cta[cta] = found
        return found

    def pair_of(self, cta: int) -> int:
        """The CTA whose rank in the cluster differs from that of `cta` in the last bit."""
        x, y, _ = self.launch.grid
        sx, sy, _ = self.launch.cluster
        i, j, k = cta % x, cta // x % y, cta // (x * y)
        begin = (i - i % sx, j - j % sy, k - k % self.launch.cluster[2])
        rank = (i - begin[0]) + sx * ((j - begin[1]) + sy * (k - begin[2])) ^ 1
        i, j, k = begin[0] + rank % sx, begin[1] + rank // sx % sy, begin[2] + rank // (sx * sy)
        return i + x * (j + y * k)

    def _retire(self) -> None:
        """Judge the end of clusters all of whose warps have exited, and forget them."""
        self._of_cta.clear()
        for index, cluster in list(self.clusters.items()):
            if cluster.exited >= self._warps_in_cluster:
                check_exit(cluster, self.interpretations, self.findings)
                self.below_shared.look(cluster)
                self._retired.add(index)
                del self.clusters[index]
                for copy in cluster.copies:
                    del self.copies[copy.actor.copy]
                for group in cluster.warpgroups.values():
                    for operation in group.operations:
                        del self.operations[operation.actor.operation]
                for number in cluster.tensor.operations:
                    self.tensor_operations.pop(number, None)
                for number in cluster.commits:
                    self.commits.pop(number, None)
                for copy in cluster.async_copies:
                    self.async_copies.pop(copy.actor.copy, None)
                for actor in cluster.warps:
                    self._acting.pop(actor, None)
                cluster.let_go()

    def let_go(self) -> None:
        """All has been judged: what the clusters did no longer names them, so that it is freed without a search."""
        for cluster in self.clusters.values():
            cluster.let_go()
        self.clusters.clear()
        self.copies.clear()
        self.async_copies.clear()
        self.operations.clear()
        self.tensor_operations.clear()
        self.commits.clear()
        self._acting.clear()
        self._of_cta.clear()

    def step(self, actor: WarpActor) -> tuple[ClusterState, WarpState]:
        """A warp's next event begins."""
        found = self._acting.get(actor)
        if found is None:
            cluster = self.cluster_of(actor.cta)
            found = self._acting[actor] = cluster, cluster.warp(actor)
        found[1].tick()
        return found

    def enter(
        self, memory: ShadowMemory, cluster: ClusterState, record: Record, clock: VectorClock, space: Space,
        views: Sequence[VectorClock] = (),
    ) -> None:  # fmt: skip
        """Enter an access into a memory's history and judge it against what it conflicts with.

        clock: what its issuer knew; views: what each of several issuers knew, of which `clock` is the common part.
        """
        conflicts = memory.conflicts(record)
        if memory.met_unwritten and space == "shared" and self.unwritten.contents and takes_value(record):
            self.unwritten.note_shared(record, record.ranges if record.write else memory.never_written(record.ranges))
        fences: dict[int, int] = {}
        if record.by_engine:
            conflicts = self._not_fenced(cluster, conflicts, record, clock, space, views)
        for earlier in conflicts:
            self._judge(cluster, earlier, record, clock, space, views, fences)

    def _not_fenced(
        self, cluster: ClusterState, conflicts: list[Record], record: Record, clock: VectorClock, space: Space,
        views: Sequence[VectorClock],
    ) -> list[Record]:  # fmt: skip
        """Those of `conflicts`, with an engine's access, of which there may be something to say: not of accesses that
        are in order before it and not of the same warp's lanes, if they are an engine's, or ordinary and fenced. Of the
        latter there are mostly many of few warps, and a warp's accesses are so up to one of its events: that one is
        found once."""
        reach: dict[int, int] = {}
        issuer = record.issuer or record.actor
        left: list[Record] = []
        for earlier in conflicts:
            track = earlier.warp_track
            if earlier.by_engine:
                if (earlier.issuer or earlier.actor) != issuer and is_ordered(earlier, clock):
                    continue
            elif track >= 0 and earlier.completion is None and earlier.actor != issuer:
                place = ~track if earlier.by_peer else track
                known = reach.get(place)
                if known is None:
                    fences = cluster.fence_track(_fenced(earlier, space), track)
                    known = clock.at(track)
                    for view in views or (clock,):
                        fenced = view.at(fences)
                        if fenced < known:
                            known = fenced
                    reach[place] = known
                if earlier.epoch <= known:
                    continue
            left.append(earlier)
        return left

    def _judge(
        self, cluster: ClusterState, earlier: Record, record: Record, clock: VectorClock, space: Space,
        views: Sequence[VectorClock], fences: dict[int, int],
    ) -> None:  # fmt: skip
        """Judge an access against an earlier one with which it conflicts. fences: see `_is_copy_fenced`."""
        if record.read_only and earlier.write:
            report_stale_read(earlier, record, self.findings)
        ordered = is_ordered(earlier, clock)
        heard = cluster.out_of_scope.believed(clock) if not ordered and cluster.out_of_scope else None
        if heard is not None and is_done_in_time(earlier, record, space):
            ordered = is_ordered(earlier, heard)
        if earlier.atomic and record.atomic and are_morally_strong(earlier, record):
            if not ordered:
                self.note_unordered(earlier, record, space)
            return
        if ordered and lane_order.lanes_conflict(cluster, earlier, record):
            self._report_lanes(earlier, record, space)
        if ordered and earlier.by_peer and not record.by_engine:
            self._check_wait_is_wide(cluster, earlier, record, clock, space)
        if not ordered and earlier.write and record.write and is_repeated(earlier, record):
            self.repeated_stores.add(record.span)
            self.findings.doubt(
                f"{record.span}: {name_of(record.actor)} and {name_of(earlier.actor)} store to the same bytes by "
                "this instruction, unordered; whether both store the same would decide"
            )
            return
        if not ordered and writes_same(earlier, record):
            if record.identity:
                self.compared_stores.add((record.span, earlier.actor, record.actor))
            if self.interpretations.same_value is not None:
                _, message, steps = describe_race(earlier, record, space)
                self.findings.report(
                    "NB104", f"{message}; both write the same", record.span, earlier.span, steps,
                    self.interpretations.same_value,
                )  # fmt: skip
            return
        if not ordered and (earlier.uncertain or record.uncertain):
            _, message, _ = describe_race(earlier, record, space)
            self.findings.doubt(f"{record.span}: {message}, {IF_BOTH_HAPPEN}")
        elif not ordered:
            level = self._race(cluster, earlier, record, clock, heard, space)
            if heard is not None and level is not Level.ERROR and record.by_engine and not earlier.by_engine:
                self._check_fence(
                    cluster, earlier, record, [cluster.out_of_scope.believed(view) for view in views or (clock,)], space
                )
        elif record.by_engine and not earlier.by_engine:
            if not _is_copy_fenced(cluster, earlier, views, space, fences):
                self._check_fence(cluster, earlier, record, views or (clock,), space)
        elif earlier.by_engine and record.write and not record.by_engine:
            level = self.interpretations.reuse_after_engine
            if level is not None and clock.at(cluster.fence_track(space, record.warp_track)) <= 0:
                self.findings.report(
                    "PX105",
                    f"{name_of(record.actor)} {record.operation} bytes that {name_of(earlier.actor)} used, with no "
                    "proxy fence of its own",
                    record.span, earlier.span, level=level,
                )  # fmt: skip

    def _report_lanes(self, earlier: Record, record: Record, space: Space) -> None:
        """Two lanes of one warp access the same bytes, and nothing orders them but that they run in step."""
        level = self.interpretations.lanes_in_step
        if level is None:
            return
        message, steps = describe_lanes(earlier, record, space)
        if earlier.uncertain or record.uncertain:
            if level is Level.ERROR:
                self.findings.doubt(f"{record.span}: {message}, {IF_BOTH_HAPPEN}")
            return
        self.findings.report("NB106", message, record.span, earlier.span, steps, level)

    def _check_wait_is_wide(
        self, cluster: ClusterState, earlier: Record, record: Record, clock: VectorClock, space: Space
    ) -> None:
        """An access to what a peer has stored asynchronously: has a wait of the cluster's scope shown that it is done?
        A wait of the CTA's scope acquires nothing of other CTAs' threads."""
        done, level = earlier.completion, self.interpretations.narrow_wait
        if level is None or done is None or cluster.at(clock, ("wide wait", done.track)) >= done.value:
            return
        code, message, steps = describe_race(earlier, record, space, but_for="scope")
        self.findings.report(code, message, record.span, earlier.span, steps, level)

    def _race(
        self, cluster: ClusterState, earlier: Record, record: Record, clock: VectorClock, heard: VectorClock | None,
        space: Space,
    ) -> Interpretation:  # fmt: skip
        """Report two accesses that nothing orders, or nothing but what is contested. heard: what the later one's issuer
        would know if scopes did not count. Returns the level."""
        by_lanes = is_ordered_but_for_lanes(earlier, heard or clock, cluster)
        by_scope = heard is not None and not is_ordered_but_for_lanes(earlier, clock, cluster)
        by_scope = by_scope and (by_lanes or is_ordered(earlier, heard or clock))
        contested: list[Interpretation] = [self.interpretations.elected_arrive] if by_lanes else []
        if by_scope:
            contested.append(Level.ERROR if earlier.write else self.interpretations.narrow_release)
        level = max(contested, key=_SEVERITY.index, default=Level.ERROR)
        if level is not None:
            missing = "scope" if by_scope else "lanes" if by_lanes else ""
            code, message, steps = describe_race(earlier, record, space, but_for=missing)
            self.findings.report(code, message, record.span, earlier.span, steps, level)
        return level

    def _check_fence(
        self, cluster: ClusterState, earlier: Record, record: Record, views: Sequence[VectorClock], space: Space
    ) -> None:
        """An ordinary access and a later one by an engine, in order: is there a proxy fence between them?"""
        level = self._unfenced(cluster, earlier, views, space)
        if level is not None:
            code, message, steps = describe_unfenced(earlier, record, space)
            self.findings.report(code, message, record.span, earlier.span, steps, level)

    def note_unordered(self, earlier: Record, later: Record, space: Space) -> None:
        """Two strong accesses conflict, which is no race; but what is read may differ between interleavings. Of loads
        that wait for words of global memory, `awaited_words` sees to that."""
        for read, write in ((earlier, later), (later, earlier)):
            waits = space == "global" and read.span in self.awaited.polls
            if read.reads_value and write.write and not waits:
                self.unordered_reads.setdefault(read.span, write.span)

    def _unfenced(
        self, cluster: ClusterState, earlier: Record, views: Sequence[VectorClock], space: Space
    ) -> Level | None:
        """At what level is the lack of a proxy fence between two accesses reported? None: it does not lack."""
        interpretations = self.interpretations
        if not earlier.write and interpretations.fence_before_refill is None:
            return None
        if earlier.operation == ALLOCATES:  # tcgen05.alloc's write needs no proxy fence
            return None
        without = [clock for clock in views if not is_fenced(cluster, earlier, clock, space)]
        if not without:
            return None
        level: Level | None = Level.ERROR
        if interpretations.proxy_fence == "path":
            on_path = [_fence_on_path(cluster, earlier, clock, space) for clock in without]
            if all(on_path):
                by_lanes = "for lanes" in on_path
                level = interpretations.elected_arrive if by_lanes else interpretations.fence_on_path
        if level is not None and not earlier.write and interpretations.fence_before_refill is Level.REVIEW:
            level = Level.REVIEW
        return level

    def enter_global(self, cluster: ClusterState, record: Record, clock: VectorClock, told: Told = ()) -> None:
        """Enter an access of global memory, which names its cluster, within that and between clusters. told: what
        single words held."""
        if self.any_global_address:
            for use in self.made_up_maps.write(cluster.index, record) if record.write else ():
                if not is_ordered(use, clock):
                    self.findings.doubt(
                        f"{record.span}: the kernel seems to write a tensor map that the copy at {use.span} uses, and "
                        "nothing orders the two; give --launch"
                    )
            return
        order, contents, memory = self.global_order, self.unwritten.contents, cluster.global_memory
        if self.awaited.polls:
            self.awaited.note(order, cluster, record, clock, told, self.findings)
        conflicts = order.conflicts(record)
        met = order.accesses
        # What meets nothing of any cluster meets nothing of its own, but for what only its own memory is told.
        if met.put_aside:
            memory.put_read(record)
        elif met.met_nothing and cluster.index not in self.map_readers:
            memory.put_first(record)
        else:
            self.enter(memory, cluster, record, clock, "global")
        if conflicts:
            for earlier in order.judge(cluster, record, conflicts, clock, self.findings):
                self.note_unordered(earlier, record, "global")
        if met.met_unwritten and contents and takes_value(record) and contents.may_lack(record.ranges):
            self.unwritten.note_global(record, record.ranges if record.write else met.never_written(record.ranges))

    def check_grid(
        self, cluster: ClusterState, clock: VectorClock, warp: Actor, lanes: int, write: bool, span: Span
    ) -> None:
        """Lanes of a warp, or a copy for them, touch global memory: do they know a wait for the grids before? clock:
        what the warp knows; of a copy, what it knew when it issued it, since it may be carried out at once."""
        if not knows_grids_before(cluster, clock, warp, lanes):
            self.grid.touch_early(write, span)

    def check_barrier_bytes(
        self, cluster: ClusterState, cta: int, ranges: Ranges, span: Span, written_by: VectorClock | None
    ) -> None:
        """An access to these bytes must not touch a live mbarrier. written_by: what is known to who writes them; None
        of a read."""
        low, high = cluster.barrier_bounds.get(cta, (0, 0))
        if not ranges or ranges[0][0] >= high or ranges[-1][1] <= low:
            return
        level = self.interpretations.unused_barrier
        for address, barrier in tuple(cluster.barriers[cta].items()):
            for begin, end in ranges:
                if begin < address + phase_ledger.BARRIER_BYTES and address < end:
                    if written_by is not None and barrier_life.taken_as_data(
                        barrier, written_by, span, self.findings, level
                    ):
                        del cluster.barriers[cta][address]
                        break
                    self.findings.report(
                        "MB102",
                        f"an access touches the bytes of {barrier}, which is live",
                        span,
                        barrier.init.span,
                        (f"{barrier} is initialised ({barrier.init.span})", f"its bytes are accessed ({span})"),
                    )

    def remote(
        self, cluster: ClusterState, warp: WarpState, cta: int, span: Span, *, by_engine: bool = False
    ) -> None:  # fmt: skip
        """A warp (or an engine for it) reaches into a peer CTA: it must have started, and must not end before."""
        self.check_started(cluster, warp, cta, span)
        cluster.remote[cta, warp.track, by_engine] = warp.mark(span)

    def check_started(self, cluster: ClusterState, warp: WarpState, cta: int, span: Span) -> None:
        """Does the warp know that a peer CTA has started?"""
        if cta in warp.peers_started:
            return
        if cluster.at(warp.order, ("start", cta)):
            warp.peers_started.add(cta)  # it stays known
        else:
            self.findings.report(
                "CL102",
                f"{name_of(warp.actor)} reaches into CTA {cta}, which may not have started",
                span,
                None,
                (
                    f"CTA {cta} of the cluster has not begun",
                    f"{name_of(warp.actor)}, which has not synchronized with it, accesses its memory ({span})",
                ),
            )


def _is_copy_fenced(
    cluster: ClusterState, earlier: Record, views: Sequence[VectorClock], space: Space, fences: dict[int, int]
) -> bool:
    """Do all views know a proxy fence after a cp.async? fences: of copies of one warp, up to which they do, once that
    was asked."""
    done = earlier.completion
    if done is None or done.track < 0 or not views:
        return False
    least = fences.get(done.track)
    if least is None:
        key = ("copy fence", space, done.track)
        least = fences[done.track] = min(cluster.at(view, key) for view in views)
    return done.value <= least


def _fenced(earlier: Record, space: Space) -> Fenced:
    """What a proxy fence must order, to order an ordinary access of `space`."""
    return "peers" if earlier.by_peer and space == "shared" else space


def is_fenced(cluster: ClusterState, earlier: Record, clock: VectorClock, space: Space) -> bool:
    """Does `clock` know a proxy fence that follows the ordinary access `earlier`, by the threads that made it?"""
    done = earlier.completion
    if done is not None:  # a cp.async: a fence by any thread that knew of its completion
        return done.track >= 0 and cluster.at(clock, ("copy fence", space, done.track)) >= done.value
    track, epoch, place = earlier.warp_track, earlier.epoch, _fenced(earlier, space)
    if clock.at(cluster.fence_track(place, track)) >= epoch:
        return True
    lanes = [lane for lane in range(_WARP_THREADS) if earlier.lanes >> lane & 1]
    return all(cluster.at(clock, ("fence", place, track, lane)) >= epoch for lane in lanes)


def _fence_on_path(
    cluster: ClusterState, earlier: Record, clock: VectorClock, space: Space
) -> Literal["", "for lanes", "for all"]:
    """Does `clock` know a proxy fence, by any warp, that came after that warp learnt of `earlier`? "for lanes": after
    it would have, if one lane's signal spoke for the whole warp."""
    place = _fenced(earlier, space)
    fences = [warp.fence_before(place, clock.at(warp.track)) for warp in cluster.warps.values()]
    known = [each for each in fences if each is not None]
    if any(is_ordered(earlier, each) for each in known):
        return "for all"
    return "for lanes" if any(is_ordered_but_for_lanes(earlier, each, cluster) for each in known) else ""


def is_done_in_time(earlier: Record, later: Record, space: Space) -> bool:
    """Is it enough that `earlier` is done when `later` begins, whether or not anything makes it visible?

    What a tensor core or a copy engine has read, once that was waited for, it does not read again; and of two copies
    into the same shared memory the one that is issued when the other is complete comes last.
    """
    if not earlier.by_engine:
        return False
    return not earlier.write or (space == "shared" and later.by_engine and later.write)


def is_repeated(first: Record, second: Record) -> bool:
    """Did two warps store to the same bytes by one instruction, of what the text gives no constant?"""
    return (
        first.span == second.span
        and first.ranges == second.ranges
        and first.lanes == second.lanes
        and not first.constant
        and not writes_same(first, second)
        and first.completion is None
        and second.completion is None
    )


_REACH = {"": 2, "cta": 0, "cluster": 1, "gpu": 2, "sys": 3}


def are_morally_strong(first: Record, second: Record) -> bool:
    """Do the scopes of two atomic or strong accesses include each other's thread? (PTX ISA 8.7)."""
    one, other = first.actor, second.actor
    if not isinstance(one, WarpActor) or not isinstance(other, WarpActor) or one.cta == other.cta:
        return True
    return min(_REACH.get(first.scope, 2), _REACH.get(second.scope, 2)) >= 1
