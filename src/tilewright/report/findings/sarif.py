"""What are findings as a SARIF 2.1.0 log, which code hosts and editors show beside the source?

Source: OASIS, Static Analysis Results Interchange Format 2.1.0. One run; each finding a result; the place that it
conflicts with a related location; the interleaving a code flow of one thread; a repair with edits a fix, whose edits
replace whole lines; a finding that the source or the user sets aside a suppressed result. Kernels that are not decided,
and files that could not be checked, are notifications of the run: they are no results. A result is recognised again
after edits above it by a fingerprint of its rule and its line's text. The program's lines are related locations too,
and those of inlined code a stack besides. Not handled: baselines, embedded artifacts.
Checked by: tests/report/findings/test_sarif.py.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tilewright.base.check_report import FileReport, Suppressed, all_findings
from tilewright.base.diagnostic import Diagnostic, Level, Repair, SourcePlace
from tilewright.base.span import Span
from tilewright.report.findings.beside_text import beside_words
from tilewright.report.findings.origin_text import call_words, in_source_words, origins
from tilewright.report.findings.reasons import REASONS_ON_A_PAGE, shown_reasons
from tilewright.report.findings.rule_links import rule_address
from tilewright.report.text import remaining_words

SARIF_VERSION = "2.1.0"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_STEP_PLACE = re.compile(r"\(([^()]+):(\d+):(\d+)\)")
_LEVELS = {Level.ERROR: "error", Level.REVIEW: "warning"}


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """What a log says of a rule: code, kebab-case name, one line, the whole rule, how a violation is fixed."""

    code: str
    name: str
    summary: str
    rule: str
    remedy: str


def sarif_log(
    findings: Sequence[Diagnostic],
    *,
    version: str,
    rules: Iterable[RuleDescription] = (),
    suppressed: Sequence[Suppressed] = (),
    notifications: Sequence[dict[str, object]] = (),
    successful: bool = True,
) -> dict[str, object]:
    """The log of one run of Tilewright `version`, as JSON values. rules: of which those that a finding cites are
    described; a finding whose rule is not among them is described by itself. successful: no input was left out."""
    described = {rule.code: rule for rule in rules}
    everything = [*findings, *(each.finding for each in suppressed)]
    codes = sorted({finding.code for finding in everything})
    names = {finding.code: finding for finding in everything}
    results = [_result(finding, codes.index(finding.code)) for finding in everything]
    for result, each in zip(results[len(findings) :], suppressed, strict=True):
        result["suppressions"] = [
            {"kind": "inSource", "justification": each.reason}
            if each.by == "source"
            else {"kind": "external", "justification": each.reason or "ignored by --select or --ignore"}
        ]
    seen: Counter[str] = Counter()
    for result, finding in zip(results, everything, strict=True):
        fingerprint = _fingerprint(finding)
        seen[fingerprint] += 1
        result["partialFingerprints"] = {"tilewright/v1": f"{fingerprint}:{seen[fingerprint]}"}
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
                "invocations": [{"executionSuccessful": successful, "toolExecutionNotifications": list(notifications)}],
                "results": results,
            }
        ],
    }


def check_to_sarif(
    files: Sequence[FileReport], *, version: str, rules: Iterable[RuleDescription] = ()
) -> dict[str, object]:
    """The log of a check. Raises nothing: a file that could not be checked is a notification."""
    notifications: list[dict[str, object]] = []
    for file in files:
        if file.error:
            text = f"{file.error} ({file.remedy})" if file.remedy else file.error
            notifications.append(_notification("error", text, file.path, file.error_line, file.error_column))
        for kernel in file.kernels:
            if kernel.verdict == "unknown":
                reasons, left = shown_reasons(kernel.reasons, REASONS_ON_A_PAGE)
                more = (f"and {left} more reasons",) if left else ()
                lines = (f"{kernel.name} is neither proven nor refuted", *reasons, *more, *beside_words(kernel))
                text = "\n".join(lines)
                notifications.append(_notification("warning", text, file.path, None))
        notifications += [_notification("note", note, file.path, None) for note in file.notes]
    return sarif_log(
        all_findings(files),
        version=version,
        rules=rules,
        suppressed=[each for file in files for kernel in file.kernels for each in kernel.suppressed],
        notifications=notifications,
        successful=not any(file.error for file in files),
    )


def _notification(level: str, text: str, path: str, line: int | None, column: int | None = None) -> dict[str, object]:
    location: dict[str, object] = {"artifactLocation": {"uri": artifact_uri(path)}}
    if line is not None:
        location["region"] = {"startLine": line} | ({"startColumn": column} if column is not None else {})
    return {"level": level, "message": {"text": text}, "locations": [{"physicalLocation": location}]}


def _fingerprint(finding: Diagnostic) -> str:
    """The same for the same rule at the same text, wherever that stands in its file."""
    texts = [" ".join(span.text.split()) for span in (finding.primary, finding.conflicts_with) if span is not None]
    return hashlib.sha256("\n".join((finding.code, *texts)).encode("utf-8", "replace")).hexdigest()[:32]


def _rule(rule: RuleDescription | None, finding: Diagnostic) -> dict[str, object]:
    if rule is None:
        return {"id": finding.code, "name": finding.name, "shortDescription": {"text": finding.message}}
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.rule},
        "help": {"text": rule.remedy},
        "helpUri": rule_address(rule.code),
    }


def _result(finding: Diagnostic, rule_index: int) -> dict[str, object]:
    text = finding.message if not finding.source else f"{finding.message} [{finding.source}]"
    if finding.repair is not None:
        text += f" {'Repair' if finding.repair.edits else 'Help'}: {_title(finding.repair)}"
    result: dict[str, object] = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.level],
        "message": {"text": text},
        "locations": [_location(finding.primary)] if finding.primary is not None else [],
    }
    related: list[dict[str, object]] = []
    if finding.conflicts_with is not None:
        related.append({**_location(finding.conflicts_with), "message": {"text": "conflicts with this"}})
    for words, origin, stack in origins(finding):
        if origin is not None:
            related.append({**_location(origin), "message": {"text": f"{words} this"}})
        related += [
            {**_location(each.span), "message": {"text": "this was inlined" if each is stack[0] else "inlined at this"}}
            for each in stack
            if each.span != origin
        ]
    if related:
        result["relatedLocations"] = [{"id": number, **place} for number, place in enumerate(related, start=1)]
    stacks = [_stack(words, stack) for words, _, stack in origins(finding) if stack]
    if stacks:
        result["stacks"] = stacks
    if finding.interleaving:
        steps = [{"location": location} for location in _step_locations(finding)]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if finding.repair is not None and finding.repair.edits:
        result["fixes"] = [_fix(finding.repair)]
    return result


def _step_locations(finding: Diagnostic) -> list[dict[str, object]]:
    """Each step of the run at the place that it names; one that names none is at that of the step before it."""
    places = [span for span in (finding.primary, finding.conflicts_with) if span is not None]
    locations: list[dict[str, object]] = []
    place = next((_named(step, places) for step in finding.interleaving if _named(step, places)), finding.primary)
    for step in finding.interleaving:
        place = _named(step, places) or place
        locations.append({**(_location(place) if place is not None else {}), "message": {"text": step}})
    return locations


def _named(step: str, places: Sequence[Span]) -> Span | None:
    """The place that a step's text names, as "(kernel.ptx:28:2)"."""
    known = next((place for place in places if f"({place})" in step), None)
    if known is not None:
        return known
    found = _STEP_PLACE.search(step)
    return Span(found[1], int(found[2]), int(found[3])) if found is not None else None


