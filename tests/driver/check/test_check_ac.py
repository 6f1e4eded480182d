"""Texts of the `ac` dialect are proven, refuted at their lines, or refused; random edits never end in a fault."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ac_edits import edited
from tests.ac_samples import NAMES, modules_of, target_of

from tilewright.base.check_report import KernelReport
from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.check.sources.text_file import is_ac
from tilewright.driver.compile.lower_text import lower_text
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.ir.ac.text import ac_text

PROGRAM = Path(__file__).parents[3] / "docs/rules/examples/programs/two-consumers.ac.mlir"
TEXT = PROGRAM.read_text("utf-8")
HOPPER = CheckOptions(target="sm_90a")


def kernel_of(text: str, options: CheckOptions = HOPPER) -> KernelReport:
    report = check_text(text, "k.ac.mlir", options=options)
    assert not report.error, report.error
    (kernel,) = report.kernels
    return kernel


def test_a_correct_text_is_proven_for_all_trip_counts() -> None:
    kernel = kernel_of(TEXT)
    assert (kernel.name, kernel.target, kernel.verdict) == ("gemm", "sm_90a", "proven")
    assert kernel.scope == "all trip counts" and kernel.claims and kernel.assumptions


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_what_the_compiler_emits_is_proven_as_text(name: str) -> None:
    report = check_text(ac_text(modules_of(name), target_of(name)), "k.ac.mlir")
    assert not report.error and {kernel.verdict for kernel in report.kernels} == {"proven"}


def test_a_finding_is_at_the_line_that_is_wrong() -> None:
    kernel = kernel_of(TEXT.replace("empty_arrivals = 2", "empty_arrivals = 3"))
    (finding,) = kernel.errors
    line = next(number for number, each in enumerate(TEXT.split("\n"), start=1) if "ac.ring @ab" in each)
    assert kernel.verdict == "refuted" and finding.code == "MB009" and finding.primary is not None
    assert (finding.primary.file, finding.primary.line, finding.primary.column) == ("k.ac.mlir", line, 5)
    assert "empty_arrivals = 3" in finding.primary.text
    assert finding.conflicts_with is not None and "ac.mbarrier.arrive %" in finding.conflicts_with.text


def test_a_finding_that_the_text_allows_is_no_proof() -> None:
    text = TEXT.replace("empty_arrivals = 2", "empty_arrivals = 3")
    allowed = text.replace("    %ab = ", "    // tilewright: allow[MB009] because to see\n    %ab = ")
    kernel = kernel_of(allowed)
    assert kernel.verdict == "unknown" and [each.finding.code for each in kernel.suppressed] == ["MB009"]


def test_what_the_proof_does_not_follow_is_unknown_at_its_line() -> None:
    kernel = kernel_of(TEXT.replace("ac.cta.sync", "ac.cta.sync attributes {note = 1 : i32}"))
    assert kernel.verdict == "unknown" and any("k.ac.mlir:" in reason for reason in kernel.reasons)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m = 64, n = 128, steps", f"m = {1 << 40}, n = 128, steps"),
        ("warpgroup128, count = 2", f"warpgroup128, count = {1 << 40}"),
    ],
)
def test_what_is_absurdly_large_is_not_enumerated(old: str, new: str) -> None:
    assert old in TEXT
    kernel = kernel_of(TEXT.replace(old, new))
    assert kernel.verdict != "proven" and not kernel.stopped and kernel.seconds < 5


def test_the_target_is_given_or_named() -> None:
    named = TEXT.replace("builtin.module {", 'builtin.module attributes {ac.target = "sm_90a"} {')
    assert kernel_of(named, CheckOptions()).target == "sm_90a"
    assert "names no target" in check_text(TEXT, "k.ac.mlir").error
    other = check_text(named, "k.ac.mlir", options=CheckOptions(target="sm_100a"))
    (refuted,) = other.kernels
    assert refuted.verdict == "refuted" and {finding.code for finding in refuted.findings} == {"WG010"}
    packed = check_text(named, "k.ac.mlir", options=CheckOptions(target="gfx942"))
    assert "lacks the products" in packed.error and "sm_90a" in packed.remedy
    assert "unknown target" in check_text(TEXT, "k.ac.mlir", options=CheckOptions(target="sm_91")).error


def test_options_of_other_texts_are_refused() -> None:
    launch = LaunchFile("launch.json", None, None, None, None, None, None, ())
    assert "needs no launch" in check_text(TEXT, "k.ac.mlir", launch=launch, options=HOPPER).error
    shaped, other = replace(HOPPER, block=(128, 1, 1)), replace(HOPPER, entry="other")
    assert "judged for all launches" in check_text(TEXT, "k.ac.mlir", options=shaped).error
    assert "no kernel other" in check_text(TEXT, "k.ac.mlir", options=other).error
    ring = (Path(__file__).parents[3] / "examples/ring.ptx").read_text("utf-8")
    refused = check_text(ring, "ring.ptx", options=HOPPER)
    assert "its target is its own" in refused.error and refused.remedy == "drop --target"


def test_what_can_not_be_read_is_an_error_with_line_and_column() -> None:
    report = check_text(TEXT.replace("stages = 4", "stage = 4"), "k.ac.mlir", options=HOPPER)
    assert report.error == "ac.ring has no attribute stage; did you mean stages?"
    assert (report.error_line, report.error_column) == (5, 24) and report.remedy


def test_texts_are_told_apart() -> None:
    assert is_ac("", "k.ac.mlir") and is_ac(TEXT) and is_ac('  "ac.kernel"() ({\n') and is_ac(TEXT, "k.mlir")
    assert not is_ac(TEXT, "k.ptx") and not is_ac("module {\n}\n", "k.mlir") and not is_ac("// ac.kernel\n")


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(40))
def test_edited_texts_end_in_no_fault(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(5):
        name = source.choice(NAMES)
        text = edited(ac_text(modules_of(name), target_of(name)), source)
        try:
            lowered = lower_text(text, "k.ac.mlir", budget_seconds=5.0)
        except TilewrightError as error:
            assert "does not fit its elements" in error.message
            continue
        report = lowered.report
        assert "fault of tilewright" not in report.error
        assert not report.error or (report.remedy and report.error_line)
        assert not [kernel.defect for kernel in report.kernels if kernel.defect]
        assert lowered.ptx is None or all(kernel.verdict == "proven" for kernel in report.kernels)
