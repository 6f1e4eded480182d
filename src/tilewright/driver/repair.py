"""Which edit of a kernel's text mends what was found, shown by checking the mended text?

`repair_candidates` proposes edits for a finding, likeliest first; each is applied and the text checked again. An edit
with which the kernel is proven is the repair. One that removes findings and adds none is kept while the others are
mended; if that ends in a proof, all of them together are the repair. Nothing is shown that was not checked:
`Repair.rechecked` says so. A text is checked again `attempts` times at most, and no more after `seconds`.

Not handled: edits that change the program's structure (a stage more, another role). Checked by:
tests/driver/test_repair.py.
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
from tilewright.driver.repair_candidates import candidates
from tilewright.driver.repair_text import applied
from tilewright.frontends.ptx.reader import read

ATTEMPTS = 48
SECONDS = 20.0
_FINDINGS_TRIED = 3
_PARTS_TRIED = 2
_KEPT = 30
"""Percent of the attempts that are left for later when the candidates of a finding were tried."""

Recheck = Callable[[str], FileReport]
"""Checks another text in the same way as the one that a report is of."""


@dataclass(frozen=True, slots=True)
class _Mended:
    """A text after some edits, and what was done."""

    text: str
    titles: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Search:
    """How texts are checked, and how often and until when that may still be done."""

    recheck: Recheck
    attempts: int
    deadline: float
    seen: set[str] = field(default_factory=set[str])

    @property
    def over(self) -> bool:
        return monotonic() > self.deadline

    def report(self, text: str) -> FileReport | None:
        """The report on a text not seen before, or None."""
        if text in self.seen or self.attempts <= 0 or self.over:
            return None
        self.seen.add(text)
        self.attempts -= 1
        return self.recheck(text)


def with_repairs(
    report: FileReport, recheck: Recheck, *, attempts: int = ATTEMPTS, seconds: float = SECONDS
) -> FileReport:
    """The same report; the first error of each kernel that could be mended carries the edits that do it."""
    search = _Search(recheck, attempts, monotonic() + seconds)
    kernels: list[KernelReport] = []
    for kernel in report.kernels:
        mended = _mend(_Mended(report.text), report, kernel, search) if kernel.errors else None
        kernels.append(kernel if mended is None else _with_repair(kernel, report, mended))
    return replace(report, kernels=tuple(kernels))


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
        # Some attempts are kept for the other findings, and for mending in two steps.
        least = search.attempts * _KEPT // 100
        for candidate in candidates(now.text, module, finding):
            if search.attempts <= least or search.over:
                break
            changed = applied(now.text, candidate)
            after = search.report(changed) if changed is not None else None
            if changed is None or after is None or _others_worse(after, report, kernel.name):
                continue
            costs = (*now.costs, candidate.cost) if candidate.cost else now.costs
            mended = _Mended(changed, (*now.titles, candidate.title), costs)
            result = next((each for each in after.kernels if each.name == kernel.name), None)
            if result is not None and result.verdict == "proven":
                return mended
            if result is not None and result.errors and (_fewer(result, kernel) or _further(result, kernel)):
                partly.append((mended, after, result))
    for mended, after, result in partly[:_PARTS_TRIED]:
        found = _mend(mended, after, result, search)
        if found is not None:
            return found
    return None


def _others_worse(after: FileReport, before: FileReport, name: str) -> bool:
    """Does the text not check at all, or has another kernel of it errors that it did not have?"""
    had = {kernel.name: len(kernel.errors) for kernel in before.kernels}
    return bool(after.error) or any(
        kernel.name != name and len(kernel.errors) > had.get(kernel.name, 0) for kernel in after.kernels
    )


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
