"""What is known of one kernel's protocol? Findings, doubts, and a timeline of what its roles did.

With a launch, its clusters are run and judged (`judge_launch`): all of them, or, where they are too many, as many as
`ALL_CLUSTERS_STEPS` allow, spread over the grid. Without one, launches are made up and explored (`judge_unlaunched`). A
finding of level error refutes; a doubt keeps a clean run from standing for all interleavings. Nothing here decides the
verdict: `check` does, after it has looked at what the text allows.
Checked by: tests/driver/check/test_check.py, tests/driver/check/limits/test_work.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Launch
from tilewright.base.plural import counted
from tilewright.base.span import Span
from tilewright.base.timeline import Timeline
from tilewright.base.value import dataclass
from tilewright.contract.judge.happens_before import ASSUMPTIONS, Interpretations
from tilewright.contract.judge.race import IF_BOTH_HAPPEN
from tilewright.contract.judge.waits.peeked_waits import peeked_waits
from tilewright.contract.judge.waits.retried_waits import waits_not_retried
from tilewright.driver.check.limits import work
from tilewright.driver.launch.given_launch import BufferSize, PartialLaunch
from tilewright.driver.launch.judge_launch import Allows, LaunchJudgement, judge_launch, nothing_allowed, takes_over
from tilewright.driver.launch.launch_buffers import BufferContents
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.machine.core.event import Event

if TYPE_CHECKING:
    from tilewright.driver.check.role_timeline import TimelineRecorder
    from tilewright.driver.explore.judge_unlaunched import Watchers

STEP_LIMIT = 50_000_000
"""Warp instructions of a run that is only judged."""
CLUSTERS_AT_ONCE = 4
"""A launch of so many clusters is run as a whole, however many steps that takes."""
ALL_CLUSTERS_STEPS = 100_000
"""Warp instructions of all clusters of a launch together, up to which all of them are run: some seconds of work."""
ANY_DATA_STEPS = 80_000
"""Warp instructions of the launches that are made up where data decides."""
_CLUSTER_STEPS = 200
"""What setting up a cluster counts as."""


_ANY_DATA = ("what buffers hold decides, and may be anything; accesses of global memory are not judged",)


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A launch that is known, and the buffers that its parameters name; assumptions: what was not, and is taken so;
    contents: of those buffers whose bytes are given; given: as somebody gave it."""

    launch: Launch
    buffers: tuple[BufferSize, ...]
    assumptions: tuple[str, ...] = ()
    contents: tuple[BufferContents, ...] = ()
    given: PartialLaunch | None = None


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """interpretations: contested points of the ISA; timeline: record one; progress: called with the share that is done;
    allows: errors that the text allows, so that what stands beside them is judged as well; watchers: of the events of
    each launch that is made up."""

    interpretations: Interpretations
    timeline: bool = False
    progress: Callable[[float], None] | None = None
    allows: Allows = nothing_allowed
    watchers: Watchers | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of a kernel after its run.

    findings: errors and reviews; doubts: why a clean run would not be a proof; complete: the run came to its end, so
    that what was not found is not there; scope, assumptions, claims: of the proof, where there is one; launch: that
    refutes, as a launch file, where none was given; launches: how many were made up; ranges: of the parameters that
    steer the kernel, for which the proof holds; stopped: a limit in seconds ended the run;
    cut_short, reached: as of a `KernelReport`.
    """

    findings: tuple[Diagnostic, ...] = ()
    doubts: tuple[str, ...] = ()
    complete: bool = True
    scope: str = "this launch"
    assumptions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    timeline: Timeline | None = None
    launch: Mapping[str, object] | None = None
    launches: int = 0
    ranges: tuple[str, ...] = ()
    stopped: bool = False
    cut_short: bool = False
    reached: int = 0


def judge_kernel(
    module: Module, kernel: Kernel, launch: KernelLaunch | PartialLaunch, options: JudgeOptions
) -> Judgement:
    """Run `kernel` and judge it. Raises TilewrightError where the text can't be run at all."""
    peeks = peeked_waits(kernel)
    doubts = tuple(
        f"{span}: where this wait fails, it is not simply tried again; a run shows one of its outcomes"
        for span in waits_not_retried(module, kernel.name)
        if span not in peeks
    )
    if isinstance(launch, PartialLaunch):
        return _explored(module, kernel, launch, options, doubts, peeks)
    recorder = None
    if options.timeline:
        from tilewright.driver.check.role_timeline import TimelineRecorder

        recorder = TimelineRecorder()
    judged, sampled, reached = _all_clusters(module, launch, options, recorder, peeks)
    if launch.given is not None and not doubts and _only_data_is_open(judged):
        proof = _for_any_data(module, kernel, launch.given, options, peeks)
        if proof is not None:
            return replace(proof, assumptions=(*_ANY_DATA, *launch.assumptions, *proof.assumptions))
    assumptions = judged.assumptions
    if takes_over(assumptions) and not judged.errors and not judged.doubts and judged.complete and not doubts:
        taking = _however_much_work(module, kernel, launch, options, peeks)
        if isinstance(taking, Judgement):
            return taking
        doubts = taking
        assumptions = tuple(each for each in assumptions if not takes_over((each,)))
    ran = judged.report.counts
    claims = (
        f"{counted(ran.phases, 'mbarrier phase')}, {counted(ran.copies, 'bulk copy')} and "
        f"{counted(ran.wgmmas, 'wgmma')} are ordered in every interleaving",
        *dict.fromkeys(each.said for each in judged.repeats.values() if each.said),
    )
    return Judgement(
        (*judged.findings, *judged.allowed),
        tuple(dict.fromkeys((*doubts, *judged.doubts))),
        judged.complete,
        "this launch",
        (*launch.assumptions, *ASSUMPTIONS, *assumptions, *sampled),
        claims,
        recorder.timeline(judged.findings) if recorder is not None else None,
        cut_short=not judged.complete,
        reached=reached,
    )


