"""Between which bounds does an expression lie, and is a condition sure, when each field lies between two integers?

Interval arithmetic over the trees of `solve.constraints.expression`: sound (the true value is within the bounds; NO and
YES are certain), not exact. Trees are turned into closures once, since a search asks thousands of times.

Not handled: congruences (`solve.constraints.narrowing` has them for one field), relations between fields: `x - x` is
not zero here. Checked by tests/solve/constraints/test_expression.py: every drawn expression at every point of the box.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.solve.constraints.expression import (
    Binary,
    Both,
    Comparison,
    Constant,
    Either,
    Field,
    Indicator,
    Known,
    Term,
    Truth,
    divisors,
    unreadable,
)

Ends = Sequence[int]
Bounds = Callable[[Ends, Ends], tuple[int, int]]
"""From the fields' least and greatest values, by position, to the expression's."""
Certainty = Callable[[Ends, Ends], int]
"""To NO, MAYBE or YES."""

NO, MAYBE, YES = 0, 1, 2


def bounds(node: Term) -> Bounds:
    """The least and greatest value `node` may take where it is defined."""
    match node:
        case Field(position):
            return lambda low, high: (low[position], high[position])
        case Constant(value):
            pair = (value, value)
            return lambda low, high: pair
        case Indicator(condition):
            inner = certainty(condition)
            return lambda low, high: _INDICATED[inner(low, high)]
        case Binary(operator, left, right):
            return _binary(operator, bounds(left), bounds(right))
        case _:
            raise unreadable(node)


_INDICATED = ((0, 0), (0, 1), (1, 1))


def _binary(operator: str, left: Bounds, right: Bounds) -> Bounds:
    def add(low: Ends, high: Ends) -> tuple[int, int]:
        a, b = left(low, high)
        c, d = right(low, high)
        return a + c, b + d

    def subtract(low: Ends, high: Ends) -> tuple[int, int]:
        a, b = left(low, high)
        c, d = right(low, high)
        return a - d, b - c

    def multiply(low: Ends, high: Ends) -> tuple[int, int]:
        a, b = left(low, high)
        c, d = right(low, high)
        if a >= 0 and c >= 0:
            return a * c, b * d
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)

    def divide(low: Ends, high: Ends) -> tuple[int, int]:
        a, b = left(low, high)
        c, d = right(low, high)
        if c > 0:
            return (a // d if a >= 0 else a // c), (b // c if b >= 0 else b // d)
        if d < 0:
            return (b // c if b <= 0 else b // d), (a // d if a <= 0 else a // c)
        most = max(abs(a), abs(b))
        return -most, most

    def remainder(low: Ends, high: Ends) -> tuple[int, int]:
        a, b = left(low, high)
        c, d = right(low, high)
        if c == d != 0 and a // c == b // c:
            return a % c, b % c
        if a >= 0 and b < c:
            return a, b
        return min(c + 1, 0), max(d - 1, 0)

    return {"+": add, "-": subtract, "*": multiply, "//": divide, "%": remainder}[operator]


def certainty(node: Truth) -> Certainty:
    """Whether `node`, as traced, holds everywhere (YES), nowhere (NO) or cannot be told."""
    match node:
        case Known(value):
            answer = YES if value else NO
            return lambda low, high: answer
        case Both(left, right):
            first, second = certainty(left), certainty(right)
            return lambda low, high: min(first(low, high), second(low, high))
        case Either(left, right):
            first, second = certainty(left), certainty(right)
            return lambda low, high: max(first(low, high), second(low, high))
        case Comparison(operator, left, right):
            return _defined(node, _comparison(operator, bounds(left), bounds(right)))
        case _:
            raise unreadable(node)


def _comparison(operator: str, left: Bounds, right: Bounds) -> Certainty:
    def less(low: Ends, high: Ends) -> int:
        a, b = left(low, high)
        c, d = right(low, high)
        return YES if b < c else NO if a >= d else MAYBE

    def at_most(low: Ends, high: Ends) -> int:
        a, b = left(low, high)
        c, d = right(low, high)
        return YES if b <= c else NO if a > d else MAYBE

    def equal(low: Ends, high: Ends) -> int:
        a, b = left(low, high)
        c, d = right(low, high)
        if b < c or d < a:
            return NO
        return YES if a == b == c == d else MAYBE

    def unequal(low: Ends, high: Ends) -> int:
        return YES - equal(low, high)

    return {"<": less, "<=": at_most, "==": equal, "!=": unequal}[operator]


def _defined(node: Comparison, plain: Certainty) -> Certainty:
    """`plain`, where `node` does not hold when it divides by zero."""
    checked = tuple(bounds(divisor) for divisor in divisors(node))
    if not checked:
        return plain

    def guarded(low: Ends, high: Ends) -> int:
        answer = YES
        for divisor in checked:
            least, greatest = divisor(low, high)
            if least == greatest == 0:
                return NO
            if least <= 0 <= greatest:
                answer = MAYBE
        return min(answer, plain(low, high))

    return guarded
