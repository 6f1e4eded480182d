"""What does a protocol run of one launch show: findings, doubts, and how its loops turn?

The kernel's slice is run (`machine.protocol.protocol_run`) with the judge of `contract.judge.happens_before` watching,
and the registers that steer it are looked at whenever a loop begins anew (`machine.protocol.induction`). What the run
could not know is a doubt: so is every finding of a run that depended on it, since the branch it took may be one that no
data takes.

Where the launch is made up (`any_global_address`), nothing is said of global memory: its sizes and strides are made up,
too. Checked by: tests/driver/launch/test_judge_launch.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.contract.replay.unwritten import Contents
from tilewright.contract.rules.replay_codes import CONFLICTS_KEPT, FINDINGS_KEPT
from tilewright.driver.check.work import add_steps, steps_left
from tilewright.driver.launch.arrivals_in_flight import Flying, more_and_more
from tilewright.driver.launch.launch_buffers import BufferContents, filled
from tilewright.frontends.ptx.ast import Module
from tilewright.machine.barrier.mbarrier import Mbarrier
from tilewright.machine.core.event import (
    AsyncCopyArrive,
    BarrierArrive,
    BarrierComplete,
    BarrierExpect,
    BarrierWait,
    CommitArrive,
    Event,
)
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.lanes import FULL, WARP_SIZE, indices, selector
from tilewright.machine.core.state import Cluster, Warp
from tilewright.machine.protocol.constant_words import constants_kept
from tilewright.machine.protocol.protocol_run import ProtocolReport, run_protocol
from tilewright.machine.protocol.slice import Slice
from tilewright.machine.protocol.steering import Steering, steering
from tilewright.machine.protocol.thrown_away import thrown_away, undecided
from tilewright.machine.symbolic.expression import TAKEN

if TYPE_CHECKING:
    from tilewright.machine.protocol.counter_values import Snapshot
    from tilewright.machine.symbolic.idle_loops import Idle
    from tilewright.machine.symbolic.tracker import SymbolicRun

STEP_LIMIT = 3_000_000
"""Warp instructions of one protocol run."""
_LOOKING = 1_000
"""Warp instructions that a run in which peeks succeed may take beyond twice those of the one in which they fail."""
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
_SNAPSHOTS_KEPT = 200
"""Of each loop in each warp, lest an inner loop leave no place for the one around it."""
_TURNS_TO_REPEAT = 8
_LIMIT_CODE = "LV202"
_OF_THE_MAP = frozenset({"TM104"})
"""Errors about which tensor map a copy uses, whatever its box."""
_TRAP_CODE = "MF008"
_UNWRITTEN = "TC122"
_OUTSIDE = "out-of-bounds"
_TOO_LARGE = (_OUTSIDE, "mbarrier-range", "barrier-number", "barrier-count")
"""Names of faults that a number may cause by its size alone."""

_COUNTING = (AsyncCopyArrive, BarrierArrive, BarrierComplete, BarrierExpect, CommitArrive)
"""Events by which an mbarrier counts: arrivals of threads, of copies and of the tensor core, and bytes."""

_Barriers = Mapping[tuple[int, int], Mbarrier]
"""The mbarriers of a cluster, by CTA and address."""
_Row = tuple[int, list[Any], _Barriers, Mapping[Span, int]]
"""The lanes that turned, the registers of their warp, the mbarriers, and what is on its way to these."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """What a loop that iterated often showed. reason: why it is not shown to repeat itself, None if it is; then it
    does so every `period` iterations from iteration `first` on; said: in words; decides: the positions at which what it
    leaves decides something behind it; further: those of them where that is another one after each number of
    iterations; short: after more iterations it may be seen to repeat itself."""

    reason: str | None
    period: int = 1
    first: int = 0
    said: str = ""
    decides: tuple[int, ...] = ()
    short: bool = False
    further: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LaunchJudgement:
    """What one run shows. complete: it came to its end. turns: most turns of each loop that steps of the protocol are
    in, by the loop's number; repeats: of those that turned often enough. allowed: errors that the text allows, not
    among the findings; launch: that was run; repeated_stores: by several warps to the same bytes, of values that were
    not compared, or were in a run of the slice `identifying`."""

    findings: tuple[Diagnostic, ...]
    doubts: tuple[str, ...]
    complete: bool
    turns: Mapping[int, int]
    repeats: Mapping[int, Repeated]
    report: ProtocolReport
    assumptions: tuple[str, ...] = ()
    allowed: tuple[Diagnostic, ...] = ()
    launch: Launch | None = None
    repeated_stores: frozenset[Span] = frozenset()
    identifying: Slice | None = None
    awaited: frozenset[tuple[int, int]] = frozenset()
    counts: frozenset[tuple[int, int, Span]] = frozenset()
    waits: frozenset[tuple[int, int, Span]] = frozenset()

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(finding for finding in self.findings if finding.level is Level.ERROR)

    @property
    def asserted(self) -> Span | None:
        """Where the kernel's own assertion failed (trap, brkpt, a call of __assertfail), if one did. A launch that is
        made up and gets there is one that the kernel excludes: it shows nothing."""
        fault = self.report.fault
        return fault.span if isinstance(fault, MachineFault) and fault.code == _TRAP_CODE else None

    @property
    def overrun(self) -> Diagnostic | None:
        """The access that left shared, local, constant or parameter memory, or the count beyond what a barrier takes,
        if there was one. In a launch that is made up, a number may be larger than the kernel allows."""
        fault = self.report.fault
        return fault.diagnostic if isinstance(fault, MachineFault) and fault.diagnostic.name in _TOO_LARGE else None

    @property
    def leaves_shared(self) -> bool:
        """Whether an access left shared memory: none that `overrun` speaks of is one of global memory."""
        overrun, text = self.overrun, self.report.sliced.text
        if overrun is None or overrun.name != _OUTSIDE:
            return False
        spaces = {
            facts.space
            for facts, instruction in zip(text.facts, text.flow.instructions, strict=True)
            if instruction.span == overrun.primary
        }
        return spaces.isdisjoint(("global", "local", "param", "const"))


Allows = Callable[[Diagnostic], bool]
"""Does the text allow a finding?"""


def nothing_allowed(_finding: Diagnostic) -> bool:
    """The text allows nothing."""
    return False


def judge_launch(
    module: Module,
    launch: Launch,
    buffers: Mapping[str, int],
    interpretations: Interpretations,
    *,
    watch: Callable[[Event], None] | None = None,
    clusters: Sequence[int] | None = None,
    any_global_address: bool = False,
    peeks: frozenset[Span] = frozenset(),
    sliced: Slice | None = None,
    identifying: Slice | None = None,
    repeated: frozenset[Span] = frozenset(),
    step_limit: int = STEP_LIMIT,
    contents: Sequence[BufferContents] = (),
    allows: Allows = nothing_allowed,
    symbolic: SymbolicRun | None = None,
    iterations_most: int | None = None,
    any_box: bool = False,
    also_taken: int = 0,
    idle: Idle | None = None,
) -> LaunchJudgement:
    """Run and judge one launch. buffers: bytes of each, by name; watch: gets every event of the run that is reported;
    sliced, identifying, repeated: from an earlier judgement of the kernel; peeks: waits that only look ahead. They fail
    in the run; where that is not clean, they look in another. A kernel that takes over other clusters' work is run for
    each of several numbers of these, `also_taken` among them, unless what is followed says how many there are.
    contents: of the buffers whose bytes are given; symbolic: follows how the first run depends on what the launch
    chooses; it ends once a loop whose end inputs decide was begun anew `iterations_most` times. allows: errors to set
    aside; what follows one that ends the run is a doubt. any_box: ask what goes wrong with every box of the tensor maps
    that are unknown; else copies through these are doubts. idle: what decides about global memory alone. Raises
    TilewrightError where the launch does not fit the kernel."""

    def judged(
        listener: Callable[[Event], None] | None,
        some: Sequence[int] | None,
        taken: Work,
        followed: SymbolicRun | None = None,
        peeks_fail: bool = True,
        most: int | None = None,
    ) -> LaunchJudgement:
        def once(
            watching: Callable[[Event], None] | None, identify: frozenset[Span], by: SymbolicRun | None
        ) -> LaunchJudgement:
            return _judge_once(
                module,
                launch,
                buffers,
                interpretations,
                watching,
                some,
                any_global_address,
                peeks,
                peeks_fail,
                identifying or sliced if identify else sliced,
                taken,
                step_limit if most is None else min(step_limit, most),
                allows,
                by,
                iterations_most,
                any_box,
                contents,
                identify,
                idle,
            )

        if repeated:
            # Another launch had stores that have to be compared: this one has them as well, or fewer.
            found = once(listener, repeated, followed)
            if found.report.identified and not found.repeated_stores:
                return replace(found, repeated_stores=repeated, identifying=found.report.sliced)
            if followed is not None:
                followed.restart()
        found = once(listener, frozenset(), followed)
        if found.errors or not found.repeated_stores or found.report.stopped:
            return found
        # Several warps store to the same bytes: whether they store the same takes a run that asks for it.
        again = once(None, found.repeated_stores, None if followed is None else followed.anew())
        if not again.report.identified:
            return found
        return replace(
            found, findings=again.findings, doubts=again.doubts, allowed=again.allowed, identifying=again.report.sliced
        )

    taken = None if symbolic is None else _work(launch, symbolic.inputs.memory.get(TAKEN))
    first = judged(watch, clusters, taken, symbolic)
    others: Sequence[Work] = ()
    assumptions: tuple[str, ...] = ()
    if first.report.takes_work and taken is None:
        taken, others = (), _works(launch, also_taken)
        first = judged(watch, clusters, taken, symbolic)
        most = max(map(len, others), default=0)
        assumptions = (f"{TAKES_OVER} {most} others at most, those that follow the first",) if others else ()
    if first.errors or first.doubts:
        if not peeks:
            return first
        # What such a run shows may be impossible; one in which they succeed where they can is an execution.
        again, most = None if symbolic is None else symbolic.anew(), 2 * first.report.counts.instructions + _LOOKING
        looking = judged(None, clusters, taken, again, peeks_fail=False, most=most)
        return looking if looking.errors else first
    allowed = dict.fromkeys(first.allowed)
    for work in others:
        other = judged(None, (0,), work)
        allowed.update(dict.fromkeys(other.allowed))
        if other.errors or other.doubts or not other.complete:
            return replace(other, allowed=tuple(allowed))
    flow, assumed = first.report.sliced.text.flow, () if idle is None else idle.assumed
    loops = (f"the loop at {flow.instructions[at].span} ends" for at in (*first.report.sliced.open_loops, *assumed))
    return replace(first, assumptions=(*first.assumptions, *assumptions, *loops), allowed=tuple(allowed))


TAKES_OVER = "a cluster takes over the work of"
Work = tuple[int, ...] | None
"""Clusters whose work another takes over (clusterlaunchcontrol), None where that is not known."""


_TAKEN = (1, 2, 3, 4, 24)
"""How many clusters' work one takes over, in the runs of a launch that is given."""


