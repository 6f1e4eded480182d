"""What does one launch do to its protocol? A run of the kernel's slice, with the events of the full run.

Only what control flow, addresses and synchronization depend on is executed (`slice`); tensor cores and data move
nothing, yet every access and every synchronization yields its event. What the run cannot know (the contents of buffers)
taints registers and shared memory; choices that depend on it are reported as `TaintedDecision`s, and what the machine
does not understand as unknown reasons: with either, nothing is proven. Faults and hangs are reported, not raised.

Stores whose data the slice reads back are found by a rehearsal: the first cluster is run, and again with every store
that turns out to matter, until none is missing. Who can forget what he has observed observes the rehearsal, which is
the run itself unless a store is missing. What the other clusters then still miss is unknown.

Not handled: clusters that wait for one another through global memory; a poll on a flag is left as if it had been set.
Checked by: tests/machine/protocol/test_protocol_run.py, which compares event streams with the full run's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Literal

import numpy as np

from tilewright.base.collector import collect_young, collector_paused
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch, OpaqueParam
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Module
from tilewright.machine.copy.unknown_copies import UnknownPhase, UnknownStore, leave_unknown
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Event
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.memory import VirtualBuffer
from tilewright.machine.core.run import Buffers, Prepared, cluster_origins, kernel_of, prepare, start_cluster
from tilewright.machine.core.scheduler import Canonical, run_canonically, run_cluster
from tilewright.machine.core.state import Cluster, Counts, Warp
from tilewright.machine.protocol.exited_lanes import ExitedLanes
from tilewright.machine.protocol.protocol_program import Assembly, UnknownReason, assemble_slice
from tilewright.machine.protocol.slicing.slice import (
    Slice,
    Text,
    cheap_stores,
    passes_over_arithmetic,
    protocol_slice,
    text_of,
)
from tilewright.machine.protocol.undefined_registers import UndefinedRead
from tilewright.machine.taint.taint import Sources, TaintedDecision
from tilewright.machine.taint.tracker import ReadBack, Tracker

if TYPE_CHECKING:
    from tilewright.machine.protocol.made_of import IdentifiedStore
    from tilewright.machine.symbolic.idle_loops import Idle
    from tilewright.machine.symbolic.tracker import SymbolicRun

STEP_LIMIT = 50_000_000
_IDLE_ITERATIONS = 4
"""After so many a run leaves a loop that decides about global memory alone."""
_CTAS_KEPT = 64
"""So many CTAs have ended before their memory is looked for: each refers to its warps, and these to it."""
_REQUEST = "clusterlaunchcontrol.try_cancel"

Observer = Callable[[Event], None]
AtBackEdge = Callable[[Cluster, Warp, int], bool | None]
"""Called with the cluster, the warp and the number of the loop (in `ProtocolReport.loops`) at each back edge that a
warp takes. True ends the run."""

UnknownBytes = Mapping[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop of the kernel. Positions count the instructions of the inlined kernel.

    head: position of its first instruction; back_edges: positions after which it begins anew; positions: all of it;
    parent: number of the loop around it, or -1; span: of its head. protocol: it holds something that the protocol sees.
    waits: it holds a wait or a test of an mbarrier and turns on its outcome alone.
    least, most: turns (back edges taken in one visit) over all warps that came to it; None if no warp turned.
    """

    head: int
    back_edges: tuple[int, ...]
    positions: frozenset[int]
    parent: int
    span: Span
    protocol: bool
    waits: bool
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ProtocolReport:
    """What a protocol run saw beside its events.

    fault: why the run ended early, if the kernel is to blame (given that nothing was unknown); stopped: a hook ended
    it, or an instruction that is not understood. unknown_phases,
    unknown_stores: copies through tensor maps whose boxes are not known (`unknown_copies`). branches: whether a branch
    depended on something unknown, or was left out since it decides about nothing of the protocol; a loop of such
    branches may have no end. One around arithmetic alone is none of them (`passes_over_arithmetic`). undefined: reads
    of registers that nobody wrote.
    identified: stores that were to be identified, as warps made them.
    """

    counts: Counts
    taints: tuple[TaintedDecision, ...]
    doubts: tuple[UnknownReason, ...]
    loops: tuple[Loop, ...]
    fault: MachineFault | MachineHang | None
    stopped: bool
    sliced: Slice
    unknown_phases: tuple[UnknownPhase, ...] = ()
    unknown_stores: tuple[UnknownStore, ...] = ()
    branches: bool = False
    undefined: tuple[UndefinedRead, ...] = ()
    identified: tuple[IdentifiedStore, ...] = ()

    @property
    def unseen(self) -> bool:
        """Whether another launch may compute what was identified from what this run has not executed."""
        return any(not each.needed <= each.seen for each in self.identified)

    @property
    def takes_work(self) -> bool:
        """Whether the kernel asks for other clusters' work (clusterlaunchcontrol)."""
        return any(instruction.row == _REQUEST for instruction in self.sliced.text.flow.instructions)

    @property
    def certain(self) -> bool:
        """Whether the run depends on nothing unknown and met nothing that is not understood."""
        return not self.taints and not self.doubts


