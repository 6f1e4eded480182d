"""Reports of compiled kernels that are proven are short: a reader sees verdicts, assumptions, and reviews by group.

Two compilers' kernels rely on contested points at many places; each point is one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tilewright.base.check_report import FileReport
from tilewright.driver.check.check import check_file
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.report.findings.check_text import render_check
from tilewright.report.findings.finding_groups import grouped_findings
from tilewright.report.findings.finding_lines import View

CORPUS = Path(__file__).parent.parent / "data" / "ptx" / "corpus"
FILES_MOST, LINES_MOST = 15, 60
KERNEL_LINES_MOST = 12
WITHOUT_LAUNCH = ("triton/sm_90a/matmul_tma_s2.ptx", "triton/sm_100a/matmul_tma_s3.ptx", "triton/sm_90a/softmax.ptx")


@cache
def with_launches() -> tuple[FileReport, ...]:
    """Kernels of Triton and Gluon, each with its launch."""
    paths = [path for folder in ("triton", "gluon") for path in sorted((CORPUS / folder).rglob("*.ptx"))]
    options = CheckOptions(budget_seconds=1_000)
    return tuple(
        check_file(str(path), launch=read_launch_file(str(path.with_suffix(".launch.json"))), options=options)
        for path in paths
    )


def test_fifteen_proven_kernels_fit_on_a_screen() -> None:
    reports = with_launches()
    assert len(reports) > FILES_MOST and all(each.kernels[0].verdict == "proven" for each in reports)
    worst = sorted(reports, key=lambda each: len(render_check((each,)).splitlines()))[-FILES_MOST:]
    assert sum(len(each.kernels[0].findings) for each in worst) > 100, "the kernels have reviews to group"
    shown = render_check(worst).splitlines()
    assert FILES_MOST < len(shown) <= LINES_MOST
    assert shown[-1] == "15 kernels checked: 15 proven" and render_check(worst, View(quiet=True)) == ""


def test_no_proven_kernel_takes_more_than_a_dozen_lines() -> None:
    assert_a_dozen_lines_each(with_launches())


@pytest.mark.full
def test_nor_does_one_that_is_proven_without_a_launch() -> None:
    options = CheckOptions(budget_seconds=1_000)
    assert_a_dozen_lines_each([check_file(str(CORPUS / name), options=options) for name in WITHOUT_LAUNCH])


def assert_a_dozen_lines_each(reports: Sequence[FileReport]) -> None:
    for report in reports:
        (kernel,) = report.kernels
        shown = render_check((report,)).splitlines()
        assert kernel.verdict == "proven" and len(shown) <= KERNEL_LINES_MOST, report.path
        assert shown[0].startswith(f"{report.path}: {kernel.name} ({kernel.target}): proven for ")


def test_every_review_is_counted_in_the_line_of_its_group() -> None:
    for report in with_launches():
        (kernel,) = report.kernels
        shown = [line for line in render_check((report,)).splitlines() if line.startswith("  review[")]
        groups = grouped_findings(kernel.findings)
        assert len(shown) == len(groups)
        for group, line in zip(groups, shown, strict=True):
            assert f"[{group.first.code}]" in line and str(group.first.primary) in line
            assert group.count == 1 or f"{group.count} findings, " in line
            assert f"contested: {group.first.contested}" in line or not group.first.contested


def test_everything_is_still_there_for_who_asks() -> None:
    report = with_launches()[0]
    whole = render_check((report,), View(everything=True))
    assert whole.count("review[") == len(report.kernels[0].findings)
    assert all(claim in whole for claim in report.kernels[0].claims)
