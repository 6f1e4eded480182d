"""SARIF logs: the parts that readers of the format require (OASIS SARIF 2.1.0, sections 3.13 to 3.57)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span
from tilewright.report.findings.sarif import RuleDescription, artifact_uri, sarif_log

FIRST = Diagnostic(
    "PX101",
    "write-not-fenced",
    "a store reads unfenced bytes",
    Span("<broken gemm.ptx>", 333, 2, "\tcp.async.bulk;"),
    Span("<broken gemm.ptx>", 306, 2, "\tst.shared;"),
    ("write", "copy"),
    "PTX ISA 8.6",
    Repair("fence", ((Span("<broken gemm.ptx>", 307, 1, "bar.sync 1;"), "fence.proxy.async;\nbar.sync 1;"),)),
)
SECOND = Diagnostic("LV101", "claim-differs", "three stages, not four", level=Level.REVIEW)
RULE = RuleDescription("PX101", "write-not-fenced", "no fence", "Each writer fences.", "Fence.")


def run_of(findings: list[Diagnostic]) -> dict[str, Any]:
    log: Any = json.loads(json.dumps(sarif_log(findings, version="0.1.0", rules=(RULE,))))
    assert log["version"] == "2.1.0" and "sarif-2.1.0" in log["$schema"]
    (run,) = log["runs"]
    return run


def test_every_result_points_at_its_rule() -> None:
    run = run_of([FIRST, SECOND, FIRST])
    rules = run["tool"]["driver"]["rules"]
    assert [result["ruleId"] for result in run["results"]] == ["PX101", "LV101", "PX101"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
    described = next(rule for rule in rules if rule["id"] == "PX101")
    assert described["fullDescription"]["text"] == "Each writer fences."


def test_places_runs_and_fixes() -> None:
    (result,) = run_of([FIRST])["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == 333 and place["region"]["startColumn"] == 2
    assert place["artifactLocation"]["uri"] == "%3Cbroken%20gemm.ptx%3E"
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 306
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"] for step in steps] == ["write", "copy"]
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["deletedRegion"] == {"startLine": 307, "endLine": 307}


def test_a_finding_without_a_place() -> None:
    (result,) = run_of([SECOND])["results"]
    assert result["locations"] == [] and result["level"] == "warning"
    assert "codeFlows" not in result and "fixes" not in result


def test_no_findings_are_a_valid_log() -> None:
    assert run_of([])["results"] == []


@pytest.mark.parametrize(
    ("file", "uri"),
    [("a/b.ptx", "a/b.ptx"), ("/a b/c.ptx", "file:///a%20b/c.ptx"), ("<k>", "%3Ck%3E")],
)
def test_names_of_files_become_uris(file: str, uri: str) -> None:
    assert artifact_uri(file) == uri
