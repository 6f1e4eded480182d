"""Is an edited text a step towards a repair, and is what an edit fixed truly gone?

Three reports can be compared by what they found and by how far their runs came:

- `fewer`: rules are broken less often, and none more often. Such a step is certain.
- `further`: a run that a fault or a hang ended now comes beyond it, or other rules are broken, but not more often. What
  is found there may be new, so the step is only likely.
- `fixed`: an error of the first text has no counterpart in the second, and that is no matter of a run that ended
  earlier. This is what a report may claim of an edit after which errors remain.

Places are compared through `moved`, which follows lines from one text to another. How far a run came is known of the
launch that is given, or that refutes (`KernelReport.reached`); nothing is claimed of structured programs, which do not
run. Checked by: tests/driver/repair/test_progress.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher

from tilewright.base.check_report import KernelReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span

_WAITS = re.compile(r"wait|\bbar\.|\bbarrier\.|setmaxnreg|tcgen05\.alloc")
"""What a line has at which a warp may have to wait."""

Lines = Callable[[int], range]
"""The lines of a later text that stand in the place of a line of an earlier one, both counted from 1."""


def moved(before: str, after: str) -> Lines:
    """Where lines of one text are in another: one line for one that stays, all that replace it for one that does
    not."""
    old, new = before.split("\n"), after.split("\n")
    least = min(len(old), len(new))
    head = next((index for index in range(least) if old[index] != new[index]), least)
    tail = next((index for index in range(least - head) if old[-1 - index] != new[-1 - index]), least - head)
    inner = SequenceMatcher(a=old[head : len(old) - tail], b=new[head : len(new) - tail], autojunk=False)
    codes = inner.get_opcodes()

    def at(line: int) -> range:
        index = line - 1
        if index < head:
            return range(line, line + 1)
        if index >= len(old) - tail:
            return range(line + len(new) - len(old), line + len(new) - len(old) + 1)
        for tag, first, last, start, end in codes:
            if first <= index - head < last:
                if tag == "equal":
                    return range(head + start + index - head - first + 1, head + start + index - head - first + 2)
                return range(head + start + 1, head + end + 1)
        return range(0)

    return at


def gone(finding: Diagnostic, after: KernelReport, lines: Lines, *, strict: bool = True) -> bool:
    """Has a later report no error of this code at this place? Where the finding has none, no error of this code. Not
    strict: one that conflicts with another place is another one."""
    for other in after.errors:
        if other.code != finding.code or not _same(finding.primary, other.primary, lines):
            continue
        if strict or _same(finding.conflicts_with, other.conflicts_with, lines):
            return False
    return True


def _same(place: Span | None, other: Span | None, lines: Lines) -> bool:
    if place is None or other is None:
        return place is other
    return other.line in lines(place.line)


def fewer(after: KernelReport, before: KernelReport) -> bool:
    """Are rules broken less often, and none more often than before?"""
    old = Counter(finding.code for finding in before.errors)
    new = Counter(finding.code for finding in after.errors)
    return 0 < new.total() < old.total() and all(new[code] <= old[code] for code in new)


def further(after: KernelReport, before: KernelReport) -> bool:
    """Did a run that ended early come beyond that? What it finds there may be more. Of runs of different launches, the
    second one must come to its end. Where both did, no more may be found than before: a rule may be broken that kept
    others from being looked at. How far the judgement of a structured program came is not known."""
    if not after.reached:
        return not before.reached
    if not before.cut_short:
        return not after.cut_short and len(after.errors) <= len(before.errors)
    return not after.cut_short or (after.launch == before.launch and after.reached > before.reached)


def fixed(finding: Diagnostic, before: KernelReport, after: KernelReport, texts: tuple[str, str]) -> bool:
    """Is a finding of a given launch gone from the second text, and not because its run ended earlier? Where both runs
    end early, the second one executes more, and no line at which it could wait is new."""
    if not before.reached or not after.reached or after.verdict == "unknown":
        return False
    if not gone(finding, after, moved(*texts)):
        return False
    if not after.cut_short:
        return before.cut_short or len(after.errors) < len(before.errors)
    kept = Counter(texts[0].split("\n"))
    added = (line for line, count in Counter(texts[1].split("\n")).items() if count > kept[line])
    return before.cut_short and after.reached > before.reached and not any(map(_WAITS.search, added))
