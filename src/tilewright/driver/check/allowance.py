"""Which findings does a PTX text allow, and why? `// tilewright: allow[MB013] because the barrier is never reused`.

The comment stands on the line of the finding, or alone on the line before it (blank and comment lines between do not
count). Several codes are separated by commas. The reason is part of it: a comment without one allows nothing and is
itself a finding, as is one that names no known rule, and one that allows nothing that was found. An allowed error no
longer refutes, but stays listed.

Comments are read line by line, as an author writes them; inside `/* */` they count too.
Checked by: tests/driver/check/test_allowance.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tilewright.base.check_report import Suppressed
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.rules.typestate_codes import Rule

UNUSED, MALFORMED, UNKNOWN_CODE = "AW001", "AW002", "AW003"

_SOURCE = "tool: allowances in source"
ALLOWANCE_RULES = (
    Rule(UNUSED, "allowance-unused", "a comment allows a finding that is not there",
         "An allowance that allows nothing hides the next mistake at its line.", _SOURCE,
         "The code was fixed and the comment stayed.", "Remove the comment."),
    Rule(MALFORMED, "allowance-malformed", "a comment that allows a finding gives no codes or no reason",
         "Write `// tilewright: allow[CODE] because REASON`; without a reason nothing is allowed.", _SOURCE,
         "`// tilewright: allow[MB013]`.", "Add `because` and the reason."),
    Rule(UNKNOWN_CODE, "allowance-of-unknown-rule", "a comment allows a rule that does not exist",
         "The code between the brackets is one that `tilewright explain` lists.", _SOURCE,
         "`allow[MB999]`.", "Correct the code."),
)  # fmt: skip
"""Rules about allowances themselves. Their findings ask for review."""

_RULES = {rule.code: rule for rule in ALLOWANCE_RULES}
_MENTION = re.compile(r"//.*?\btilewright:\s*allow\b(?P<rest>[^\r\n]*)")
_WHOLE = re.compile(r"\s*\[(?P<codes>[^\]]*)\]\s*because\s+(?P<reason>\S.*)")


@dataclass(frozen=True, slots=True)
class Allowance:
    """One comment. line: its own; covers: the line whose findings it allows, both 1-based."""

    line: int
    covers: int
    codes: tuple[str, ...]
    reason: str
    span: Span


def may_allow(text: str) -> bool:
    """Whether a text has a comment that `allowances` would look at."""
    return "tilewright:" in text


def allowances(text: str, file: str, known: Iterable[str]) -> tuple[tuple[Allowance, ...], tuple[Diagnostic, ...]]:
    """The allowances in a text, and findings about comments that are none. known: the codes of all rules."""
    if not may_allow(text):
        return (), ()
    codes_known = frozenset(known)
    found: list[Allowance] = []
    findings: list[Diagnostic] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        mention = _MENTION.search(line)
        if mention is None:
            continue
        span = Span(file, number, mention.start() + 1, line.rstrip("\r"))
        whole = _WHOLE.match(mention["rest"])
        codes = tuple(code.strip().upper() for code in whole["codes"].split(",") if code.strip()) if whole else ()
        if whole is None or not codes:
            findings.append(_finding(MALFORMED, "this allows nothing: it gives no code or no reason", span))
            continue
        unknown = [code for code in codes if code not in codes_known]
        if unknown:
            findings.append(_finding(UNKNOWN_CODE, f"there is no rule {', '.join(unknown)}", span))
        covers = number if line[: mention.start()].strip() else _next_code_line(lines, number)
        kept = tuple(code for code in codes if code in codes_known)
        if kept:
            found.append(Allowance(number, covers, kept, whole["reason"].strip(), span))
    return tuple(found), tuple(findings)


def _next_code_line(lines: Sequence[str], number: int) -> int:
    """The first line after `number` (both 1-based) that is neither blank nor a comment."""
    for index in range(number, len(lines)):
        stripped = lines[index].strip()
        if stripped and not stripped.startswith("//"):
            return index + 1
    return number + 1


def apply_allowances(
    findings: Iterable[Diagnostic], allowed: Sequence[Allowance]
) -> tuple[tuple[Diagnostic, ...], tuple[Suppressed, ...], frozenset[Allowance]]:
    """Findings that stay, findings that are allowed with the reason, and the allowances that were used.

    A conflict of two places is allowed at either.
    """
    by_place = {(code, allowance.covers): allowance for allowance in allowed for code in allowance.codes}
    kept: list[Diagnostic] = []
    suppressed: list[Suppressed] = []
    used: set[Allowance] = set()
    for finding in findings:
        places = [span.line for span in (finding.primary, finding.conflicts_with) if span is not None]
        allowance = next((by_place[finding.code, line] for line in places if (finding.code, line) in by_place), None)
        if allowance is None:
            kept.append(finding)
        else:
            suppressed.append(Suppressed(finding, allowance.reason))
            used.add(allowance)
    return tuple(kept), tuple(suppressed), frozenset(used)


def unused(allowed: Iterable[Allowance], used: frozenset[Allowance]) -> tuple[Diagnostic, ...]:
    """A finding for each allowance that allowed nothing."""
    return tuple(
        _finding(UNUSED, f"{', '.join(each.codes)} was not found at line {each.covers}", each.span)
        for each in allowed
        if each not in used
    )


def _finding(code: str, message: str, span: Span) -> Diagnostic:
    return Diagnostic(code, _RULES[code].name, message, span, source=_SOURCE, level=Level.REVIEW)
