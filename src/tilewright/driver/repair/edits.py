"""What does a text look like after a finding's repair? Edits applied by lines, and the difference as a patch.

An edit is a place and what stands there instead: the whole line of the place is replaced by the edit's text, which may
have several lines, or none to drop it. Edits of one repair belong together; repairs that edit the same line are
alternatives, of which the first is taken. Checked by: tests/driver/repair/test_edits.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tilewright.base.check_report import FileReport
from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span


def apply_edits(text: str, edits: Iterable[tuple[Span, str]]) -> str:
    """`text` with each edit's line replaced. Raises ValueError for a line that the text does not have, and for two
    edits of one line."""
    lines = text.split("\n")
    seen: set[int] = set()
    dropped: set[int] = set()
    for span, replacement in edits:
        index = span.line - 1
        if not 0 <= index < len(lines):
            raise ValueError(f"there is no line {span.line}")
        if index in seen:
            raise ValueError(f"line {span.line} is edited twice")
        seen.add(index)
        if not replacement:
            dropped.add(index)
        ending = "\r" if lines[index].endswith("\r") and not replacement.endswith("\r") else ""
        lines[index] = replacement.rstrip("\n").replace("\n", f"{ending}\n") + ending
    return "\n".join(line for index, line in enumerate(lines) if index not in dropped)


def rechecked_repairs(report: FileReport) -> tuple[Repair, ...]:
    """The repairs of a report that were checked again and edit lines of their own, in the order of their findings."""
    taken: set[int] = set()
    chosen: list[Repair] = []
    for finding in _errors_first(finding for kernel in report.kernels for finding in kernel.findings):
        repair = finding.repair
        if repair is None or not repair.rechecked or not repair.edits or repair in chosen:
            continue
        lines = {span.line for span, _ in repair.edits}
        if lines & taken:
            continue
        taken |= lines
        chosen.append(repair)
    return tuple(chosen)


def repaired_text(report: FileReport) -> str:
    """The report's text with all its re-checked repairs."""
    return apply_edits(report.text, (edit for repair in rechecked_repairs(report) for edit in repair.edits))


def patch(before: str, after: str, path: str) -> str:
    """The difference of two texts of one file as a unified diff; empty where there is none."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _errors_first(findings: Iterable[Diagnostic]) -> Sequence[Diagnostic]:
    return sorted(findings, key=lambda finding: finding.level is not Level.ERROR)
