"""What does a running cluster consist of? CTAs with shared memory and barriers, warps with registers and strands.

A strand is a set of lanes of one warp at one place. A warp usually has one; divergence splits it, and strands at the
same place merge again. The strand with the lowest place runs first, so structured code reconverges as soon as it can.
If that strand is blocked, the others wait for it, as they would on hardware that reconverges; only when nothing else
in the cluster can move may they run ahead (`relaxed`), which independent thread scheduling allows.

Checked by: tests/machine/core/test_run.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from random import Random
from typing import TYPE_CHECKING, Any

from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.barrier.mbarrier import Mbarrier
from tilewright.machine.core.event import WarpActor
from tilewright.machine.core.fault import NOTHING_NAMED, Awaited
from tilewright.machine.core.lanes import Lanes, Registers
from tilewright.machine.core.memory import RANK_SHIFT, GlobalMemory, Region
from tilewright.targets import Target

if TYPE_CHECKING:
    from tilewright.machine.copy.async_copies import AsyncCopies
    from tilewright.machine.copy.unknown_copies import UnknownCopy, UnknownPhase, UnknownStore
    from tilewright.machine.core.decoder import Observer
    from tilewright.machine.core.program import Program
    from tilewright.machine.events_only.joined_accesses import UnreportedAccess
    from tilewright.machine.tensor_core.tensor_memory import TensorMemory
    from tilewright.machine.tensor_core.tensor_operation import WarpTensorState
    from tilewright.machine.tensor_core.warpgroup import Warpgroup

NEVER = 1 << 60


@dataclass(slots=True, eq=False)
class Block:
    """Why a strand stands still. `describe` is asked only when a hang is reported."""

    describe: Callable[[], str]
    span: Span
    awaited: Awaited = NOTHING_NAMED


@dataclass(slots=True, eq=False)
class Strand:
    """Some lanes of a warp at step `pc`. `converging`: it waits for lanes of its own warp."""

    pc: int
    mask: int
    block: Block | None = None
    converging: bool = False


@dataclass(slots=True, eq=False)
class BulkGroups:
    """Bulk copies of one thread: not yet committed, and committed groups in order. `committed` counts all groups."""

    open: list[BulkCopyState] = field(default_factory=list["BulkCopyState"])
    groups: list[list[BulkCopyState]] = field(default_factory=list["list[BulkCopyState]"])
    committed: int = 0


@dataclass(slots=True, eq=False)
class BulkCopyState:
    """Progress of one copy in a bulk group."""

    copy: int
    read_done: bool = False
    done: bool = False


class Warp:
    """One warp: registers, strands and what it has in flight."""

    __slots__ = (
        "actor",
        "async_copies",
        "barrier_votes",
        "bulk",
        "bulk_waiters",
        "cluster_arrived",
        "cta",
        "current",
        "failed_in_round",
        "false_wait",
        "group",
        "in_flight",
        "index",
        "limit_pc",
        "live",
        "r",
        "rank_base",
        "registers",
        "relaxed",
        "released_barrier",
        "same_results",
        "steps",
        "strands",
        "tensor",
        "unreported",
        "wgmma",
    )

    def __init__(self, cta: Cta, index: int, live: int, registers: Registers, budget: int) -> None:
        self.cta = cta
        self.index = index
        self.actor = WarpActor(cta.linear, index)
        self.live = live
        self.r = registers
        self.registers = budget
        self.rank_base = cta.rank << RANK_SHIFT
        self.current = Strand(0, live)
        self.strands = [self.current]
        self.limit_pc = NEVER
        self.relaxed = False
        self.steps = 0
        self.bulk: dict[int, BulkGroups] = {}
        self.async_copies: AsyncCopies | None = None
        self.bulk_waiters: list[tuple[Warp, Strand]] = []
        self.false_wait: Any = None
        self.failed_in_round: dict[int, int] = {}
        self.same_results: dict[int, tuple[bytes, int]] = {}
        self.cluster_arrived: int | None = None
        self.released_barrier: tuple[int, int] | None = None
        self.barrier_votes: tuple[int, int] = (0, 0)
        self.group: Warpgroup | None = None
        self.in_flight: frozenset[int] = frozenset()
        self.wgmma: Any = None
        self.tensor: WarpTensorState | None = None
        self.unreported: list[UnreportedAccess] = []
        registers[0] = self

    @property
    def done(self) -> bool:
        return not self.strands

    def part(self, mask: int, chosen: int) -> int:
        """Go on with the chosen lanes of `mask`, those of the current strand; the others are one step ahead. Its
        place."""
        strand = self.current
        self.strands.append(Strand(strand.pc + 1, mask ^ chosen))
        strand.mask = chosen
        return strand.pc

    def select(self) -> bool:
        """Merge strands that meet, and make the one to run `current`. False if none may run now."""
        strands = self.strands
        if len(strands) > 1:
            by_place: dict[int, Strand] = {}
            for strand in strands:
                other = by_place.get(strand.pc)
                if other is None:
                    by_place[strand.pc] = strand
                else:
                    other.mask |= strand.mask
                    other.block = None
                    other.converging = False
            strands = self.strands = sorted(by_place.values(), key=lambda strand: strand.pc)
        if len(strands) == 1:
            self.relaxed = False
            self.current = strands[0]
            self.limit_pc = NEVER
            self.current.converging = False
            return self.current.block is None
        for strand in strands:
            if strand.converging:
                continue
            if strand.block is not None:
                if self.relaxed:
                    continue
                return False
            self.current = strand
            self.limit_pc = min((other.pc for other in strands if other.pc > strand.pc), default=NEVER)
            return True
        return False


@dataclass(slots=True, eq=False)
class NamedBarrierState:
    """One of a CTA's named barriers. expected: threads that complete it, None while the whole CTA takes part; votes: of
    a reduction, threads whose predicate holds, and threads that have one."""

    active: bool = False
    expected: int | None = None
    arrived_threads: int = 0
    synchronizing: list[tuple[Warp, Strand]] = field(default_factory=list["tuple[Warp, Strand]"])
    arrived: list[Warp] = field(default_factory=list["Warp"])
    votes: tuple[int, int] = (0, 0)


class Cta:
    """One CTA: its shared memory, barriers, register pool and warps."""

    def __init__(
        self, cluster: Cluster, linear: int, index: tuple[int, int, int], rank: int, shared: Region, pool: int
    ) -> None:
        self.cluster = cluster
        self.linear = linear
        self.index = index
        self.rank = rank
        self.shared = shared
        self.free_registers = pool
        self.warps: list[Warp] = []
        self.barriers: dict[int, Mbarrier] = {}
        self.barrier_waiters: dict[int, list[tuple[Warp, Strand]]] = {}
        self.local: Region | None = None
        self.named = [NamedBarrierState() for _ in range(cluster.target.limit("cta.named_barriers"))]
        self.register_waiters: list[tuple[Warp, Strand]] = []
        self.tensor_memory: TensorMemory | None = None


@dataclass(slots=True)
class Counts:
    """What a run did so far."""

    instructions: int = 0
    copies: int = 0
    wgmmas: int = 0
    phases: int = 0
    tensor_operations: int = 0
    tensor_commits: int = 0


def _none_left() -> None:
    """No cluster of the grid has still to begin."""


class Cluster:
    """The CTAs that run together, their pending engine actions and the seeded choice of what happens next.

    polling: who waits for a word of global memory and has seen in round `poll_round` that it does not hold what is
    waited for; polls_made: how often any warp has looked at such a word; guessed_polls: how often a warp was taken to
    wait by a load whose loop is not understood. observe_local: gets the CTA, offsets in its local memory, bytes an
    offset, and whether these are written, at each access of local memory. fill_undefined: asked where a step (by index)
    reads slots that nobody wrote, before that is a fault; true if they have been given values. part_exited: gets a warp
    some lanes of which exit while others go on, and where; refused: mbarriers (by CTA and address) and phases by which
    requests to take over work complete that nothing was given for; waited: of each mbarrier, the last phase that
    somebody has waited for; undefined: where what the run did is undefined though the machine goes on, with why.
    work_to_take: first CTAs of clusters whose work is given to this one's requests, before more_work is asked.
    """

    def __init__(
        self,
        launch: Launch,
        program: Program,
        memory: GlobalMemory,
        random: Random,
        observe: Observer | None,
        counts: Counts,
        index: int,
        strict: bool,
        target: Target,
    ) -> None:
        self.launch = launch
        self.target = target
        self.program = program
        self.memory = memory
        self.random = random
        self.observe = observe
        self.observe_local: Callable[[Cta, Lanes, int, bool], None] | None = None
        self.fill_undefined: Callable[[Warp, Program, int, list[int]], bool] | None = None
        self.part_exited: Callable[[Warp, Span], None] | None = None
        self.refused: list[tuple[int, int, int]] = []
        self.waited: dict[tuple[int, int], int] = {}
        self.undefined: dict[Span, str] = {}
        self.counts = counts
        self.index = index
        self.strict = strict
        self.ctas: list[Cta] = []
        self.runnable: list[Warp] = []
        self.pending: list[Callable[[], None]] = []
        self.cluster_generation = 0
        self.cluster_arrivals: list[Warp] = []
        self.cluster_relaxed = True
        self.cluster_waiters: list[tuple[Warp, Strand]] = []
        self.live_warps = 0
        self.failed_polls = 0
        self.polling: list[tuple[Warp, Strand]] = []
        self.polls_made = 0
        self.guessed_polls = 0
        self.poll_round = 0
        self.unknown_copies: list[UnknownCopy] = []
        self.unknown_phases: list[UnknownPhase] = []
        self.unknown_stores: list[UnknownStore] = []
        self.work_to_take: list[tuple[int, int, int]] = []
        self.more_work: Callable[[], tuple[int, int, int] | None] = _none_left
        self.requests = 0

    def let_go(self) -> None:
        """The cluster has ended: its parts no longer know of each other, so that they are freed without a search."""
        for cta in self.ctas:
            for warp in cta.warps:
                warp.r.clear()
                warp.group = warp.wgmma = None
            cta.warps.clear()
            cta.named.clear()
        self.ctas.clear()
        self.cluster_arrivals.clear()

    def wake(self, waiters: list[tuple[Warp, Strand]]) -> None:
        """Let blocked strands run again; the list is emptied."""
        for warp, strand in waiters:
            if strand.block is not None:
                strand.block = None
                if warp not in self.runnable:
                    self.runnable.append(warp)
        waiters.clear()
