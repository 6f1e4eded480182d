"""Where in a source text something stands."""

from __future__ import annotations

from tilewright.base.value import value


@value
class Span:
    """A place in a source: file (or a name such as `<matmul.ptx>`), 1-based line and column, and the line's text."""

    file: str
    line: int
    column: int = 1
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.column <= 1 else f"{self.file}:{self.line}:{self.column}"
