"""Why is a kernel still proven after an edit that should break it? An argument that the checker itself makes, or none.

In order, the first that holds:

- not executed: with a trap in place of every instruction of the edited lines the launch is proven all the same. Without
  a launch this proof assumes what the subject's does, and its launches execute as many instructions of the protocol;
- contested: with one contested point read strictly, the edited text is refuted where the subject is not;
- no data between lanes: a warp's barrier, which even the reading that asks for it (lanes_in_step, elected_arrive) does
  not miss;
- assumed of the host: copies of tensor maps to global memory, where the proof assumes of each map that is used there
  that the host has left one;
- an ordinary launch: griddepcontrol.wait, where the text does not let dependent grids begin and waits nowhere else, so
  that it is no kernel of a dependent launch. Whether the host launches it as one is not asked;
- nothing remote: a cluster's barrier, where the run has no access, arrival or copy from one CTA to another;
- nothing to publish: a fence of mbarrier.init, where who initialised has arrived at the cluster's barrier before;
- the last use: arrivals at mbarriers for which nobody waits afterwards;
- covered by another: without another instruction or kind of synchronization as well, the edited text has an error that
  the subject without it does not have. Without a launch this is asked of the launch that shows the error.

That something is reported for review is no argument: it must be what a contested point refutes. No argument is an empty
text. The arguments are facts about runs and about checks of other texts, as good as these are.
What runs do is asked without a launch of those that the proof rests on.
Checked by: tests/mutants/test_deletions.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from tests.mutants.deletions import Deletion, deletions, instructions, single_deletions, with_traps
from tilewright.base.check_report import KernelReport
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.contract.rules.interpretations import POINTS, ContestedPoint, tolerant
from tilewright.driver.check.check import check_text
from tilewright.driver.check.judge_kernel import JudgeOptions, judge_kernel
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.given_launch import LaunchFile, PartialLaunch, placed
from tilewright.driver.launch.judge_launch import judge_launch
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.driver.rules.isa import interpretations_of
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import (
    Access,
    BarrierArrive,
    BarrierInit,
    BarrierWait,
    ClusterArrive,
    CopyIssue,
    Event,
    MemoryFence,
    TensorMemoryCommit,
    TensorMemoryIssue,
    WarpActor,
)

_COVERED = re.compile(r"covered (\d+) of \d+ instructions of the protocol")
_DEPENDENT = ("griddepcontrol.wait", "griddepcontrol.launch_dependents")
_NEAREST = 12
"""So many single instructions are tried as what covers for what is missing."""
Said = tuple[str, int]
"""A finding's code and line."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel that is proven. launch: None where it is proven without one."""

    text: str
    file: str
    kernel: str
    launch: LaunchFile | None
    budget_seconds: float | None = 60.0
    isa: str = "tolerant"

    def check(self, text: str, isa: str | None = None) -> KernelReport | None:
        """The report on `text` in its place; None where it is not even read."""
        return _checked(self, text, isa or self.isa)


@lru_cache(maxsize=512)
def _checked(subject: Subject, text: str, isa: str) -> KernelReport | None:
    options = CheckOptions(isa=isa, entry=subject.kernel, budget_seconds=subject.budget_seconds)
    report = check_text(text, subject.file, launch=subject.launch, options=options)
    return report.kernels[0] if report.kernels and not report.error else None


def argument(subject: Subject, edited: str) -> str:
    """The argument for `edited`, in whose text some lines of the subject are others. Empty where there is none."""
    pairs = zip(subject.text.split("\n"), edited.split("\n"), strict=True)
    places = frozenset(line for line, (old, new) in enumerate(pairs, 1) if old != new)
    found = _not_executed(subject, places) or _contested(subject, edited)
    return found or _nothing_to_do(subject, edited, places) or _covered(subject, edited, places)


def _not_executed(subject: Subject, lines: frozenset[int]) -> str:
    report = subject.check(with_traps(subject.text, _module(subject), lines))
    if report is None or report.verdict != "proven":
        return ""
    if subject.launch is not None:
        return "not executed by this launch"
    # A trap is an assertion, which a proof without a launch may assume to hold.
    own = subject.check(subject.text)
    if own is None or set(report.assumptions) != set(own.assumptions) or _executed(report) != _executed(own):
        return ""
    return f"executed by no launch: with traps there, the launches execute {_executed(own)} instructions as well"


def _executed(report: KernelReport) -> str:
    """How many instructions of the protocol a proof's launches execute: one number for each shape."""
    return ", ".join(found[1] for claim in report.claims if (found := _COVERED.search(claim)) is not None)