class _Stop(Exception):
    """A hook wants no more."""


@collector_paused()
def run_protocol(
    module: Module,
    launch: Launch,
    buffers: Buffers,
    *,
    observe: Observer | None = None,
    forget: Callable[[], None] | None = None,
    step_limit: int = STEP_LIMIT,
    schedule: Literal["canonical", "seeded"] = "canonical",
    seed: int = 0,
    known_buffers: frozenset[str] = frozenset(),
    known_bytes: UnknownBytes | None = None,
    clusters: Sequence[int] | None = None,
    at_back_edge: AtBackEdge | None = None,
    unknown_parameters: UnknownBytes | None = None,
    any_global_address: bool = False,
    sliced: Slice | None = None,
    taken: Sequence[int] | None = None,
    peeks: frozenset[Span] = frozenset(),
    peeks_fail: bool = True,
    identify: frozenset[Span] = frozenset(),
    by_loads: bool = False,
    symbolic: SymbolicRun | None = None,
    idle: Idle | None = None,
) -> ProtocolReport:
    """Run the protocol of one launch.

    forget: called where the run begins anew; who gives none is not called in rehearsals.
    buffers: by name, bytes or `VirtualBuffer`s; known_buffers: those whose contents count as known; known_bytes: byte
    ranges of others that do. clusters: linear
    indices of the clusters to run (all). schedule: "canonical" makes no choices, "seeded" plays the adversary of
    `run_launch`. unknown_parameters: byte ranges of parameters that stand for anything; None: what a launch leaves
    open of its structures. any_global_address: sizes and
    strides are made up, so no global address is judged. sliced: from an earlier report on the same kernel, which saves
    slicing and rehearsal. taken: linear indices of clusters whose work the first cluster takes over, one at each
    clusterlaunchcontrol.try_cancel; later requests and other clusters get none; None: what is answered is unknown data.
    peeks: waits that never block; peeks_fail: nor ever succeed. identify: stores whose events tell the identity of the
    value (`value_identity`), which takes a larger slice; by_loads: or of what was loaded for it (`same_loads`), which
    takes none. symbolic: follows how the run depends on what the launch
    chooses. idle: loops to leave early, and what decides about these alone. step_limit: warp instructions. `buffers`
    are not changed. Raises TilewrightError for a launch that does not fit the kernel or a text that contradicts itself.
    """
    unknown = _unspecified(module, launch) if unknown_parameters is None else unknown_parameters

    def once(
        chosen: Slice, running: Sequence[int] | None, watch: Observer | None, hook: AtBackEdge | None, rehearsing: bool,
        *, alone: bool = False,
    ) -> ProtocolReport:  # fmt: skip
        """One run. rehearsing: the first cluster raises `ReadBack`; alone: nobody follows it, nor compares values."""
        run = _Run(
            module, launch, buffers, chosen, watch, known_buffers, unknown, hook, seed, schedule, rehearsing,
            peeks, peeks_fail, frozenset() if alone else contested, None if alone else symbolic, not any_global_address,
            idle,
        )  # fmt: skip
        if taken is not None:
            run.answer_requests(taken)
        memory = run.prepared.memory
        for name, ranges in (known_bytes or {}).items():
            base = memory.by_name[name].base
            run.tracker.known += [(base + begin, base + end) for begin, end in ranges]
        memory.forgiving = any_global_address
        memory.solid = tuple(memory.by_name[name] for name in known_bytes or ())
        if not any_global_address and not alone and run.assembly.astray:
            from tilewright.machine.taint.addresses import UnknownAddresses

            run.tracker.addresses = UnknownAddresses(run.prepared.memory, everyone=running is None)
        return run.go(running, step_limit)

    text = sliced.text if sliced is not None else text_of(inlined(module, kernel_of(module, launch.entry)))
    contested = _stores_at(text, identify)
    if sliced is None or not (by_loads or contested <= sliced.data):
        stores = sliced.stores if sliced is not None else cheap_stores(text)
        data = frozenset[int]() if by_loads else contested | sliced.data if sliced is not None else contested
        sliced = protocol_slice(text.kernel, text=text, stores=stores, data=data)
        first = (0,) if clusters is None else tuple(clusters)[:1]
        while sliced.loads and _left_out(sliced):
            try:
                if forget is not None:
                    return once(sliced, clusters, observe, at_back_edge, True)
                once(sliced, first, None, None, True, alone=True)
            except ReadBack as found:
                stores = sliced.stores | found.positions
                sliced = protocol_slice(text.kernel, text=text, stores=stores, data=data)
                if forget is not None:
                    forget()
                if symbolic is not None:
                    symbolic.restart()
                continue
            break
    return once(sliced, clusters, observe, at_back_edge, False)


