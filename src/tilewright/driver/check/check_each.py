"""How are the kernels of a file judged one after another, so that what happens to one leaves the others alone?

Each kernel is a task: what judges it, and what is found beside its run. A task ends in a report, whatever happens:

- a verdict, from the findings that neither the text nor the user sets aside (`decide`);
- unknown, where its time, its steps or the memory are spent, or the machine lacks what it needs;
- unknown, where a defect of this program ends it: the reason and `KernelReport.defect` name the place in our source;
- unknown, where the time for the file was over before its turn came.

Checked by: tests/driver/check/test_check.py, tests/driver/check/test_check_each.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tilewright.base.check_report import KernelReport, VerdictWord
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.driver.check.allowance import Allowance, apply_allowances
from tilewright.driver.check.defect import DefectError, defects_as_errors
from tilewright.driver.check.finding_filter import NOTHING_SET_ASIDE, FindingFilter
from tilewright.driver.check.judge_kernel import Judgement
from tilewright.driver.check.limits.budget import BudgetSpent, bounded
from tilewright.driver.check.limits.time_for_file import TimeForFile
from tilewright.driver.check.limits.work import WorkSpent, counted
from tilewright.driver.check.options import Progress

Share = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel to judge. judge: its run; beside: from what the run found, what is reported of the kernel."""

    name: str
    target: str
    judge: Callable[[Share], Judgement]
    beside: Callable[[Judgement], Iterable[Diagnostic]]


@dataclass(frozen=True, slots=True)
class Reports:
    """used: allowances that set something aside; complete: every kernel was judged to its end."""

    kernels: tuple[KernelReport, ...]
    used: frozenset[Allowance]
    complete: bool


def check_each(
    tasks: Sequence[Task],
    file: str,
    allowed: tuple[Allowance, ...],
    limits: TimeForFile,
    *,
    steps: int | None = None,
    progress: Progress | None = None,
    chosen: FindingFilter = NOTHING_SET_ASIDE,
) -> Reports:
    """Reports of all tasks, in order. steps: warp instructions that each may run, None for any number; chosen: what the
    user sets aside."""
    reports: list[KernelReport] = []
    used: frozenset[Allowance] = frozenset()
    complete = True
    reached = 0
    over = False
    for number, task in enumerate(tasks, start=1):
        begin = time.perf_counter()
        label = task.name if len(tasks) == 1 else f"{task.name} ({number} of {len(tasks)})"
        findings: tuple[Diagnostic, ...] = ()
        defect = ""
        with counted() as meter:
            try:
                if over or limits.over():
                    judgement = replace(_undecided(limits.not_reached(reached, len(tasks))), stopped=True)
                else:
                    reached = number
                    with defects_as_errors(f"{task.name} in {file}"):
                        judgement = _judged(task, limits, steps, _share(progress, label))
                        findings = tuple(task.beside(judgement))
            except TilewrightError as error:
                judgement = _undecided(f"{error.message}; {error.remedy}" if error.remedy else error.message)
                defect = f"{error.exception} at {error.place}" if isinstance(error, DefectError) else ""
        # The alarm counts ticks of the system's clock, and may ring before the file's time is over.
        over = over or limits.file_stopped in judgement.doubts
        seconds = time.perf_counter() - begin
        report, of_kernel = _report(task, judgement, findings, allowed, chosen)
        reports.append(replace(report, seconds=seconds, steps=meter.steps, defect=defect))
        used |= of_kernel
        complete = complete and judgement.complete
    return Reports(tuple(reports), used, complete)


def _share(progress: Progress | None, label: str) -> Share:
    def share(done: float) -> None:
        if progress is not None:
            progress(label, done)

    return share


def _judged(task: Task, limits: TimeForFile, steps: int | None, share: Share) -> Judgement:
    """What the task finds, or why it can't be found."""
    seconds, stopped = limits.for_kernel()
    share(0.0)
    own = False
    try:
        with bounded(seconds) as own, counted(steps):
            return task.judge(share)
    except BudgetSpent as spent:
        if not own:
            raise
        return replace(_undecided(stopped, *spent.open), stopped=True)
    except WorkSpent:
        return _undecided(f"stopped after {steps:,} warp instructions" if steps is not None else "stopped")
    except MemoryError:
        return _undecided("the run needs more memory than there is")
    except RecursionError:
        return _undecided("the text is nested too deeply to be followed")
    except DefectError:
        raise
    except TilewrightError as error:
        # The machine says so of what it can't run; whatever the user could fix was looked at before.
        place = f"{error.span}: " if error.span is not None else ""
        return _undecided(f"{place}{error.message}")


def _undecided(*reasons: str) -> Judgement:
    return Judgement(doubts=reasons, complete=False)


def _report(
    task: Task,
    judgement: Judgement,
    findings: Iterable[Diagnostic],
    allowed: tuple[Allowance, ...],
    chosen: FindingFilter,
) -> tuple[KernelReport, frozenset[Allowance]]:
    """The report of a kernel with these findings, and the allowances it used."""
    kept, suppressed, used = apply_allowances(findings, allowed)
    kept, by_user = chosen.split(kept)
    suppressed += by_user
    verdict, reasons = decide(judgement, kept, bool(suppressed))
    assumptions = dict.fromkeys(each.assumption for each in suppressed if each.finding.level is Level.ERROR)
    proven = verdict == "proven"
    report = KernelReport(
        task.name,
        task.target,
        verdict,
        judgement.scope if proven else "",
        (*judgement.assumptions, *assumptions) if proven else (),
        judgement.claims if proven else (),
        reasons,
        kept,
        suppressed,
        timeline=judgement.timeline,
        launch=judgement.launch if verdict == "refuted" else None,
        launches=judgement.launches if proven else 0,
        ranges=judgement.ranges if proven else (),
        stopped=judgement.stopped,
        cut_short=judgement.cut_short,
        reached=judgement.reached,
    )
    return report, frozenset(used)


def decide(
    judgement: Judgement, kept: tuple[Diagnostic, ...], some_allowed: bool
) -> tuple[VerdictWord, tuple[str, ...]]:
    """The verdict, and for `unknown` the reasons. kept: findings that are not set aside."""
    if any(finding.level is Level.ERROR for finding in kept):
        return "refuted", ()
    if judgement.doubts:
        return "unknown", judgement.doubts
    if not judgement.complete:
        why = "the run ended at a finding that is set aside" if some_allowed else "the run did not come to its end"
        return "unknown", (f"{why}, so that the rest was not judged",)
    return "proven", ()
