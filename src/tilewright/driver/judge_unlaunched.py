"""What holds of a kernel whose launch is not known?

Its launches are made up (`unknown_launch`), explored (`explore`) and judged one by one (`judge_launch`). Before that,
the bytes that copies through unknown tensor maps transfer are looked for (`unknown_boxes`). All that is made up stands
among the assumptions. Where the verdict on a made-up launch depends on where in the grid a CTA is, several are launched
and the first and the last are run.
Checked by: tests/driver/test_judge_unlaunched.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.base.timeline import Timeline
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.happens_before import ASSUMPTIONS, Readings
from tilewright.driver.explore import Judged, Values, explore
from tilewright.driver.given_launch import PartialLaunch
from tilewright.driver.judge_launch import Allows, LaunchJudgement, judge_launch, nothing_allowed
from tilewright.driver.launch_buffers import BufferContents
from tilewright.driver.launch_shapes import Shape, launch_shapes
from tilewright.driver.refuting_launch import GIVEN_STEPS, given_again
from tilewright.driver.role_timeline import TimelineRecorder
from tilewright.driver.unknown_boxes import Boxes, UnknownBoxes
from tilewright.driver.unknown_launch import UnknownLaunch, launch_of, unknown_launch
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.machine.event import Event
from tilewright.machine.inline import inlined
from tilewright.machine.model import model_of
from tilewright.machine.slice import Slice, cheap_stores, protocol_slice, text_of
from tilewright.machine.steering import steering

_GRID_REGISTERS = ("%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%smid")
_CLUSTERS = 3
_GIVEN_CLUSTERS = 4
"""So many clusters of a grid that is given are run."""
_RUNS_IN_A_GRID = 4
"""So many choices of the numbers are launched with several clusters, too."""
_EXPLORED_STEPS = 150_000
"""Warp instructions after which a launch is given up: others say more in the time."""
_SIZING_STEPS = 20_000
EXPLORING_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class UnlaunchedJudgement:
    """The verdict, what the roles did in the first run that refutes (or in the first at all), what any run leaves for
    review, and the errors of any run that the text allows. launch: that refutes, as a launch file."""

    verdict: Verdict
    doubts: tuple[str, ...]
    runs: int
    timeline: Timeline | None = None
    reviews: tuple[Diagnostic, ...] = ()
    allowed: tuple[Diagnostic, ...] = ()
    launch: Mapping[str, object] | None = None


def judge_unlaunched(
    module: Module,
    kernel: Kernel,
    readings: Readings,
    *,
    shape: Shape | None = None,
    peeks: frozenset[Span] = frozenset(),
    seconds: float = EXPLORING_SECONDS,
    timeline: bool = False,
    given: PartialLaunch | None = None,
    progress: Callable[[float], None] | None = None,
    allows: Allows = nothing_allowed,
    ends: Callable[[Diagnostic], bool] = nothing_allowed,
) -> UnlaunchedJudgement:
    """Explore the launches of `kernel`. shape: their block and cluster, the likeliest if None; peeks: waits that only
    look ahead; given: what is known of the launch; allows: errors to set aside; ends: an error
    of which it is true refutes at once. Raises TilewrightError for a text that the machine can't run at all."""
    text = text_of(inlined(module, kernel))
    steers = steering(protocol_slice(text.kernel, text=text, stores=cheap_stores(text)))
    numbers = {parameter.name: index for index, parameter in enumerate(kernel.parameters)}
    places = frozenset((numbers[name], offset) for name, offset in steers.parameters if name in numbers)
    shape = shape or launch_shapes(module, kernel).likely[0]
    unknown = unknown_launch(module, kernel, model_of(module), places, shape, given or PartialLaunch())
    in_grid = any(name.startswith(_GRID_REGISTERS) for name in steers.specials)
    runs = [0]
    runner = _Runner(module, unknown, readings, peeks, _Shown(timeline), allows, ends)
    boxes = UnknownBoxes(unknown, runner.run)
    failing: list[tuple[str, LaunchJudgement]] = []
    reviews: dict[tuple[str, Span | None, Span | None], Diagnostic] = {}
    allowed: dict[tuple[str, Span | None, Span | None], Diagnostic] = {}

    def judge(values: Values) -> Judged:
        runs[0] += 1
        if progress is not None:
            progress(min(0.9, runs[0] / 24))
        verdicts = [boxes.judge(values)]
        if in_grid and shape.grid is None and runs[0] <= _RUNS_IN_A_GRID and not verdicts[0].errors:
            verdicts.append(boxes.judge(values, _CLUSTERS))
        said = ", ".join(f"{name} = {value}" for name, value in zip(unknown.names, values, strict=True))
        failing.extend((said, each) for each in verdicts if each.errors)
        for each in verdicts:
            runner.end(values, each)
        for finding in (finding for each in verdicts for finding in each.findings):
            if finding.level is Level.REVIEW:
                reviews.setdefault((finding.code, finding.primary, finding.conflicts_with), finding)
        for finding in (finding for each in verdicts for finding in each.allowed):
            allowed.setdefault((finding.code, finding.primary, finding.conflicts_with), finding)
        return _judged(verdicts)

    try:
        boxes.prepare()
        verdict = explore(unknown.names, judge, seconds=seconds)
    except _Ended as found:
        verdict = Refuted(found.findings)
    document: Mapping[str, object] | None = None
    if isinstance(verdict, Refuted) and (launch := _shown_by(verdict.findings[0], failing)) is not None:
        again = given_again(kernel, launch, unknown.buffers, verdict.findings[0], runner.given, unknown.given.contents)
        document = None if again.against else again.document
        verdict = Unknown((again.against,)) if again.against else verdict
    if isinstance(verdict, Proven):
        general = (*unknown.assumptions, *boxes.words(), *ASSUMPTIONS)
        scope = verdict.scope if unknown.numbers or not unknown.given.params else "this launch"
        verdict = Proven(scope, (*general, *verdict.assumptions), verdict.claims)
    doubts = verdict.reasons if isinstance(verdict, Unknown) else ()
    return UnlaunchedJudgement(
        verdict, doubts, runs[0], runner.shown.timeline, tuple(reviews.values()), tuple(allowed.values()),
        document,
    )  # fmt: skip


