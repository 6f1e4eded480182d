"""Which line of the source does an instruction come from? The `.loc` in force where it stands.

Source: PTX ISA 9.1, Debugging Directives: .loc, .file. Code that was inlined answers with the line of the inlined
function, not of its caller. Checked by: tests/frontends/test_ptx_grammar.py.
"""

from __future__ import annotations

from bisect import bisect_right

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Function, Instruction, Kernel, Label, Location, Module


def source_of(module: Module, code: Kernel | Function, span: Span) -> tuple[str, int, int] | None:
    """File, line and column of the source, for the place `span` in the PTX text of `code`'s body.

    None if no `.loc` is in force there, if it says line 0 (a compiler's own code), or if its file has no name.
    """
    items = code.body or ()
    index = bisect_right(items, (span.line, span.column), key=_place) - 1
    at = bisect_right(code.locations, index, key=_index) - 1
    if index < 0 or at < 0:
        return None
    location = code.locations[at]
    name = module.files.get(location.file)
    if name is None or not location.line:
        return None
    return name, location.line, location.column


def _place(item: Instruction | Label) -> tuple[int, int]:
    return item.span.line, item.span.column


def _index(location: Location) -> int:
    return location.index
