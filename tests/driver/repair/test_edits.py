"""Edits of a text by lines, and the repairs of a report that may be made together."""

from __future__ import annotations

import pytest

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span
from tilewright.driver.repair.edits import apply_edits, patch, rechecked_repairs, repaired_text

TEXT = "one\ntwo\nthree\n"


def at(line: int) -> Span:
    return Span("k.ptx", line)


def test_lines_are_replaced_added_and_dropped() -> None:
    assert apply_edits(TEXT, [(at(2), "2")]) == "one\n2\nthree\n"
    assert apply_edits(TEXT, [(at(2), "two\ntwo and a half"), (at(3), "")]) == "one\ntwo\ntwo and a half\n"
    assert apply_edits(TEXT.replace("\n", "\r\n"), [(at(1), "1\nmore")]) == "1\r\nmore\r\ntwo\r\nthree\r\n"
    assert apply_edits(TEXT, []) == TEXT


@pytest.mark.parametrize("edits", [[(at(5), "x")], [(at(0), "x")], [(at(1), "x"), (at(1), "y")]])
def test_edits_that_make_no_sense(edits: list[tuple[Span, str]]) -> None:
    with pytest.raises(ValueError, match="line"):
        apply_edits(TEXT, edits)


def finding(line: int, repair: Repair | None, level: Level = Level.ERROR) -> Diagnostic:
    return Diagnostic("TX101", "name", "message", at(line), repair=repair, level=level)


def test_only_repairs_that_were_checked_again_are_made_and_no_two_of_one_line() -> None:
    good = Repair("good", ((at(1), "1"),), rechecked=True)
    same = Repair("the same line", ((at(1), "uno"),), rechecked=True)
    other = Repair("another line", ((at(3), "3"),), rechecked=True)
    guess = Repair("not checked", ((at(2), "2"),))
    findings = (
        finding(3, other, Level.REVIEW),
        finding(2, guess),
        finding(1, good),
        finding(1, same),
        finding(2, Repair("words")),
    )
    report = FileReport("k.ptx", TEXT, (KernelReport("k", "sm_90a", "refuted", findings=findings),))
    assert rechecked_repairs(report) == (good, other)
    assert repaired_text(report) == "1\ntwo\n3\n"


def test_patches() -> None:
    assert patch(TEXT, TEXT, "k.ptx") == ""
    lines = patch(TEXT, "one\n2\nthree\n", "k.ptx").splitlines()
    assert lines[:2] == ["--- a/k.ptx", "+++ b/k.ptx"] and "-two" in lines and "+2" in lines
    assert "No newline at end of file" in patch("a\nb", "a\nc", "k.ptx")
