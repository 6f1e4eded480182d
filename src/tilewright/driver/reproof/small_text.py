"""How is the text of a small instance read, where the large text that it resembles has been read already?

Line by line: the instructions of lines that both texts have are those of the large module, spans and all; the other
lines are read by the reader, in a text that is left of the small one when the instructions of common lines are taken
out. The reader looks at one statement at a time, but for what declarations say, and these are left in. So the module is
the one that `read` makes of the small text, but for the file's name in spans of common lines.

That holds where every line that differs is one whole instruction. Anything else (lines too many, a directive that
differs, a statement of two lines) is not looked into: the text is read as a whole.
Checked by: tests/driver/reproof/test_small_text.py, against the reader.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction, Kernel, Label, Module
from tilewright.frontends.ptx.reader import read

_ONE_INSTRUCTION = re.compile(r"\s*(@!?%\w+\s+)?[a-z][\w.:]*\s[^;{}/\"]*;\s*")


def read_beside(large: Module, large_text: str, text: str, file: str) -> Module:
    """The module that `text` spells. large: what `read` made of `large_text`; file: the name of `text`, for spans.

    Raises what `read` raises.
    """
    return _beside(large, large_text.split("\n"), text.split("\n"), file) or read(text, file)


def _beside(large: Module, large_lines: list[str], lines: list[str], file: str) -> Module | None:
    """The module, or None where the lines do not tell."""
    if len(lines) != len(large_lines) or large.functions:
        return None
    differing = {at + 1 for at, (one, other) in enumerate(zip(lines, large_lines, strict=True)) if one != other}
    for at in differing:
        if not all(_ONE_INSTRUCTION.fullmatch(each[at - 1]) for each in (lines, large_lines)):
            return None
    items = [item for kernel in large.kernels for item in kernel.body]
    starts = [item.span.line for item in items]
    if len(set(starts)) != len(starts) or not differing <= set(starts):
        return None
    common = set(starts) - differing
    rest = "\n".join([line for at, line in enumerate(lines, start=1) if at not in common])
    try:
        others = read(rest, file)
    except TilewrightError:
        return None
    kernels: list[Kernel] = []
    for kernel, other in zip(large.kernels, others.kernels, strict=False):
        body = _spliced(kernel, other, differing, lines, file)
        if body is None:
            return None
        kernels.append(replace(kernel, body=body))
    return replace(large, kernels=tuple(kernels)) if len(kernels) == len(large.kernels) else None


def _spliced(
    kernel: Kernel, other: Kernel, differing: set[int], lines: list[str], file: str
) -> tuple[Instruction | Label, ...] | None:
    """The kernel's body with the instructions of `other` on the lines that differ."""
    fresh = iter(other.body)
    body = list(kernel.body)
    for at in [at for at, item in enumerate(body) if item.span.line in differing]:
        item, instead = body[at], next(fresh, None)
        if not isinstance(instead, Instruction) or not isinstance(item, Instruction):
            return None
        span = Span(file, item.span.line, instead.span.column, lines[item.span.line - 1].rstrip("\r"))
        body[at] = replace(instead, span=span)
    return tuple(body) if next(fresh, None) is None else None