def _stores_at(text: Text, places: frozenset[Span]) -> frozenset[int]:
    """Positions of the stores at some places."""
    return frozenset(
        position
        for position, instruction in enumerate(text.flow.instructions)
        if instruction.span in places and text.facts[position].kind == "store"
    )


def _unspecified(module: Module, launch: Launch) -> UnknownBytes:
    """The bytes of structures for which a launch gives neither data nor members."""
    kernel = kernel_of(module, launch.entry)
    return {
        parameter.name: given.unknown_bytes
        for parameter, given in zip(kernel.parameters, launch.params, strict=False)
        if isinstance(given, OpaqueParam) and given.unknown_bytes
    }


def _left_out(sliced: Slice) -> bool:
    """Whether there are stores to shared memory whose data the slice leaves out."""
    facts = sliced.text.facts
    return any(
        each.kind in ("store", "atomic") and each.space in ("shared", "generic") and position not in sliced.stores
        for position, each in enumerate(facts)
    )


def _writes_global(sliced: Slice) -> bool:
    """Whether the kernel may write to global memory."""
    text = sliced.text
    return any(
        (facts.kind in ("store", "atomic") and facts.space in ("global", "generic"))
        or (instruction.row.startswith(("cp.async.bulk", "cp.reduce")) and "bulk_group" in instruction.modifiers)
        for facts, instruction in zip(text.facts, text.flow.instructions, strict=True)
    )


def _ignore(_event: Event) -> None:
    return


class _Run:
    """One pass over the clusters of a launch."""

    def __init__(
        self, module: Module, launch: Launch, buffers: Buffers, sliced: Slice, observe: Observer | None,
        known_buffers: frozenset[str], unknown: UnknownBytes, hook: AtBackEdge | None, seed: int,
        schedule: Literal["canonical", "seeded"], rehearsing: bool, peeks: frozenset[Span], peeks_fail: bool,
        contested: frozenset[int],
        symbolic: SymbolicRun | None, given: bool, idle: Idle | None,
    ) -> None:  # fmt: skip
        known: list[tuple[int, int]] = []
        self.tracker = Tracker(observe or _ignore, Sources(), bool(sliced.loads), known, rehearsing=rehearsing)
        self.tracker.symbolic = symbolic
        own = {name: data if isinstance(data, VirtualBuffer) else data.copy() for name, data in buffers.items()}
        self.prepared: Prepared = prepare(module, launch, own, observe=self.tracker.observe, strict=False)
        self.prepared.decoder.peeks, self.prepared.decoder.peeks_fail = peeks, peeks_fail
        for name in known_buffers:
            region = self.prepared.memory.by_name[name]
            known.append((region.base, region.base + region.size_bytes))
        self.prepared.decoder.mathematics = False
        self.sliced = sliced
        self.canonical = schedule == "canonical"
        self.random = Canonical(seed) if self.canonical else Random(seed)
        idle_loops = frozenset[int]() if idle is None else frozenset(idle.loops)
        trips = self.trips = _Trips(sliced, idle_loops)
        self.work: list[tuple[int, int, int]] = []

        def at_back_edge(warp: Warp, position: int) -> bool:
            number = trips.turn(warp, position)
            if number in idle_loops:
                return trips.iteration(warp, number)[1] >= _IDLE_ITERATIONS
            if hook is not None and hook(warp.cta.cluster, warp, number):
                raise _Stop
            return False

        global_known = bool(buffers) and known_buffers >= set(buffers) and not _writes_global(sliced)
        self.assembly: Assembly = assemble_slice(
            self.prepared.decoder, sliced, self.tracker, at_back_edge, unknown, global_known=global_known,
            contested=contested, symbolic=symbolic, iterations=self.trips.iteration,
            open_constants=bool(self.prepared.memory.open_constants), launch_given=given, idle=idle,
        )  # fmt: skip

    def answer_requests(self, taken: Sequence[int]) -> None:
        """Let the first cluster take over the work of others."""
        origins = cluster_origins(self.prepared.launch)
        self.work = [origins[index] for index in taken]
        instructions = self.sliced.text.flow.instructions
        self.tracker.answered = frozenset(each.span for each in instructions if each.row == _REQUEST)

    def go(self, clusters: Sequence[int] | None, step_limit: int) -> ProtocolReport:
        origins = cluster_origins(self.prepared.launch)
        counts = Counts()
        uncollected = 0
        unknown: list[UnknownPhase] = []
        stores: list[UnknownStore] = []
        fault: MachineFault | MachineHang | None = None
        stopped = False
        schedule = run_canonically if self.canonical else run_cluster
        part_exited = ExitedLanes(self.sliced.text.flow)
        with np.errstate(all="ignore"):
            for index in range(len(origins)) if clusters is None else clusters:
                cluster = start_cluster(
                    self.prepared, self.assembly.program, self.random, counts, index, origins[index]
                )
                cluster.fill_undefined = self.assembly.undefined.fill
                cluster.part_exited = part_exited
                cluster.work_to_take, self.work = self.work, []
                uncollected += len(cluster.ctas)
                self.tracker.start(cluster)
                try:
                    schedule(cluster, step_limit)
                except (MachineFault, MachineHang) as found:
                    fault = found
                except EngineFault as found:
                    fault = MachineFault(found.code, found.name, found.message, self.prepared.kernel.span)
                except TilewrightError as found:
                    span = found.span or self.prepared.kernel.span
                    self.assembly.doubts.setdefault(span, UnknownReason(span, found.message))
                    stopped = True
                except _Stop:
                    stopped = True
                except ReadBack:
                    cluster.let_go()
                    raise
                for span, why in cluster.undefined.items():
                    self.assembly.doubts.setdefault(span, UnknownReason(span, why))
                self.trips.leave_all()
                leave_unknown(cluster)
                unknown += cluster.unknown_phases
                stores += cluster.unknown_stores
                cluster.let_go()
                self.tracker.rehearsing = False
                if fault is not None or stopped:
                    break
                if uncollected >= _CTAS_KEPT:
                    uncollected = 0
                    collect_young()
        doubts = tuple(sorted(self.assembly.doubts.values(), key=lambda doubt: (doubt.span.line, doubt.span.column)))
        identities = self.tracker.identities
        left_out = [at for at in self.sliced.skipped if not passes_over_arithmetic(self.sliced.text, at)]
        return ProtocolReport(
            counts, self.tracker.report(), doubts, self.trips.loops(), fault, stopped, self.sliced,
            tuple(unknown), tuple(stores), bool(self.tracker.branch_origins or left_out),
            tuple(self.assembly.undefined.found.values()),
            () if identities is None else identities.stores,
        )  # fmt: skip


