"""What is a finding or a verdict as JSON values?

Stable names, every key always present: a reader need not ask whether one is there. `line` and `conflicts_with_line`
are 1-based, null where a finding has no place; `origin_stack` has the calls of inlined code, the innermost first, and
is empty for code that was not inlined; `remedy` says in words what fixes it, `repair` has edits that do.
Checked by: tests/report/findings/test_findings_json.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.base.diagnostic import Diagnostic, Repair, SourcePlace
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict


def finding_to_json(finding: Diagnostic) -> dict[str, object]:
    """One finding as a JSON object."""
    primary, other = finding.primary, finding.conflicts_with
    return {
        "code": finding.code,
        "name": finding.name,
        "level": finding.level.value,
        "message": finding.message,
        "file": primary.file if primary is not None else None,
        "line": primary.line if primary is not None else None,
        "column": primary.column if primary is not None else None,
        "text": primary.text.strip() if primary is not None else None,
        "conflicts_with_file": other.file if other is not None else None,
        "conflicts_with_line": other.line if other is not None else None,
        "conflicts_with_text": other.text.strip() if other is not None else None,
        "origin_file": finding.origin.file if finding.origin is not None else None,
        "origin_line": finding.origin.line if finding.origin is not None else None,
        "origin_text": finding.origin.text.strip() if finding.origin is not None else None,
        "origin_stack": [_source_place(each) for each in finding.stack],
        "conflicts_with_origin_file": finding.other_origin.file if finding.other_origin is not None else None,
        "conflicts_with_origin_line": finding.other_origin.line if finding.other_origin is not None else None,
        "conflicts_with_origin_text": finding.other_origin.text.strip() if finding.other_origin is not None else None,
        "conflicts_with_origin_stack": [_source_place(each) for each in finding.other_stack],
        "interleaving": list(finding.interleaving),
        "source": finding.source,
        "contested": finding.contested or None,
        "remedy": finding.repair.title if finding.repair is not None else None,
        "repair": repair_to_json(finding.repair) if finding.repair is not None and finding.repair.edits else None,
    }


def repair_to_json(repair: Repair) -> dict[str, object]:
    """A repair as a JSON object; each edit replaces the line at its place. remaining: errors after the edits."""
    return {
        "title": repair.title,
        "cost": repair.cost,
        "rechecked": repair.rechecked,
        "remaining": repair.remaining,
        "edits": [{**_place(span), "replacement": replacement} for span, replacement in repair.edits],
        "in_source": [{**_place(each.place), "words": each.words} for each in repair.in_source],
    }


def findings_to_json(findings: Iterable[Diagnostic]) -> list[dict[str, object]]:
    return [finding_to_json(finding) for finding in findings]


def verdict_to_json(verdict: Verdict) -> dict[str, object]:
    """A verdict as a JSON object; `verdict` is "proven", "refuted" or "unknown"."""
    match verdict:
        case Proven(scope, assumptions, claims):
            return {"verdict": "proven", "scope": scope, "assumptions": list(assumptions), "claims": list(claims)}
        case Refuted(findings):
            return {"verdict": "refuted", "findings": findings_to_json(findings)}
        case Unknown(reasons):
            return {"verdict": "unknown", "reasons": list(reasons)}


def _source_place(place: SourcePlace) -> dict[str, object]:
    return {**_place(place.span), "function": place.function or None, "certain": place.certain}


def _place(span: Span) -> dict[str, object]:
    return {"file": span.file, "line": span.line, "column": span.column, "text": span.text}
