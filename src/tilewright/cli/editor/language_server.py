"""PTX in an editor: findings as one types, what a line says on hover, repairs as quick fixes.

`tilewright lsp` speaks the Language Server Protocol 3.17 over standard input and output; pygls has the protocol. A text
is checked when it is opened or saved, and when nothing was typed for a moment, in a process of its own: the editor is
answered meanwhile, and only the newest text counts. Settings of `pyproject.toml` and launch files beside the kernel are
used as `tilewright check FOLDER` uses them. Quick fixes are repairs that were checked again, and no others.

Not handled: MLIR; several editors on one server. Checked by: tests/cli/editor/test_language_server.py, over the
protocol.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from tilewright import __version__
from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import DEFAULT_BUDGET_SECONDS, REPAIR_STEPS, CheckOptions
from tilewright.driver.check.settings import find_settings
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.driver.rules.catalog import explain
from tilewright.report.findings.rule_links import rule_address
from tilewright.targets.ptx import instruction_row

PAUSE_SECONDS = 0.7
"""Without typing, after which a text that was changed is checked."""
_NO_SUCH_LINE = 1_000
_SEVERITIES = {Level.ERROR: lsp.DiagnosticSeverity.Error, Level.REVIEW: lsp.DiagnosticSeverity.Information}
_OPCODE = re.compile(r"^\s*(?:\w+:\s*)?(?:@!?%?\w+\s+)?(?P<opcode>[a-z][\w.:]*)")


@dataclass(slots=True)
class Checked:
    """The newest text of a document and the report on it. version: counts texts; task: that waits for a report."""

    version: int = 0
    text: str = ""
    report: FileReport | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)


def checked(text: str, path: str) -> FileReport:
    """The report on a text that may not be saved yet. A mistake in settings or in a launch file is one, too."""
    try:
        settings = find_settings(Path(path).parent)
        launches = tuple(map(read_launch_file, settings.launch_files(path, beside=True)))
    except TilewrightError as error:
        return FileReport(path, text, error=str(error))
    options = CheckOptions(
        settings.isa or "tolerant",
        budget_seconds=settings.budget_seconds or DEFAULT_BUDGET_SECONDS,
        repair_steps=REPAIR_STEPS,
        allow=settings.allow,
        launches=launches,
    )
    return check_text(text, path, options=options)


def diagnostics_of(report: FileReport) -> list[lsp.Diagnostic]:
    """What an editor marks: findings at their lines, kernels that are not decided at their `.entry`."""
    found = [_diagnostic(each, report) for kernel in report.kernels for each in kernel.findings]
    found += [_diagnostic(each, report) for each in (*report.findings, *report.error_findings)]
    if report.error:
        message = report.error + (f" ({report.remedy})" if report.remedy else "")
        found.append(_marked(report, (report.error_line or 1) - 1, message, lsp.DiagnosticSeverity.Error, "error"))
    found += [_undecided(kernel, report) for kernel in report.kernels if kernel.verdict == "unknown"]
    return found


def _diagnostic(finding: Diagnostic, report: FileReport) -> lsp.Diagnostic:
    line = finding.primary.line - 1 if finding.primary is not None else 0
    marked = _marked(report, line, finding.message, _SEVERITIES[finding.level], finding.code)
    marked.code_description = lsp.CodeDescription(rule_address(finding.code))
    places = [("conflicts with this", finding.conflicts_with), ("compiled from this", finding.origin)]
    marked.related_information = [
        lsp.DiagnosticRelatedInformation(
            lsp.Location(Path(place.file).absolute().as_uri(), _line_range(place.line - 1, place.text)), words
        )
        for words, place in places
        if place is not None
    ]
    return marked


def _undecided(kernel: KernelReport, report: FileReport) -> lsp.Diagnostic:
    lines = report.text.split("\n")
    entry = re.compile(rf"\.entry\s+{re.escape(kernel.name)}\b")
    line = next((number for number, text in enumerate(lines) if entry.search(text)), 0)
    message = f"{kernel.name} is neither proven nor refuted: {'; '.join(kernel.reasons[:3])}"
    return _marked(report, line, message, lsp.DiagnosticSeverity.Warning, "unknown")


def _marked(report: FileReport, line: int, message: str, severity: lsp.DiagnosticSeverity, code: str) -> lsp.Diagnostic:
    lines = report.text.split("\n")
    text = lines[line] if 0 <= line < len(lines) else ""
    return lsp.Diagnostic(_line_range(line, text), message, severity, code, source="tilewright")


def _line_range(line: int, text: str) -> lsp.Range:
    """The text of a line without what it is indented by. Columns count UTF-16 units, and PTX is ASCII."""
    begin = len(text) - len(text.lstrip())
    end = len(text.rstrip()) if text.strip() else _NO_SUCH_LINE
    return lsp.Range(lsp.Position(max(line, 0), begin), lsp.Position(max(line, 0), end))


def hover_of(text: str, line: int, report: FileReport | None) -> str:
    """What a line says, in Markdown: the findings that name it, with their rules, and its instruction. May be empty."""
    parts: list[str] = []
    findings = () if report is None else (each for kernel in report.kernels for each in kernel.findings)
    for finding in findings:
        if any(place is not None and place.line == line + 1 for place in (finding.primary, finding.conflicts_with)):
            parts.append(_finding_words(finding))
    lines = text.split("\n")
    found = _OPCODE.match(lines[line]) if 0 <= line < len(lines) else None
    if found is not None:
        parts += _instruction_words(found["opcode"])
    return "\n\n---\n\n".join(parts)


def _finding_words(finding: Diagnostic) -> str:
    words = [f"**{finding.code}** ({finding.level.value}): {finding.message}"]
    words += [f"{number}. {step}" for number, step in enumerate(finding.interleaving, start=1)]
    words += [f"{rule.rule}\n\n*{rule.source}*\n\n{rule.remedy}" for rule in explain(finding.code)[:1]]
    return "\n\n".join(words)


@cache
def _instruction_words(opcode: str) -> list[str]:
    try:
        row, _ = instruction_row(opcode)
    except TilewrightError:
        return []
    return [f"`{row.key}`, {row.effect.replace('_', ' ')}: {row.source}"]


def actions_of(report: FileReport, uri: str, lines: range) -> list[lsp.CodeAction]:
    """Repairs of findings at these lines (0-based) that were checked again."""
    actions: list[lsp.CodeAction] = []
    for finding in (each for kernel in report.kernels for each in kernel.findings):
        repair = finding.repair
        if repair is None or not repair.rechecked or not repair.edits:
            continue
        places = (finding.primary, finding.conflicts_with, *(span for span, _ in repair.edits))
        if not any(place is not None and place.line - 1 in lines for place in places):
            continue
        edits = [_edit(report.text, span, new) for span, new in repair.edits]
        action = lsp.CodeAction(
            f"{finding.code}: {repair.title}",
            lsp.CodeActionKind.QuickFix,
            [_diagnostic(finding, report)],
            is_preferred=True,
            edit=lsp.WorkspaceEdit({uri: edits}),
        )
        actions.append(action)
    return actions


def _edit(text: str, span: Span, new: str) -> lsp.TextEdit:
    """A repair's edit replaces a line; an empty one removes it."""
    line = span.line - 1
    if not new:
        return lsp.TextEdit(lsp.Range(lsp.Position(line, 0), lsp.Position(line + 1, 0)), "")
    ends = len(text.split("\n")[line])
    return lsp.TextEdit(lsp.Range(lsp.Position(line, 0), lsp.Position(line, ends)), new.rstrip("\n"))


