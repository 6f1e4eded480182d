"""What are judged tensor maps as a SARIF log? Each rule broken a result, each warning a result for review.

A result's place is the file that the maps came from, at line 1; its message names the map by its index, as JSON does.
Checked by: tests/cli/test_tensormap_report.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tilewright import __version__
from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span
from tilewright.cli.tensormap.judge import Judged
from tilewright.driver.rules.catalog import all_rules
from tilewright.report.findings.sarif import RuleDescription, sarif_log

if TYPE_CHECKING:
    from tilewright.legal.symbolic.symbolic import SymbolicLegality


def tensormap_log(answers: Sequence[Judged | SymbolicLegality], source: str) -> dict[str, object]:
    """The log of one call. source: the file that was read, - for standard input or options."""
    span = Span("stdin" if source == "-" else source, 1)
    findings = [finding for index, answer in enumerate(answers) for finding in _findings(answer, index, span)]
    rules = [RuleDescription(rule.code, rule.name, rule.summary, rule.rule, rule.remedy) for rule in all_rules()]
    return sarif_log(findings, version=__version__, rules=rules)


def _findings(answer: Judged | SymbolicLegality, index: int, span: Span) -> Iterator[Diagnostic]:
    if not isinstance(answer, Judged):
        for each in (*answer.violated, *answer.undecided):
            level = Level.ERROR if each in answer.violated else Level.REVIEW
            yield Diagnostic(
                each.code, each.name, f"map {index}: {each.message}", span, source=each.source, level=level
            )
        return
    repair = None
    if answer.repairs:
        best = answer.repairs[0]
        repair = Repair(best.title, cost=best.cost.line, rechecked=best.checked)
    for each in answer.violations:
        yield Diagnostic(each.code, each.name, f"map {index}: {each.message}", span, source=each.source, repair=repair)
    for each in answer.warnings:
        yield Diagnostic(
            each.code, each.name, f"map {index}: {each.message}", span, source=each.source, level=Level.REVIEW
        )
