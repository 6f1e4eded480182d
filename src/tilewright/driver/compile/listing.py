"""How is an `ac` program shown as numbered lines, so that a finding of the typestate proof names a line one can read?

As `ac_format` writes it, with a name for every value; an operation is at the line where it begins.
Checked by: tests/driver/views/test_demo.py.
"""

from __future__ import annotations

import re
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.base.span import Span
from tilewright.contract.typestate.finding import Places
from tilewright.ir.ac.names import name_values

_RESULTS = re.compile(r"\s*(%[^=]* = )?")


def listing(module: ModuleOp, file: str) -> tuple[str, Places]:
    """The module's text under the name `file`, and the place of each of its operations in it."""
    name_values(module)
    lines = str(module).splitlines()
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
    """Does the line begin with this operation, after its results?"""
    rest = line[cast("re.Match[str]", _RESULTS.match(line)).end() :]
    return rest == operation.name or rest.startswith(f"{operation.name} ")
