"""How does a predicate become a tree in normal form, and what is the tree of known integers?

`trace` calls a predicate with fields in place of integers. Negations are pushed inwards and known conditions folded,
so that what the engines read is comparisons joined by `Both` and `Either`. A comparison that divides by zero does not
hold, and neither does its negation: `(y == 0) | (x // y > 3)` is true where y is 0, as if the guard came first. A plain
evaluation that raises ZeroDivisionError is settled by `evaluate`.

Not handled: trees deeper than Python's stack. Checked by tests/solve/constraints/test_expression.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.base.error import TilewrightError
from tilewright.solve.constraints.expression import (
    Binary,
    Both,
    Comparison,
    Constant,
    Either,
    Field,
    Indicator,
    Known,
    Negation,
    Term,
    Truth,
    calculate,
    compare,
    divisors,
    term,
    truth,
    unreadable,
)


def trace(holds: Callable[..., object], arity: int) -> Truth:
    """The syntax tree of the predicate `holds` of `arity` integers.

    Raises TilewrightError where it branches on a field, or returns no condition.
    """
    return normal(truth(holds(*(Field(position) for position in range(arity)))))


def trace_term(value: Callable[..., object], arity: int) -> Term:
    """The syntax tree of the integer function `value`. Raises TilewrightError as `trace` does."""
    result = value(*(Field(position) for position in range(arity)))
    if isinstance(result, (Term, Truth, int)):
        return _normal_term(term(result))
    raise TilewrightError(f"a cost over fields returned {type(result).__name__}, which is no integer")


def evaluate(node: Truth, values: Sequence[int]) -> bool:
    """Whether `node` holds of these values, by position; a comparison that divides by zero does not."""
    match node:
        case Known(value):
            return value
        case Both(left, right):
            return evaluate(left, values) and evaluate(right, values)
        case Either(left, right):
            return evaluate(left, values) or evaluate(right, values)
        case Negation(inner):
            return evaluate(inverted(inner), values)
        case Comparison(operator, left, right):
            try:
                return compare(operator, number(left, values) - number(right, values))
            except ZeroDivisionError:
                return False
        case _:
            raise unreadable(node)


def number(node: Term, values: Sequence[int]) -> int:
    """What `node` is for these values, by position. Raises ZeroDivisionError."""
    match node:
        case Field(position):
            return values[position]
        case Constant(value):
            return value
        case Indicator(condition):
            for divisor in divisors(condition):
                if number(divisor, values) == 0:
                    raise ZeroDivisionError
            return int(evaluate(condition, values))
        case Binary(operator, left, right):
            return calculate(operator, number(left, values), number(right, values))
        case _:
            raise unreadable(node)


def inverted(node: Truth) -> Truth:
    """The negation of `node`, with no `Negation` in it."""
    match node:
        case Known(value):
            return Known(not value)
        case Both(left, right):
            return Either(inverted(left), inverted(right))
        case Either(left, right):
            return Both(inverted(left), inverted(right))
        case Negation(inner):
            return normal(inner)
        case Comparison(operator, left, right):
            left, right = _normal_term(left), _normal_term(right)
            if operator in ("==", "!="):
                return Comparison("!=" if operator == "==" else "==", left, right)
            return Comparison("<=" if operator == "<" else "<", right, left)
        case _:
            raise unreadable(node)


def normal(node: Truth) -> Truth:
    """`node` with no `Negation` in it, known conditions folded in."""
    match node:
        case Known():
            return node
        case Both(left, right) | Either(left, right):
            first, second = normal(left), normal(right)
            joins = isinstance(node, Both)
            for one, other in ((first, second), (second, first)):
                if isinstance(one, Known):
                    return other if one.value == joins else one
            return Both(first, second) if joins else Either(first, second)
        case Negation(inner):
            return inverted(inner)
        case Comparison(operator, left, right):
            left, right = _normal_term(left), _normal_term(right)
            if isinstance(left, Constant) and isinstance(right, Constant):
                return Known(compare(operator, left.value - right.value))
            return Comparison(operator, left, right)
        case _:
            raise unreadable(node)


def _normal_term(node: Term) -> Term:
    match node:
        case Indicator(condition):
            inner = normal(condition)
            return Constant(int(inner.value)) if isinstance(inner, Known) else Indicator(inner)
        case Binary(operator, left, right):
            left, right = _normal_term(left), _normal_term(right)
            if isinstance(left, Constant) and isinstance(right, Constant) and (operator in "+-*" or right.value):
                return Constant(calculate(operator, left.value, right.value))
            return Binary(operator, left, right)
        case _:
            return node
