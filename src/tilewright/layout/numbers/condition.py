"""Which values of named integers satisfy a predicate?

Theory: formulas without quantifiers over `tilewright.layout.numbers.integer_expression`, in a normal form: comparisons
with zero, divided by what their coefficients share; quotients in inequalities are multiplied out and congruences solved
for their unknown, both exactly, so that `(2*N) % 16 == 0` becomes `N % 8 == 0`. What facts decide of a condition:
`tilewright.layout.numbers.condition_facts`.

A condition that is decided is Python's bool, which `&` and `|` take on either side. Not handled: quantifiers,
elimination of names. Checked by tests/layout/numbers/test_condition.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Literal

from tilewright.layout.numbers.integer_expression import (
    IntegerExpression,
    Quotient,
    Remainder,
    as_expression,
    remainder,
    text,
)

Relation = Literal["==", "!=", ">="]


@dataclass(frozen=True, slots=True)
class _Formula:
    """What the undecided conditions share: the operators of logic."""

    def __and__(self, other: object) -> Condition:
        return every((_condition(self), _condition(other)))

    def __or__(self, other: object) -> Condition:
        return either((_condition(self), _condition(other)))

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Condition:
        return negation(_condition(self))

    def __bool__(self) -> bool:
        raise TypeError("an undecided condition is not true or false: simplify it, or ask `holds`")

    def __str__(self) -> str:
        return condition_text(_condition(self))


@dataclass(frozen=True, slots=True)
class Comparison(_Formula):
    """`expression` compared with 0. Made by `is_zero` and `at_least_zero` alone, which bring it into normal form."""

    expression: IntegerExpression
    relation: Relation


@dataclass(frozen=True, slots=True)
class Every(_Formula):
    """All of the parts, of which there are at least two."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either(_Formula):
    """At least one of the parts, of which there are at least two."""

    parts: tuple[Condition, ...]


Condition = bool | Comparison | Every | Either


def is_zero(expression: IntegerExpression) -> Condition:
    """The condition `expression == 0`."""
    known = expression.constant
    if known is not None:
        return known == 0
    unknown = expression.unknown_part
    shared = gcd(*(coefficient for _, coefficient in unknown.terms))
    if unknown.terms[0][1] < 0:
        shared = -shared
    if expression.constant_part % shared:
        return False
    expression = _divided(expression, shared)
    match _divided(unknown, shared).terms:
        case (((Remainder(dividend, divisor),), 1),) if (by := divisor.constant) is not None and by > 0:
            wanted = -expression.constant_part
            return congruence(dividend, by, wanted) if 0 <= wanted < by else False
        case _:
            return Comparison(expression, "==")


def at_least_zero(expression: IntegerExpression) -> Condition:
    """The condition `expression >= 0`."""
    known = expression.constant
    if known is not None:
        return known >= 0
    shared = gcd(*(coefficient for monomial, coefficient in expression.terms if monomial))
    # integers: g x + b >= 0 exactly where x + floor(b / g) >= 0
    expression = _divided(expression, shared)
    offset = expression.constant_part
    match expression.unknown_part.terms:
        case (((Quotient(dividend, divisor),), sign),) if (by := divisor.constant) is not None and by > 0:
            return at_least_zero(dividend + offset * by if sign == 1 else offset * by + (by - 1) - dividend)
        case _:
            return Comparison(expression, ">=")


