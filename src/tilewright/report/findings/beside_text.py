"""How is the verdict on another text of the same kernel said? As that text's, with what it does not cover.

Checked by: tests/report/findings/test_beside_text.py.
"""

from __future__ import annotations

from tilewright.base.check_report import Beside, KernelReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.report.findings.reasons import shown_reasons

_SHOWN = 3


def beside_words(kernel: KernelReport) -> list[str]:
    """Lines on the text beside this kernel's; none where there is none."""
    beside = kernel.beside
    if beside is None:
        return []
    other = beside.kernel
    lead = f"its {beside.kind} ({beside.path}) is {other.verdict}"
    match other.verdict:
        case "proven":
            return [f"{lead} for {other.scope}: {beside.covers}"]
        case "refuted":
            errors = [f"{each.code} at {each.primary}{_origin(each)}: {each.message}" for each in other.errors]
            return [f"{lead}, before it is lowered: {each}" for each in errors[:_SHOWN]] + _more(len(errors))
        case "unknown":
            reasons, _ = shown_reasons(other.reasons, 1)
            return [f"{lead} as well: {reason}" for reason in reasons[:1]]


def _origin(finding: Diagnostic) -> str:
    return f", compiled from {finding.origin}" if finding.origin is not None else ""


def _more(count: int) -> list[str]:
    return [f"and {count - _SHOWN} more findings of it"] if count > _SHOWN else []


def beside_to_json(beside: Beside | None, kernel: object) -> dict[str, object] | None:
    """kernel: the other text's kernel as JSON."""
    if beside is None:
        return None
    return {"kind": beside.kind, "path": beside.path, "covers": beside.covers, "kernel": kernel}
