"""What holds of a kernel whose launch is not known?

Its launches are made up (`unknown_launch`), explored (`explore`) and judged one by one (`judge_launch`). Before that,
the bytes that copies through unknown tensor maps transfer are looked for (`unknown_boxes`). All that is made up stands
among the assumptions. Where the verdict on a made-up launch depends on where in the grid a CTA is, several are launched
and the first and the last are run.
Checked by: tests/driver/explore/test_judge_unlaunched.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.base.timeline import Timeline
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.judge.happens_before import ASSUMPTIONS, Interpretations
from tilewright.driver.check.limits.budget import BudgetSpent
from tilewright.driver.check.role_timeline import TimelineRecorder
from tilewright.driver.explore.compared_stores import ComparedStores, decides_values
from tilewright.driver.explore.control_flow.awaited_tickets import awaited_tickets
from tilewright.driver.explore.control_flow.branch_traces import idle_choices, lasting_choices
from tilewright.driver.explore.control_flow.skipped_loops import guards_of
from tilewright.driver.explore.explore import Explored, Places, explore, more_ordinary
from tilewright.driver.explore.explored_ranges import explored_ranges
from tilewright.driver.explore.gaps.open_so_far import open_so_far
from tilewright.driver.explore.refuting_launch import GIVEN_STEPS, GivenAgain, given_again
from tilewright.driver.explore.search.exploration import (
    DEFAULT_EFFORT,
    ITERATIONS_MOST,
    Effort,
    Exploration,
    Judged,
    Tried,
    distinct,
)
from tilewright.driver.explore.search.on_the_way import Ways
from tilewright.driver.explore.search.path_search import Assignment, retraces
from tilewright.driver.explore.unknown_maps.announced_bytes import announced_numbers, used_elsewhere
from tilewright.driver.explore.unknown_maps.unknown_boxes import Boxes, UnknownBoxes
from tilewright.driver.launch.given_launch import PartialLaunch, has_dynamic_shared
from tilewright.driver.launch.judge_launch import Allows, LaunchJudgement, judge_launch, nothing_allowed
from tilewright.driver.launch.launch_buffers import BufferContents
from tilewright.driver.launch.launch_shapes import Shape, launch_shapes
from tilewright.driver.launch.launch_space import Chosen, LaunchSpace, launch_space
from tilewright.driver.launch.unknown_launch import UnknownLaunch, unknown_launch
from tilewright.driver.launch.written_launch import launch_document
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.machine.core.event import Event
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.model import model_of
from tilewright.machine.protocol.loops.counted_ends import with_counted_ends
from tilewright.machine.protocol.slicing.guarded_regions import with_guards
from tilewright.machine.protocol.slicing.slice import Slice, cheap_stores, protocol_slice, text_of
from tilewright.machine.protocol.slicing.steering import steering
from tilewright.machine.symbolic.expression import TAKEN, Evaluation, Table
from tilewright.machine.symbolic.idle_loops import Idle, idle_loops
from tilewright.machine.symbolic.kept_steps import is_protocol
from tilewright.machine.symbolic.tracker import Condition, SymbolicRun

_EXPLORED_STEPS = 250_000
"""Warp instructions after which a launch is given up: others say more for the effort, where there are others."""
_SIZING_STEPS = 60_000
_SIZING_ITERATIONS = 8
"""Of a loop whose end inputs decide, which show enough of the places that it copies to."""
_LARGER = 64
"""Value of all numbers with which a shape that fails is tried once more."""
_SHARED_SIZES = frozenset({"%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size"})
_GIVEN_AGAIN = 3
"""Launches that show a finding, of which one must show it when it is given as a launch file."""
_AWAITED_MOST = 2
"""Launches after which a loop that other threads end leaves the kernel unknown, unless one of them fails."""
_BUFFER_BYTES = 1 << 26
"""Of a buffer that has words chosen in it, in the launch file that shows a finding."""
_EXAMPLE_PHASES = 16
"""Phases of mbarriers that a launch worth writing down has, if it can have as many."""
_SIZING_VALUES = (256, 1024, 64, 4096, 1)
"""Values of all numbers at which the bytes of copies are looked for, one after the other."""


Watchers = Callable[[], Callable[[Event], None]]
"""Makes a watcher of events for each launch."""


@dataclass(frozen=True, slots=True)
class UnlaunchedJudgement:
    """The verdict, what the roles did in the first run that refutes (or in the first at all), what any run leaves for
    review, and the errors of any run that the text allows. launch: that refutes, as a launch file; ended: the errors of
    the launch that ended the exploration, or that does not show them as a launch file; clean: a launch with larger
    numbers than one that fails was clean; spent: nothing is wrong with any launch that is not degenerate, but the
    effort did not suffice; excluded: every launch ends at the kernel's own assertion; example: the clean launch that
    executes most of the protocol, with small numbers, as a launch file; ranges: of the parameters that
    steer, for which a proof holds; cut_short, reached: of the run of `launch`, as of a `KernelReport`."""

    verdict: Verdict
    doubts: tuple[str, ...]
    runs: int
    timeline: Timeline | None = None
    reviews: tuple[Diagnostic, ...] = ()
    allowed: tuple[Diagnostic, ...] = ()
    launch: Mapping[str, object] | None = None
    ended: tuple[Diagnostic, ...] = ()
    clean: bool = False
    spent: bool = False
    excluded: bool = False
    ranges: tuple[str, ...] = ()
    example: Mapping[str, object] | None = None
    cut_short: bool = False
    reached: int = 0


def judge_unlaunched(
    module: Module,
    kernel: Kernel,
    interpretations: Interpretations,
    *,
    shape: Shape | None = None,
    peeks: frozenset[Span] = frozenset(),
    effort: Effort = DEFAULT_EFFORT,
    timeline: bool = False,
    given: PartialLaunch | None = None,
    progress: Callable[[float], None] | None = None,
    allows: Allows = nothing_allowed,
    ends: Callable[[Diagnostic], bool] = nothing_allowed,
    watchers: Watchers | None = None,
    only_proof: bool = False,
) -> UnlaunchedJudgement:
    """Explore the launches of `kernel`. shape: their block and cluster, the likeliest if None; peeks: waits that only
    look ahead; given: what is known of the launch; allows: errors to set aside; ends: an error of which it is true
    refutes at once; watchers: makes one who gets every event of a launch that is judged, instead of the timeline;
    only_proof: nothing but a proof is asked for. Raises TilewrightError for a text that the machine can't run at
    all."""
    sliced = sliced_of(inlined(module, kernel))
    counted = with_counted_ends(sliced.text.kernel, sliced.text.flow)
    if counted is not sliced.text.kernel:
        sliced = sliced_of(counted)
    steers = steering(sliced)
    guarded = with_guards(sliced.text.kernel, sliced, steers)
    if guarded is not sliced.text.kernel:
        sliced = sliced_of(guarded)
        steers = steering(sliced)
    run_module = replace(module, kernels=tuple(guarded if each is kernel else each for each in module.kernels))
    shape = shape or launch_shapes(module, kernel).likely[0]
    target = model_of(module)
    unknown = unknown_launch(module, kernel, target, shape, given or PartialLaunch())
    space = launch_space(unknown, steers)
    table = Table()
    runner = _Runner(
        module, run_module, unknown, space, table, interpretations, peeks, _Shown(timeline), allows, ends, watchers
    )
    runner.idle = idle_loops(sliced)
    runner.explored_steps = _EXPLORED_STEPS if space.dimensions else max(_EXPLORED_STEPS, effort.steps)
    flow = sliced.text.flow
    shared_bytes_max = target.limit("cta.shared_bytes_max")
    boxes = UnknownBoxes(
        unknown, runner.run, shared_bytes_max, lambda: announced_numbers(flow.instructions, runner.decided())
    )
    failing: dict[Chosen, _Failing] = {}
    compared = runner.compared
    aside = frozenset[int]()
    reviews: dict[tuple[str, Span | None, Span | None], Diagnostic] = {}
    allowed: dict[tuple[str, Span | None, Span | None], Diagnostic] = {}
    examples: dict[tuple[int, int, int], _Failing] = {}
    # A launch that is made up has all shared memory that the target has.
    made_up_shared = unknown.given.dynamic_smem_bytes is None and has_dynamic_shared(module, kernel)

    def judge(values: Assignment, iterations_most: int) -> Judged:
        nonlocal aside
        runner.iterations_most = iterations_most
        if progress is not None:
            progress(min(0.9, len(exploration.tried) / 24))
        chosen = tuple(values.items())
        before = runner.identifying
        judged = boxes.judge(chosen)
        if runner.identifying is not None and runner.identifying is not before:
            # What values that are compared are made of is not idle.
            runner.idle = idle_loops(runner.identifying)
            exploration.idle = idle_choices(runner.identifying, runner.identifying.registers)
            aside = decides_values(runner.identifying)
        if runner.compared.all_seen:
            # Which way values are computed need not be seen any more.
            exploration.idle = {**exploration.idle, **dict.fromkeys(aside, frozenset((False, True)))}
        take_announced()
        if judged.errors:
            cut = judged.report.counts.instructions if judged.report.stopped else 0
            failing[chosen] = _Failing(judged.launch, _contents(values, runner.symbolic), cut, values.get(TAKEN, 0))
        elif judged.complete and not judged.doubts:
            compared.add(judged)
            numbers = sum(value for each, value in values.items() if each.kind == "number")
            phases = min(judged.report.counts.phases, _EXAMPLE_PHASES)
            examples.setdefault((-len(runner.symbolic.covered), -phases, numbers), _Failing(judged.launch, ()))
        runner.end(chosen, judged)
        awaited = awaited_tickets(runner.symbolic, values, judged.report.sliced.text.flow)
        if awaited and not judged.errors and len(exploration.tried) >= _AWAITED_MOST:
            raise _Hopeless(awaited)
        if only_proof and (awaited or judged.doubts):
            raise _Hopeless((*awaited, *judged.doubts))
        for finding in judged.findings:
            if finding.level is Level.REVIEW:
                reviews.setdefault((finding.code, finding.primary, finding.conflicts_with), finding)
        for finding in judged.allowed:
            allowed.setdefault((finding.code, finding.primary, finding.conflicts_with), finding)
        oversized = made_up_shared and judged.leaves_shared
        # How often an iteration of values alone is repeated need not be seen (`compared_stores`).
        conditions = tuple(each for each in runner.symbolic.conditions if each.loop < 0 or each.position not in aside)
        return _judged(judged, runner.symbolic, conditions, awaited, runner.explored_steps, oversized)

    def take_announced() -> None:
        """Numbers that are what boxes add up to are that in all launches from now on."""
        for number, total in boxes.bytes_announced.items():
            exploration.narrow(number, smallest=total, largest=total)

    exploration = Exploration(table, dict(space.dimensions), judge, effort, Ways(flow), dict(space.latent))
    exploration.idle = idle_choices(sliced, steers.registers)
    positions = frozenset(position for position in sliced.executed if is_protocol(sliced, position))
    where = Places(
        lambda given: exploration.dimensions[given].name if given in exploration.dimensions else "",
        lambda position: flow.instructions[position].span,
        lambda loop: flow.instructions[flow.loops[loop].head].span,
        positions,
        lasting_choices(sliced, steers.registers),
        guards_of(flow, positions),
    )
    ended: tuple[Diagnostic, ...] = ()
    clean = False
    explored: Explored | None = None
    try:
        choices = (_all_alike(space, value) for value in _SIZING_VALUES)
        if boxes.prepare(values for values in choices if not runner.decides_alike(values)):
            exploration.decided_by(runner.decided())
        take_announced()
        explored = explore(exploration, where)
        verdict, excluded = explored.verdict, explored.excluded
        if isinstance(verdict, Proven):
            conditions = (each for tried in exploration.tried for each in tried.judged.conditions)
            against = used_elsewhere(flow.instructions, boxes.bytes_announced, conditions, where.name)
            against = (*against, *compared.reasons(flow.instructions))
            verdict = Unknown(against) if against else verdict
        clean = any(_larger_is_clean(exploration, values) for values in explored.shown[:1])
        launches = [
            failing[chosen] for values in explored.shown[:_GIVEN_AGAIN] if (chosen := tuple(values.items())) in failing
        ]
    except _Ended as found:
        verdict, excluded, launches = Refuted(found.judged.findings), False, [_Failing(found.judged.launch, ())]
        ended = found.judged.errors
    except _Hopeless as found:
        verdict, excluded, launches = Unknown(found.reasons), False, list[_Failing]()
    except BudgetSpent as spent:
        spent.open = open_so_far(exploration)
        raise
    refuting: GivenAgain | None = None
    if isinstance(verdict, Refuted):
        refuting, against = _given_again(runner, verdict, launches)
        if refuting is None and against and explored is not None and explored.shown:
            for other in more_ordinary(exploration, where, explored.shown[0]):
                if refuting is None and isinstance(other.verdict, Refuted):
                    found = failing[tuple(other.shown[0].items())]
                    refuting, _ = _given_again(runner, other.verdict, [found])
                    verdict = other.verdict if refuting is not None else verdict
        if refuting is None and against:
            ended = ended or tuple(each for each in verdict.findings if each.level is Level.ERROR)
            verdict = Unknown((against,))
    sized = steers.specials & _SHARED_SIZES
    if isinstance(verdict, Proven) and sized:
        asked = " and ".join(sorted(sized))
        verdict = Unknown((f"the kernel asks by {asked} how much shared memory its launch has: give --launch",))
    if isinstance(verdict, Proven):
        every = {**space.dimensions, **space.latent}
        sums = (
            f"{every[number].name} is {total:,}, which the boxes of its copies add up to"
            for number, total in boxes.bytes_announced.items()
        )
        general = (*unknown.assumptions, *boxes.words(), *sums, *ASSUMPTIONS)
        several = any(each.kind == "number" for each in exploration.dimensions) or not any(unknown.given.params)
        scope = verdict.scope if several else "this launch"
        verdict = Proven(scope, (*general, *verdict.assumptions), verdict.claims)
    doubts = verdict.reasons if isinstance(verdict, Unknown) else ()
    return UnlaunchedJudgement(
        verdict, doubts, len(exploration.tried), runner.shown.timeline, tuple(reviews.values()),
        tuple(allowed.values()), None if refuting is None else refuting.document, ended, clean,
        exploration.ended_early and all(map(_nothing_wrong, exploration.tried)), excluded,
        explored_ranges(exploration.dimensions.values()),
        _example(unknown, examples),
        refuting is not None and refuting.cut_short, 0 if refuting is None else refuting.reached,
    )  # fmt: skip


def _example(unknown: UnknownLaunch, clean: Mapping[tuple[int, int, int], _Failing]) -> Mapping[str, object] | None:
    """The first of the clean launches, as a launch file. clean: by how little they do, and their numbers."""
    launch = clean[min(clean)].launch if clean else None
    return None if launch is None else launch_document(launch, unknown.buffers, unknown.given.contents)


def _given_again(runner: _Runner, verdict: Refuted, launches: Sequence[_Failing]) -> tuple[GivenAgain | None, str]:
    """The first launch that shows the findings when it is given as well, and what is against it."""
    unknown, against = runner.unknown, ""
    for each in launches:
        if each.launch is None:
            continue
        sizes = unknown.buffers | {held.name: _BUFFER_BYTES for held in each.contents}
        contents = (*unknown.given.contents, *each.contents)
        # A run that was given up had shown the finding by then: as a launch file it mostly shows it as soon.
        open_still = ""
        for steps in (*((2 * each.cut,) if each.cut else ()), GIVEN_STEPS):
            runner.given_steps, runner.given_taken = steps, each.taken
            again = given_again(unknown.kernel, each.launch, sizes, verdict.findings, runner.given, contents)
            if not again.against:
                names = unknown.given.names
                return (replace(again, document={**again.document, "names": list(names)}) if names else again), ""
            open_still = again.against
        against = against or open_still
    return None, against


def sliced_of(kernel: Kernel) -> Slice:
    text = text_of(kernel)
    return protocol_slice(text.kernel, text=text, stores=cheap_stores(text))


def _nothing_wrong(tried: Tried) -> bool:
    if tried.judged.too_long:
        return False
    return tried.clean or (
        tried.fails and any(not value for each, value in tried.values.items() if each.kind == "number")
    )


def _larger_is_clean(exploration: Exploration, failing: Assignment) -> bool:
    """Whether what fails with some numbers does not with larger ones."""
    numbers = {
        each: max(value, min(_LARGER, exploration.dimensions[each].largest))
        for each, value in failing.items()
        if each.kind == "number" and each in exploration.dimensions
    }
    exploration.at({**failing, **numbers})
    return any(
        tried.clean and all(tried.values.get(each, 0) >= failing[each] for each in numbers)
        for tried in exploration.tried
    )


@dataclass(frozen=True, slots=True)
class _Failing:
    """A launch that fails, with the words of memory that were chosen for it. cut: after how many warp instructions its
    run was given up, 0 if it was not; taken: how many clusters' work one takes over."""

    launch: Launch | None
    contents: tuple[BufferContents, ...]
    cut: int = 0
    taken: int = 0


