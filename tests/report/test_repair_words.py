"""Every form of a report says what remains after a repair."""

from __future__ import annotations

import json
from dataclasses import replace

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.span import Span
from tilewright.report.findings.check_page import check_page
from tilewright.report.findings.findings_json import finding_to_json
from tilewright.report.findings.github import workflow_commands
from tilewright.report.findings.sarif import check_to_sarif
from tilewright.report.html import render_page
from tilewright.report.text import render_finding, repair_words

REPAIR = Repair("add a fence", ((Span("k.ptx", 1, text="one"), "one\nfence.proxy.async;"),), rechecked=True)


def finding(remaining: int) -> Diagnostic:
    repair = replace(REPAIR, remaining=remaining)
    return Diagnostic("PX101", "write-not-fenced", "not fenced", Span("k.ptx", 1, text="one"), repair=repair)


def file_report(remaining: int) -> FileReport:
    return FileReport("k.ptx", "one\n", (KernelReport("k", "sm_90a", "refuted", findings=(finding(remaining),)),))


def forms(remaining: int) -> dict[str, str]:
    files = (file_report(remaining),)
    return {
        "text": render_finding(finding(remaining)),
        "html": render_page(check_page(files, footer="")),
        "github": "\n".join(workflow_commands(files)),
        "sarif": json.dumps(check_to_sarif(files, version="1", rules=())),
    }


def test_every_form_says_what_remains() -> None:
    for name, form in forms(2).items():
        assert "fixes this finding; 2 others remain" in form, name
        assert "clean" not in form or name == "html", name
    for name, form in forms(0).items():
        assert "remain" not in form, name


def test_the_words() -> None:
    assert repair_words(replace(REPAIR, remaining=1)).endswith("(checked again: fixes this finding; 1 other remains)")
    assert repair_words(REPAIR).endswith("(checked again: clean)")
    assert repair_words(replace(REPAIR, rechecked=False)) == "add a fence"


def test_json_counts_what_remains() -> None:
    documents = [finding_to_json(finding(count))["repair"] for count in (0, 3)]
    assert [document["remaining"] for document in documents if isinstance(document, dict)] == [0, 3]
