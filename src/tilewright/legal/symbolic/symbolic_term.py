"""How are the rules of tensor maps read over numbers that are not known yet?

Two domains for `tilewright.legal.tensor_map.rule`. A `Term` is an expression of named integers: comparisons give
conditions, or a bool where they need no facts. A `FactTerm` is an integer of which only an interval and a congruence
are known: comparisons give yes, no or maybe; quick, and blind to relations between fields.

Both are sound by their parts (`tilewright.layout`). Checked by tests/legal/symbolic/test_symbolic.py, rule by rule
against the integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.layout.numbers.condition import Condition, at_least_zero, is_zero, negation
from tilewright.layout.numbers.integer_expression import IntegerExpression, as_expression
from tilewright.layout.numbers.integer_fact import IntegerFact, Truth, as_fact, equal


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An expression as the rules compute with it."""

    expression: IntegerExpression

    def __add__(self, other: Term | int) -> Term:
        return Term(self.expression + _expression(other))

    def __sub__(self, other: Term | int) -> Term:
        return Term(self.expression - _expression(other))

    def __rsub__(self, other: int) -> Term:
        return Term(as_expression(other) - self.expression)

    def __mul__(self, other: Term | int) -> Term:
        return Term(self.expression * _expression(other))

    def __floordiv__(self, other: Term | int) -> Term:
        return Term(self.expression // _expression(other))

    def __rfloordiv__(self, other: int) -> Term:
        return Term(as_expression(other) // self.expression)

    def __mod__(self, other: Term | int) -> Term:
        return Term(self.expression % _expression(other))

    def __rmod__(self, other: int) -> Term:
        return Term(as_expression(other) % self.expression)

    __radd__ = __add__
    __rmul__ = __mul__

    def __le__(self, other: Term | int) -> Condition:
        return at_least_zero(_expression(other) - self.expression)

    def __lt__(self, other: Term | int) -> Condition:
        return at_least_zero(_expression(other) - self.expression - 1)

    def __ge__(self, other: Term | int) -> Condition:
        return at_least_zero(self.expression - _expression(other))

    def __gt__(self, other: Term | int) -> Condition:
        return at_least_zero(self.expression - _expression(other) - 1)

    def __eq__(self, other: object) -> Any:
        return is_zero(self.expression - _expression(other))

    def __ne__(self, other: object) -> Any:
        return negation(is_zero(self.expression - _expression(other)))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __str__(self) -> str:
        return str(self.expression)


@dataclass(frozen=True, slots=True, eq=False)
class FactTerm:
    """A fact as the rules compute with it."""

    fact: IntegerFact

    def __add__(self, other: FactTerm | int) -> FactTerm:
        return FactTerm(self.fact + _fact(other))

    def __sub__(self, other: FactTerm | int) -> FactTerm:
        return FactTerm(self.fact - _fact(other))

    def __rsub__(self, other: int) -> FactTerm:
        return FactTerm(as_fact(other) - self.fact)

    def __mul__(self, other: FactTerm | int) -> FactTerm:
        return FactTerm(self.fact * _fact(other))

    def __floordiv__(self, other: FactTerm | int) -> FactTerm:
        return FactTerm(self.fact // _fact(other))

    def __rfloordiv__(self, other: int) -> FactTerm:
        return FactTerm(as_fact(other) // self.fact)

    def __mod__(self, other: FactTerm | int) -> FactTerm:
        return FactTerm(self.fact % _fact(other))

    def __rmod__(self, other: int) -> FactTerm:
        return FactTerm(as_fact(other) % self.fact)

    __radd__ = __add__
    __rmul__ = __mul__

    def __le__(self, other: FactTerm | int) -> Truth:
        return self.fact <= _fact(other)

    def __lt__(self, other: FactTerm | int) -> Truth:
        return self.fact < _fact(other)

    def __ge__(self, other: FactTerm | int) -> Truth:
        return self.fact >= _fact(other)

    def __gt__(self, other: FactTerm | int) -> Truth:
        return self.fact > _fact(other)

    def __eq__(self, other: object) -> Any:
        return equal(self.fact, _fact(other))

    def __ne__(self, other: object) -> Any:
        return ~equal(self.fact, _fact(other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __str__(self) -> str:
        return str(self.fact)


def _expression(value: object) -> IntegerExpression:
    match value:
        case Term(expression):
            return expression
        case int():
            return as_expression(value)
        case _:
            raise TypeError(f"{value!r} is no number of the rules")


def _fact(value: object) -> IntegerFact:
    match value:
        case FactTerm(fact):
            return fact
        case int():
            return as_fact(value)
        case _:
            raise TypeError(f"{value!r} is no number of the rules")
