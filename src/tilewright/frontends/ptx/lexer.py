"""Which words is a PTX text made of, and where does each stand?

One regular expression takes the text apart; a place becomes a line and a column only when somebody asks. A word keeps
its dotted parts (`ld.global.v4.b32`, `%tid.x`), because a PTX opcode is one. Who asks for it gets a plain statement
that stands on a line of its own as one token (`statement`). Source: PTX ISA 8.8, Syntax. Not handled: the preprocessor
lines of a C-like front end (`#line`).
Checked by: tests/frontends/test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NoReturn

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Unread

# Spaces and comments, taken whole and never given back, so that no text makes the search try again.
_TOKEN_SHOWN = 60
_BETWEEN = r"(?:[\ \t\r\n\f\v]++|//[^\n]*+|/\*.*?\*/)*+"
_SPACE = re.compile(_BETWEEN, re.DOTALL)
_NAME = r"[%$_A-Za-z][\w$]*+(?:\.[xyzw](?![\w$.]))?+"
_INTEGER = r"-?(?:0[xX][0-9A-Fa-f]++|[1-9][0-9]*+|0)(?![\w$.])"
_OPERAND = rf"(?:{_NAME}|{_INTEGER}|\[{_NAME}(?:\+{_INTEGER})?+\]|\{{{_NAME}(?:,\ ?{_NAME})*+\}})"
# Behind a line that ended a statement; anywhere else it might be the end of something longer.
_STATEMENT = rf"""
    (?P<statement>(?<=[;:{{}}\n]\n\t)
        (?:@(?P<negated>!?)(?P<guard>{_NAME})[\ \t]++)?+
        (?P<opcode>[a-z]\w*+(?:\.\w++(?:::\w++)*+)*+)
        (?:[\ \t]++(?P<operands>{_OPERAND}(?:,\ ?{_OPERAND})*+))?+
        ;)
    | """
_TOKENS = r"""
    (?P<word>(?:[A-Za-z][\w$]*|[%$_][\w$]*)(?:\.[\w$]+(?:::[\w$]+)*)*(?<!%))
    | (?P<punctuation><<|>>|<=|>=|==|!=|&&|\|\||/(?!\*)|[{}()\[\],;:@!|+\-*%<>&^~?=])
    | (?P<float>0[fF][0-9A-Fa-f]{8}(?![\w$.])|0[dD][0-9A-Fa-f]{16}(?![\w$.])
        |(?:[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?![\w$.]))
    | (?P<integer>(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?(?![\w$.]))
    | (?P<directive>\.[A-Za-z0-9_$]+(?:::[\w$]+)*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<end>\Z)
    """
_FLAGS = re.VERBOSE | re.ASCII | re.DOTALL
_TOKEN = re.compile(f"{_BETWEEN}(?:{_TOKENS})", _FLAGS)
_STATEMENT_OR_TOKEN = re.compile(f"{_BETWEEN}(?:{_STATEMENT}{_TOKENS})", _FLAGS)
_NUMBER_LIKE = re.compile(r"[0-9][\w$.]*", re.ASCII)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
END = "end"
STATEMENT = "statement"
PlainStatement = tuple[str | None, str | None, str, str | None]
"""Whether the guard is negated (`!`), the guard, the opcode and the operands of a plain statement, as spelled."""
_MOST_NAMES = 1 << 20
_MOST_INITIAL_BYTES = 1 << 28


class Cursor:
    """A place in the list of tokens, and the errors that can be reported there.

    kinds: `word`, `float`, `integer`, `directive`, `string`, a punctuation mark itself, and at last `end`; `statement`
    where plain statements are wanted as one token, which `statements` has by its index.
    """

    def __init__(self, text: str, file: str, *, statements: bool = False) -> None:
        self.file = file
        self.statements: dict[int, PlainStatement] = {}
        self.index = 0
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self._offsets: list[int] = []
        lines = text.split("\n")
        self._names = 0
        self._initial_bytes = 0
        self._assembly: list[tuple[int, int]] | None = None
        self._starts = [0, *accumulate([len(line) + 1 for line in lines])]
        self._lines = [line.rstrip("\r") for line in lines] if "\r" in text else lines
        self._scan(text, _STATEMENT_OR_TOKEN if statements else _TOKEN)

    def _scan(self, text: str, pattern: re.Pattern[str]) -> None:
        kinds, texts, offsets, statements = self.kinds, self.texts, self._offsets, self.statements
        position = 0
        for match in pattern.finditer(text):
            kind = match.lastgroup
            assert kind is not None, "every alternative of the pattern is named"
            if match.start() != position or kind == END:
                break
            position = match.end()
            if kind == STATEMENT:
                statements[len(kinds)] = match["negated"], match["guard"], match["opcode"], match["operands"]
                kinds.append(kind)
                texts.append("")  # nobody asks: where it would be shown, the text is read again token by token
                offsets.append(match.start(kind))
                continue
            word = match[kind]
            kinds.append(word if kind == "punctuation" else kind)
            texts.append(word)
            offsets.append(position - len(word))
        between = _SPACE.match(text, position)
        assert between is not None, "the pattern matches the empty text"
        position = between.end()
        if position != len(text):
            self._refuse_text(text, position)
        kinds.append(END)
        texts.append("")
        offsets.append(len(text.rstrip()))

    def _refuse_text(self, text: str, position: int) -> NoReturn:
        span = self._span_at(position)
        if text.startswith("/*", position):
            raise TilewrightError(
                "a comment is not closed", span=span, remedy="the file may have been cut; close it with */"
            )
        if text[position] == '"':
            raise TilewrightError("a string is not closed", span=span, remedy="close it on the same line")
        number = _NUMBER_LIKE.match(text, position)
        if number is not None:
            raise TilewrightError(f"{number.group()} is not a number", span=span, remedy="see PTX ISA, Constants")
        raise TilewrightError(f"{text[position]!r} has no meaning in PTX", span=span, remedy="remove it")

    def _span_at(self, offset: int) -> Span:
        line = min(bisect_right(self._starts, offset), len(self._lines)) - 1
        return Span(self.file, line + 1, offset - self._starts[line] + 1, self._lines[line])

    def spend(self, *, names: int = 0, initial_bytes: int = 0) -> None:
        """Count what a module declares, so that a short text cannot ask for more memory than there is.

        Raises TilewrightError when the module has declared more than any compiler does.
        """
        self._names += names
        self._initial_bytes += initial_bytes
        if self._names > _MOST_NAMES:
            self.fail(f"the module declares more than {_MOST_NAMES} names", "split it")
        if self._initial_bytes > _MOST_INITIAL_BYTES:
            self.fail("the module's initial values are larger than any program", "store them at run time")

    # Looking

    @property
    def kind(self) -> str:
        return self.kinds[self.index]

    @property
    def text(self) -> str:
        return self.texts[self.index]

    def span(self, index: int | None = None) -> Span:
        """The place of a token; of the current one if no index is given."""
        return self._span_at(self._offsets[self.index if index is None else index])

    def spans_of_lines(self, begin: int, end: int) -> Iterator[Span]:
        """The places of the tokens from `begin` to before `end`, each a plain statement: it stands behind a tab."""
        starts, lines, line = self._starts, self._lines, 0
        for offset in self._offsets[begin:end]:
            if starts[line] != offset - 1:  # most stand on the line that follows
                line = bisect_right(starts, offset) - 1
            yield Span(self.file, line + 1, 2, lines[line])
            line += 1

    def describe(self) -> str:
        """The current token, for a message."""
        if self.kind == END:
            return "the end of the file"
        return self.text if len(self.text) <= _TOKEN_SHOWN else f"{self.text[:_TOKEN_SHOWN]}..."

    def at(self, *kinds: str) -> bool:
        """Whether the current token is of one of these kinds, or is this directive."""
        return self.kinds[self.index] in kinds or (self.kinds[self.index] == "directive" and self.text in kinds)

    def starts_line(self, index: int) -> bool:
        """Whether a token is the first of its line."""
        return index == 0 or bisect_right(self._starts, self._offsets[index - 1]) != bisect_right(
            self._starts, self._offsets[index]
        )

    def in_inline_assembly(self, index: int) -> bool:
        """Whether a token stands between a compiler's comments `begin inline asm` and `end inline asm`."""
        if self._assembly is None:
            self._assembly = _inline_assembly(self._lines)
        line = bisect_right(self._starts, self._offsets[index])
        at = bisect_right(self._assembly, (line, 0)) - 1
        return at >= 0 and line < self._assembly[at][1]

    # Taking

    def take(self) -> str:
        text = self.texts[self.index]
        if self.kinds[self.index] != END:
            self.index += 1
        return text

    def accept(self, kind: str) -> bool:
        """Take the current token if it is of this kind."""
        if self.kinds[self.index] == kind:
            self.index += 1
            return True
        return False

    def expect(self, kind: str, what: str = "") -> str:
        """Take a token of this kind, or refuse what stands there instead."""
        if self.kinds[self.index] != kind or kind == END:
            self.refuse(what or f"`{kind}`")
        self.index += 1
        return self.texts[self.index - 1]

    def pass_over(self, start: int, ends: frozenset[str]) -> Unread:
        """Pass over a directive that is not known; start: its first token, the cursor at its second.

        It ends with a `;` or a closed brace outside of brackets, or before a token of `ends` that starts a line.
        """
        depth = 0
        while self.kind != END:
            kind = self.kind
            if depth == 0 and (kind == "}" or (kind in ends and self.starts_line(self.index))):
                break
            depth += (kind in _OPENING) - (kind in _CLOSING)
            self.index += 1
            if depth <= 0 and kind in (";", "}"):
                break
        return Unread(" ".join(self.texts[start : self.index]), self.span(start))

    def pass_over_until(self, start: int, ends: frozenset[str]) -> Unread:
        """Pass over tokens up to one of `ends`, wherever in its line; start: the first token."""
        while self.kind not in ends and self.kind != END:
            self.index += 1
        return Unread(" ".join(self.texts[start : self.index]), self.span(start))

    def refuse(self, expected: str, remedy: str = "") -> NoReturn:
        """Raise TilewrightError: `expected` should stand here."""
        remedy = "the file ends too early: was it cut?" if self.kind == END else remedy
        raise TilewrightError(f"expected {expected}, found {self.describe()}", span=self.span(), remedy=remedy)

    def fail(self, message: str, remedy: str, index: int | None = None) -> NoReturn:
        """Raise TilewrightError at a token, the current one if no index is given."""
        raise TilewrightError(message, span=self.span(index), remedy=remedy)


def _inline_assembly(lines: list[str]) -> list[tuple[int, int]]:
    """The lines, 1-based, of the two comments around each piece of inline assembly that LLVM marks."""
    found: list[tuple[int, int]] = []
    begin = 0
    for number, line in enumerate(lines, start=1):
        if "inline asm" not in line:
            continue
        match line.split():
            case ["//", "begin", "inline", "asm"]:
                begin = number
            case ["//", "end", "inline", "asm"] if begin:
                found.append((begin, number))
                begin = 0
            case _:
                pass
    return found
