"""Where in the program that a text was compiled from does a finding stand? What `.loc` of PTX and `loc` of MLIR say.

A finding gets its origin beside its place in the text; `at_origin` makes the origin its place, for tools whose users
never see the text. Code that was inlined has a stack of places. Its origin is the innermost one in the author's own
files whose function is more than a wrapper, which a reader could not tell from its other calls: `load()` around one
instruction answers with its caller's line, and so does a library's template. The author's files are those that are
compiled, and headers beside or below them; where the stack has none, all are. Both places of a conflict get an origin.
Checked by: tests/driver/check/sources/test_origin.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from tilewright.base.check_report import FileReport
from tilewright.base.diagnostic import Diagnostic, SourcePlace
from tilewright.base.span import Span
from tilewright.driver.check.sources.source_text import SourceFiles
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.source import PlacedLine, SourceMap, source_map, source_stack

_WRAPPER_LINES = 4
"""An inlined function of so few lines is taken for a wrapper."""
_COMPILED = (".c", ".cc", ".cpp", ".cu", ".cxx", ".py")
"""Files that are compiled by themselves, by suffix; others are included."""


class Origins:
    """The program's lines of a text. lines: of a place in the text, the innermost first; named: the program's files;
    files: to read them."""

    def __init__(
        self, lines: Callable[[Span], tuple[PlacedLine, ...]], named: Collection[str], files: SourceFiles
    ) -> None:
        self._lines, self._files = lines, files
        self._folders = {os.path.dirname(file) for file in named if file.endswith(_COMPILED)}

    def stack(self, span: Span | None) -> tuple[Span | None, tuple[SourcePlace, ...]]:
        """The origin of a place in the text, with its line's text, and all lines if there are several."""
        lines = self._lines(span) if span is not None else ()
        if not lines:
            return None, ()
        chosen = self._with_text(_looked_for(lines, self._folders).place)
        stack = tuple(self._with_text(line.place) for line in lines) if len(lines) > 1 else ()
        return chosen.span, stack

    def _with_text(self, place: SourcePlace) -> SourcePlace:
        text = self._files.line(place.span.file, place.span.line)
        return replace(place, span=replace(place.span, text=text)) if text else place


def ptx_origins(module: Module, kernel: Kernel, files: SourceFiles) -> Origins:
    """The origins of one kernel's instructions, those of functions that it may call included."""
    maps: list[SourceMap] = []

    def lines(span: Span) -> tuple[PlacedLine, ...]:
        if not maps:
            maps.extend(source_map(module, code) for code in (kernel, *module.functions))
        return source_stack(maps, span)

    return Origins(lines, module.files.values(), files)


def mlir_origins(text: str, files: SourceFiles) -> Origins:
    """The origins of the operations of a text in MLIR."""
    from tilewright.frontends.mlir.source import source_places

    places = source_places(text)
    lines: dict[tuple[str, tuple[SourcePlace, ...]], set[int]] = {}
    for stack in places.values():
        for index, place in enumerate(stack):
            lines.setdefault((place.span.file, stack[index + 1 :]), set()).add(place.span.line)

    def found(span: Span) -> tuple[PlacedLine, ...]:
        stack = places.get(span.line, ())
        counts = (len(lines[place.span.file, stack[index + 1 :]]) for index, place in enumerate(stack))
        return tuple(PlacedLine(place, count) for place, count in zip(stack, counts, strict=True))

    return Origins(found, {place.span.file for stack in places.values() for place in stack}, files)


def _looked_for(lines: Sequence[PlacedLine], folders: Collection[str]) -> PlacedLine:
    """The line of the innermost function of the author's that is more than a wrapper; else the last that its like
    calls; without any of the author's, as if all were. folders: of what is compiled."""
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