def _shown_by(finding: Diagnostic, failing: list[tuple[str, LaunchJudgement]]) -> Launch | None:
    """The launch that shows a finding, which says with which numbers. failing: launches with their numbers in words."""
    key = finding.code, finding.primary, finding.message
    showing = [
        (said, judged.launch)
        for said, judged in failing
        if any((each.code, each.primary, each.message) == key for each in judged.errors)
    ]
    with_numbers = [launch for said, launch in showing if finding.interleaving[:1] == (f"with {said}",)]
    return next(iter(with_numbers), None) or next((launch for _, launch in showing), None)


class _Ended(Exception):
    """An error that leaves nothing to explore; findings: of its run."""

    def __init__(self, findings: tuple[Diagnostic, ...]) -> None:
        super().__init__()
        self.findings = findings


@dataclass(slots=True)
class _Shown:
    """The timeline of the first run with an error, or of the first run at all."""

    wanted: bool
    timeline: Timeline | None = None
    failed: bool = False

    def recorder(self) -> TimelineRecorder | None:
        """Who follows the next run."""
        return TimelineRecorder() if self.wanted and not self.failed else None

    def keep(self, recorder: TimelineRecorder | None, judged: LaunchJudgement) -> None:
        if judged.asserted is not None or judged.report.unknown_phases or judged.report.unknown_stores:
            return
        if recorder is not None and (judged.errors or self.timeline is None):
            self.failed = bool(judged.errors)
            self.timeline = recorder.timeline(judged.errors)


