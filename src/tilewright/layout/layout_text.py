"""Which layout does a text such as `Sw<3,4,3> o 0 o ((2,4),N):((1,16),2)` write?

Grammar: `[swizzle o] [offset o] shape[:stride]`. A shape is an integer, an expression of named sizes, or a tuple of
shapes in parentheses; `(4)` is the integer 4 and `(4,)` a tuple, as in Python. Also read: `_8` for 8, `S<3,4,3>`,
`SW_3_4_3`, as CuTe's several printers write them, and spaces anywhere. Without strides the layout is dense, its first
leaf fastest. `str(layout)` writes what is read here.

Not read: quotients and remainders by named sizes. Every error is one TilewrightError with the column.
Bounds: 65,536 characters, 64 levels of parentheses.
Checked by tests/layout/test_layout_text.py.
"""

from __future__ import annotations

import re
from typing import NoReturn

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.layout import nested
from tilewright.layout.layout import Layout
from tilewright.layout.nested import Integer, Nested
from tilewright.layout.numbers.condition_parser import parse_expression
from tilewright.layout.swizzle import Swizzle

_MOST_CHARACTERS = 65536
_MOST_DIGITS = 78
_SWIZZLE = re.compile(
    r"\s*(?:(?:Sw|S|Swizzle)\s*<\s*(-?[0-9]{1,4})\s*,\s*(-?[0-9]{1,4})\s*,\s*(-?[0-9]{1,4})\s*>|SW_([0-9]{1,4})_([0-9]{1,4})_(-?[0-9]{1,4}))"
)
_COMPOSED = re.compile(r"\s+o\s+|\s*∘\s*")
_NUMBER = re.compile(r"\s*([-+]?)\s*_?([0-9]+)\s*")
_OPERATORS = frozenset("+-*/%")


def parse_layout(text: str) -> Layout:
    """The layout that `text` writes. Raises TilewrightError, with the column, for anything else."""
    reader = _Reader(text, "layout")
    swizzle: Swizzle | None = None
    offset: Integer = 0
    start = 0
    found = _SWIZZLE.match(text)
    if found is not None:
        bits, base, shift = (int(number) for number in found.groups() if number is not None)
        swizzle = Swizzle(bits, base, shift)
        start = reader.after_o(found.end())
    middle = _COMPOSED.search(text, start)
    if middle is not None:
        offset = reader.integer(start, middle.start())
        start = middle.end()
    colon = text.find(":", start)
    shape = reader.nested(start, len(text) if colon < 0 else colon)
    stride = None if colon < 0 else reader.nested(colon + 1, len(text))
    return Layout(shape, stride, offset, swizzle)


def parse_nested(text: str, *, what: str = "nested tuple") -> Nested:
    """The nested tuple that `text` writes. what: names it in errors. Raises TilewrightError, with the column."""
    return nested.checked(_Reader(text, what).nested(0, len(text)), what)


class _Reader:
    """Recursive descent over one text whose parentheses are matched."""

    def __init__(self, text: str, what: str) -> None:
        self.text, self.what = text, what
        if len(text) > _MOST_CHARACTERS:
            self.refuse(0, f"longer than {_MOST_CHARACTERS} characters", "shorten it")
        self.closes: dict[int, int] = {}
        opened: list[int] = []
        for place, character in enumerate(text):
            if character == "(":
                opened.append(place)
                if len(opened) > nested.MOST_LEVELS:
                    self.refuse(place, f"nested deeper than {nested.MOST_LEVELS} levels", "flatten it")
            elif character == ")":
                if not opened:
                    self.refuse(place, "')' closes nothing", "remove it or open it before")
                self.closes[opened.pop()] = place
        if opened:
            self.refuse(opened[-1], "'(' is never closed", "close it with ')'")

    def refuse(self, column: int, message: str, remedy: str) -> NoReturn:
        shown = self.text if len(self.text) <= 200 else ""
        raise TilewrightError(
            f"column {column + 1} of {self.what}: {message}",
            span=Span(f"<{self.what}>", 1, column + 1, shown),
            remedy=remedy,
        )

    def after_o(self, place: int) -> int:
        found = _COMPOSED.match(self.text, place)
        if found is None:
            self.refuse(place, "what follows the swizzle is no ' o '", "write Sw<3,4,3> o 0 o (8,64):(64,1)")
        return found.end()

    def nested(self, start: int, stop: int) -> Nested:
        """What stands from `start` to `stop`."""
        first = self._skip(start, stop)
        if first == stop:
            self.refuse(min(start, max(0, len(self.text) - 1)), "nothing stands here", "write (8,16):(16,1)")
        close = self.closes.get(first)
        if close is None or close >= stop:
            return self.integer(first, stop)
        after = self._skip(close + 1, stop)
        if after < stop:
            if self.text[after] in _OPERATORS:
                return self.integer(first, stop)
            self.refuse(after, f"{self.text[after]!r} follows a closed tuple", "separate parts by ','")
        if self._skip(first + 1, close) == close:
            return ()
        pieces = self._pieces(first + 1, close)
        if len(pieces) == 1:
            return self.nested(*pieces[0])
        if self._skip(*pieces[-1]) == pieces[-1][1]:
            pieces.pop()
        if len(pieces) == 1 and self._skip(*pieces[0]) == pieces[0][1]:
            self.refuse(first, "a comma separates nothing", "write () for the tuple without parts")
        return tuple(self.nested(*piece) for piece in pieces)

    def _pieces(self, start: int, stop: int) -> list[tuple[int, int]]:
        pieces: list[tuple[int, int]] = []
        place = start
        while place < stop:
            character = self.text[place]
            if character == "(":
                place = self.closes[place]
            elif character == ",":
                pieces.append((start, place))
                start = place + 1
            place += 1
        return [*pieces, (start, stop)]

    def integer(self, start: int, stop: int) -> Integer:
        """The number or expression that stands from `start` to `stop`."""
        found = _NUMBER.fullmatch(self.text, start, stop)
        if found is not None:
            sign, digits = found.groups()
            if len(digits) > _MOST_DIGITS:
                self.refuse(start, f"a number of more than {_MOST_DIGITS} digits", "shorten it")
            return -int(digits) if sign == "-" else int(digits)
        piece = self.text[start:stop]
        for place, character in enumerate(piece):
            if not (character.isalnum() and character.isascii()) and character not in "_+-*/%() ":
                self.refuse(start + place, f"{character!r} is no part of a size", "use integers, names, + - * // %")
        written = parse_expression(piece, what=self.what)
        return nested.leaf(written, self.what)

    def _skip(self, start: int, stop: int) -> int:
        while start < stop and self.text[start].isspace():
            start += 1
        return start
