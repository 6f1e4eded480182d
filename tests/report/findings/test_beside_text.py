"""A verdict on the text beside is said as that text's, in every format."""

from __future__ import annotations

import json

from tilewright.base.check_report import Beside, FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.report.findings.beside_text import beside_words
from tilewright.report.findings.check_json import check_to_json
from tilewright.report.findings.check_page import check_page
from tilewright.report.findings.check_text import render_check
from tilewright.report.findings.github import workflow_commands
from tilewright.report.findings.sarif import check_to_sarif
from tilewright.report.html import render_page

PROVEN = KernelReport("k", "sm_90a", "proven", "all trip counts", ("lowering inserts barriers",))


def _beside(other: KernelReport) -> KernelReport:
    return KernelReport(
        "k", "sm_90a", "unknown", reasons=("a reason",), beside=Beside("TTGIR", "k.ttgir", other, "it covers little")
    )


def test_words_of_each_verdict() -> None:
    finding = Diagnostic("MB107", "name", "message", Span("k.ttgir", 9))
    refuted = KernelReport("k", "sm_90a", "refuted", findings=(finding,) * 5)
    assert beside_words(_beside(PROVEN)) == ["its TTGIR (k.ttgir) is proven for all trip counts: it covers little"]
    assert beside_words(_beside(refuted)) == [
        *["its TTGIR (k.ttgir) is refuted, before it is lowered: MB107 at k.ttgir:9: message"] * 3,
        "and 2 more findings of it",
    ]
    unknown = KernelReport("k", "sm_90a", "unknown", reasons=("an op is not known",))
    assert beside_words(_beside(unknown)) == ["its TTGIR (k.ttgir) is unknown as well: an op is not known"]
    assert beside_words(PROVEN) == []


def test_every_format_has_it() -> None:
    report = (FileReport("k.ptx", "text", (_beside(PROVEN),)),)
    words = "its TTGIR (k.ttgir) is proven for all trip counts: it covers little"
    assert words in render_check(report) and words in render_page(check_page(report, ""))
    assert words in workflow_commands(report)[0] and words in json.dumps(check_to_sarif(report, version="1"))
    (kernel,) = check_to_json(report, tool="t")["files"][0]["kernels"]  # type: ignore[index]
    assert kernel["verdict"] == "unknown" and kernel["beside"]["path"] == "k.ttgir"
    assert (kernel["beside"]["covers"], kernel["beside"]["kernel"]["verdict"]) == ("it covers little", "proven")
    assert kernel["beside"]["kernel"]["beside"] is None
