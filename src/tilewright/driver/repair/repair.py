"""Which edit of a kernel's text fixes what was found, shown by checking the edited text?

`repair.candidates` proposes edits for a finding, likeliest first; each is applied and the kernel checked again. An edit
with which the kernel is proven is the repair. One that removes findings and adds none is kept while the others are
fixed; if that ends in a proof, all of them together are the repair. Where an edit touches more than the kernel's own
lines, the other kernels of the file are checked again as well. Nothing is shown that was not checked:
`Repair.rechecked` says so.

The search ends after `attempts` texts, or after `steps` of work (`work`; a line read counts as a step). So what it
finds depends on the input alone. A limit in seconds ends it early, and `FileReport.notes` then says so.

Not handled: edits that change the program's structure (a stage more, another role). Checked by:
tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from time import monotonic

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.driver.check.budget import BudgetSpent, bounded
from tilewright.driver.check.work import WorkSpent, counted
from tilewright.driver.repair.candidates import candidates
from tilewright.driver.repair.text import applied
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read

ATTEMPTS = 48
STEPS = 800_000
"""Work of a search: some ten seconds."""
_FINDINGS_TRIED = 3
_PARTS_TRIED = 2
_KEPT = 30
"""Percent of the attempts that are left for later when the candidates of a finding were tried."""

Recheck = Callable[[str, str | None], FileReport]
"""Checks another text in the same way as the one that a report is of: one kernel of it, by name, or all (None)."""


@dataclass(frozen=True, slots=True)
class _Mended:
    """A text after some edits, and what was done."""

    text: str
    titles: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Search:
    """How texts are checked, and how much of that may still be done. stopped: the seconds were over."""

    recheck: Recheck
    attempts: int
    steps: int
    deadline: float | None
    seen: set[str] = field(default_factory=set[str])
    stopped: bool = False

    @property
    def over(self) -> bool:
        if self.deadline is not None and monotonic() >= self.deadline:
            self.stopped = True
        return self.stopped or self.steps <= 0 or self.attempts <= 0

    def report(self, text: str, kernel: str | None) -> FileReport | None:
        """The report on a text that was not checked before, or None."""
        if text in self.seen or self.over:
            return None
        self.seen.add(text)
        self.attempts -= 1
        return self.checked(text, kernel)

    def checked(self, text: str, kernel: str | None) -> FileReport | None:
        """The report on a text, or None where the time is over before it is there."""
        left = None if self.deadline is None else max(0.0, self.deadline - monotonic())
        found, own = None, False
        with counted(self.steps) as meter:
            try:
                with bounded(left) as own:
                    found = self.recheck(text, kernel)
            except WorkSpent:
                pass
            except BudgetSpent:
                if not own:
                    raise
        self.steps -= meter.steps + text.count("\n")
        return None if self.over and self.stopped else found


def with_repairs(
    report: FileReport,
    recheck: Recheck,
    *,
    attempts: int = ATTEMPTS,
    steps: int = STEPS,
    seconds: float | None = None,
    limit: str = "--budget",
) -> FileReport:
    """The same report; the first error of each kernel that could be fixed carries the edits that do it. limit: the
    option that sets `seconds`."""
    search = _Search(recheck, attempts, steps, None if seconds is None else monotonic() + seconds)
    kernels: list[KernelReport] = []
    for kernel in report.kernels:
        mended = _mend(_Mended(report.text), report, kernel, search) if kernel.errors else None
        kernels.append(kernel if mended is None else _with_repair(kernel, report, mended))
    stopped = f"the search for repairs was stopped after {seconds or 0:g} s, and may have missed some; raise {limit}"
    return replace(report, kernels=tuple(kernels), notes=(*report.notes, stopped) if search.stopped else report.notes)


def _with_repair(kernel: KernelReport, report: FileReport, mended: _Mended) -> KernelReport:
    first = kernel.errors[0]
    edits = difference(report.text, mended.text, first.primary.file if first.primary else report.path)
    repair = Repair("; ".join(mended.titles), edits, "; ".join(dict.fromkeys(mended.costs)), rechecked=True)
    return replace(
        kernel, findings=tuple(replace(each, repair=repair) if each is first else each for each in kernel.findings)
    )


def _mend(now: _Mended, report: FileReport, kernel: KernelReport, search: _Search) -> _Mended | None:
    """A text with which the kernel is proven and no other is worse than before, or None."""
    try:
        module = read(now.text, report.path, tolerant=True)
    except TilewrightError:
        return None
    partly: list[tuple[_Mended, FileReport, KernelReport]] = []
    for finding in _one_of_each_rule(kernel.errors)[:_FINDINGS_TRIED]:
        # Some attempts are kept for the other findings, and for fixing in two steps.
        least = search.attempts * _KEPT // 100
        for candidate in candidates(now.text, module, finding):
            if search.attempts <= least or search.over:
                break
            changed = applied(now.text, candidate)
            after = search.report(changed, kernel.name) if changed is not None else None
            if changed is None or after is None or after.error:
                continue
            costs = (*now.costs, candidate.cost) if candidate.cost else now.costs
            mended = _Mended(changed, (*now.titles, candidate.title), costs)
            result = next((each for each in after.kernels if each.name == kernel.name), None)
            proven = result is not None and result.verdict == "proven"
            fewer = result is not None and result.errors and (_fewer(result, kernel) or _further(result, kernel))
            if (
                result is None
                or not (proven or fewer)
                or _others_worse(changed, now.text, module, report, kernel, search)
            ):
                continue
            if proven:
                return mended
            partly.append((mended, after, result))
    for mended, after, result in partly[:_PARTS_TRIED]:
        found = _mend(mended, replace(report, text=after.text), result, search)
        if found is not None:
            return found
    return None


def _others_worse(
    text: str, before: str, module: Module, report: FileReport, kernel: KernelReport, search: _Search
) -> bool:
    """Has another kernel of the text errors that it did not have? module: of the text before."""
    if len(report.kernels) < 2 or _within(text, before, module, kernel.name):
        return False
    after = search.checked(text, None)
    had = {each.name: len(each.errors) for each in report.kernels}
    return after is None or any(
        each.name != kernel.name and len(each.errors) > had.get(each.name, 0) for each in after.kernels
    )


def _within(text: str, before: str, module: Module, name: str) -> bool:
    """Is the difference of two texts within the lines of one kernel, where nothing else of the module stands?"""
    kernel = next((each for each in module.kernels if each.name == name), None)
    if kernel is None:
        return False
    first = kernel.span.line
    last = max((item.span.line for item in kernel.body), default=first)
    others = (*(each for each in module.kernels if each is not kernel), *module.functions)
    if any(first <= each.span.line <= last for each in others):
        return False
    old, new = before.split("\n"), text.split("\n")
    least = min(len(old), len(new))
    same = next((index for index in range(least) if old[index] != new[index]), least)
    rest = next((index for index in range(least - same) if old[-1 - index] != new[-1 - index]), least - same)
    return same >= first and len(old) - rest <= last


def _one_of_each_rule(errors: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    """The first finding of every rule before the second of any."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int, Diagnostic]] = []
    for index, finding in enumerate(errors):
        ranked.append((seen[finding.code], index, finding))
        seen[finding.code] += 1
    return [finding for _, _, finding in sorted(ranked, key=lambda item: item[:2])]


