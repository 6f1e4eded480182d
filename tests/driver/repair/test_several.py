"""Kernels with several bugs: all of them are fixed, or what is fixed is shown with what remains."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.driver.repair.repaired_kernels import CORRECT, checked, repair_of

from tilewright.base.check_report import FileReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.cli.main import main
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.repair.edits import apply_edits
from tilewright.driver.repair.repair import with_repairs
from tilewright.report.text import repair_words

READ = "\tld.shared.b32 %r15, [%r11];\n"
RELEASE = "\tmbarrier.arrive.shared::cta.b64 _, [%r9];\n"
EARLY = (READ + RELEASE, RELEASE + READ)
TOO_MANY_BYTES = ("_, [%r8], 2048;", "_, [%r8], 4096;")
NO_INIT = ("\t@%p0 mbarrier.init.shared::cta.b64 [full+8], 1;\n", "")
TWO_ARRIVALS = ("init.shared::cta.b64 [full], 1;", "init.shared::cta.b64 [full], 2;")
NO_RELEASE = (RELEASE, "")
OTHER_PARITY = ("[%r9], %r12;", "[%r9], %r3;")
# Both roles write the same word in every iteration: no edit of a line or two orders that.
_WORD = ("\t.shared .align 8 .b8 empty[16];\n", "\t.shared .align 8 .b8 empty[16];\n\t.shared .align 4 .b8 word[4];\n")
BOTH_WRITE = (
    _WORD,
    ("$free:\n", "\tst.shared.b32 [word], %r1;\n$free:\n"),
    (READ, READ + "\tst.shared.b32 [word], %r2;\n"),
)


def seeded(*bugs: tuple[str, str]) -> str:
    text = CORRECT
    for old, new in bugs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "bugs",
    [
        (TOO_MANY_BYTES, EARLY),
        (NO_INIT, TOO_MANY_BYTES),
        (NO_INIT, EARLY),
        (TWO_ARRIVALS, NO_RELEASE),
        (TWO_ARRIVALS, EARLY),
        (OTHER_PARITY, TOO_MANY_BYTES),
        (NO_INIT, TOO_MANY_BYTES, EARLY),
    ],
)
def test_all_bugs_of_a_kernel_are_fixed(bugs: tuple[tuple[str, str], ...]) -> None:
    for bug in bugs:
        assert check_text(seeded(bug), "k.ptx").kernels[0].verdict == "refuted"
    text = seeded(*bugs)
    repair = repair_of(checked(text).kernels[0])
    assert repair is not None and repair.remaining == 0 and repair.title.count("; ") == len(bugs) - 1
    again = check_text(apply_edits(text, repair.edits), "k.ptx")
    assert [kernel.verdict for kernel in again.kernels] == ["proven"]


def in_part() -> tuple[str, FileReport]:
    text = seeded(TOO_MANY_BYTES, *BOTH_WRITE)
    return text, checked(text)


def test_what_is_fixed_is_shown_with_what_remains() -> None:
    text, report = in_part()
    (kernel,) = report.kernels
    finding = next(each for each in kernel.errors if each.repair is not None and each.repair.rechecked)
    repair = finding.repair
    assert repair is not None and finding.primary is not None
    (after,) = check_text(apply_edits(text, repair.edits), "k.ptx").kernels
    assert after.verdict == "refuted" and len(after.errors) == repair.remaining > 0
    assert all(
        each.code != finding.code or each.primary is None or each.primary.line != finding.primary.line
        for each in after.errors
    )
    assert "4096" in "".join(span.text for span, _ in repair.edits)
    assert f"fixes this finding; {repair.remaining} other" in repair_words(repair)


def test_a_bug_that_nothing_fixes_has_no_repair() -> None:
    assert repair_of(checked(seeded(*BOTH_WRITE)).kernels[0]) is None


@pytest.mark.full
def test_nothing_is_shown_in_part_that_ends_a_run_earlier() -> None:
    text, report = in_part()
    plain = checked(text, steps=0)

    def recheck(other: str, kernel: str | None) -> FileReport:
        return check_text(other, "k.ptx", options=CheckOptions(entry=kernel))

    def earlier(other: str, _kernel: str, _launch: object) -> FileReport:
        found = report.kernels[0] if other == text else check_text(seeded(NO_INIT), "k.ptx").kernels[0]
        return FileReport("k.ptx", other, (found,))

    assert report.kernels[0].cut_short
    found = with_repairs(plain, recheck, recheck_at=earlier, steps=REPAIR_STEPS)
    assert repair_of(found.kernels[0]) is None


@pytest.mark.parametrize(("goes_on", "shown"), [("other_parity", False), ("_, [%r8], 2048;", True)])
def test_a_wait_for_another_parity_does_not_hide_a_hang(goes_on: str, shown: bool) -> None:
    """Both edits end the hang and leave a race; the first one, perhaps by not waiting."""
    text = seeded(TOO_MANY_BYTES)
    plain = checked(text, steps=0)
    (hang,) = plain.kernels
    race = Diagnostic("TM101", "async-access-unordered", "a race", Span("k.ptx", 1))
    later = replace(hang, findings=(race,), cut_short=False, reached=hang.reached + 100)
    tried: list[str] = []

    def recheck(other: str, _kernel: str | None, _launch: object = None) -> FileReport:
        tried.append(other)
        return FileReport("k.ptx", other, (later if goes_on in other else hang,))

    assert hang.cut_short
    found = with_repairs(plain, recheck, recheck_at=recheck)
    repair = repair_of(found.kernels[0])
    assert any(goes_on in other for other in tried)
    assert (repair is not None and repair.remaining == 1) is shown


@pytest.mark.full
def test_fix_writes_what_is_fixed_and_says_what_remains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, report = in_part()
    repair = repair_of(report.kernels[0])
    assert repair is not None
    path = tmp_path / "k.ptx"
    path.write_text(text)
    assert main(["check", str(path), "--fix", "--isolated", "--no-cache", "--format", "json"]) == 1
    shown = capsys.readouterr()
    assert path.read_text() == apply_edits(text, repair.edits)
    remain = "1 finding remains" if repair.remaining == 1 else f"{repair.remaining} findings remain"
    assert remain in shown.err
    (kernel,) = json.loads(shown.out)["files"][0]["kernels"]
    assert kernel["verdict"] == "refuted"