@dataclass(slots=True)
class _Runner:
    """Judges launches of one kernel. sliced: the kernel's slice, once a run has found it."""

    module: Module
    unknown: UnknownLaunch
    readings: Readings
    peeks: frozenset[Span]
    shown: _Shown
    allows: Allows
    ends: Callable[[Diagnostic], bool]
    sliced: Slice | None = None

    def run(
        self,
        values: Values,
        boxes: Boxes,
        clusters: int,
        /,
        *,
        sizing: bool = False,
        any_box: bool = False,
        show: bool = False,
        watch: Callable[[Event], None] | None = None,
    ) -> LaunchJudgement:
        """One launch, judged. sizing: a short run; any_box: as for `judge_launch`; show: its timeline may be the one
        that is shown."""
        recorder = self.shown.recorder() if show else None
        judged = judge_launch(
            self.module,
            launch_of(self.unknown, values, boxes, clusters),
            self.unknown.buffers,
            self.readings,
            watch=recorder.feed if recorder is not None else watch,
            clusters=_clusters_run(self.unknown.shape, clusters),
            any_global_address=True,
            peeks=self.peeks,
            sliced=self.sliced,
            step_limit=_SIZING_STEPS if sizing else _EXPLORED_STEPS,
            contents=self.unknown.given.contents,
            allows=self.allows,
            any_box=any_box,
        )
        if judged.complete and not judged.report.fault:
            self.sliced = judged.report.sliced
        self.shown.keep(recorder, judged)
        if sizing:
            self.end(values, judged)
        return judged

    def given(self, launch: Launch, buffers: Mapping[str, int], contents: Sequence[BufferContents]) -> LaunchJudgement:
        """A launch that is given, judged as such."""
        return judge_launch(
            self.module, launch, buffers, self.readings, peeks=self.peeks, step_limit=GIVEN_STEPS,
            contents=contents, allows=self.allows,
        )  # fmt: skip

    def end(self, values: Values, judged: LaunchJudgement) -> None:
        """Raise `_Ended` at an error that leaves nothing to explore."""
        if min(values, default=1) > 0 and any(self.ends(finding) for finding in judged.errors):
            raise _Ended(judged.findings)


def _clusters_run(shape: Shape, clusters: int) -> tuple[int, ...] | None:
    """Which clusters of a launch are run, None for all: the first and the last, and of a grid that is given some
    between them."""
    if shape.grid is None:
        return (0, clusters - 1) if clusters > 1 else None
    count = prod(extent // step for extent, step in zip(shape.grid, shape.cluster, strict=True))
    if count <= _GIVEN_CLUSTERS:
        return None
    return tuple(sorted({round(index * (count - 1) / (_GIVEN_CLUSTERS - 1)) for index in range(_GIVEN_CLUSTERS)}))


def _judged(runs: list[LaunchJudgement]) -> Judged:
    """Several runs of one choice of numbers as one: the worst verdict, the most turns."""
    errors = tuple(finding for run in runs for finding in run.errors)
    doubts = tuple(dict.fromkeys(doubt for run in runs for doubt in run.doubts))
    turns: dict[str, int] = {}
    repeats: dict[str, str | None] = {}
    for run in runs:
        for loop, count in run.turns.items():
            turns[loop] = max(turns.get(loop, 0), count)
        for loop, reason in run.repeats.items():
            repeats[loop] = repeats.get(loop) or reason
    steps = sum(run.report.counts.instructions for run in runs)
    said = tuple(dict.fromkeys(line for run in runs for line in run.repetitions))
    verdict: Verdict
    if errors:
        verdict = Refuted((*errors, *(f for run in runs for f in run.findings if f not in errors)))
    elif doubts or not all(run.complete for run in runs):
        verdict = Unknown(doubts or ("the run did not come to its end",))
    else:
        verdict = Proven("this launch", tuple(dict.fromkeys(line for run in runs for line in run.assumptions)))
    too_long = any(run.report.counts.instructions > _EXPLORED_STEPS for run in runs) and not errors
    asserted = next((run.asserted for run in runs if run.asserted is not None), None)
    overrun = next((f"{each.message} ({each.primary})" for run in runs if (each := run.overrun) is not None), "")
    return Judged(verdict, turns, steps, repeats, said, too_long, asserted, overrun)
