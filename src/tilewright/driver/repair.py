"""Which edit of a kernel's text mends what was found, shown by judging the mended text?

`repair_candidates` proposes edits for a finding, likeliest first; each is applied and the kernel judged again. An edit
with which it is proven is the repair. One that removes findings and adds none is kept while the others are mended; if
that ends in a proof, all of them together are the repair. Nothing is shown that was not judged: `Repair.rechecked` says
so. The judge is asked `attempts` times at most, and no more after `seconds`.

Not handled: edits that change the program's structure (a stage more, another role). Checked by:
tests/driver/test_repair.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from time import monotonic

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.driver.repair_candidates import Candidate, candidates
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read

ATTEMPTS = 48
SECONDS = 20.0
_FINDINGS_TRIED = 3
_PARTS_TRIED = 2

Judge = Callable[[Module], Verdict]


@dataclass(frozen=True, slots=True)
class _Mended:
    """A text after some edits, and what was done."""

    text: str
    titles: tuple[str, ...] = ()


@dataclass(slots=True)
class _Search:
    """Who judges texts of a file, and how often and until when that may still be done."""

    judge: Judge
    file: str
    attempts: int
    deadline: float
    seen: set[str] = field(default_factory=set[str])

    def verdict(self, text: str) -> Verdict | None:
        """The verdict on a text not seen before, or None: also for one that can't be judged."""
        if text in self.seen or self.attempts <= 0 or monotonic() > self.deadline:
            return None
        self.seen.add(text)
        self.attempts -= 1
        try:
            return self.judge(read(text, self.file, tolerant=True))
        except TilewrightError:
            return None


def with_repair(
    text: str, file: str, refuted: Refuted, judge: Judge, *, attempts: int = ATTEMPTS, seconds: float = SECONDS
) -> Refuted:
    """The same findings; if the kernel could be mended, the first error carries the edits that do it.

    judge: the verdict on the kernel in an edited module; it may raise TilewrightError, which discards the edit.
    """
    errors = _errors(refuted)
    if not errors:
        return refuted
    search = _Search(judge, file, attempts, monotonic() + seconds)
    mended = _mend(_Mended(text), refuted, search)
    if mended is None:
        return refuted
    repair = Repair("; ".join(mended.titles), difference(text, mended.text, file), "", rechecked=True)
    return Refuted(tuple(replace(each, repair=repair) if each is errors[0] else each for each in refuted.findings))


def _errors(refuted: Refuted) -> tuple[Diagnostic, ...]:
    return tuple(finding for finding in refuted.findings if finding.level is Level.ERROR)


def _mend(now: _Mended, refuted: Refuted, search: _Search) -> _Mended | None:
    """A text with which the kernel is proven, or None."""
    try:
        module = read(now.text, search.file, tolerant=True)
    except TilewrightError:
        return None
    partly: list[tuple[_Mended, Refuted]] = []
    for finding in _one_of_each_rule(_errors(refuted))[:_FINDINGS_TRIED]:
        for candidate in candidates(now.text, module, finding):
            changed = _apply(now.text, candidate)
            if changed is None:
                continue
            mended = _Mended(changed, (*now.titles, candidate.title))
            match search.verdict(changed):
                case Proven():
                    return mended
                case Refuted() as after if _fewer(after, refuted):
                    partly.append((mended, after))
                case _:
                    pass
    for mended, after in partly[:_PARTS_TRIED]:
        found = _mend(mended, after, search)
        if found is not None:
            return found
    return None


def _one_of_each_rule(errors: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    """The first finding of every rule before the second of any."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int, Diagnostic]] = []
    for index, finding in enumerate(errors):
        ranked.append((seen[finding.code], index, finding))
        seen[finding.code] += 1
    return [finding for _, _, finding in sorted(ranked, key=lambda item: item[:2])]


def _fewer(after: Refuted, before: Refuted) -> bool:
    """Are rules broken less often, and none more often than before?"""
    old = Counter(finding.code for finding in _errors(before))
    new = Counter(finding.code for finding in _errors(after))
    return new.total() < old.total() and all(new[code] <= old[code] for code in new)


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


def _apply(text: str, candidate: Candidate) -> str | None:
    lines = text.split("\n")
    if not 1 <= candidate.line <= len(lines):
        return None
    index = candidate.line - 1
    match candidate.kind:
        case "before":
            lines[index:index] = list(candidate.lines)
        case "after":
            lines[index + 1 : index + 1] = list(candidate.lines)
        case "replace":
            lines[index : index + 1] = list(candidate.lines)
    changed = "\n".join(lines)
    return changed if changed != text else None
