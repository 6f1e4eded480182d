"""How is a check's report shown as plain text? Each kernel's findings, then its verdict; at the end a sum.

The first line of a kernel names it and its verdict, so that `grep` finds what is not proven.
Checked by: tests/report/test_check_report.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.report.beside_text import beside_words
from tilewright.report.reasons import REASONS_SHOWN, shown_reasons
from tilewright.report.text import printable, render_finding

Tone = Literal["plain", "heading", "good", "bad", "doubt", "quiet"]
StyledLine = tuple[str, Tone]

_NUMBERS_SHOWN = 6
_TONES: dict[str, Tone] = {"proven": "good", "refuted": "bad", "unknown": "doubt"}


def render_check(files: Sequence[FileReport], *, limit: int | None = 8) -> str:
    """The report as text without colours. limit: findings shown of each kernel, None for all, and for all reasons."""
    return "\n".join(line for line, _ in check_lines(files, limit=limit))


def check_lines(files: Sequence[FileReport], *, limit: int | None = 8) -> list[StyledLine]:
    """The report line by line, each with its tone."""
    lines: list[StyledLine] = []
    for file in files:
        lines += _file_lines(file, limit)
    lines.append((_sum(files), "heading"))
    return lines


def kernel_lines(kernel: KernelReport, path: str, *, limit: int | None = 8) -> list[StyledLine]:
    """One kernel: verdict, findings, what a proof rests on, what would decide."""
    where = f"{printable(path)}: {printable(kernel.name)}" + (f" ({printable(kernel.target)})" if kernel.target else "")
    scope = f" for {kernel.scope}" if kernel.scope else ""
    lines: list[StyledLine] = []
    lines.append((f"{where}: {kernel.verdict}{scope} [{kernel.seconds:.2f} s]", _TONES[kernel.verdict]))
    lines += _finding_lines(kernel.findings, limit)
    for each in kernel.suppressed:
        place = f" at {printable(str(each.finding.primary))}" if each.finding.primary is not None else ""
        lines.append((f"  allowed: {each.finding.code}{place}: {printable(each.reason)}", "quiet"))
    if kernel.launch is not None:
        said = printable(launch_words(kernel.launch))
        lines.append((f"  shown by a launch with {said} (--write-launch FILE writes it)", "plain"))
    lines.extend((f"  {printable(claim)}", "plain") for claim in kernel.claims)
    lines.extend((f"  assuming that {printable(assumption)}", "quiet") for assumption in kernel.assumptions)
    reasons, left = shown_reasons(kernel.reasons, None if limit is None else REASONS_SHOWN)
    lines.extend((f"  not decided: {printable(reason)}", "plain") for reason in reasons)
    if left:
        lines.append((f"  and {left} more reasons (--all shows them)", "quiet"))
    lines.extend((f"  {printable(words)}", "plain") for words in beside_words(kernel))
    return lines


def launch_words(document: Mapping[str, object]) -> str:
    """What a launch file says of CTAs, threads and numbers, in a line."""
    words = [f"{name} {_extents(document.get(name))}" for name in ("grid", "block", "cluster")]
    params = document.get("params")
    numbers: list[str] = []
    for index, param in enumerate(cast("list[dict[str, object]]", params) if isinstance(params, list) else []):
        if param.get("kind") in ("i32", "i64"):
            numbers.append(f"parameter {index} = {param.get('value')}")
    left = len(numbers) - _NUMBERS_SHOWN
    more = [f"{left} more number{'s' if left > 1 else ''}"] if left > 0 else []
    return ", ".join((*words, *numbers[:_NUMBERS_SHOWN], *more))


def _extents(value: object) -> str:
    return "x".join(str(each) for each in cast("list[object]", value)) if isinstance(value, list) else "unknown"


def _file_lines(file: FileReport, limit: int | None) -> list[StyledLine]:
    if file.error:
        place = f"{file.path}:{file.error_line}" if file.error_line is not None else file.path
        lines: list[StyledLine] = []
        lines.append((f"{printable(place)}: error: {printable(file.error)}", "bad"))
        lines += _finding_lines(file.error_findings, limit)
        if file.remedy:
            lines.append((f"  help: {printable(file.remedy)}", "plain"))
        return lines
    lines = [line for kernel in file.kernels for line in kernel_lines(kernel, file.path, limit=limit)]
    lines += _finding_lines(file.findings, limit)
    lines.extend((f"{printable(file.path)}: note: {printable(note)}", "quiet") for note in file.notes)
    return lines


def _finding_lines(findings: Sequence[Diagnostic], limit: int | None) -> list[StyledLine]:
    # What refutes comes first, whatever the order of discovery.
    ordered = sorted(findings, key=lambda finding: finding.level is not Level.ERROR)
    shown = ordered if limit is None else ordered[:limit]
    lines: list[StyledLine] = []
    for finding in shown:
        tone: Tone = "bad" if finding.level is Level.ERROR else "doubt"
        first, *rest = render_finding(finding).split("\n")
        lines.append((first, tone))
        lines.extend((line, "plain") for line in rest)
    if len(shown) < len(ordered):
        left = len(ordered) - len(shown)
        lines.append((f"and {left} more finding{'s' if left > 1 else ''} (--all shows them)", "quiet"))
    return lines


def _sum(files: Iterable[FileReport]) -> str:
    files = tuple(files)
    kernels = [kernel for file in files for kernel in file.kernels]
    failed = sum(bool(file.error) for file in files)
    parts = [
        f"{count} {word}"
        for word in ("proven", "refuted", "unknown")
        if (count := sum(kernel.verdict == word for kernel in kernels))
    ]
    if failed:
        parts.append(f"{failed} file{'s' if failed > 1 else ''} not checked")
    return f"{len(kernels)} kernel{'' if len(kernels) == 1 else 's'} checked: {', '.join(parts) or 'none'}"
