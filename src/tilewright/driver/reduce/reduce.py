"""What is the smallest kernel that still shows a finding?

Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input") over the statements of a
text, made fast by what a protocol needs. First goes what cannot matter (comments, debug sections, other kernels), then
all instructions of a kind at once, then runs of statements, shorter and shorter, and at last single ones, guards and
parameters. With every removal goes what only it needed (`reduce_pieces.tidied`), so that a store takes the arithmetic
before it along.

A text shows the finding if its code is found at an instruction of the same kind, and no code is found that the whole
text did not show: the result is about the same fault, in a kernel that is else as right as the whole. Removals keep
the text readable; labels and registers that are named stay declared, so that ptxas reads it as well.

A removal can make a kernel endless: a check that runs many times the steps of the first counts as not showing the
finding. Steps are counted (`work`), so the result depends on the input alone. Time is bounded, too: when it is over,
the smallest text so far is the result, and `Reduced.finished` is false. Checked by: tests/driver/reduce/test_reduce.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time

from tilewright.base.check_report import FileReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.check.limits.budget import BudgetSpent, bounded
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.driver.reduce.pieces import folded, normalised, tidied, unused_parameters, without_kernels
from tilewright.driver.rules.catalog import codes_named

Shows = Callable[[str], bool]
"""Does a text still show the finding?"""

_GUARD = re.compile(r"^(\s*)@!?[%$\w.]+\s+")
_KINDS_TRIED = 48
_PATIENCE = 4
"""Times the steps of the first check that another may run."""
_LEAST_STEPS = 50_000
"""Steps that any check may run."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """text: the smallest that was found; lines: of it; lines_before: of the whole text; tries: how many texts were
    checked; finished: no single statement can be taken away any more, as opposed to time being over."""

    text: str
    lines: int
    lines_before: int
    tries: int
    finished: bool


@dataclass(frozen=True, slots=True)
class ReducedFinding:
    """A reduced text, and what the check says of it: the finding that was asked for."""

    reduced: Reduced
    finding: Diagnostic


def reduce_finding(
    text: str,
    file: str,
    code: str,
    *,
    launch: LaunchFile | None = None,
    isa: str = "tolerant",
    entry: str | None = None,
    seconds: float = 60.0,
    progress: Callable[[float], None] | None = None,
) -> ReducedFinding:
    """The smallest text that shows a finding of `code`. Raises TilewrightError if `text` does not, or can't be read.

    code: or a name that `rules.codes_named` knows, of which the first code that is found counts; seconds: for all of
    it; the first check is not cut short.
    """
    named = code.strip()
    codes = codes_named(named)
    if len(codes) < 2:
        codes = (named := named.upper() if not codes else codes[0],)
    begin = process_time()
    whole = check_text(text, file, launch=launch, options=CheckOptions(isa=isa, entry=entry, budget_seconds=None))
    if whole.error:
        raise TilewrightError(whole.error, remedy=whole.remedy)
    there = {finding.code for kernel in whole.kernels for finding in kernel.findings}
    code = next((each for each in codes if each in there), codes[0])
    names = [kernel.name for kernel in whole.kernels if _of_code(kernel.findings, code)]
    if not names:
        remedy = f"it shows {', '.join(sorted(there))}" if there else "check finds nothing in it"
        raise TilewrightError(f"{file} does not show {named}", remedy=remedy)
    steps = next(kernel.steps for kernel in whole.kernels if kernel.name == names[0])
    most = max(_LEAST_STEPS, _PATIENCE * steps)
    options = CheckOptions(isa=isa, entry=names[0], budget_seconds=None, budget_steps=most)
    lines = without_kernels(normalised(text), names[0])
    allowed: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    def report_of(candidate: str) -> FileReport:
        return check_text(candidate, file, launch=launch, options=options)

    def shows(candidate: str) -> bool:
        report = report_of(candidate)
        findings = [each for kernel in report.kernels for each in kernel.findings]
        wanted = _of_code(findings, code)
        codes = {each.code for each in findings}
        return bool(wanted) and codes <= allowed and bool({_kind(each) for each in wanted} & kinds)

    first = report_of("\n".join(lines))
    findings = [each for kernel in first.kernels for each in kernel.findings]
    allowed = frozenset(each.code for each in findings)
    kinds = frozenset(_kind(each) for each in _of_code(findings, code))
    if not kinds:
        raise TilewrightError(
            f"{file} shows {code} only as it is written", remedy="report this text: its layout should not matter"
        )
    left = max(1.0, seconds - (process_time() - begin))
    reduced = _reduce(lines, len(text.splitlines()), shows, left, progress, parameters=launch is None)
    final = [each for kernel in report_of(reduced.text).kernels for each in kernel.findings]
    return ReducedFinding(reduced, _of_code(final, code)[0])


def _of_code(findings: tuple[Diagnostic, ...] | list[Diagnostic], code: str) -> list[Diagnostic]:
    return [finding for finding in findings if finding.code == code]


def _kind(finding: Diagnostic) -> str:
    """The opcode that a finding is at, without its types and modifiers after the second."""
    words = _GUARD.sub("", finding.primary.text).split() if finding.primary is not None else []
    return ".".join(words[0].rstrip(";").split(".")[:2]) if words else ""


@dataclass(slots=True)
class _Search:
    test: Shows
    deadline: float
    seconds: float
    progress: Callable[[float], None] | None
    tries: int = 0
    refused: set[str] = field(default_factory=set[str])

    @property
    def over(self) -> bool:
        return process_time() > self.deadline

    def smaller(self, lines: list[str], fewer: list[str]) -> list[str] | None:
        """`fewer`, tidied, if it is shorter than `lines` and still shows the finding."""
        fewer = tidied(fewer)
        text = "\n".join(fewer) + "\n"
        if text in self.refused or sum(map(len, fewer)) >= sum(map(len, lines)) or self.over:
            return None
        self.tries += 1
        if self.progress is not None:
            self.progress(min(1.0, 1 - max(0.0, self.deadline - process_time()) / self.seconds))
        own = False
        try:
            with bounded(self.deadline - process_time()) as own:
                shown = self.test(text)
        except BudgetSpent:
            if not own:
                raise
            return None
        if shown:
            return fewer
        self.refused.add(text)
        return None


def _reduce(
    lines: list[str],
    lines_before: int,
    shows: Shows,
    seconds: float,
    progress: Callable[[float], None] | None,
    *,
    parameters: bool,
) -> Reduced:
    search = _Search(shows, process_time() + seconds, seconds, progress)
    lines = search.smaller([*lines, "more"], lines) or lines
    lines = _without_kinds(lines, search)
    lines = search.smaller(lines, folded(lines)) or lines
    grain = max(1, len(_removable(lines)) // 2)
    while not search.over:
        lines, removed = _pass(lines, grain, search)
        if grain == 1:
            guards = _without_guards(lines, search)
            removed = removed or guards != lines
            lines = guards
            if not removed:
                break
        grain = max(1, grain // 2)
    if parameters:
        lines = search.smaller(lines, unused_parameters(lines)) or lines
    return Reduced("\n".join(lines) + "\n", len(lines), lines_before, search.tries, not search.over)


def _without_kinds(lines: list[str], search: _Search) -> list[str]:
    """Take away all instructions of a kind, the most frequent kinds first."""
    counted = Counter(_opcode(lines[number]) for number in _removable(lines))
    for kind, _ in counted.most_common(_KINDS_TRIED):
        if search.over:
            break
        chosen = {number for number in _removable(lines) if _opcode(lines[number]) == kind}
        if chosen:
            fewer = [line for number, line in enumerate(lines) if number not in chosen]
            lines = search.smaller(lines, fewer) or lines
    return lines


def _opcode(line: str) -> str:
    words = _GUARD.sub("", line).split()
    return ".".join(words[0].rstrip(";").split(".")[:3]) if words else ""


def _pass(lines: list[str], grain: int, search: _Search) -> tuple[list[str], bool]:
    """Take away runs of `grain` removable lines, from the last on: later lines depend on earlier ones."""
    removed = False
    at = len(_removable(lines))
    while at > 0 and not search.over:
        places = _removable(lines)
        at = min(at, len(places))
        chosen = set(places[max(0, at - grain) : at])
        at -= grain
        fewer = search.smaller(lines, [line for number, line in enumerate(lines) if number not in chosen])
        if fewer is not None:
            lines, removed = fewer, True
    return lines, removed


def _removable(lines: list[str]) -> list[int]:
    """Instructions within bodies, but the last end of each: labels and declarations go when nothing names them."""
    found: list[int] = []
    depth = 0
    last_end: int | None = None
    for number, line in enumerate(lines):
        bare = line.strip()
        if bare in ("{", "}"):
            depth += 1 if bare == "{" else -1
            if depth == 0 and last_end is not None:
                found.remove(last_end)
                last_end = None
            continue
        if depth > 0 and bare.endswith(";") and not bare.startswith("."):
            found.append(number)
            if bare in ("ret;", "exit;"):
                last_end = number
    return found


def _without_guards(lines: list[str], search: _Search) -> list[str]:
    for number in range(len(lines) - 1, -1, -1):
        if search.over:
            break
        if number < len(lines) and _GUARD.match(lines[number]) and "bra" not in lines[number].split()[1]:
            changed = [*lines[:number], _GUARD.sub(r"\1", lines[number]), *lines[number + 1 :]]
            lines = search.smaller(lines, changed) or lines
    return lines
