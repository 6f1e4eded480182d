"""Where in the program that a text was compiled from does a finding stand? What the text's `.loc` directives say.

A finding gets its origin beside its place in the text; `at_origin` makes the origin its place, for tools whose users
never see the text. Code that was inlined has a stack of places. Its origin is the innermost one in the author's own
files whose function is more than a wrapper, which a reader could not tell from its other calls: `load()` around one
instruction answers with its caller's line, and so does a library's template. The author's files are those that are
compiled, and headers beside or below them; where the stack has none, all are. Both places of a conflict get an origin.
Checked by: tests/driver/check/test_origin.py.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace

from tilewright.base.check_report import FileReport
from tilewright.base.diagnostic import Diagnostic, SourcePlace
from tilewright.base.span import Span
from tilewright.driver.check.source_text import SourceFiles
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.source import PlacedLine, SourceMap, source_map, source_stack

_WRAPPER_LINES = 4
"""An inlined function of so few lines is taken for a wrapper."""
_COMPILED = (".c", ".cc", ".cpp", ".cu", ".cxx", ".py")
"""Files that are compiled by themselves, by suffix; others are included."""


class Origins:
    """The program's lines of one kernel's instructions, those of functions that it may call included."""

    def __init__(self, module: Module, kernel: Kernel, files: SourceFiles) -> None:
        self._module, self._kernel, self._files = module, kernel, files
        self._maps: tuple[SourceMap, ...] | None = None

    def stack(self, span: Span | None) -> tuple[Span | None, tuple[SourcePlace, ...]]:
        """The origin of a place in the text, with its line's text, and all lines if there are several."""
        if span is None:
            return None, ()
        if self._maps is None:
            self._maps = tuple(source_map(self._module, code) for code in (self._kernel, *self._module.functions))
        lines = source_stack(self._maps, span)
        if not lines:
            return None, ()
        chosen = self._with_text(_looked_for(lines, self._module).place)
        stack = tuple(self._with_text(line.place) for line in lines) if len(lines) > 1 else ()
        return chosen.span, stack

    def _with_text(self, place: SourcePlace) -> SourcePlace:
        text = self._files.line(place.span.file, place.span.line)
        return replace(place, span=replace(place.span, text=text)) if text else place


def _looked_for(lines: Sequence[PlacedLine], module: Module) -> PlacedLine:
    """The line of the innermost function of the author's that is more than a wrapper; else the last that its like
    calls; without any of the author's, as if all were."""
    folders = {os.path.dirname(file) for file in module.files.values() if file.endswith(_COMPILED)}
    own = [_is_own(line.place.span.file, folders) for line in lines]
    begin = own.index(True) if any(own) else 0
    end = next((index for index in range(begin, len(lines)) if any(own) and not own[index]), len(lines))
    run = lines[begin:end]
    return next((line for line in run if line.lines > _WRAPPER_LINES), run[-1])


def _is_own(file: str, folders: Collection[str]) -> bool:
    if file.endswith(_COMPILED):
        return True
    return any(os.path.isabs(file) == os.path.isabs(each) and _below(os.path.dirname(file), each) for each in folders)


def _below(folder: str, other: str) -> bool:
    return not other or folder == other or folder.startswith(other.rstrip("/") + "/")


def with_origin(finding: Diagnostic, origins: Origins) -> Diagnostic:
    """The finding with the origins of its places; as it is where the text does not say."""
    origin, stack = origins.stack(finding.primary)
    other, other_stack = origins.stack(finding.conflicts_with)
    if origin is None and other is None:
        return finding
    return replace(finding, origin=origin, stack=stack, other_origin=other, other_stack=other_stack)


def at_origin(report: FileReport) -> FileReport:
    """The report with every finding at its origin, its places in the text in words."""
    kernels = tuple(
        replace(kernel, findings=tuple(_moved(finding) for finding in kernel.findings)) for kernel in report.kernels
    )
    return replace(report, kernels=kernels)


def _moved(finding: Diagnostic) -> Diagnostic:
    if finding.origin is None:
        return finding
    moved = [finding.primary]
    other = finding.conflicts_with
    if finding.other_origin is not None:
        moved.append(other)
        other = finding.other_origin
    steps = tuple(f"in PTX: {span}: {span.text.strip()}" for span in moved if span is not None)
    return replace(
        finding,
        primary=finding.origin,
        conflicts_with=other,
        origin=None,
        other_origin=None,
        interleaving=(*finding.interleaving, *steps),
    )
