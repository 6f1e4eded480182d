"""What counts as a step, and what may be claimed of an edit."""

from __future__ import annotations

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.driver.repair.progress import fewer, fixed, further, gone, moved

TEXT = "a\nb\nc\nd\ne"


def finding(code: str, line: int | None, other: int | None = None) -> Diagnostic:
    def place(at: int | None) -> Span | None:
        return None if at is None else Span("k.ptx", at)

    return Diagnostic(code, "name", "message", place(line), place(other))


def report(*findings: Diagnostic, cut_short: bool = False, reached: int = 100, launch: int = 0) -> KernelReport:
    verdict = "refuted" if findings else "proven"
    return KernelReport(
        "k", "sm_90a", verdict, findings=findings, cut_short=cut_short, reached=reached, launch={"grid": launch}
    )


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (TEXT, {1: [1], 3: [3], 5: [5]}),
        ("a\nb\nx\ny\nc\nd\ne", {2: [2], 3: [5], 5: [7]}),
        ("a\nc\nd\ne", {2: [], 3: [2], 5: [4]}),
        ("a\nb\nX\nY\nd\ne", {3: [3, 4], 4: [5]}),
        ("z\na\nb\nc\nd\nq\ne", {1: [2], 4: [5], 5: [7]}),
    ],
)
def test_lines_are_followed(after: str, lines: dict[int, list[int]]) -> None:
    at = moved(TEXT, after)
    assert {line: list(at(line)) for line in lines} == lines


def test_a_finding_is_gone_where_its_place_has_none_of_its_code() -> None:
    at = moved(TEXT, "new\n" + TEXT)
    found = finding("TM101", 3, 1)
    assert gone(found, report(), at)
    assert gone(found, report(finding("TM101", 3, 1), finding("TM102", 4, 2)), at)
    assert not gone(found, report(finding("TM101", 4, 2)), at)
    assert not gone(found, report(finding("TM101", 4, 5)), at)
    assert gone(found, report(finding("TM101", 4, 5)), at, strict=False)
    nowhere = finding("TM101", None)
    assert not gone(nowhere, report(finding("TM101", None)), at) and gone(nowhere, report(found), at)


def test_fewer_findings_of_the_same_rules() -> None:
    two = report(finding("TM101", 1), finding("BG101", 2))
    assert fewer(report(finding("TM101", 1)), two)
    assert not fewer(two, two) and not fewer(report(), two) and not fewer(report(finding("MB113", 1)), two)


def test_further_is_a_run_that_executes_more_or_finds_something_else() -> None:
    hang = report(finding("MB113", 1), cut_short=True, reached=50)
    assert further(report(finding("TM101", 1), finding("TM102", 1)), hang)
    assert further(report(finding("MB113", 3), cut_short=True, reached=51), hang)
    assert not further(report(finding("MB113", 3), cut_short=True, reached=50), hang)
    assert not further(report(finding("MB113", 3), cut_short=True, reached=60, launch=1), hang)
    one = report(finding("TM101", 1))
    assert further(report(finding("TM102", 1)), one)
    assert not further(report(finding("TM102", 1), finding("TM102", 2)), one)
    assert not further(report(finding("MB113", 1), cut_short=True), one)


def test_nothing_is_fixed_by_a_run_that_ends_earlier() -> None:
    race, hang = finding("TM101", 3), finding("MB113", 2)
    texts = (TEXT, TEXT.replace("b", "B"))
    whole = report(race, finding("TM102", 4))
    assert fixed(race, whole, report(finding("TM102", 4)), texts)
    assert not fixed(race, whole, report(finding("TM102", 4), finding("TM103", 5)), texts)
    assert not fixed(race, whole, report(hang, cut_short=True, reached=500), texts)
    early = report(hang, cut_short=True, reached=50)
    assert fixed(hang, early, report(race, finding("TM102", 4)), texts)
    later = report(finding("MB113", 5), cut_short=True, reached=60)
    assert fixed(hang, early, later, texts)
    assert not fixed(hang, early, report(finding("MB113", 5), cut_short=True, reached=40), texts)
    assert not fixed(hang, early, later, (TEXT, "a\nB\nbar.sync 0;\nc\nd\ne"))
    undecided = KernelReport("k", "sm_90a", "unknown", reached=100)
    assert not fixed(race, whole, undecided, texts) and not fixed(race, whole, report(reached=0), texts)