class _Trips:
    """How often each loop turns, by visit: from one turn of the loop around it to the next."""

    def __init__(self, sliced: Slice, idle: frozenset[int]) -> None:
        flow = sliced.text.flow
        self.sliced = sliced
        self.idle = idle
        self.loop_of = {edge: number for number, loop in enumerate(flow.loops) for edge in loop.back_edges}
        self.inner: list[list[int]] = [[] for _ in flow.loops]
        for number, loop in enumerate(flow.loops):
            around = loop.parent
            while around >= 0:
                self.inner[around].append(number)
                around = flow.loops[around].parent
        self.now: dict[tuple[int, int], int] = {}
        self.visits: dict[tuple[int, int], int] = {}
        self.least: dict[int, int] = {}
        self.most: dict[int, int] = {}

    def turn(self, warp: Warp, position: int) -> int:
        number, key = self.loop_of[position], id(warp)
        for inner in self.inner[number]:
            self._leave(key, inner)
        self.now[key, number] = self.now.get((key, number), 0) + 1
        return number

    def iteration(self, warp: Warp, number: int) -> tuple[int, int]:
        """A warp's visit of a loop, and how often it has begun the loop anew in that."""
        key = id(warp), number
        return self.visits.get(key, 0), self.now.get(key, 0)

    def _leave(self, key: int, number: int) -> None:
        self.visits[key, number] = self.visits.get((key, number), 0) + 1
        turns = self.now.pop((key, number), None)
        if turns is not None:
            self.least[number] = min(self.least.get(number, turns), turns)
            self.most[number] = max(self.most.get(number, turns), turns)

    def leave_all(self) -> None:
        for key, number in list(self.now):
            self._leave(key, number)
        self.visits.clear()  # the next cluster's warps are others, whatever their numbers

    def loops(self) -> tuple[Loop, ...]:
        flow, facts = self.sliced.text.flow, self.sliced.text.facts
        found: list[Loop] = []
        for number, loop in enumerate(flow.loops):
            positions = frozenset(flow.positions(loop.blocks))
            kept = [at for at in positions if facts[at].kept and facts[at].kind not in ("control", "collective")]
            waits = [flow.instructions[at].row in ("mbarrier.try_wait", "mbarrier.test_wait") for at in kept]
            found.append(
                Loop(
                    loop.head, loop.back_edges, positions, loop.parent, flow.instructions[loop.head].span,
                    bool(kept) and number not in self.idle, bool(waits) and all(waits), self.least.get(number),
                    self.most.get(number),
                )
            )  # fmt: skip
        return tuple(found)