class _Server(LanguageServer):
    """The documents that are open, and the process that checks them."""

    def __init__(self) -> None:
        full = lsp.TextDocumentSyncKind.Full
        super().__init__("tilewright", __version__, full)  # pyright: ignore[reportUnknownMemberType]  # of pygls itself
        self.documents: dict[str, Checked] = {}
        self.pool: ProcessPoolExecutor | None = None

    def changed(self, uri: str, text: str, pause_seconds: float) -> None:
        """Check a text, unless another follows within the pause."""
        document = self.documents.setdefault(uri, Checked())
        document.version += 1
        document.text = text
        if document.task is not None:
            document.task.cancel()
        document.task = asyncio.get_running_loop().create_task(self._check(uri, document, pause_seconds))

    async def _check(self, uri: str, document: Checked, pause_seconds: float) -> None:
        await asyncio.sleep(pause_seconds)
        version, text = document.version, document.text
        path = to_fs_path(uri) or uri
        try:
            report = await asyncio.get_running_loop().run_in_executor(self._processes(), checked, text, path)
        except BrokenProcessPool:
            self.pool = None
            report = FileReport(path, text, error="the process that checks ended", remedy="does memory suffice?")
        if self.documents.get(uri) is document and version == document.version:
            document.report = replace(report, text=text)
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics_of(document.report)))

    def _processes(self) -> ProcessPoolExecutor:
        if self.pool is None:
            self.pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        return self.pool

    def closed(self, uri: str) -> None:
        """Forget a document, and what was marked in it."""
        document = self.documents.pop(uri, None)
        if document is not None and document.task is not None:
            document.task.cancel()
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def stopped(self) -> None:
        """End the process that checks."""
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)


def language_server() -> LanguageServer:
    """A server with all that it answers, not started yet."""
    server = _Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.changed(params.text_document.uri, params.text_document.text, 0.0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        text = server.workspace.get_text_document(params.text_document.uri).source
        server.changed(params.text_document.uri, text, PAUSE_SECONDS)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        text = server.workspace.get_text_document(params.text_document.uri).source
        server.changed(params.text_document.uri, text, 0.0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = server.documents.get(params.text_document.uri)
        if document is None:
            return None
        words = hover_of(document.text, params.position.line, document.report)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, words)) if words else None

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    def actions(params: lsp.CodeActionParams) -> Sequence[lsp.CodeAction]:
        document = server.documents.get(params.text_document.uri)
        # A repair is of the very text that was checked.
        if document is None or document.report is None or document.report.text != document.text:
            return []
        lines = range(params.range.start.line, params.range.end.line + 1)
        return actions_of(document.report, params.text_document.uri, lines)

    @server.feature(lsp.SHUTDOWN)
    def shutdown(_params: None) -> None:
        server.stopped()

    return server
