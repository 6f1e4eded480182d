"""Findings as plain text: places underlined, nothing of a source reaches the terminal as control characters."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span
from tilewright.report.text import render_finding, render_findings

FINDING = Diagnostic(
    "TX001",
    "bytes-do-not-add-up",
    "24576 bytes are announced and 49152 arrive",
    Span("gemm.ptx", 90, 2, "\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r27], 24576;"),
    Span("gemm.ptx", 104, 7, "\t@%p0 cp.async.bulk.tensor.2d [%r37];"),
    ("the producer announces 24576 bytes", "the phase ends early"),
    "PTX ISA 9.7.13.15",
    Repair("announce 49152", ((Span("gemm.ptx", 90, 2, "\tx, 24576;"), "\tx, 49152;"),), "none", rechecked=True),
)

TEXT = """\
error[TX001]: 24576 bytes are announced and 49152 arrive (bytes-do-not-add-up)
   --> gemm.ptx:90:2
    |
 90 |     mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r27], 24576;
    |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   ::: against gemm.ptx:104:7
    |
104 |     @%p0 cp.async.bulk.tensor.2d [%r37];
    |          -------------------------------
    |
    = a run that shows it:
        1. the producer announces 24576 bytes
        2. the phase ends early
    = rule: PTX ISA 9.7.13.15
    = repair: announce 49152 (cost: none) (checked again: clean)
        gemm.ptx:90:2: - x, 24576;
                       + x, 49152;"""


def test_a_finding_with_everything() -> None:
    assert render_finding(FINDING) == TEXT


def test_a_finding_without_a_place() -> None:
    finding = Diagnostic("LV101", "claim-differs", "three stages, not four", level=Level.REVIEW)
    assert render_finding(finding) == "review[LV101]: three stages, not four (claim-differs)"


def test_findings_beyond_the_limit_are_counted() -> None:
    text = render_findings([FINDING] * 5, limit=2)
    assert text.count("error[TX001]") == 2
    assert text.endswith("and 3 more findings")


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300), st.integers(1, 400), st.text(max_size=40))
def test_no_control_character_of_a_source_is_shown(line: str, column: int, message: str) -> None:
    span = Span("k.ptx", 3, column, line)
    text = render_finding(Diagnostic("MB001", "n", message, span, span, (message,), message, Repair(message)))
    strange = {character for character in text if unicodedata.category(character) in ("Cc", "Cf")}
    assert strange <= {"\n", "\t"}


@given(st.integers(1, 160), st.integers(1, 160))
def test_the_mark_begins_under_the_column(length: int, column: int) -> None:
    # Every character tells its own place, wherever the line is cut.
    line = "".join(chr(0x4E00 + index) for index in range(length))
    lines = render_finding(Diagnostic("MB001", "n", "m", Span("k.ptx", 1, column, line))).splitlines()
    shown, marks = lines[3].partition("| ")[2], lines[4].partition("| ")[2]
    assert shown[marks.index("^")] == line[min(column, length) - 1]
    assert len(shown) <= 110 and len(marks) <= len(shown)


@pytest.mark.parametrize("text", ["", "   ", "\t"])
def test_an_empty_line_is_not_underlined(text: str) -> None:
    assert "^" not in render_finding(Diagnostic("MB001", "n", "m", Span("k.ptx", 1, 5, text)))
