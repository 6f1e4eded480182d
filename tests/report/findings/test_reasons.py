"""Reasons that say the same of many places are one line, and only a few lines are shown."""

from __future__ import annotations

from tilewright.report.findings.reasons import REASONS_SHOWN, grouped_reasons, shown_reasons


def test_reasons_that_differ_in_their_place_alone_are_one_line() -> None:
    reasons = ("a b.ptx:3: depends on data", "clocks", "a b.ptx:9:5: depends on data", "clocks", "a b.ptx:9: clocks")
    assert grouped_reasons(reasons) == (
        "a b.ptx:3: depends on data (and at 1 more place)",
        "clocks (2 times)",
        "a b.ptx:9: clocks",
    )
    assert grouped_reasons(reasons[:1] * 3 + reasons[2:3])[0].endswith("(4 times, at 2 places)")
    assert grouped_reasons(reasons[:1] * 3)[0].endswith("(3 times)")


def test_reasons_that_differ_in_their_warps_alone_are_one_line() -> None:
    pairs = [f"k.ptx:9: CTA 0 warp {one} and CTA 0 warp {other} store" for one in range(4) for other in range(one)]
    assert grouped_reasons(pairs) == (f"{pairs[0]} ({len(pairs)} times)",)
    assert grouped_reasons(["k.ptx:9: CTA 0 waits", "k.ptx:9: warp 0 waits"])[0].endswith("CTA 0 waits")


def test_a_reason_alone_stays_as_it_is_whatever_it_says() -> None:
    reasons = ("k.ptx:1: ", ": 5: x", "k.ptx:1: two\nlines", "", "parameter 0: 1: 2")
    assert grouped_reasons(reasons) == reasons


def test_few_lines_are_shown_and_the_rest_is_counted() -> None:
    reasons = tuple(f"reason {number}" for number in range(REASONS_SHOWN + 2))
    assert shown_reasons(reasons) == (reasons[:REASONS_SHOWN], 2)
    assert shown_reasons(reasons[:-1]) == (reasons[:-1], 0)
    assert shown_reasons(reasons, None) == (reasons, 0)
    assert shown_reasons(()) == ((), 0)