def _contents(values: Assignment, symbolic: SymbolicRun) -> tuple[BufferContents, ...]:
    """The words that a run read of each buffer, as its contents."""
    words: dict[str, list[tuple[int, bytes]]] = {}
    for word, held in symbolic.words_read.items():
        if held is not None and held[1] + word.size_bytes <= _BUFFER_BYTES:
            value = values.get(word, 0).to_bytes(word.size_bytes, "little")
            words.setdefault(held[0], []).append((held[1], value))
    found: list[BufferContents] = []
    for name, held in words.items():
        data = np.zeros(max(offset + len(value) for offset, value in held), np.uint8)
        for offset, value in held:
            data[offset : offset + len(value)] = np.frombuffer(value, np.uint8)
        found.append(BufferContents(name, data, ((0, data.size),)))
    return tuple(found)


def _all_alike(space: LaunchSpace, value: int) -> Chosen:
    """A launch in which all numbers have one value."""
    return tuple(
        (each, min(value, dimension.largest) if each.kind == "number" else dimension.first)
        for each, dimension in (*space.latent.items(), *space.dimensions.items())
    )


class _Ended(Exception):
    """An error that leaves nothing to explore; judged: its run."""

    def __init__(self, judged: LaunchJudgement) -> None:
        super().__init__()
        self.judged = judged


