"""How is an `ac` program shown as numbered lines, so that a finding of the typestate proof names a line one can read?

One operation a line, in the order of the module's walk, without the types after the operands: those repeat what the
operands say and make lines too long to read. Checked by: tests/driver/views/test_demo.py.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.base.span import Span
from tilewright.contract.typestate.finding import Places

_TYPES = re.compile(r" : \([^{}]*$")
_CLOSING_TYPES = re.compile(r"^(\s*\}\)) : \(.*$")


def listing(module: ModuleOp, file: str) -> tuple[str, Places]:
    """The module's text under the name `file`, and the place of each of its operations in it."""
    lines = [_CLOSING_TYPES.sub(r"\1", _TYPES.sub("", line)) for line in str(module).splitlines()]
    spans: dict[Operation, Span] = {}
    line = 0
    for operation in module.walk():
        # Each operation begins a line, and the walk visits them in the order of the text.
        while not _begins(lines[line], operation):
            line += 1
        text = lines[line]
        spans[operation] = Span(file, line + 1, len(text) - len(text.lstrip()) + 1, text)
        line += 1
    return "\n".join(lines) + "\n", spans.__getitem__


def _begins(line: str, operation: Operation) -> bool:
    return f'"{operation.name}"(' in line or line.lstrip().startswith(f"{operation.name} ")