def _fewer(after: KernelReport, before: KernelReport) -> bool:
    """Are rules broken less often, and none more often than before?"""
    old = Counter(finding.code for finding in before.errors)
    new = Counter(finding.code for finding in after.errors)
    return new.total() < old.total() and all(new[code] <= old[code] for code in new)


def _further(after: KernelReport, before: KernelReport) -> bool:
    """Did a run that stopped at something forbidden come beyond it? What it finds there may be more."""
    stopped = {finding.code for finding in before.errors if finding.code[2:3] == "2"}
    return bool(stopped) and not stopped & {finding.code for finding in after.errors}


def difference(before: str, after: str, file: str) -> tuple[tuple[Span, str], ...]:
    """The edits that lead from one text to another: lines of `before`, and what stands in the place of each."""
    old, new = before.split("\n"), after.split("\n")
    edits: list[tuple[Span, str]] = []
    for tag, first, last, start, end in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if tag == "insert":  # an edit replaces a line: keep the one beside it
            at = max(first - 1, 0)
            lines = [old[at], *new[start:end]] if first else [*new[start:end], old[0]]
            edits.append((Span(file, at + 1, 1, old[at]), "\n".join(lines)))
            continue
        edits.append((Span(file, first + 1, 1, old[first]), "\n".join(new[start:end])))
        edits.extend((Span(file, index + 1, 1, old[index]), "") for index in range(first + 1, last))
    return tuple(edits)
