"""`tilewright lsp`, by an editor's side of the protocol: what is marked, what hovering says, what a quick fix does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient
from tests.cli.checked_texts import NO_FENCE, launch_document
from tests.contract.replay_kernels import copy_text

import tilewright
from tilewright.cli.main import main

SECONDS = 60.0


class Editor:
    """A client, and what the server has told it to mark, newest last."""

    def __init__(self) -> None:
        self.client = LanguageClient("test", "1")
        self.marked: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def marked(params: lsp.PublishDiagnosticsParams) -> None:
            self.marked.put_nowait(params)

    async def marks(self) -> list[lsp.Diagnostic]:
        return list((await asyncio.wait_for(self.marked.get(), SECONDS)).diagnostics)

    def open(self, path: Path) -> str:
        uri = path.as_uri()
        item = lsp.TextDocumentItem(uri, "ptx", 1, path.read_text(encoding="utf-8"))
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str, version: int) -> None:
        self.client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(version, uri), [lsp.TextDocumentContentChangeWholeDocument(text)]
            )
        )

    async def actions(self, uri: str, line: int) -> list[lsp.CodeAction]:
        at = lsp.Position(line, 0)
        found = await self.client.text_document_code_action_async(
            lsp.CodeActionParams(lsp.TextDocumentIdentifier(uri), lsp.Range(at, at), lsp.CodeActionContext([]))
        )
        return [each for each in found or () if isinstance(each, lsp.CodeAction)]

    async def hover(self, uri: str, line: int) -> str:
        at = lsp.HoverParams(lsp.TextDocumentIdentifier(uri), lsp.Position(line, 3))
        found = await self.client.text_document_hover_async(at)
        assert found is None or isinstance(found.contents, lsp.MarkupContent)
        return "" if found is None else found.contents.value


@asynccontextmanager
async def editor(folder: Path) -> AsyncGenerator[Editor, None]:
    source = str(Path(tilewright.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    this = Editor()
    await this.client.start_io(sys.executable, "-m", "tilewright", "lsp", "--stdio", env=environment, cwd=folder)
    try:
        wanted = lsp.InitializeParams(lsp.ClientCapabilities(), root_uri=folder.as_uri())
        answer = await this.client.initialize_async(wanted)
        assert answer.server_info is not None and answer.server_info.name == "tilewright"
        this.client.initialized(lsp.InitializedParams())
        yield this
        await this.client.shutdown_async(None)
        this.client.exit(None)
    finally:
        await this.client.stop()


def session(folder: Path, steps: Callable[[Editor], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with editor(folder) as this:
            await steps(this)

    asyncio.run(asyncio.wait_for(whole(), 2 * SECONDS))


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.ptx"
    path.write_text(copy_text(**NO_FENCE), encoding="utf-8")
    (tmp_path / "kernel.launch.json").write_text(json.dumps(launch_document()), encoding="utf-8")
    return path


def test_a_finding_is_marked_explained_and_fixed(kernel: Path) -> None:
    async def steps(this: Editor) -> None:
        uri = this.open(kernel)
        (mark,) = [each for each in await this.marks() if each.severity == lsp.DiagnosticSeverity.Error]
        lines = copy_text(**NO_FENCE).split("\n")
        assert str(mark.code).startswith("PX") and "cp.async.bulk" in lines[mark.range.start.line]
        assert mark.code_description is not None and mark.code_description.href.endswith(f"{mark.code}.md")
        assert mark.related_information and "st.shared" in lines[mark.related_information[0].location.range.start.line]
        said = await this.hover(uri, mark.range.start.line)
        assert f"**{mark.code}**" in said and "`cp.async.bulk.tensor`" in said
        (action,) = await this.actions(uri, mark.range.start.line)
        assert action.kind == lsp.CodeActionKind.QuickFix and action.edit and action.edit.changes
        text = applied(kernel.read_text(encoding="utf-8"), list(action.edit.changes[uri]))
        this.change(uri, text, 2)
        assert all(each.severity != lsp.DiagnosticSeverity.Error for each in await this.marks())
        assert not await this.actions(uri, mark.range.start.line)

    session(kernel.parent, steps)


def applied(text: str, edits: list[lsp.TextEdit]) -> str:
    """What an editor does with edits of whole lines."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda each: each.range.start.line, reverse=True):
        begin, end = edit.range.start, edit.range.end
        assert begin.character == 0 and (end.line == begin.line or end.character == 0)
        after = [lines[end.line][end.character :]] if end.line == begin.line else []
        lines[begin.line : begin.line + 1] = [edit.new_text + after[0]] if after else []
    return "\n".join(lines)


def test_texts_that_are_none_and_settings_that_are_wrong_are_marked(kernel: Path) -> None:
    async def steps(this: Editor) -> None:
        uri = this.open(kernel)
        await this.marks()
        this.change(uri, "\n\nthis is no PTX \U0001f600", 2)
        (mark,) = await this.marks()
        assert mark.severity == lsp.DiagnosticSeverity.Error and "no meaning" in mark.message
        assert await this.hover(uri, 10_000) == "" and not await this.actions(uri, 10_000)
        (kernel.parent / "pyproject.toml").write_text("[tool.tilewright]\nbuget = 3\n", encoding="utf-8")
        this.change(uri, copy_text(), 3)
        (mark,) = await this.marks()
        assert "did you mean budget?" in mark.message
        (kernel.parent / "pyproject.toml").unlink()
        this.client.text_document_did_save(lsp.DidSaveTextDocumentParams(lsp.TextDocumentIdentifier(uri)))
        assert all(each.severity != lsp.DiagnosticSeverity.Error for each in await this.marks())
        this.client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri)))
        assert await this.marks() == []

    session(kernel.parent, steps)


def test_only_the_newest_text_counts(kernel: Path) -> None:
    async def steps(this: Editor) -> None:
        uri = this.open(kernel)
        for version in range(2, 12):
            this.change(uri, "" if version % 2 else copy_text(), version)
        this.change(uri, copy_text(), 12)
        marks = await this.marks()
        assert all(each.severity != lsp.DiagnosticSeverity.Error for each in marks)
        await asyncio.sleep(1.5)
        assert this.marked.empty()

    session(kernel.parent, steps)


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("check", "launch", "tensormap", "no-launch-files"))


@pytest.mark.parametrize(("command", "package"), [(["lsp"], "pygls"), (["completion", "bash"], "shtab")])
def test_without_the_extra_there_is_one_message(
    command: list[str], package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "tilewright.cli.editor.language_server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    assert main(command) == 2
    assert "tilewright[editor]" in capsys.readouterr().err
