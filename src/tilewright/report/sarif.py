"""What are findings as a SARIF 2.1.0 log, which code hosts and editors show beside the source?

Source: OASIS, Static Analysis Results Interchange Format 2.1.0. One run; each finding a result; the place that it
conflicts with a related location; the interleaving a code flow of one thread; a repair with edits a fix, whose edits
replace whole lines. Not handled: baselines, suppressions, embedded artifacts. Checked by: tests/report/test_sarif.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span

SARIF_VERSION = "2.1.0"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Level.ERROR: "error", Level.REVIEW: "warning"}


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """What a log says of a rule: code, kebab-case name, one line, the whole rule, how a violation is mended."""

    code: str
    name: str
    summary: str
    rule: str
    remedy: str


def sarif_log(
    findings: Sequence[Diagnostic], *, version: str, rules: Iterable[RuleDescription] = ()
) -> dict[str, object]:
    """The log of one run of Tilewright `version`, as JSON values. rules: of which those that a finding cites are
    described; a finding whose rule is not among them is described by itself."""
    described = {rule.code: rule for rule in rules}
    codes = sorted({finding.code for finding in findings})
    names = {finding.code: finding for finding in findings}
    return {
        "$schema": SARIF_SCHEMA,
        "version": SARIF_VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Tilewright",
                        "version": version,
                        "rules": [_rule(described.get(code), names[code]) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, codes.index(finding.code)) for finding in findings],
            }
        ],
    }


def _rule(rule: RuleDescription | None, finding: Diagnostic) -> dict[str, object]:
    if rule is None:
        return {"id": finding.code, "name": finding.name, "shortDescription": {"text": finding.message}}
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.rule},
        "help": {"text": rule.remedy},
    }


def _result(finding: Diagnostic, rule_index: int) -> dict[str, object]:
    text = finding.message if not finding.source else f"{finding.message} [{finding.source}]"
    if finding.repair is not None:
        text += f" Repair: {finding.repair.title}"
    result: dict[str, object] = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.level],
        "message": {"text": text},
        "locations": [_location(finding.primary)] if finding.primary is not None else [],
    }
    if finding.conflicts_with is not None:
        related = _location(finding.conflicts_with)
        result["relatedLocations"] = [{"id": 1, **related, "message": {"text": "conflicts with this"}}]
    if finding.interleaving:
        steps = [{"location": {"message": {"text": step}}} for step in finding.interleaving]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if finding.repair is not None and finding.repair.edits:
        result["fixes"] = [_fix(finding.repair)]
    return result


def _location(span: Span) -> dict[str, object]:
    region: dict[str, object] = {"startLine": span.line, "startColumn": span.column}
    if span.text:
        region["snippet"] = {"text": span.text}
    return {"physicalLocation": {"artifactLocation": {"uri": artifact_uri(span.file)}, "region": region}}


def _fix(repair: Repair) -> dict[str, object]:
    by_file: dict[str, list[dict[str, object]]] = {}
    for span, replacement in repair.edits:
        edit: dict[str, object] = {
            "deletedRegion": {"startLine": span.line, "endLine": span.line},
            "insertedContent": {"text": replacement},
        }
        by_file.setdefault(span.file, []).append(edit)
    return {
        "description": {"text": repair.title},
        "artifactChanges": [
            {"artifactLocation": {"uri": artifact_uri(file)}, "replacements": edits} for file, edits in by_file.items()
        ],
    }


def artifact_uri(file: str) -> str:
    """A file's name as a URI: absolute paths as file:, others relative, with what a URI can't hold escaped."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
