"""The program's lines of a finding in every format, the calls of inlined code among them."""

from __future__ import annotations

import dataclasses
import json

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Repair, SourceEdit, SourcePlace
from tilewright.base.span import Span
from tilewright.report.findings.check_page import check_page
from tilewright.report.findings.findings_json import finding_to_json
from tilewright.report.findings.github import workflow_commands
from tilewright.report.findings.origin_text import call_words
from tilewright.report.findings.sarif import sarif_log
from tilewright.report.html import render_page
from tilewright.report.text import render_finding

INNER = SourcePlace(Span("load.cuh", 12, 3, "  asm volatile(...);"), "load")
OUTER = SourcePlace(Span("kernel.cu", 88, 5, "    load(tile, source, bar);"), "main_loop", certain=False)
OTHER = Span("kernel.cu", 91, 1, "sum += tile[lane];")
FINDING = Diagnostic(
    "MB111",
    "copy-not-awaited",
    "message",
    Span("k.ptx", 124, 2, "cp.async.bulk;"),
    Span("k.ptx", 156, 2, "ld.shared.f32;"),
    origin=OUTER.span,
    stack=(INNER, OUTER),
    other_origin=OTHER,
)
CALLS = "load.cuh:12:3 (load), probably inlined at kernel.cu:88:5 (main_loop)"


def test_calls_in_words() -> None:
    assert call_words((INNER, OUTER)) == CALLS and call_words(()) == ""


def test_text_has_both_places_with_their_lines() -> None:
    lines = [line.strip() for line in render_finding(FINDING).split("\n")]
    at = lines.index("= compiled from kernel.cu:88:5 (main_loop)")
    assert lines[at + 1 : at + 5] == [
        "load(tile, source, bar);",
        CALLS,
        "= the other place compiled from kernel.cu:91",
        "sum += tile[lane];",
    ]


def test_where_the_programs_line_is_the_place_the_calls_are_left() -> None:
    finding = Diagnostic("MB111", "copy-not-awaited", "message", OUTER.span, stack=(INNER, OUTER))
    assert f"= compiled from {CALLS}" in render_finding(finding)


def test_json_has_the_stack() -> None:
    found = finding_to_json(FINDING)
    assert (found["origin_line"], found["origin_text"]) == (88, "load(tile, source, bar);")
    assert found["origin_stack"] == [
        {"file": "load.cuh", "line": 12, "column": 3, "text": INNER.span.text, "function": "load", "certain": True},
        {"file": "kernel.cu", "line": 88, "column": 5, "text": OUTER.span.text, "function": "main_loop",
         "certain": False},
    ]  # fmt: skip
    assert (found["conflicts_with_origin_line"], found["conflicts_with_origin_stack"]) == (91, [])


def test_sarif_has_related_locations_and_a_stack() -> None:
    log = json.loads(json.dumps(sarif_log([FINDING], version="1")))
    (result,) = log["runs"][0]["results"]
    places = [(each["physicalLocation"]["region"]["startLine"], each["message"]["text"])
              for each in result["relatedLocations"]]  # fmt: skip
    assert places == [
        (156, "conflicts with this"),
        (88, "compiled from this"),
        (12, "this was inlined"),
        (91, "the other place compiled from this"),
    ]
    (stack,) = result["stacks"]
    lines = [each["location"]["physicalLocation"]["region"]["startLine"] for each in stack["frames"]]
    assert lines == [12, 88] and CALLS in stack["message"]["text"]
    assert stack["frames"][0]["location"]["logicalLocations"][0]["fullyQualifiedName"] == "load"


def test_page_and_annotations_have_the_calls() -> None:
    report = FileReport("k.ptx", kernels=(KernelReport("k", "sm_90a", "refuted", findings=(FINDING,)),))
    page = render_page(check_page((report,), ""))
    assert CALLS in page and "the other place compiled from kernel.cu:91" in page and "sum += tile[lane];" in page
    (line,) = workflow_commands((report,))
    assert f"compiled from kernel.cu:88:5 (main_loop); {CALLS}" in line.replace("%0A", "\n")


def test_every_format_says_a_repair_in_terms_of_the_program() -> None:
    words = "after kernel.cu:88: insert __syncthreads();"
    line = FINDING.primary
    assert line is not None
    repair = Repair(
        "wait", ((line, f"{line.text}\nbar.sync 0;"),), rechecked=True, in_source=(SourceEdit(OUTER.span, words),)
    )
    finding = dataclasses.replace(FINDING, repair=repair)
    report = (FileReport("k.ptx", kernels=(KernelReport("k", "sm_90a", "refuted", findings=(finding,)),)),)
    said = f"in the source, {words}"
    assert said in render_finding(finding) and said in render_page(check_page(report, ""))
    assert said in workflow_commands(report)[0]
    (result,) = json.loads(json.dumps(sarif_log([finding], version="1")))["runs"][0]["results"]
    assert result["fixes"][0]["description"]["text"] == f"wait; {said}"
    found = finding_to_json(finding)["repair"]
    assert isinstance(found, dict) and found["in_source"] == [
        {"file": "kernel.cu", "line": 88, "column": 5, "text": OUTER.span.text, "words": words}
    ]
