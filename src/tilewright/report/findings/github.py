"""What are findings as GitHub workflow commands, which show beside the lines of a pull request?

Source: GitHub, "Workflow commands for GitHub Actions": `::error file=..,line=..,title=..::message`, with `%`, carriage
return and newline escaped, and in properties `:` and `,` too. What is only for review, and what is unknown, is a
warning. Checked by: tests/report/test_check_report.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.report.findings.beside_text import beside_words
from tilewright.report.findings.origin_text import call_words, in_source_words, origins, place_words
from tilewright.report.findings.reasons import shown_reasons
from tilewright.report.operand_lists import cut_operands
from tilewright.report.text import repair_words


def workflow_commands(files: Iterable[FileReport]) -> list[str]:
    """One command for each finding, each undecided kernel, each note and each file that could not be checked."""
    lines: list[str] = []
    for file in files:
        if file.error:
            message = f"{file.error} ({file.remedy})" if file.remedy else file.error
            lines.append(_command("error", message, file.path, file.error_line, "tilewright", file.error_column))
        for kernel in file.kernels:
            lines += [_finding(finding, kernel.name, file.path) for finding in kernel.findings]
            if kernel.verdict == "unknown":
                lines.append(_unknown(kernel, file.path))
            if kernel.exceptions:
                words = f"{kernel.name}: {kernel.verdict_words}"
                lines.append(_command("notice", words, file.path, None, "proven except for what is set aside"))
        lines += [_finding(finding, "", file.path) for finding in file.findings]
        lines += [_command("notice", note, file.path, None, "tilewright") for note in file.notes]
    return lines


def _finding(finding: Diagnostic, kernel: str, path: str) -> str:
    message = f"{kernel}: {finding.message}" if kernel else finding.message
    if finding.conflicts_with is not None:
        message += f"\nagainst {finding.conflicts_with}"
    for words, origin, stack in origins(finding):
        places = (place_words(origin, stack) if origin is not None else "", call_words(stack))
        message += f"\n{words} {'; '.join(filter(None, places))}"
    message += "".join(f"\n{number}. {step}" for number, step in enumerate(finding.interleaving, start=1))
    if finding.repair is not None:
        word = "repair" if finding.repair.edits else "help"
        message += f"\n{word}: {repair_words(finding.repair)}"
        message += "".join(f"\n{words}" for words in in_source_words(finding.repair))
    span = finding.primary
    severity = "error" if finding.level is Level.ERROR else "warning"
    return _command(
        severity, cut_operands(message),
        span.file if span is not None else path, span.line if span is not None else None,
        f"{finding.code} {finding.name}", span.column if span is not None and span.column > 1 else None,
    )  # fmt: skip


def _unknown(kernel: KernelReport, path: str) -> str:
    reasons, left = shown_reasons(kernel.reasons)
    more = (f"and {left} more reasons",) if left else ()
    message = "\n".join((f"{kernel.name} is neither proven nor refuted", *reasons, *more, *beside_words(kernel)))
    return _command("warning", cut_operands(message), path, None, "unknown")


def _command(word: str, message: str, path: str, line: int | None, title: str, column: int | None = None) -> str:
    properties = [f"file={_property(path)}"]
    if line is not None:
        properties.append(f"line={line}")
    if column is not None:
        properties.append(f"col={column}")
    properties.append(f"title={_property(title)}")
    return f"::{word} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