def takes_over(assumptions: Iterable[str]) -> bool:
    """Whether some assumptions bound how much work is taken over."""
    return any(each.startswith(TAKES_OVER) for each in assumptions)


def _works(launch: Launch, also: int) -> list[tuple[int, ...]]:
    """The work of a few other clusters, of many, and of one number of them more, as far as there are others."""
    most = _clusters(launch) - 1
    return [tuple(range(1, count + 1)) for count in sorted({min(each, most) for each in (*_TAKEN, also)}) if count]


def _work(launch: Launch, count: int | None) -> Work:
    """So many clusters whose work is taken over, though a launch that is made up may have fewer."""
    return None if count is None else tuple((1 + each) % _clusters(launch) for each in range(count))


def _clusters(launch: Launch) -> int:
    return prod(extent // step for extent, step in zip(launch.grid, launch.cluster, strict=True))


def _judge_once(
    module: Module,
    launch: Launch,
    buffers: Mapping[str, int],
    interpretations: Interpretations,
    watch: Callable[[Event], None] | None,
    clusters: Sequence[int] | None,
    any_global_address: bool,
    peeks: frozenset[Span],
    peeks_fail: bool,
    sliced: Slice | None,
    taken: Work,
    step_limit: int,
    allows: Allows,
    symbolic: SymbolicRun | None,
    iterations_most: int | None,
    any_box: bool,
    contents: Sequence[BufferContents],
    identify: frozenset[Span],
    idle: Idle | None,
) -> LaunchJudgement:
    whole, known = filled(buffers, contents)
    judge, turns = _witnesses(launch, interpretations, any_global_address)
    begun: Counter[tuple[int, int, int]] = Counter()

    def at_back_edge(cluster: Cluster, warp: Warp, loop: int) -> bool:
        turns.turn(cluster, warp, loop)
        if symbolic is None or iterations_most is None or loop not in symbolic.loops:
            return False
        begun[warp.cta.linear, warp.index, loop] += 1
        return begun[warp.cta.linear, warp.index, loop] > iterations_most

    def forget() -> None:
        nonlocal judge, turns
        judge.let_go()
        begun.clear()
        judge, turns = _witnesses(launch, interpretations, any_global_address)

    def observe(event: Event) -> None:
        judge.feed(event)
        if isinstance(event, BarrierWait):
            turns.waits.add((event.cta, event.address, event.span))
        elif isinstance(event, _COUNTING):
            turns.counts.add((event.cta, event.address, event.span))
        turns.flying.feed(event)
        if watch is not None:
            watch(event)

    report = run_protocol(
        module,
        launch,
        whole,
        known_bytes=known,
        observe=observe,
        forget=forget if watch is None else None,
        step_limit=steps_left(step_limit),
        clusters=clusters,
        at_back_edge=at_back_edge,
        any_global_address=any_global_address,
        peeks=peeks,
        peeks_fail=peeks_fail,
        sliced=sliced,
        taken=taken,
        identify=identify,
        symbolic=symbolic,
        idle=idle,
    )
    add_steps(report.counts.instructions)
    doubts = [f"{taint.span}: {taint.describe()}" for taint in report.taints]
    doubts += [f"{doubt.span}: {doubt.message}" for doubt in report.doubts]
    unsized = _unsized_copies(report)
    if not any_box:
        doubts += unsized
    findings = judge.findings if report.fault is not None or report.stopped else judge.finish()
    match report.fault:
        case MachineFault() as fault:
            findings = (fault.diagnostic, *findings)
        case MachineHang() as hang if hang.code == _LIMIT_CODE:
            doubts.append(hang.message.splitlines()[0])
        case MachineHang() as hang:
            findings = judge.hang(hang)
        case None:
            pass
    findings, leftovers = _without_leftovers(findings, report.sliced, interpretations)
    doubts += leftovers
    allowed = tuple(finding for finding in findings if finding.level is Level.ERROR and allows(finding))
    if allowed:
        findings = tuple(finding for finding in findings if finding not in allowed)
        if report.fault is not None:
            doubts.append("the run ended at a finding that the text allows, so that the rest was not judged")
        doubts += _unreported(allowed, allows)
    if report.taints or report.doubts or (unsized and not any_box):
        # Which map a copy uses, and whether it is published, does not depend on its box.
        certain = frozenset[str]() if report.taints or report.doubts else _OF_THE_MAP
        open_errors = tuple(
            finding for finding in findings if finding.level is Level.ERROR and finding.code not in certain
        )
        doubts += [
            f"{finding.primary}: {finding.code} {finding.message}, on one of the paths that unknown data may take"
            for finding in open_errors
        ]
        findings = tuple(finding for finding in findings if finding not in open_errors)
    findings = (*findings, *(each.review for each in report.undefined))
    doubts += judge.doubts
    repeated_stores = judge.repeated_stores
    judge.let_go()
    return LaunchJudgement(
        findings,
        tuple(dict.fromkeys(doubts)),
        report.fault is None and not report.stopped,
        {number: loop.most or 0 for number, loop in enumerate(report.loops) if loop.protocol and not loop.waits},
        turns.judged(report, _left_by_inputs(symbolic)),
        report,
        tuple(
            f"the host does not write the constant {name}, which has a value"
            for name in constants_kept(module, report.sliced)
        ),
        allowed=allowed,
        launch=launch,
        repeated_stores=repeated_stores,
        awaited=turns.awaited(report),
        counts=frozenset(turns.counts),
        waits=frozenset(turns.waits_in_loops(report)),
    )


def _without_leftovers(
    findings: tuple[Diagnostic, ...], sliced: Slice, interpretations: Interpretations
) -> tuple[tuple[Diagnostic, ...], list[str]]:
    """The findings, less grave where what nobody wrote to tensor memory is loaded and thrown away; doubts instead of
    those where it is open whether it is."""
    level = interpretations.unwritten_tensor_memory
    found = [each for each in findings if each.code == _UNWRITTEN]
    if level is Level.ERROR or not found:
        return findings, []
    unused = thrown_away(sliced.text)
    excused = [each for each in found if each.primary in unused]
    reviews = [replace(each, level=level) for each in excused if level is not None]
    places = {each.primary for each in found if each.level is Level.ERROR and each not in excused}
    by_choice = {each for each in places if each is not None and undecided(sliced.text, each)}
    left = [each for each in found if each.primary in by_choice]
    why = "it is used where a select takes it, and no run says where"
    doubts = [f"{each.primary}: {each.message}; {why}" for each in left]
    gone = [*excused, *left]
    return (*(each for each in findings if each not in gone), *reviews), doubts


def _witnesses(
    launch: Launch, interpretations: Interpretations, any_global_address: bool
) -> tuple[HappensBefore, _Turns]:
    """Who has seen nothing of a launch yet."""
    contents = None if any_global_address else Contents()
    judge = HappensBefore(
        launch, interpretations, follows_values=True, any_global_address=any_global_address, contents=contents
    )
    return judge, _Turns()


def _unsized_copies(report: ProtocolReport) -> list[str]:
    """Doubts about copies whose tensor maps are not known. They brought what their phases expected, and touched
    nothing."""
    shares = [share for phase in report.unknown_phases for share in phase.shares]
    shares += [store.share for store in report.unknown_stores]
    spans = dict.fromkeys(share.span for share in shares)
    return [f"{span}: how many bytes this copy moves is not known, since its tensor map is not" for span in spans]


def _unreported(allowed: tuple[Diagnostic, ...], allows: Allows) -> list[str]:
    """Doubts where the judge may have kept from telling an error that is not allowed, since it tells only so many."""
    if len(allowed) >= FINDINGS_KEPT:
        return ["the text allows so many findings that others may not be reported"]
    crowded = Counter((finding.code, finding.primary) for finding in allowed)
    return [
        f"{finding.primary}: {finding.code} conflicts with more places than are reported, and not all are allowed"
        for finding in allowed
        if crowded[finding.code, finding.primary] >= CONFLICTS_KEPT
        and not allows(replace(finding, conflicts_with=None))
    ]


@dataclass(slots=True)
class _Turns:
    """The registers of each warp at each turn of each loop, in order, with the lanes that turned. waits: where somebody
    waited for an mbarrier, with its CTA and address; counts: where it counted; flying: what will count."""

    log: dict[tuple[int, int], list[tuple[int, _Row]]] = field(
        default_factory=dict[tuple[int, int], list[tuple[int, "_Row"]]]
    )
    names: list[str] = field(default_factory=list[str])
    kept: Counter[tuple[int, int, int]] = field(default_factory=Counter[tuple[int, int, int]])
    flying: Flying = field(default_factory=Flying)
    waits: set[tuple[int, int, Span]] = field(default_factory=set[tuple[int, int, Span]])
    counts: set[tuple[int, int, Span]] = field(default_factory=set[tuple[int, int, Span]])

    def turn(self, cluster: Cluster, warp: Warp, loop: int) -> bool:
        if not self.names:
            self.names = cluster.program.names
        who = warp.cta.linear, warp.index
        if self.kept[*who, loop] < _SNAPSHOTS_KEPT:
            self.kept[*who, loop] += 1
            registers = [None, *warp.r[1:]]  # without the warp, which would keep the whole run
            row = warp.current.mask, registers, _barriers(cluster), dict(self.flying.by_place)
            self.log.setdefault(who, []).append((loop, row))
        return False

    def _longest_visits(self, report: ProtocolReport) -> dict[tuple[int, int, int], list[_Row]]:
        """For each warp and loop, its longest visit: turns with no turn of a loop around it in between."""
        around: list[frozenset[int]] = []
        for loop in report.loops:
            parents: set[int] = set()
            parent = loop.parent
            while parent >= 0:
                parents.add(parent)
                parent = report.loops[parent].parent
            around.append(frozenset(parents))
        longest: dict[tuple[int, int, int], list[_Row]] = {}
        for who, log in self.log.items():
            visits: dict[int, list[_Row]] = {}
            for loop, row in log:
                for inner in [each for each in visits if loop in around[each]]:
                    self._keep(longest, (*who, inner), visits.pop(inner))
                visits.setdefault(loop, []).append(row)
            for loop, visit in visits.items():
                self._keep(longest, (*who, loop), visit)
        return longest

    def _keep(
        self, longest: dict[tuple[int, int, int], list[_Row]], key: tuple[int, int, int], visit: list[_Row]
    ) -> None:
        if len(visit) > len(longest.get(key, ())):
            longest[key] = visit

    def judged(self, report: ProtocolReport, left: frozenset[tuple[int, int]] = frozenset()) -> dict[int, Repeated]:
        """For every loop that turned often enough: whether it repeats itself in all warps; the worst of them. left: the
        loops that warps left since an input said so."""
        steers = steering(report.sliced)
        repeats: dict[int, Repeated] = {}
        seen: dict[tuple[int, bool], set[tuple[bytes, ...]]] = {}
        chosen: frozenset[str] | None = None
        awaited = self.awaited(report)
        for (_, warp, number), visit in sorted(self._longest_visits(report).items(), key=lambda item: item[0]):
            loop = report.loops[number]
            if not loop.protocol or loop.waits or len(visit) < _TURNS_TO_REPEAT:
                continue
            ended = not report.stopped and (warp, number) not in left
            if chosen is None:
                from tilewright.machine.symbolic.reached import reached_by_inputs  # many kernels have no such loop

                chosen = reached_by_inputs(report.sliced, True, grid=True, data=True)
            snapshots = self._snapshots(visit, steers.registers)
            content = _content(snapshots)
            if content in seen.get((number, ended), ()):
                continue  # another warp's iterations were the same
            seen.setdefault((number, ended), set()).add(content)
            barriers = [held for *_, held, _ in visit]
            found = _repeats(report, steers, chosen, number, snapshots, barriers, awaited, ended)
            if found.reason is None and (rising := more_and_more([each for *_, each in visit], found.period)):
                said = f"the loop at {loop.span} is not shown to repeat itself: {rising}"
                found = Repeated(said)
            known = repeats.get(number)
            if known is None or (known.reason is None and (found.reason is not None or found.period > known.period)):
                repeats[number] = found
        return repeats

    def awaited(self, report: ProtocolReport) -> frozenset[tuple[int, int]]:
        """The mbarriers that loops waited for."""
        return frozenset((cta, address) for cta, address, _ in self.waits_in_loops(report))

    def waits_in_loops(self, report: ProtocolReport) -> list[tuple[int, int, Span]]:
        """Where loops waited for mbarriers."""
        waits = _waits_in_loops(report)
        return [each for each in self.waits if each[2] in waits]

    def _snapshots(self, visit: list[_Row], wanted: frozenset[str]) -> list[Snapshot]:
        """The registers at each iteration. wanted: their names. Where the same lanes always turned, only theirs count:
        the others are elsewhere, and get what the last of these holds."""
        masks = {mask for mask, *_ in visit}
        mask = masks.pop() if len(masks) == 1 else FULL
        lanes = np.where(selector(mask), np.arange(WARP_SIZE), indices(mask)[-1])
        slots = [(slot, name) for slot, name in enumerate(self.names) if name in wanted]
        return [
            {
                name: value if mask == FULL else value[lanes]
                for slot, name in slots
                if slot < len(row) and isinstance(value := row[slot], np.ndarray)
            }
            for _, row, *_ in visit
        ]


def _barriers(cluster: Cluster) -> _Barriers:
    return {(cta.linear, address): each for cta in cluster.ctas for address, each in cta.barriers.items()}


def _content(snapshots: Sequence[Snapshot]) -> tuple[bytes, ...]:
    """What snapshots hold, in full."""
    return tuple(
        part for each in snapshots for name, value in each.items() for part in (name.encode(), value.tobytes())
    )


def _left_by_inputs(symbolic: SymbolicRun | None) -> frozenset[tuple[int, int]]:
    """The loops that warps of any CTA left since an input said so, each after the warp."""
    return frozenset(
        (each.warp, each.loop)
        for each in (() if symbolic is None else symbolic.conditions)
        if each.loop >= 0 and (each.outcome != each.stays).any()
    )


def _repeats(
    report: ProtocolReport, steers: Steering, chosen: frozenset[str], number: int, snapshots: list[Snapshot],
    barriers: Sequence[_Barriers], awaited: Collection[tuple[int, int]], ended: bool,
) -> Repeated:  # fmt: skip
    """Whether a loop is shown to repeat itself. chosen: the registers that inputs reach; barriers: as they were at each
    iteration; awaited: those that loops wait for; ended: what no launch chooses ended the loop in this run."""
    # Many kernels have no loop that iterates often enough.
    from tilewright.driver.explore.left_by_loops import decided_behind, varying
    from tilewright.driver.explore.loop_counters import counter_used_after
    from tilewright.machine.protocol.chosen_steps import chosen_steps
    from tilewright.machine.protocol.induction import is_read_modulo, objections, open_gain, repetition
    from tilewright.machine.protocol.latches import latch_of
    from tilewright.machine.symbolic.at_choice import at_choice

    loop, text = report.loops[number], report.sliced.text
    places = [
        position
        for position in sorted(loop.positions)
        if position in report.sliced.executed
        and (text.facts[position].kept or not steers.registers.isdisjoint(text.facts[position].writes))
    ]
    body, blocks = [text.flow.instructions[at] for at in places], [text.flow.block_of[at] for at in places]
    written = {
        name
        for position in loop.positions
        for name in text.facts[position].writes & steers.registers
        if position in report.sliced.executed
    }
    held = sorted(name for name in written if all(name in snapshot for snapshot in snapshots[1:]))
    found = repetition(snapshots[1:], held)
    if found is None:
        said = f"the loop at {loop.span} was not seen to repeat itself in {len(snapshots)} iterations"
        return Repeated(said, short=True)
    direct, exits = _exits(report, number)
    latch = latch_of(text.flow, text.flow.loops[number])
    below = frozenset(at for at, place in enumerate(places) if latch is not None and latch.is_below(text.flow, place))
    inside = {text.flow.block_of[position] for position in loop.positions}
    leaving = [
        text.flow.blocks[each].end - 1 for each in inside if not inside.issuperset(text.flow.blocks[each].successors)
    ]
    first_exit = min(leaving, default=0) if loop.head == min(loop.positions) else 0
    natural = text.flow.loops[number]
    last = frozenset(text.flow.passed(natural, last=True))
    whole = [index for index, at in enumerate(places) if at < first_exit or blocks[index] in last]
    optional = at_choice(report.sliced, natural, places, chosen)
    passed = text.flow.passed(natural)

    seen = found

    def read_modulo(name: str, carried: Collection[str]) -> bool:
        return is_read_modulo(
            name, body, seen, snapshots[1:], exits, direct, chosen, carried, ended=ended, blocks=blocks, whole=whole,
            below=below, passed=passed, chosen=optional,
        )  # fmt: skip

    stepped = chosen_steps(report.sliced, steers, natural, chosen, snapshots[1:], read_modulo)
    if stepped.against is not None:
        at, why = stepped.against
        return Repeated(
            f"the loop at {loop.span} is not shown to repeat itself: {why} ({text.flow.instructions[at].span})"
        )
    opened = {name: open_gain(index) for index, name in enumerate(sorted(stepped.open))}
    found = replace(found, steps={**found.steps, **opened})
    against = objections(
        body, found, snapshots[1:], exits, direct, chosen, ended=ended, blocks=blocks, whole=whole, below=below,
        passed=passed, chosen=optional,
    )  # fmt: skip
    if against:
        first = against[0]
        return Repeated(
            f"the loop at {loop.span} is not shown to repeat itself: {first.reason} ({first.instruction.span})"
        )
    counting = _counting_barrier(barriers[len(barriers) // 2 :], found.period, awaited)
    if counting is not None:
        return Repeated(
            f"the loop at {loop.span} is not shown to repeat itself: mbarrier +{counting:#x} counts on from iteration "
            "to iteration"
        )
    stored = _counter_stored(report, steers, number, found.steps.keys())
    if stored is not None:
        return Repeated(
            f"the loop at {loop.span} does not stand for all numbers of iterations: it stores how often it iterated, "
            f"and what memory holds steers the kernel ({stored})"
        )
    after = counter_used_after(report, steers, number, found.steps, snapshots[1:])
    if after is not None:
        return Repeated(
            f"the loop at {loop.span} does not stand for all numbers of iterations: {after.reason} ({after.span})"
        )
    every = "iteration" if found.period == 1 else f"{found.period} iterations"
    # The first snapshot, which is left out, is taken after one iteration.
    # A launch chooses when registers of few states are stepped: these settle in none.
    settling = [name for name in held if name not in chosen and name not in stepped.few]
    first = max(found.first, _settled(snapshots[1:], settling, found.period))
    # What an iteration that a launch chooses leaves in a register, others leave after other numbers of iterations.
    left = {name for index in optional for name in text.facts[places[index]].writes & steers.registers}
    chosen_left = stepped.left | left | found.steps.keys()
    decides = decided_behind(report, steers, number, varying(snapshots[1:], held) | chosen_left)
    left_by = [{at: each for at, each in held.items() if at not in awaited} for held in barriers]
    if any(each != left_by[-1] for each in left_by):
        decides = (*decides, *_waits_behind_loops(report))
    further = decided_behind(report, steers, number, frozenset(stepped.left | left))
    # What counts on is no operand behind the loop (`loop_counters`), but may be compared with a number of the launch.
    further += decided_behind(report, steers, number, frozenset(found.steps), with_operands=False)
    said = f"the loop at {loop.span} repeats itself every {every}"
    half = len(barriers) // 2
    # After an odd number of phases a barrier comes back in the period after the next one.
    odd = _counting_barrier(left_by[half:], found.period, (), parity=True) is not None
    return Repeated(None, found.period * (1 + odd), first + 2, said, decides, further=further)


def _settled(snapshots: Sequence[Snapshot], names: Collection[str], period: int) -> int:
    """The index of the snapshot from which on registers gain the same in each period, up to the end of the run."""
    first = 0
    for name in names:
        values = np.stack([np.asarray(each[name]) for each in snapshots])
        gained = values[period:] != values[:-period] if values.dtype == np.bool_ else values[period:] - values[:-period]
        differs = np.flatnonzero((gained != gained[-1]).any(axis=1))
        first = max(first, int(differs[-1]) + 1 if differs.size else 0)
    return first


def _waits_in_loops(report: ProtocolReport) -> frozenset[Span]:
    """The waits that loops make which do more than to wait."""
    inside = {at for loop in report.loops if not loop.waits for at in loop.positions}
    instructions = report.sliced.text.flow.instructions
    return frozenset(instructions[at].span for at in inside if instructions[at].row.startswith(_WAITS))


def _waits_behind_loops(report: ProtocolReport) -> list[int]:
    """Where anything else waits for an mbarrier."""
    inside = _waits_in_loops(report)
    instructions = enumerate(report.sliced.text.flow.instructions)
    return [at for at, each in instructions if each.row.startswith(_WAITS) and each.span not in inside]


def _counting_barrier(
    barriers: Sequence[_Barriers], period: int, awaited: Collection[tuple[int, int]], *, parity: bool = False
) -> int | None:
    """The address of an mbarrier that counts by as much in each period, and ends no phase in any of them: it does when
    it has counted enough, in an iteration that was not run. awaited: those that loops wait for, so that no phase is
    missed; any other must come back in each period to what it has counted. parity: and to the parity of its phase."""
    for at in barriers[-1] if len(barriers) > period else ():
        states = [each[at] for each in barriers if at in each]
        counts = np.array([(each.expected, each.pending, each.transaction_bytes) for each in states], np.int64)
        if len(states) < len(barriers):
            continue
        gained = counts[period:] - counts[:-period]
        turned = np.array([each.phase & 1 for each in states])
        if at not in awaited and (gained.any() or (parity and (turned[period:] != turned[:-period]).any())):
            return at[1]
        if len({each.phase for each in states}) == 1 and gained[0].any() and (gained == gained[0]).all():
            return at[1]
    return None


def _counter_stored(report: ProtocolReport, steers: Steering, number: int, counters: Collection[str]) -> Span | None:
    """Where a loop stores a counter to memory that the kernel reads what steers it from."""
    sliced = report.sliced
    for position in sorted(report.loops[number].positions & sliced.stores) if steers.memory else ():
        facts = sliced.text.facts[position]
        if any(use.role == "data" and use.register in counters for use in facts.uses):
            return sliced.text.flow.instructions[position].span
    return None


def _exits(report: ProtocolReport, number: int) -> tuple[frozenset[str], frozenset[str]]:
    """Guards of branches one way of which leaves a loop, and predicates that decide whether it goes on: guards of
    branches that leave it or begin it anew, and what these are computed from."""
    loop, text = report.loops[number], report.sliced.text
    flow = text.flow
    inside = {flow.block_of[position] for position in loop.positions}
    names: set[str] = set()
    direct: set[str] = set()
    for position in loop.positions:
        item = flow.instructions[position]
        leaves = any(block not in inside for block in flow.blocks[flow.block_of[position]].successors)
        if item.row == "bra" and item.guard is not None and (position in loop.back_edges or leaves):
            names.add(item.guard.register.name)
            if leaves:
                direct.add(item.guard.register.name)
    grown = True
    while grown:
        grown = False
        for position in loop.positions:
            facts = text.facts[position]
            if facts.writes & names and flow.instructions[position].row in ("and", "or", "not", "mov", "xor"):
                new = {name for name in facts.reads if name not in names}
                names |= new
                grown = grown or bool(new)
    return frozenset(direct), frozenset(names)