def _nothing_to_do(subject: Subject, edited: str, lines: frozenset[int]) -> str:
    """Arguments by what the edited instructions are for."""
    opcodes = {item.opcode for item in instructions(_module(subject)) if item.span.line in lines}
    if opcodes and all(opcode.startswith("bar.warp.sync") for opcode in opcodes):
        isa = "tolerant,lanes_in_step=strict,elected_arrive=strict"
        report = subject.check(edited, isa)
        if report is not None and report.verdict != "unknown" and not _new(subject, edited, isa, Level.ERROR):
            return "no data between lanes: lanes_in_step and elected_arrive, read strictly, do not miss it"
    if opcodes and all(opcode.startswith("griddepcontrol.wait") for opcode in opcodes):
        left = [item for item in instructions(read(edited, subject.file, tolerant=True)) if item.row in _DEPENDENT]
        if not left:
            return "an ordinary launch: without griddepcontrol it is taken to begin when the grids before have ended"
    if opcodes and all(opcode.startswith("tensormap.cp_fenceproxy") for opcode in opcodes):
        assumed = _assumed_maps(subject, edited)
        if assumed:
            return f"assumed of the host, which the proof prints: {'; '.join(assumed)}"
    cluster = bool(opcodes) and all(opcode.startswith("barrier.cluster") for opcode in opcodes)
    arrivals = bool(opcodes) and all(opcode.startswith("mbarrier.arrive") for opcode in opcodes)
    fences = bool(opcodes) and all(opcode.startswith("fence.mbarrier_init") for opcode in opcodes)
    if not cluster and not arrivals and not fences:
        return ""
    runs = _runs(subject)
    launches = f"of {len(runs)} launches" if subject.launch is None else "of the run"
    if cluster and runs and not any(remote for remote, _ in runs):
        return f"nothing remote: no event {launches} is of one CTA at another"
    if arrivals and _last_use([events for _, events in runs], lines):
        return f"the last use: nobody waits for these mbarriers afterwards, in the order {launches}"
    if fences and _published_before([events for _, events in runs], lines):
        return f"nothing to publish: who initialises an mbarrier arrives at the cluster's barrier before, {launches}"
    return ""


def _assumed_maps(subject: Subject, edited: str) -> list[str]:
    """What is assumed of tensor maps in memory in the edited text, and not in the subject, which writes them itself."""
    own, report = subject.check(subject.text), subject.check(edited)
    if own is None or report is None:
        return []
    return [
        each for each in report.assumptions if each.startswith("the tensor map at ") and each not in own.assumptions
    ]


_Kept = BarrierArrive | BarrierInit | BarrierWait | ClusterArrive | MemoryFence
_Run = tuple[bool, list[_Kept]]
"""Of a run, whether anything is remote, and what is done to mbarriers and the cluster's barrier."""


@cache
def _runs(subject: Subject) -> tuple[_Run, ...]:
    """Of the launch, or of those that a proof without one rests on."""
    if subject.launch is None:
        return _made_up(subject)
    module = _module(subject)
    whole = placed(subject.launch.resolve(subject.launch.kernel(module, subject.file)), subject.launch.buffers)
    run = _Watched()
    buffers = {buffer.name: buffer.size_bytes for buffer in whole.buffers}
    judge_launch(module, whole.launch, buffers, tolerant(), watch=run.see)
    return ((run.remote, run.at_barriers),)


def _made_up(subject: Subject) -> tuple[_Run, ...]:
    runs: list[_Watched] = []

    def watcher() -> Callable[[Event], None]:
        runs.append(_Watched())
        return runs[-1].see

    module = _module(subject)
    (kernel,) = (kernel for kernel in module.kernels if kernel.name == subject.kernel)
    judge_kernel(module, kernel, PartialLaunch(), JudgeOptions(interpretations_of(subject.isa), watchers=watcher))
    return tuple((run.remote, run.at_barriers) for run in runs)


class _Watched:
    """What arguments need of a run."""

    def __init__(self) -> None:
        self.remote = False
        self.at_barriers: list[_Kept] = []

    def see(self, event: Event) -> None:
        self.remote = self.remote or _remote(event)
        if isinstance(event, _Kept):
            self.at_barriers.append(event)


def _remote(event: Event) -> bool:
    """Whether one CTA does something to another's shared memory."""
    match event:
        case (
            Access(actor=WarpActor(cta=own), space="shared", cta=cta) | BarrierArrive(actor=WarpActor(cta=own), cta=cta)
        ):
            return own != cta
        case CopyIssue(actor=WarpActor(cta=own)):
            return any(cta != own for cta in (*event.destinations, *event.barrier_ctas))
        case TensorMemoryIssue(actor=WarpActor(cta=own)):
            touched = {block.cta for block in (*event.reads, *event.writes)} | {cta for cta, _ in event.shared}
            return bool(touched - {own})
        case TensorMemoryCommit(actor=WarpActor(cta=own)):
            return any(cta != own for cta, _ in event.barriers)
        case _:
            return False


def _published_before(runs: list[list[_Kept]], lines: frozenset[int]) -> bool:
    """Whether each warp that initialised an mbarrier has released it at the cluster's barrier before a fence of these
    lines in its CTA."""
    some = False
    for events in runs:
        open_inits: set[WarpActor] = set()
        for event in events:
            match event:
                case BarrierInit(actor=actor):
                    open_inits.add(actor)
                case ClusterArrive(actor=actor, relaxed=False):
                    open_inits.discard(actor)
                case MemoryFence() if event.span.line in lines:
                    some = True
                    if any(each.cta == event.actor.cta for each in open_inits):
                        return False
                case _:
                    pass
    return some


