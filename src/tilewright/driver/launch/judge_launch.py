"""What does a protocol run of one launch show: findings, doubts, and how its loops turn?

The kernel's slice is run (`machine.protocol.protocol_run`) with the judge of `contract.judge.happens_before` watching,
and the registers that steer it are looked at whenever a loop begins anew (`machine.protocol.loops.induction`). What the
run could not know is a doubt: so is every finding of a run that depended on it, since the branch it took may be one
that no data takes.

Where the launch is made up (`any_global_address`), nothing is said of global memory: its sizes and strides are made up,
too. Checked by: tests/driver/launch/test_judge_launch.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.contract.judge.waits.asking_loads import asking_loads
from tilewright.contract.replay.unwritten import Contents
from tilewright.contract.rules.replay_codes import CONFLICTS_KEPT, FINDINGS_KEPT
from tilewright.driver.check.limits.work import add_steps, steps_left
from tilewright.driver.launch.launch_buffers import BufferContents, filled
from tilewright.driver.launch.loop_turns import Repeated, Turns, left_by_inputs
from tilewright.frontends.ptx.ast import Module
from tilewright.machine.core.event import (
    Actor,
    AsyncCopyArrive,
    BarrierArrive,
    BarrierComplete,
    BarrierExpect,
    BarrierWait,
    CommitArrive,
    Event,
)
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.run import kernel_of
from tilewright.machine.core.state import Cluster, Warp
from tilewright.machine.protocol.constant_words import constants_kept
from tilewright.machine.protocol.protocol_run import ProtocolReport, run_protocol
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.thrown_away import thrown_away, undecided
from tilewright.machine.symbolic.expression import TAKEN

if TYPE_CHECKING:
    from tilewright.machine.symbolic.idle_loops import Idle
    from tilewright.machine.symbolic.tracker import SymbolicRun

STEP_LIMIT = 3_000_000
"""Warp instructions of one protocol run."""
_LOOKING = 1_000
"""Warp instructions that a run in which peeks succeed may take beyond twice those of the one in which they fail."""
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


@dataclass(frozen=True, slots=True, eq=False)
class LaunchJudgement:
    """What one run shows. complete: it came to its end. turns: most turns of each loop that steps of the protocol are
    in, by the loop's number; repeats: of those that turned often enough. allowed: errors that the text allows, not
    among the findings; launch: that was run; repeated_stores: by several warps to the same bytes, of values that were
    not compared, or were in a run of the slice `identifying`; compared_stores: those that were of one value, with two
    warps that made them."""

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
    compared_stores: frozenset[tuple[Span, Actor, Actor]] = frozenset()
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
    loads_suffice: Callable[[LaunchJudgement], bool] | None = None,
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
    sliced, identifying, repeated: from an earlier judgement of the kernel; loads_suffice: may it be enough to compare
    what was loaded for stores, and is it, of a judgement that did; peeks: waits that only look ahead. They fail
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
            watching: Callable[[Event], None] | None, identify: frozenset[Span], by: SymbolicRun | None,
            by_loads: bool = False,
        ) -> LaunchJudgement:  # fmt: skip
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
                identifying or sliced if identify and not by_loads else sliced,
                taken,
                step_limit if most is None else min(step_limit, most),
                allows,
                by,
                iterations_most,
                any_box,
                contents,
                identify,
                by_loads,
                idle,
            )

        if repeated and followed is not None and loads_suffice is not None:
            found = once(listener, repeated, followed, by_loads=True)
            if not found.repeated_stores and loads_suffice(found):
                return replace(found, repeated_stores=repeated, identifying=identifying)
            followed.restart()
        if repeated:
            # Another launch had stores that have to be compared: this one has them as well, or fewer.
            found = once(listener, repeated, followed)
            if found.repeated_stores <= repeated and (followed is not None or not found.report.unseen):
                return replace(found, repeated_stores=repeated, identifying=found.report.sliced)
            if followed is not None:
                followed.restart()
        found = once(listener, frozenset(), followed)
        if found.errors or not found.repeated_stores or found.report.stopped:
            return found
        # Several warps store to the same bytes: whether they store the same takes a run that asks for it.
        compared = repeated | found.repeated_stores
        if followed is not None:
            followed.restart()
        again = once(None, compared, followed)
        if followed is not None:
            return replace(again, repeated_stores=compared, identifying=again.report.sliced)
        if again.report.unseen:
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
    by_loads: bool,
    idle: Idle | None,
) -> LaunchJudgement:
    whole, known = filled(buffers, contents)
    judge, turns = _witnesses(module, launch, interpretations, any_global_address)
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
        judge, turns = _witnesses(module, launch, interpretations, any_global_address)

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
        by_loads=by_loads,
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
    repeated_stores, compared_stores = judge.repeated_stores, judge.compared_stores
    judge.let_go()
    return LaunchJudgement(
        findings,
        tuple(dict.fromkeys(doubts)),
        report.fault is None and not report.stopped,
        {number: loop.most or 0 for number, loop in enumerate(report.loops) if loop.protocol and not loop.waits},
        turns.judged(report, left_by_inputs(symbolic)),
        report,
        tuple(
            f"the host does not write the constant {name}, which has a value"
            for name in constants_kept(module, report.sliced)
        ),
        allowed=allowed,
        launch=launch,
        repeated_stores=repeated_stores,
        compared_stores=compared_stores,
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
    module: Module, launch: Launch, interpretations: Interpretations, any_global_address: bool
) -> tuple[HappensBefore, Turns]:
    """Who has seen nothing of a launch yet."""
    contents = None if any_global_address else Contents()
    judge = HappensBefore(
        launch, interpretations, follows_values=True, any_global_address=any_global_address, contents=contents,
        asking=asking_loads(inlined(module, kernel_of(module, launch.entry))),
    )  # fmt: skip
    return judge, Turns()


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