class _Hopeless(Exception):
    """No further launch makes a proof."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__()
        self.reasons = reasons


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
    """Judges launches of one kernel. guarded: the module with guards in the place of branches, which made-up launches
    run; sliced, identifying: the kernel's slice, and the one in which the stores `repeated` are compared, once a run
    has found them; symbolic: what the last run that may be shown depended on; last: what the last run did;
    given_steps: warp instructions after which a launch that is given is given up; given_taken: how many clusters' work
    one takes over in it."""

    module: Module
    guarded: Module
    unknown: UnknownLaunch
    space: LaunchSpace
    table: Table
    interpretations: Interpretations
    peeks: frozenset[Span]
    shown: _Shown
    allows: Allows
    ends: Callable[[Diagnostic], bool]
    watchers: Watchers | None = None
    sliced: Slice | None = None
    identifying: Slice | None = None
    repeated: frozenset[Span] = frozenset()
    compared: ComparedStores = field(default_factory=ComparedStores)
    iterations_most: int = ITERATIONS_MOST
    given_steps: int = GIVEN_STEPS
    explored_steps: int = _EXPLORED_STEPS
    given_taken: int = 0
    idle: Idle = field(default_factory=Idle)
    symbolic: SymbolicRun = field(init=False)
    last: SymbolicRun | None = None

    def decided(self) -> list[Condition]:
        """What the last run decided by inputs."""
        return [] if self.last is None else self.last.conditions

    def decides_alike(self, values: Chosen) -> bool:
        """Whether a launch decides all as the last one that was run, so that it takes the same steps."""
        if self.last is None or self.last.words_read or self.last.tickets:
            return False  # which words there are depends on the launch
        columns = {given: np.array([value], np.uint64) for given, value in values}
        return retraces(Evaluation(self.table, columns, 1), distinct(self.last.conditions))

    def run(
        self,
        values: Chosen,
        boxes: Boxes,
        /,
        *,
        sizing: bool = False,
        short: bool = False,
        any_box: bool = False,
        show: bool = False,
        watch: Callable[[Event], None] | None = None,
    ) -> LaunchJudgement:
        """One launch, judged. sizing: for its boxes only; short: the first steps of it; any_box: as for
        `judge_launch`; show: its timeline may be the one that is shown."""
        recorder = self.shown.recorder() if show else None
        made = self.space.launch(self.unknown, dict(values), boxes)
        symbolic = SymbolicRun(self.table, made.inputs)
        if recorder is not None:
            watch = recorder.feed
        if show:
            self.symbolic = symbolic
            watch = self.watchers() if self.watchers is not None else watch
        self.last = symbolic
        judged = judge_launch(
            self.guarded,
            made.launch,
            self.unknown.buffers,
            self.interpretations,
            watch=watch,
            clusters=(made.cluster,),
            any_global_address=True,
            peeks=self.peeks,
            sliced=self.sliced,
            identifying=self.identifying,
            repeated=self.repeated,
            loads_suffice=self.compared.suffice if self.compared.all_seen else None,
            step_limit=_SIZING_STEPS if short else self.explored_steps,
            contents=self.unknown.given.contents,
            allows=self.allows,
            any_box=any_box,
            symbolic=symbolic,
            iterations_most=_SIZING_ITERATIONS if short else self.iterations_most,
            idle=self.idle,
        )
        if judged.complete and not judged.report.fault and judged.report.sliced is not judged.identifying:
            self.sliced = judged.report.sliced
        if judged.identifying is not None:
            self.identifying, self.repeated = judged.identifying, judged.repeated_stores
        self.shown.keep(recorder, judged)
        if sizing:
            self.end(values, judged)
        return judged

    def given(self, launch: Launch, buffers: Mapping[str, int], contents: Sequence[BufferContents]) -> LaunchJudgement:
        """A launch that is given, judged as such."""
        return judge_launch(
            self.module, launch, buffers, self.interpretations, peeks=self.peeks, step_limit=self.given_steps,
            contents=contents, allows=self.allows, also_taken=self.given_taken,
        )  # fmt: skip

    def end(self, values: Chosen, judged: LaunchJudgement) -> None:
        """Raise `_Ended` at an error that leaves nothing to explore."""
        positive = all(value > 0 for given, value in values if given.kind == "number")
        if positive and any(self.ends(finding) for finding in judged.errors):
            raise _Ended(judged)


def _judged(
    run: LaunchJudgement, symbolic: SymbolicRun, conditions: tuple[Condition, ...], awaited: tuple[str, ...],
    steps_most: int, oversized: bool,
) -> Judged:  # fmt: skip
    """What one launch showed. conditions: those that others may decide otherwise; awaited: loops that it leaves to
    other threads to end; steps_most: of its run; oversized: as of `Judged`."""
    too_long = (run.report.stopped and not run.report.doubts) or run.report.counts.instructions > steps_most
    too_long = too_long and not run.errors
    doubts = (*run.doubts, *awaited)
    if symbolic.words_written:
        doubts = (*doubts, "memory that the kernel reads is also written by it, so that its data is not known")
    verdict: Verdict
    if run.errors:
        verdict = Refuted((*run.errors, *(each for each in run.findings if each not in run.errors)))
    elif doubts or not run.complete:
        verdict = Unknown(doubts or ("the run did not come to its end",))
    else:
        verdict = Proven("this launch", run.assumptions)
    overrun = run.overrun
    return Judged(
        verdict,
        run.report.counts.instructions,
        conditions,
        frozenset(symbolic.covered),
        run.turns,
        run.repeats,
        too_long,
        run.asserted,
        f"{overrun.message} ({overrun.primary})" if overrun is not None else "",
        oversized,
        tuple(symbolic.words_read),
        frozenset(symbolic.constant_ways),
        run.awaited,
        run.counts,
        run.waits,
    )
