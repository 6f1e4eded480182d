"""Which edits of a kernel's text fix what was found, shown by checking the edited text?

`repair.candidates` proposes edits for a finding, likeliest first; each is applied and the kernel checked again. An edit
with which the kernel is proven ends the search. One with which the finding is gone, and fewer are left or the run comes
further (`repair.progress`), is a step: the search goes on from its text as well. Texts are tried one after another,
those with more certain steps more often. All steps that lead to a proof are the repair together.

Where the search ends without a proof, the steps that leave the least are shown, for an error that they fix: only if
the checked text has no such error at that place any more, and its run does not end earlier. `Repair.remaining` says how
many errors the check of that text found. Where no launch is given, both texts are checked with the one that refutes.

Where an edit touches more than the kernel's own lines, the other kernels of the file are checked again as well. Nothing
is shown that was not checked: `Repair.rechecked` says so.

The search ends after `attempts` texts, or after `steps` of work (`work`; a line of a text counts as `LINE_STEPS`); each
of the first bugs that are fixed on the way gives it half as much again. So what it finds depends on the input alone. A
limit in seconds ends it early, and `FileReport.notes` then says so.

Not handled: edits that change the program's structure (a stage more, another role). Checked by:
tests/driver/repair/test_repair.py, tests/driver/repair/test_several.py.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import islice

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.driver.check.options import REPAIR_STEPS
from tilewright.driver.check.sources.text_file import is_mlir
from tilewright.driver.repair.candidates import candidates
from tilewright.driver.repair.progress import fewer, fixed, further, gone, moved
from tilewright.driver.repair.rechecks import Recheck, RecheckAt, Rechecks, others_worse, rechecks_of
from tilewright.driver.repair.structured import structured_candidates
from tilewright.driver.repair.text import Candidate, Edit, applied, joined, shifted, unshifted
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read

ATTEMPTS = 64
_FINDINGS_TRIED = 3
_SHARES = (5, 2, 1)
"""Of the edits that are tried, for the first finding, the second and the third."""
_BUGS_MOST = 6
"""Steps of a repair."""
_HEAD_START = 6
"""Turns that the first step from a text has before the others."""
_SHOWN_TRIED = 3
"""Texts that are compared more closely before what they fix is shown."""


@dataclass(slots=True)
class _State:
    """A text after some steps, the report on it, and the edits of it that are still to try. chain: the steps, as edits
    of the first text; pace: turns that each edit takes; since: the first of them; tried: edits; steps: those from here;
    failed: edits that leave their finding."""

    text: str
    report: FileReport
    kernel: KernelReport
    module: Module | None
    proposals: Iterator[tuple[Diagnostic, Candidate]]
    chain: tuple[Candidate, ...] = ()
    since: int = 0
    pace: int = 1
    tried: int = 0
    steps: int = 0
    failed: set[tuple[Edit, ...]] = field(default_factory=set[tuple[Edit, ...]])

    @property
    def turn(self) -> int:
        """The state with the least is the next one of which an edit is tried."""
        return self.since + self.pace * self.tried


@dataclass(frozen=True, slots=True)
class _Found:
    """A text after some edits, and how many errors are left."""

    text: str
    chain: tuple[Candidate, ...]
    finding: Diagnostic
    remaining: int = 0


def with_repairs(
    report: FileReport,
    recheck: Recheck,
    *,
    recheck_at: RecheckAt | None = None,
    attempts: int = ATTEMPTS,
    steps: int = REPAIR_STEPS,
    seconds: float | None = None,
    limit: str = "--budget",
) -> FileReport:
    """The same report; an error of each kernel that could be fixed carries the edits that do it. recheck_at: without
    it, nothing is shown in part where no launch is given; limit: the option that sets `seconds`."""
    rechecks = rechecks_of(recheck, attempts, steps, seconds)
    kernels: list[KernelReport] = []
    for kernel in report.kernels:
        rechecks.depth = 0
        found = _search(report, kernel, rechecks, recheck_at) if kernel.errors else None
        kernels.append(kernel if found is None else _with_repair(kernel, report, found))
    stopped = f"the search for repairs was stopped after {seconds or 0:g} s, and may have missed some; raise {limit}"
    return replace(report, kernels=tuple(kernels), notes=(*report.notes, stopped) if rechecks.stopped else report.notes)


def _with_repair(kernel: KernelReport, report: FileReport, found: _Found) -> KernelReport:
    place = found.finding.primary
    edits = difference(report.text, found.text, place.file if place else report.path)
    titles = "; ".join(each.title for each in found.chain)
    costs = "; ".join(dict.fromkeys(each.cost for each in found.chain if each.cost))
    repair = Repair(titles, edits, costs, rechecked=True, remaining=found.remaining)
    return replace(
        kernel,
        findings=tuple(replace(each, repair=repair) if each is found.finding else each for each in kernel.findings),
    )


def _search(
    report: FileReport, kernel: KernelReport, rechecks: Rechecks, recheck_at: RecheckAt | None
) -> _Found | None:
    """The steps with which a kernel is proven and no other is worse than before, else those that fix some of it."""
    root = _state(report, kernel)
    if root is None:
        return None
    number = 0
    waiting = [(root.turn, number, root)]
    reached: list[_State] = []
    while waiting and not rechecks.over:
        _, order, state = heapq.heappop(waiting)
        following = next(state.proposals, None)
        if following is None:
            continue
        tried = _tried(state, *following, rechecks)
        if isinstance(tried, _Found):
            return _shortest(replace(tried, finding=kernel.errors[0]), report, kernel, root.module, rechecks)
        if tried is not None:
            number += 1
            reached.append(tried)
            rechecks.deeper(len(tried.chain))
            heapq.heappush(waiting, (tried.turn, number, tried))
        heapq.heappush(waiting, (state.turn, order, state))
    return _in_part(report, kernel, reached, rechecks, recheck_at)


def _state(report: FileReport, kernel: KernelReport) -> _State | None:
    """A text to go on from, if it can be read."""
    if is_mlir(report.text, report.path):
        return _State(report.text, report, kernel, None, _proposals(report.text, None, kernel))
    try:
        module = read(report.text, report.path, tolerant=True)
    except TilewrightError:
        return None
    return _State(report.text, report, kernel, module, _proposals(report.text, module, kernel))


def _proposals(text: str, module: Module | None, kernel: KernelReport) -> Iterator[tuple[Diagnostic, Candidate]]:
    """Edits for the findings one after another, more of them for the first. module: None for MLIR."""
    waiting = [
        (finding, structured_candidates(text, finding) if module is None else candidates(text, module, finding), share)
        for finding, share in zip(_one_of_each_rule(kernel.errors)[:_FINDINGS_TRIED], _SHARES, strict=False)
    ]
    while waiting:
        still: list[tuple[Diagnostic, Iterator[Candidate], int]] = []
        for finding, proposed, share in waiting:
            taken = list(islice(proposed, share))
            yield from ((finding, each) for each in taken)
            if len(taken) == share:
                still.append((finding, proposed, share))
        waiting = still


def _shortest(
    found: _Found, report: FileReport, kernel: KernelReport, module: Module | None, rechecks: Rechecks
) -> _Found:
    """The same repair without the steps that the proof does not need."""
    for step in found.chain if len(found.chain) > 1 else ():
        chain = tuple(each for each in found.chain if each is not step)
        text = applied(report.text, joined(chain))
        after = rechecks.report(text, kernel.name) if text is not None and chain else None
        result = None if after is None else next((each for each in after.kernels if each.name == kernel.name), None)
        if text is None or result is None or result.verdict != "proven":
            continue
        if not others_worse(text, report.text, module, report, kernel, rechecks):
            found = replace(found, text=text, chain=chain)
    return found


def _tried(state: _State, finding: Diagnostic, candidate: Candidate, rechecks: Rechecks) -> _State | _Found | None:
    """What an edit leads to: a proof, a text to go on from, or nothing."""
    kernel = state.kernel
    step = unshifted(candidate, joined(state.chain))
    if step is None or candidate.edits in state.failed:
        return None  # what an earlier step wrote is left as it is
    changed = applied(state.text, candidate)
    after = rechecks.report(changed, kernel.name) if changed is not None else None
    if changed is None or after is None:
        return None
    state.tried += 1
    result = None if after.error else next((each for each in after.kernels if each.name == kernel.name), None)
    if result is None:
        return None
    chain = (*state.chain, step)
    lines = moved(state.text, changed)
    certain = fewer(result, kernel)
    goes_on = len(chain) < _BUGS_MOST and result.verdict == "refuted" and (
        certain or (further(result, kernel) and gone(finding, result, lines, strict=False))
    )  # fmt: skip
    if not (goes_on or result.verdict == "proven"):
        # What a whole run shows is still there with the edit, is there with it after other edits as well.
        if not kernel.cut_short and not result.cut_short and not gone(finding, result, lines):
            state.failed.add(candidate.edits)
        return None
    if others_worse(changed, state.text, state.module, state.report, kernel, rechecks):
        return None
    if result.verdict == "proven":
        return _Found(changed, chain, finding)
    child = _state(replace(state.report, text=after.text), result)
    if child is None:
        return None
    # What is only likely is tried less often than where it comes from; so are the later ones of several.
    many = 2 * len(result.errors) > len(kernel.errors)
    doubtful = (many + 2 * (not gone(finding, result, lines))) if certain else 1 + result.cut_short
    head_start = 0 if state.steps or doubtful > 1 else min(_HEAD_START, state.tried)
    since = state.turn - head_start
    if not doubtful:  # what is left to try here is of use only if that step was wrong
        state.since, state.pace = state.since - state.tried, state.pace + 1
    pace = state.pace + doubtful + 2 * state.steps
    state.steps += 1
    failed = {edits for each in state.failed if (edits := shifted(each, candidate)) is not None}
    return replace(child, chain=chain, since=since, pace=pace, failed=failed)


def _in_part(
    report: FileReport, kernel: KernelReport, reached: list[_State], rechecks: Rechecks, recheck_at: RecheckAt | None
) -> _Found | None:
    """Of the steps that were found, those that leave the least, if they truly fix an error."""
    before = _with_launch(report.text, kernel, kernel, recheck_at, rechecks)
    if before is None:
        return None
    best = sorted(reached, key=lambda state: (state.kernel.cut_short, len(state.kernel.errors), state.turn))
    # A wait that passes at once hides a hang; only a proof shows that it should.
    best = [state for state in best if not (kernel.cut_short and any(step.loosens for step in state.chain))]
    for state in best[:_SHOWN_TRIED]:
        after = _with_launch(state.text, state.kernel, kernel, recheck_at, rechecks)
        texts = (report.text, state.text)
        lines = moved(*texts)
        for finding in kernel.errors if after is not None else ():
            shown = not gone(finding, before, moved(report.text, report.text))
            if after is not None and shown and gone(finding, state.kernel, lines) and fixed(
                finding, before, after, texts
            ):  # fmt: skip
                return _Found(state.text, state.chain, finding, len(state.kernel.errors))
    return None


def _with_launch(
    text: str, found: KernelReport, kernel: KernelReport, recheck_at: RecheckAt | None, rechecks: Rechecks
) -> KernelReport | None:
    """The report on a text with a launch that is given: `found` itself, or with the one that refutes `kernel`."""
    if kernel.launch is None:
        return found
    if recheck_at is None or rechecks.stopped:
        return None
    report = rechecks.bounded(lambda: recheck_at(text, kernel.name, kernel.launch or {}))
    return next((each for each in report.kernels), None) if report is not None and not report.error else None


def _one_of_each_rule(errors: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    """The first finding of every rule before the second of any."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int, Diagnostic]] = []
    for index, finding in enumerate(errors):
        ranked.append((seen[finding.code], index, finding))
        seen[finding.code] += 1
    return [finding for _, _, finding in sorted(ranked, key=lambda item: item[:2])]


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