def _divided(expression: IntegerExpression, by: int) -> IntegerExpression:
    terms = ((monomial, coefficient // by) for monomial, coefficient in expression.terms)
    return IntegerExpression(tuple(term for term in terms if term[1]))


def congruence(dividend: IntegerExpression, by: int, wanted: int) -> Condition:
    """The condition `dividend % by == wanted`, solved for the one unknown where there is but one."""
    offset = dividend.constant_part
    wanted = (wanted - offset) % by
    unknown = IntegerExpression(tuple((m, c % by) for m, c in dividend.unknown_part.terms if c % by))
    shared = gcd(by, *(coefficient for _, coefficient in unknown.terms))
    if wanted % shared:
        return False
    unknown, by, wanted = _divided(unknown, shared), by // shared, wanted // shared
    if by == 1:
        return True
    if len(unknown.terms) == 1:
        wanted = wanted * pow(unknown.terms[0][1], -1, by) % by
        unknown = IntegerExpression(((unknown.terms[0][0], 1),))
    return Comparison(remainder(unknown, as_expression(by)) - wanted, "==")


def every(conditions: Iterable[Condition]) -> Condition:
    """The conjunction."""
    parts: dict[Condition, None] = {}
    for condition in conditions:
        if condition is False:
            return False
        if condition is not True:
            parts.update(dict.fromkeys(condition.parts if isinstance(condition, Every) else (condition,)))
    return Every(tuple(parts)) if len(parts) > 1 else next(iter(parts), True)


def either(conditions: Iterable[Condition]) -> Condition:
    """The disjunction."""
    parts: dict[Condition, None] = {}
    for condition in conditions:
        if condition is True:
            return True
        if condition is not False:
            parts.update(dict.fromkeys(condition.parts if isinstance(condition, Either) else (condition,)))
    return Either(tuple(parts)) if len(parts) > 1 else next(iter(parts), False)


def negation(condition: Condition) -> Condition:
    match condition:
        case bool():
            return not condition
        case Comparison(expression, ">="):
            return at_least_zero(-expression - 1)
        case Comparison(expression, relation):
            return Comparison(expression, "!=" if relation == "==" else "==")
        case Every(parts):
            return either(negation(part) for part in parts)
        case Either(parts):
            return every(negation(part) for part in parts)


def _condition(value: object) -> Condition:
    if not isinstance(value, bool | Comparison | Every | Either):
        raise TypeError(f"{value!r} is no condition")
    return value


def holds(condition: Condition, values: Mapping[str, int]) -> bool:
    """Whether the condition is true of these values. Raises KeyError for a name without value, ZeroDivisionError."""
    match condition:
        case bool():
            return condition
        case Comparison(expression, relation):
            value = expression.at(values)
            return value >= 0 if relation == ">=" else (value == 0) == (relation == "==")
        case Every(parts):
            return all(holds(part, values) for part in parts)
        case Either(parts):
            return any(holds(part, values) for part in parts)


def names_of(condition: Condition) -> frozenset[str]:
    """Every name that the condition mentions."""
    match condition:
        case bool():
            return frozenset()
        case Comparison(expression):
            return expression.names
        case Every(parts) | Either(parts):
            return frozenset[str]().union(*(names_of(part) for part in parts))


def parts_of(condition: Condition) -> tuple[Condition, ...]:
    """The conditions whose conjunction it is; none for True."""
    match condition:
        case True:
            return ()
        case Every(parts):
            return parts
        case _:
            return (condition,)


def condition_text(condition: Condition) -> str:
    """As Python writes it."""
    match condition:
        case bool():
            return str(condition)
        case Comparison(expression, relation):
            left, symbol, right = sides(expression, relation)
            return f"{text(left)} {symbol} {text(right)}"
        case Every(parts):
            return " and ".join(f"({part})" if isinstance(part, Either) else str(part) for part in parts)
        case Either(parts):
            return " or ".join(str(part) for part in parts)


def sides(expression: IntegerExpression, relation: Relation) -> tuple[IntegerExpression, str, IntegerExpression]:
    """The comparison with zero as people write it: nothing negative, unknowns on the left where they can be."""
    offset = expression.constant_part
    unknown = expression.unknown_part
    positive = IntegerExpression(tuple(term for term in unknown.terms if term[1] > 0))
    negative = IntegerExpression(tuple((m, -c) for m, c in unknown.terms if c < 0))
    if not negative.terms:
        return positive, relation, as_expression(-offset)
    if not positive.terms:
        return negative, "<=" if relation == ">=" else relation, as_expression(offset)
    return (positive + offset, relation, negative) if offset > 0 else (positive, relation, negative - offset)
