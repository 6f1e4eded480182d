"""Comments that allow findings: where they reach, and what is wrong with those that don't."""

from __future__ import annotations

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.driver.check.allowance import allowances, apply_allowances, unused

KNOWN = ("MB108", "PX101", "TX101")

TEXT = """\
st.shared.u32 [%r1], %r2; // tilewright: allow[PX101] because the copy is awaited elsewhere
// tilewright: allow[MB108, TX101] because the caller holds the phase

// another comment
mbarrier.arrive.shared.b64 _, [%r3];
// tilewright: allow[MB108]
// tilewright: allow[MB999] because of nothing
"""


def finding(code: str, line: int, other: int | None = None) -> Diagnostic:
    conflict = None if other is None else Span("k.ptx", other)
    return Diagnostic(code, "name", "message", Span("k.ptx", line), conflict)


def test_where_allowances_reach() -> None:
    found, wrong = allowances(TEXT, "k.ptx", KNOWN)
    assert [(each.line, each.covers, each.codes, each.reason) for each in found] == [
        (1, 1, ("PX101",), "the copy is awaited elsewhere"),
        (2, 5, ("MB108", "TX101"), "the caller holds the phase"),
    ]
    assert [(each.code, each.primary.line) for each in wrong if each.primary] == [("AW002", 6), ("AW003", 7)]


def test_findings_are_set_aside_by_code_and_line() -> None:
    found, _ = allowances(TEXT, "k.ptx", KNOWN)
    kept, suppressed, used = apply_allowances(
        [finding("PX101", 1), finding("PX101", 5), finding("MB108", 9, other=5), finding("MB108", 2)], found
    )
    assert [(each.code, each.primary.line) for each in kept if each.primary] == [("PX101", 5), ("MB108", 2)]
    assert [each.reason for each in suppressed] == ["the copy is awaited elsewhere", "the caller holds the phase"]
    assert unused(found, used) == ()


def test_what_allows_nothing_is_a_finding_for_review() -> None:
    found, _ = allowances(TEXT, "k.ptx", KNOWN)
    (first, second) = unused(found, frozenset())
    assert (first.code, second.code, first.level.value) == ("AW001", "AW001", "review")
    assert "PX101 was not found at line 1" in first.message


def test_a_text_without_allowances_is_not_searched() -> None:
    assert allowances("ret;\n" * 10, "k.ptx", KNOWN) == ((), ())
