"""Which findings say the same? Those of one rule, at one level, of one contested point: a group, with a count.

One missing fence shows at every access behind it. A reader wants it once, with the first place and how many there are.
Groups that refute come first; otherwise they stand in the order in which their first findings were made.
Not handled: findings of two rules that have one cause. Checked by: tests/report/findings/test_finding_groups.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.base.check_report import Suppressed
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.value import dataclass


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings that share rule, level and contested point, in the order in which they were made; never empty."""

    findings: tuple[Diagnostic, ...]

    @property
    def first(self) -> Diagnostic:
        return self.findings[0]

    @property
    def count(self) -> int:
        return len(self.findings)

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the findings' places, each once."""
        return tuple(dict.fromkeys(each.primary.line for each in self.findings if each.primary is not None))


def grouped_findings(findings: Iterable[Diagnostic]) -> tuple[FindingGroup, ...]:
    """The groups of findings, those that refute first."""
    groups: dict[tuple[str, str, Level, str], list[Diagnostic]] = {}
    for each in findings:
        groups.setdefault((each.code, each.name, each.level, each.contested), []).append(each)
    found = [FindingGroup(tuple(group)) for group in groups.values()]
    return tuple(sorted(found, key=lambda group: group.first.level is not Level.ERROR))


def grouped_suppressed(suppressed: Iterable[Suppressed]) -> tuple[tuple[Suppressed, FindingGroup], ...]:
    """Findings that are set aside, by rule and reason: the first of each, and the group."""
    groups: dict[tuple[str, Level, str], list[Suppressed]] = {}
    for each in suppressed:
        groups.setdefault((each.words, each.finding.level, each.by), []).append(each)
    return tuple((group[0], FindingGroup(tuple(each.finding for each in group))) for group in groups.values())
