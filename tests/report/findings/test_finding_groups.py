"""Findings of one rule, level and contested point are one group."""

from __future__ import annotations

from dataclasses import replace

from tilewright.base.check_report import Suppressed
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.span import Span
from tilewright.report.findings.finding_groups import grouped_findings, grouped_suppressed


def found(code: str, line: int, level: Level = Level.ERROR, contested: str = "") -> Diagnostic:
    return Diagnostic(code, "a-rule", f"at {line}", Span("k.ptx", line), level=level, contested=contested)


def test_errors_come_first_and_groups_in_the_order_of_discovery() -> None:
    findings = (found("B", 1, Level.REVIEW), found("C", 2), found("A", 3), found("C", 4), found("B", 5, Level.REVIEW))
    groups = grouped_findings(findings)
    assert [(group.first.code, group.count, group.lines) for group in groups] == [
        ("C", 2, (2, 4)), ("A", 1, (3,)), ("B", 2, (1, 5)),
    ]  # fmt: skip


def test_another_level_or_contested_point_is_another_group() -> None:
    one = found("A", 1, Level.REVIEW, "this")
    assert len(grouped_findings((one, replace(one, contested="that")))) == 2
    assert len(grouped_findings((one, replace(one, level=Level.ERROR)))) == 2
    assert len(grouped_findings((one, replace(one, primary=None, message="other")))) == 1
    assert grouped_findings(()) == ()


def test_what_is_set_aside_is_grouped_by_rule_and_reason() -> None:
    aside = [Suppressed(found("A", line), "because", "option") for line in (1, 2)]
    aside += [Suppressed(found("A", 3), "else", "option"), Suppressed(found("A", 4), "", "ignored")]
    groups = [(first.words, group.count) for first, group in grouped_suppressed(aside)]
    assert groups == [("allowed A: because", 2), ("allowed A: else", 1), ("ignored A", 1)]