def _last_use(runs: list[list[_Kept]], lines: frozenset[int]) -> bool:
    """Whether no wait comes after an arrival of these lines at its mbarrier, in the order of each run."""
    some = False
    for events in runs:
        arrived: set[tuple[int, int]] = set()
        for event in events:
            match event:
                case BarrierArrive() if event.span.line in lines:
                    arrived.add((event.cta, event.address))
                case BarrierWait() if (event.cta, event.address) in arrived:
                    return False
                case _:
                    pass
        some = some or bool(arrived)
    return some


def _module(subject: Subject) -> Module:
    return read(subject.text, subject.file, tolerant=True)


def _contested(subject: Subject, edited: str) -> str:
    """The contested points that decide. Candidates are those of the codes that the edited text shows in addition."""
    if subject.isa == "strict":
        return ""
    refuting = _new(subject, edited, "strict", Level.ERROR)
    codes = {each.code for each in (*refuting, *_new(subject, edited, subject.isa, Level.REVIEW))}
    decide = [
        f"{point.name} ({said})"
        for point in POINTS
        if not codes.isdisjoint(point.codes) and (said := _decided_by(subject, edited, point))
    ]
    if decide:
        return f"contested: {'; '.join(decide)}"
    return f"contested: refuted by the strict reading as a whole ({_listed(refuting)})" if refuting else ""


def _decided_by(subject: Subject, edited: str, point: ContestedPoint) -> str:
    """What a contested point, read strictly, finds in the edited text and not in the subject. Without a launch, what it
    finds may be a reason for unknown instead: then it must be all that stands against the edited text."""
    isa = f"tolerant,{point.name}=strict"
    new = _new(subject, edited, isa, Level.ERROR)
    if new:
        return _listed(new)
    own, report = subject.check(subject.text, isa), subject.check(edited, isa)
    if own is None or report is None or own.verdict != "proven" or report.verdict != "unknown":
        return ""
    against = [reason for reason in report.reasons if reason.startswith(point.codes)]
    return f"unknown: {against[0][:100]}" if len(against) == len(report.reasons) else ""


def _covered(subject: Subject, edited: str, places: frozenset[int]) -> str:
    """What is deleted from the edited text is deleted from the subject, too, and the errors are compared."""
    own = {(each.kind, each.lines): each for each in _deletions(subject, subject.text, places)}
    for other in _deletions(subject, edited, places):
        alone = own.get((other.kind, other.lines))
        both = subject.check(other.text)
        if alone is None or both is None or not both.errors:
            continue
        at = _at_launch_of(subject, both)
        both, known = at.check(other.text), _errors(at, alone)
        new = [finding for finding in both.errors if _conflict(finding) not in known] if both is not None else []
        if new:
            return f"covered by {other.kind} at {_places(other.lines)}: without both also {_listed(new)}"
    return ""


def _at_launch_of(subject: Subject, report: KernelReport) -> Subject:
    """The subject with the launch that a report without one shows: errors are compared of one launch."""
    if subject.launch is not None or report.launch is None:
        return subject
    return replace(subject, launch=launch_from_json(report.launch, "the launch that refutes"))


@cache
def _deletions(subject: Subject, text: str, places: frozenset[int]) -> tuple[Deletion, ...]:
    """Of one instruction near `places`, then of kinds as a whole."""
    module = read(text, subject.file, tolerant=True)
    (kernel,) = (kernel for kernel in module.kernels if kernel.name == subject.kernel)
    return (
        *single_deletions(text, module, kernel, places, _NEAREST),
        *(each for each in deletions(text, module, kernel) if not each.kind.startswith("arrivals: one")),
    )


@cache
def _errors(subject: Subject, deletion: Deletion) -> frozenset[tuple[Said, int]]:
    report = subject.check(deletion.text)
    return frozenset(map(_conflict, report.errors)) if report is not None else frozenset()


def _conflict(finding: Diagnostic) -> tuple[Said, int]:
    return _said(finding), finding.conflicts_with.line if finding.conflicts_with is not None else 0


def _new(subject: Subject, edited: str, isa: str, level: Level) -> list[Diagnostic]:
    """Findings of the edited text that the subject does not have."""
    report = subject.check(edited, isa)
    if report is None:
        return []
    at = _at_launch_of(subject, report)
    report, known = at.check(edited, isa), _known(at, isa)
    findings = report.findings if report is not None else ()
    return [each for each in findings if each.level is level and _said(each) not in known]


@cache
def _known(subject: Subject, isa: str) -> frozenset[Said]:
    report = subject.check(subject.text, isa)
    return frozenset(_said(each) for each in report.findings) if report is not None else frozenset()


def _said(finding: Diagnostic) -> Said:
    return finding.code, finding.primary.line if finding.primary is not None else 0


def _listed(findings: list[Diagnostic]) -> str:
    return ", ".join(dict.fromkeys(f"{code} line {line}" for code, line in map(_said, findings[:3])))


def _places(lines: tuple[int, ...]) -> str:
    shown = ", ".join(str(line) for line in lines[:5])
    return f"line {shown}" if len(lines) == 1 else f"lines {shown}{' ...' if len(lines) > 5 else ''}"