def _location(span: Span) -> dict[str, object]:
    region: dict[str, object] = {"startLine": span.line, "startColumn": span.column}
    if span.text:
        region["snippet"] = {"text": span.text}
    return {"physicalLocation": {"artifactLocation": {"uri": artifact_uri(span.file)}, "region": region}}


def _stack(words: str, stack: Sequence[SourcePlace]) -> dict[str, object]:
    frames: list[dict[str, object]] = []
    for each in stack:
        location = _location(each.span)
        if each.function:
            location["logicalLocations"] = [{"fullyQualifiedName": each.function, "kind": "function"}]
        frames.append({"location": location})
    return {"message": {"text": f"{words} {call_words(stack)}"}, "frames": frames}


def _fix(repair: Repair) -> dict[str, object]:
    by_file: dict[str, list[dict[str, object]]] = {}
    for span, replacement in repair.edits:
        edit: dict[str, object] = {
            "deletedRegion": {"startLine": span.line, "endLine": span.line},
            "insertedContent": {"text": replacement},
        }
        by_file.setdefault(span.file, []).append(edit)
    return {
        "description": {"text": "; ".join((_title(repair), *in_source_words(repair)))},
        "artifactChanges": [
            {"artifactLocation": {"uri": artifact_uri(file)}, "replacements": edits} for file, edits in by_file.items()
        ],
    }


def _title(repair: Repair) -> str:
    """What the edits do, and whether errors remain after them."""
    remaining = remaining_words(repair)
    return f"{repair.title} ({remaining})" if remaining else repair.title


def artifact_uri(file: str) -> str:
    """A file's name as a URI: absolute paths as file:, others relative, with what a URI can't hold escaped."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
