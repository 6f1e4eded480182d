"""How are a report's findings shown as lines of text? Those that say the same together (`finding_groups`).

Of what refutes, the first finding of each group stands in full, and the others are counted; of what is for review, a
line stands for each group. `View` asks for more, or for less.
Checked by: tests/report/findings/test_check_text.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from tilewright.base.check_report import Suppressed
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plural import counted
from tilewright.base.value import dataclass
from tilewright.report.findings.finding_groups import FindingGroup, grouped_findings, grouped_suppressed
from tilewright.report.text import printable, render_finding

Tone = Literal["plain", "heading", "good", "bad", "doubt", "quiet"]
StyledLine = tuple[str, Tone]

_LINES_SHOWN = 4
"""Lines of a group that are named, beside its first place."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown beyond verdicts, errors and counts.

    quiet: only kernels that are not plainly proven, a line for each and for each group of its errors; reviews: the
    first review of each group in full; everything: every finding, reason, claim and assumption; statistics: how often
    each rule was found, in the place of findings and kernels.
    """

    quiet: bool = False
    reviews: bool = False
    everything: bool = False
    statistics: bool = False


DEFAULT_VIEW = View()


def finding_lines(findings: Sequence[Diagnostic], suppressed: Sequence[Suppressed], view: View) -> list[StyledLine]:
    """Findings by group, then what is set aside; quiet, a line for each group of errors."""
    if view.quiet:
        return brief_lines([each for each in findings if each.level is Level.ERROR])
    lines = group_lines(findings, view)
    for first, group in grouped_suppressed(suppressed):
        lines.append((f"  {printable(first.words)} ({_places(group)})", "quiet"))
    return lines


def brief_lines(errors: Sequence[Diagnostic]) -> list[StyledLine]:
    return [(f"  {_group_words(group)}", "bad") for group in grouped_findings(errors)]


def group_lines(findings: Sequence[Diagnostic], view: View) -> list[StyledLine]:
    """Errors in full, the first of each group, and a line for the others; reviews a line for each group."""
    lines: list[StyledLine] = []
    for group in grouped_findings(findings):
        refutes = group.first.level is Level.ERROR
        tone: Tone = "bad" if refutes else "doubt"
        if not (refutes or view.reviews or view.everything):
            lines.append((f"  {_group_words(group)}", tone))
            continue
        for finding in group.findings if view.everything else group.findings[:1]:
            first, *rest = render_finding(finding).split("\n")
            lines.append((first, tone))
            lines.extend((line, "plain") for line in rest)
        if group.count > 1 and not view.everything:
            left = FindingGroup(group.findings[1:])
            lines.append((f"  and {left.count} more {group.first.code}{_lines(left)} (--all shows them)", "quiet"))
    return lines


def _group_words(group: FindingGroup) -> str:
    """A group in a line: what, how often, where first."""
    first = group.first
    word = "error" if first.level is Level.ERROR else "review"
    contested = f"; contested: {printable(first.contested)}" if first.contested else ""
    return f"{word}[{first.code}] {first.name}: {_places(group)}{contested}"


def _places(group: FindingGroup) -> str:
    if group.first.primary is None:
        return counted(group.count, "finding")
    place = printable(str(group.first.primary))
    origin = f", from {printable(str(group.first.origin))}" if group.first.origin is not None else ""
    if group.count == 1:
        return f"at {place}{origin}"
    return f"{counted(group.count, 'finding')}, the first at {place}{origin}"


def _lines(group: FindingGroup) -> str:
    """The lines of a group, a few of them."""
    lines = group.lines
    if not lines:
        return ""
    left = len(lines) - _LINES_SHOWN
    more = f" and {left} more" if left > 0 else ""
    return f" at line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:_LINES_SHOWN]))}{more}"


def statistics_lines(findings: Iterable[Diagnostic]) -> list[StyledLine]:
    """A table: how often each rule was found, at which level, by which contested point; the most frequent first."""
    groups = sorted(grouped_findings(findings), key=lambda group: (-group.count, group.first.code))
    width = max((len(f"{group.count:,}") for group in groups), default=0)
    names = max((len(group.first.name) for group in groups), default=0)
    lines: list[StyledLine] = []
    for group in groups:
        first = group.first
        refutes = first.level is Level.ERROR
        contested = f"  contested: {printable(first.contested)}" if first.contested else ""
        level = "error " if refutes else "review"
        line = f"{group.count:>{width},}  {first.code}  {first.name:<{names}}  {level}{contested}"
        lines.append((line.rstrip(), "bad" if refutes else "doubt"))
    return lines
