"""What the user sets aside: named by code, name or the beginning of codes, and never silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.check.finding_filter import NOTHING_SET_ASIDE, codes_of, finding_filter
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.rules.catalog import all_rules

BUGS = Path(__file__).parents[3] / "docs" / "bugs"
UNFENCED = (BUGS / "store-without-a-proxy-fence" / "buggy.ptx").read_text(encoding="utf-8")
HANGS = (BUGS / "expected-bytes-are-clamped" / "buggy.ptx").read_text(encoding="utf-8")


def checked(text: str, **options: object) -> KernelReport:
    report = check_text(text, "k.ptx", options=CheckOptions(budget_seconds=None, **options))  # type: ignore[arg-type]
    (kernel,) = report.kernels
    return kernel


def found(code: str) -> Diagnostic:
    return Diagnostic(code, "", "")


def test_rules_are_named_by_code_name_and_beginning() -> None:
    assert codes_of("px101") == ("PX101",) and "PX101" in codes_of("write-not-fenced")
    assert set(codes_of("PX")) == {rule.code for rule in all_rules() if rule.code.startswith("PX")}
    assert len(codes_of("PX1")) < len(codes_of("PX"))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("PX1001", "did you mean PX"), ("write-not-fence", "write-not-fenced"), ("", "explain"),
     ("fenced_init", "--isa tolerant,fenced_init=strict")],
)  # fmt: skip
def test_a_name_without_a_rule_is_an_error_with_the_nearest(name: str, remedy: str) -> None:
    with pytest.raises(TilewrightError, match="there is no rule") as raised:
        finding_filter(ignore=(name,))
    assert remedy in raised.value.remedy


def test_select_ignores_all_others_and_ignore_wins() -> None:
    chosen = finding_filter(select=("PX",), ignore=("PX102",))
    assert [chosen.excludes(found(code)) for code in ("PX101", "PX102", "MB113")] == [False, True, True]
    kept, aside = chosen.split([found("PX101"), found("MB113")])
    assert [each.code for each in kept] == ["PX101"] and [each.by for each in aside] == ["ignored"]
    assert finding_filter() is NOTHING_SET_ASIDE and not NOTHING_SET_ASIDE.excludes(found("PX101"))


def test_an_allowance_has_a_reason_and_goes_before_what_is_ignored() -> None:
    chosen = finding_filter({"PX101": "two\nlines"}, ignore=("PX",))
    _, (aside,) = chosen.split([found("PX101")])
    assert (aside.by, aside.words) == ("option", "allowed PX101: two lines")
    with pytest.raises(TilewrightError, match="without a reason"):
        finding_filter({"PX101": " "})


def test_what_is_set_aside_does_not_refute_and_the_proof_says_so() -> None:
    codes = sorted({each.code for each in checked(UNFENCED).errors})
    assert checked(UNFENCED).verdict == "refuted" and codes
    allowed = checked(UNFENCED, allow=dict.fromkeys(codes, "it is a test"))
    assert allowed.verdict == "proven" and allowed.findings == ()
    assert allowed.exceptions == tuple(f"allowed {code}: it is a test" for code in codes)
    assert allowed.verdict_words.startswith(f"proven for all trip counts except allowed {codes[0]}: it is a test")
    assert any("is allowed: it is a test" in each for each in allowed.assumptions)
    ignored = checked(UNFENCED, ignore=tuple(codes))
    assert (ignored.verdict, ignored.exceptions[0]) == ("proven", f"ignored {codes[0]}")
    assert checked(UNFENCED, select=("TX",)).exceptions and not checked(UNFENCED, select=("PX",)).exceptions
    assert checked(UNFENCED, select=("PX",)).verdict == "refuted"


def test_a_run_that_ends_at_what_is_set_aside_leaves_the_rest_unknown() -> None:
    codes = {each.code for each in checked(HANGS).errors}
    assert codes
    kernel = checked(HANGS, ignore=tuple(codes))
    assert kernel.verdict == "unknown" and kernel.reasons and kernel.suppressed and not kernel.exceptions


def test_a_mistake_in_the_options_is_an_error_of_the_report() -> None:
    report = check_text(UNFENCED, "k.ptx", options=CheckOptions(allow={"XX1": "no such rule"}))
    assert "there is no rule XX1" in report.error and report.kernels == ()


def test_findings_of_the_file_as_a_whole_are_set_aside_too() -> None:
    ring = (BUGS.parents[1] / "examples" / "ring.ptx").read_text(encoding="utf-8")
    text = ring.replace("ret;", "// tilewright: allow[PX101] because it is a test\nret;", 1)
    assert [each.code for each in check_text(text, "k.ptx").findings] == ["AW001"]
    assert check_text(text, "k.ptx", options=CheckOptions(ignore=("AW",))).findings == ()
