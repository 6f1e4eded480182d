"""What does a text such as `K % 8 == 0, 1 <= M <= 65536` say of named integers?

Grammar: conditions joined by `,`, `and` or `&&`; each is a chain of comparisons (`== != < <= > >=`); expressions of
integers (decimal, `0x`, `2**40`), names, `+ - * // %` and parentheses, with Python's precedence. Every error is one
line with its column and a remedy.

Not handled: `or`, `not`, quotients and remainders by zero (an error), powers other than of two numbers.
Checked by tests/layout/numbers/test_condition_parser.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.layout.numbers.condition import Condition, at_least_zero, every, is_zero, negation
from tilewright.layout.numbers.integer_expression import IntegerExpression, as_expression, variable

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F_]+|[0-9][0-9_]*)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<symbol>\*\*|//|<=|>=|==|!=|&&|[-+*%<>(),=/]))"
)
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_MOST_CHARACTERS = 4096
_MOST_DEPTH = 64
_MOST_EXPONENT = 128
_MOST_TERMS = 256


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


def parse_expression(text: str, *, what: str = "expression") -> IntegerExpression:
    """The expression that `text` writes. what: names the text in errors.

    Raises TilewrightError, with the column, for anything else.
    """
    parser = _Parser(text, what)
    result = parser.sum()
    parser.end("an operator or the end")
    return result


def parse_where(text: str, *, what: str = "where") -> Condition:
    """The conjunction of the conditions that `text` lists. what: names the text in errors.

    Raises TilewrightError, with the column, for anything else.
    """
    parser = _Parser(text, what)
    parts = parser.comparisons()
    while parser.peek.text in (",", "and", "&&"):
        parser.take()
        if parser.peek.kind == "end":
            break
        parts += parser.comparisons()
    parser.end("',' or the end")
    return every(parts)


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str, what: str) -> None:
        self.text, self.what = text, what
        if len(text) > _MOST_CHARACTERS:
            self.refuse(_MOST_CHARACTERS, f"longer than {_MOST_CHARACTERS} characters", "shorten it")
        self.tokens = self._tokens()
        self.at = 0
        self.depth = 0

    def _tokens(self) -> list[_Token]:
        tokens: list[_Token] = []
        place, stop = 0, len(self.text.rstrip())
        while place < stop:
            match = _TOKEN.match(self.text, place)
            if match is None:
                column = place + len(self.text[place:]) - len(self.text[place:].lstrip())
                self.refuse(
                    column, f"{self.text[column]!r} is no part of an expression", "use names, integers, + - * // %"
                )
            kind = match.lastgroup or ""
            tokens.append(_Token(kind, match.group(kind), match.start(kind)))
            place = match.end()
        tokens.append(_Token("end", "", stop))
        return tokens

    @property
    def peek(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def refuse(self, column: int, message: str, remedy: str) -> NoReturn:
        shown = self.text if len(self.text) <= 200 else ""
        raise TilewrightError(
            f"column {column + 1} of {self.what}: {message}",
            span=Span(f"<{self.what}>", 1, column + 1, shown),
            remedy=remedy,
        )

    def end(self, expected: str) -> None:
        token = self.peek
        if token.kind == "end":
            return
        if token.text == "=":
            self.refuse(token.column, "'=' compares nothing", "write ==")
        self.refuse(token.column, f"{token.text!r} stands where {expected} belongs", "check the text before it")

    def comparisons(self) -> list[Condition]:
        left = self.sum()
        token = self.peek
        if token.text not in _COMPARISONS:
            if token.text == "=":
                self.refuse(token.column, "'=' compares nothing", "write ==")
            self.refuse(token.column, "no comparison follows", "write a condition such as K % 8 == 0")
        found: list[Condition] = []
        while self.peek.text in _COMPARISONS:
            symbol = self.take().text
            right = self.sum()
            found.append(_compared(left, symbol, right))
            left = right
        return found

    def sum(self) -> IntegerExpression:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            self.refuse(self.peek.column, f"nested deeper than {_MOST_DEPTH}", "write it flatter")
        total = self.product()
        while self.peek.text in ("+", "-"):
            symbol = self.take().text
            right = self.product()
            total = total + right if symbol == "+" else total - right
        self.depth -= 1
        return total

    def product(self) -> IntegerExpression:
        result = self.signed()
        while self.peek.text in ("*", "//", "%", "/"):
            token = self.take()
            if token.text == "/":
                self.refuse(token.column, "'/' is no division of integers", "write //")
            right = self.signed()
            if token.text == "*":
                result = result * right
                if len(result.terms) > _MOST_TERMS:
                    self.refuse(token.column, f"a product of more than {_MOST_TERMS} terms", "write it with fewer")
                continue
            divisor = right.constant
            if divisor is None or divisor < 1:
                self.refuse(token.column, f"division by {right}", "divide by an integer that is at least 1")
            result = result // divisor if token.text == "//" else result % divisor
        return result

    def signed(self) -> IntegerExpression:
        negative = False
        while self.peek.text in ("-", "+"):
            negative ^= self.take().text == "-"
        value = self.power()
        return -value if negative else value

    def power(self) -> IntegerExpression:
        base = self.primary()
        token = self.peek
        if token.text != "**":
            return base
        self.take()
        exponent = self.primary().constant
        number = base.constant
        if number is None or exponent is None or not 0 <= exponent <= _MOST_EXPONENT:
            self.refuse(
                token.column, f"a power other than of an integer to one of 0 to {_MOST_EXPONENT}", "multiply it out"
            )
        return as_expression(number**exponent)

    def primary(self) -> IntegerExpression:
        token = self.take()
        match token.kind:
            case "number":
                try:
                    return as_expression(int(token.text, 0))
                except ValueError:
                    self.refuse(token.column, f"{token.text!r} is no integer", "write it without leading zeros")
            case "name" if token.text not in ("and", "or", "not"):
                return variable(token.text)
            case "symbol" if token.text == "(":
                value = self.sum()
                closing = self.take()
                if closing.text != ")":
                    self.refuse(closing.column, "a parenthesis is not closed", "add ')'")
                return value
            case "end":
                self.at -= 1
                self.refuse(token.column, "it ends where an expression belongs", "add a name or an integer")
            case _:
                pass
        self.refuse(token.column, f"{token.text!r} stands where an expression belongs", "write a name or an integer")


def _compared(left: IntegerExpression, symbol: str, right: IntegerExpression) -> Condition:
    match symbol:
        case "==":
            return is_zero(left - right)
        case "!=":
            return negation(is_zero(left - right))
        case "<=":
            return at_least_zero(right - left)
        case "<":
            return at_least_zero(right - left - 1)
        case ">=":
            return at_least_zero(left - right)
        case _:
            return at_least_zero(left - right - 1)