def _explored(
    module: Module, kernel: Kernel, given: PartialLaunch, options: JudgeOptions, doubts: tuple[str, ...],
    peeks: frozenset[Span], *, only_proof: bool = False,
) -> Judgement:  # fmt: skip
    """The judgement of all launches that are as a given one where that says something."""
    from tilewright.driver.check.without_launch import judge_without_launch  # takes long to load

    return judge_without_launch(module, kernel, given, options, doubts, peeks, only_proof=only_proof)


def _however_much_work(
    module: Module, kernel: Kernel, launch: KernelLaunch, options: JudgeOptions, peeks: frozenset[Span]
) -> Judgement | tuple[str, ...]:
    """What of a launch that is clean is in the way of a proof for however many other clusters' work one takes over, or
    how it fails where that is another number than was tried."""
    if launch.given is None:
        return ("how much work of others a cluster takes over is not known, and not every number of them was tried",)
    explored = _explored(module, kernel, launch.given, replace(options, progress=None), (), peeks)
    if any(finding.level is Level.ERROR for finding in explored.findings):
        return explored
    return explored.doubts or (() if explored.complete else ("not every number of clusters to take over was tried",))


def _only_data_is_open(judged: LaunchJudgement) -> bool:
    """Is nothing but what decisions depend on in the way of a proof: contents of buffers, results of atomics?"""
    described = {f"{taint.span}: {taint.describe()}" for taint in judged.report.taints}
    others = [doubt for doubt in judged.doubts if doubt not in described and not doubt.endswith(IF_BOTH_HAPPEN)]
    return bool(described) and not others and not judged.errors and judged.complete


def _for_any_data(
    module: Module, kernel: Kernel, given: PartialLaunch, options: JudgeOptions, peeks: frozenset[Span]
) -> Judgement | None:
    """A proof of a launch whatever its buffers hold, if there is one that takes no more than so much work."""
    try:
        with work.counted(ANY_DATA_STEPS):
            some = replace(options, progress=None)
            explored = _explored(module, kernel, given, some, (), peeks, only_proof=True)
    except work.WorkSpent:
        return None
    errors = any(finding.level is Level.ERROR for finding in explored.findings)
    return explored if explored.complete and not explored.doubts and not errors else None


def _all_clusters(
    module: Module,
    launch: KernelLaunch,
    options: JudgeOptions,
    recorder: TimelineRecorder | None,
    peeks: frozenset[Span],
) -> tuple[LaunchJudgement, tuple[str, ...], int]:
    """The judgement of all clusters, if `ALL_CLUSTERS_STEPS` suffice, else of some of them, what that assumes, and how
    far the runs came: in warp instructions of the first cluster, and of the others where that one is clean."""
    buffers = {buffer.name: buffer.size_bytes for buffer in launch.buffers}
    count = prod(extent // step for extent, step in zip(launch.launch.grid, launch.launch.cluster, strict=True))

    def judge(
        clusters: tuple[int, ...] | None,
        watch: Callable[[Event], None] | None = None,
        known: LaunchJudgement | None = None,
    ) -> LaunchJudgement:
        """known: a judgement of the first of these clusters, which says what has to be followed."""
        compared = known.repeated_stores if known is not None and watch is None else frozenset[Span]()
        return judge_launch(
            module, launch.launch, buffers, options.interpretations, watch=watch, clusters=clusters, peeks=peeks,
            step_limit=STEP_LIMIT, contents=launch.contents, allows=options.allows,
            sliced=None if known is None else known.report.sliced,
            identifying=None if known is None else known.identifying, repeated=compared,
        )  # fmt: skip

    watch = recorder.feed if recorder is not None else None

    if count <= CLUSTERS_AT_ONCE:
        whole = judge(None, watch)
        return whole, (), whole.report.counts.instructions
    first = judge((0,))
    reached = first.report.counts.instructions
    steps = reached + _CLUSTER_STEPS
    all_of_them = steps * count <= ALL_CLUSTERS_STEPS
    clean = not first.errors and not first.doubts
    known = first if clean and first.complete else None
    if not clean or all_of_them:
        again = all_of_them or watch is not None
        whole = judge(None if all_of_them else (0,), watch, known) if again else first
        return whole, (), reached + whole.report.counts.instructions if clean else reached
    # To compare what is stored takes about as long again.
    steps *= 1 + bool(first.repeated_stores)
    some = max(CLUSTERS_AT_ONCE, ALL_CLUSTERS_STEPS // steps)
    chosen = tuple(sorted({round(index * (count - 1) / (some - 1)) for index in range(some)}))
    said = f"of {count} clusters, {len(chosen)} were run, the first and the last among them; the others are like these"
    whole = judge(chosen, watch, known)
    return whole, (said,), reached + whole.report.counts.instructions
