"""Which tokens does a piece of MLIR text have?

Lexical rules of the MLIR language reference. A value may have a result number (`%x#1`); a number may run on into the
letters of a shape (`3x128x64xf16`), which is taken apart where a shape is meant. Checked by:
tests/frontends/test_mlir_reader.py.
"""

from __future__ import annotations

import re

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.mlir.ast import Token

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+)
    |(?P<newline>\n)
    |(?P<comment>//[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<value>%[\w$.-]+(?:\#\d+)?)
    |(?P<block>\^[\w$.-]+)
    |(?P<symbol>@(?:[\w$.-]+|"[^"\n]*"))
    |(?P<attribute>\#[A-Za-z_][\w.$-]*)
    |(?P<type>![A-Za-z_][\w.$]*)
    |(?P<number>\d[\w.]*(?:(?<=[eE])[+-]\d+)?)
    |(?P<word>[A-Za-z_][\w.$]*)
    |(?P<mark>->|::|\.\.\.|[-(){}\[\]<>,:=*?+/|&;])
    """,
    re.VERBOSE,
)


def tokens_of(text: str, file: str) -> list[Token]:
    """The tokens of `text`, without comments. Raises TilewrightError at a character that begins none."""
    tokens: list[Token] = []
    position, line, first = 0, 1, True
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise TilewrightError(
                f"{text[position]!r} begins nothing that MLIR has",
                span=Span(file, line),
                remedy="give MLIR in its printed form",
            )
        position = match.end()
        kind = match.lastgroup or "mark"
        if kind == "newline":
            line, first = line + 1, True
        elif kind not in ("blank", "comment"):
            written = match.group()
            tokens.append(Token(kind, written[1:] if kind in ("value", "block", "symbol") else written, line, first))
            first = False
    return tokens
