"""Integer arithmetic over named integers, kept in a normal form so that relations between them are not lost.

Theory: polynomials with integer coefficients over atoms; an atom is a name, a quotient rounded down or a remainder of
two expressions. Sums and products of the same names combine: `2*N - N - N` is 0, whatever N is. Quotients and
remainders by a constant are simplified exactly: what the divisor divides leaves a quotient, and a remainder as zero.

Not handled: identities between quotients and remainders (`x//c*c + x%c` does not become x). Facts of an expression are
those of its parts, combined by `tilewright.layout.numbers.integer_fact`; only sums of equal monomials are seen as
related. Checked by tests/layout/numbers/test_integer_expression.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Literal, Protocol

from tilewright.layout.numbers.integer_fact import ANY, IntegerFact, as_fact


@dataclass(frozen=True, slots=True)
class Quotient:
    """`dividend // divisor`, rounded down."""

    dividend: IntegerExpression
    divisor: IntegerExpression

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True, slots=True)
class Remainder:
    """`dividend % divisor`, with the divisor's sign."""

    dividend: IntegerExpression
    divisor: IntegerExpression

    def __str__(self) -> str:
        return text(self)


Atom = str | Quotient | Remainder
Monomial = tuple[Atom, ...]
"""Atoms whose product it is, sorted by their text; the empty one is 1."""


@dataclass(frozen=True, slots=True)
class IntegerExpression:
    """terms: (monomial, coefficient) pairs in order, no monomial twice, no coefficient 0."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    def __add__(self, other: Operand) -> IntegerExpression:
        return _sum((*self.terms, *as_expression(other).terms))

    def __neg__(self) -> IntegerExpression:
        return IntegerExpression(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __sub__(self, other: Operand) -> IntegerExpression:
        return self + (-as_expression(other))

    def __rsub__(self, other: int) -> IntegerExpression:
        return as_expression(other) - self

    def __mul__(self, other: Operand) -> IntegerExpression:
        right = as_expression(other).terms
        return _sum((_sorted((*a, *b)), left * factor) for a, left in self.terms for b, factor in right)

    def __floordiv__(self, other: Operand) -> IntegerExpression:
        return quotient(self, as_expression(other))

    def __rfloordiv__(self, other: int) -> IntegerExpression:
        return quotient(as_expression(other), self)

    def __mod__(self, other: Operand) -> IntegerExpression:
        return remainder(self, as_expression(other))

    def __rmod__(self, other: int) -> IntegerExpression:
        return remainder(as_expression(other), self)

    __radd__ = __add__
    __rmul__ = __mul__

    @property
    def constant(self) -> int | None:
        """The value, where it depends on no name."""
        match self.terms:
            case ():
                return 0
            case (((), value),):
                return value
            case _:
                return None

    @property
    def constant_part(self) -> int:
        """The coefficient of 1."""
        return self.terms[0][1] if self.terms and not self.terms[0][0] else 0

    @property
    def unknown_part(self) -> IntegerExpression:
        """The expression without its constant part."""
        return IntegerExpression(self.terms[1:]) if self.terms and not self.terms[0][0] else self

    @property
    def names(self) -> frozenset[str]:
        """Every name that occurs."""
        return frozenset(_names(self))

    def at(self, values: Mapping[str, int]) -> int:
        """The value for given names. Raises KeyError for a name without value, ZeroDivisionError."""
        total = 0
        for monomial, product in self.terms:
            for atom in monomial:
                match atom:
                    case str():
                        product *= values[atom]
                    case Quotient(dividend, divisor):
                        product *= dividend.at(values) // divisor.at(values)
                    case Remainder(dividend, divisor):
                        product *= dividend.at(values) % divisor.at(values)
            total += product
        return total

    def fact(self, facts: Mapping[str, IntegerFact]) -> IntegerFact:
        """What is known of the value, for facts of its names; nothing is known of names without."""
        total = _ZERO
        for monomial, coefficient in self.terms:
            product = as_fact(coefficient)
            for atom in monomial:
                product = atom_fact(atom, facts) * product
            total = product if total is _ZERO else total + product
        return total

    def __str__(self) -> str:
        return text(self)


class Named(Protocol):
    """What stands for an expression, such as a declared size."""

    @property
    def expression(self) -> IntegerExpression: ...


Operand = IntegerExpression | int | Named

_ZERO = as_fact(0)


def variable(name: str) -> IntegerExpression:
    return IntegerExpression((((name,), 1),))


def as_expression(value: Operand) -> IntegerExpression:
    match value:
        case IntegerExpression():
            return value
        case int():
            return IntegerExpression((((), value),)) if value else IntegerExpression()
        case _:
            return value.expression


def of_atom(atom: Atom) -> IntegerExpression:
    """The expression that is this atom."""
    return IntegerExpression((((atom,), 1),))


def atom_fact(atom: Atom, facts: Mapping[str, IntegerFact]) -> IntegerFact:
    """What is known of one atom."""
    match atom:
        case str():
            return facts.get(atom, ANY)
        case Quotient(dividend, divisor):
            return dividend.fact(facts) // divisor.fact(facts)
        case Remainder(dividend, divisor):
            return dividend.fact(facts) % divisor.fact(facts)


def quotient(dividend: IntegerExpression, divisor: IntegerExpression) -> IntegerExpression:
    """`dividend // divisor`. Raises ZeroDivisionError for the constant divisor zero."""
    by = divisor.constant
    if by == 0:
        raise ZeroDivisionError("integer division by zero")
    if by is None:
        return of_atom(Quotient(dividend, divisor))
    if by < 0:
        return quotient(-dividend, as_expression(-by))
    whole = IntegerExpression(tuple((m, c // by) for m, c in dividend.terms if c % by == 0))
    rest = IntegerExpression(tuple((m, c) for m, c in dividend.terms if c % by))
    whole, rest = whole + rest.constant_part // by, rest - rest.constant_part // by * by
    shared = gcd(by, *(c for m, c in rest.terms if m))
    # (g y + r) // (g d) = y // d for 0 <= r < g, and with r = g q + s it is (y + q) // d
    rest = _sum((m, c // shared) for m, c in rest.terms)
    by //= shared
    known = rest.constant
    if known is not None:
        return whole + known // by
    if by == 1:
        return whole + rest
    return whole + of_atom(Quotient(rest, as_expression(by)))


def remainder(dividend: IntegerExpression, divisor: IntegerExpression) -> IntegerExpression:
    """`dividend % divisor`. Raises ZeroDivisionError for the constant divisor zero."""
    by = divisor.constant
    if by == 0:
        raise ZeroDivisionError("integer modulo by zero")
    if by is None:
        return of_atom(Remainder(dividend, divisor))
    if by < 0:
        return -remainder(-dividend, as_expression(-by))
    rest = _sum((m, c % by) for m, c in dividend.terms)
    known = rest.constant
    if known is not None:
        return as_expression(known)
    shared = gcd(by, *(c for _, c in rest.terms))
    if shared == by:
        return as_expression(0)
    # (g y) % (g d) = g (y % d)
    rest = IntegerExpression(tuple((m, c // shared) for m, c in rest.terms))
    return of_atom(Remainder(rest, as_expression(by // shared))) * shared


def substitute(expression: IntegerExpression, values: Mapping[str, int]) -> IntegerExpression:
    """The expression with some names replaced by numbers."""
    if not any(name in values for name in _names(expression)):
        return expression
    total = IntegerExpression()
    for monomial, coefficient in expression.terms:
        product = as_expression(coefficient)
        for atom in monomial:
            match atom:
                case str():
                    product = product * (values[atom] if atom in values else variable(atom))
                case Quotient(dividend, divisor):
                    product = product * quotient(substitute(dividend, values), substitute(divisor, values))
                case Remainder(dividend, divisor):
                    product = product * remainder(substitute(dividend, values), substitute(divisor, values))
        total = total + product
    return total


Language = Literal["python", "c"]


def text(expression: IntegerExpression | Atom, language: Language = "python") -> str:
    """As Python or C writes it. In C, `/` and `%` round towards zero: the same for operands that are not negative."""
    match expression:
        case str():
            return expression
        case Quotient(dividend, divisor):
            return f"{_operand(dividend, language)}{'//' if language == 'python' else '/'}{_operand(divisor, language)}"
        case Remainder(dividend, divisor):
            return f"{_operand(dividend, language)} % {_operand(divisor, language)}"
        case IntegerExpression():
            parts: list[str] = []
            for monomial, coefficient in sorted(expression.terms, key=lambda term: (-len(term[0]), _key(term[0]))):
                alone = len(monomial) == 1 and coefficient == 1
                factors = [
                    text(a, language) if alone or isinstance(a, str) else f"({text(a, language)})" for a in monomial
                ]
                if abs(coefficient) != 1 or not monomial:
                    factors.insert(0, str(abs(coefficient)))
                sign = ("-" if not parts else " - ") if coefficient < 0 else ("" if not parts else " + ")
                parts.append(sign + "*".join(factors))
            return "".join(parts) or "0"


def _operand(expression: IntegerExpression, language: Language) -> str:
    written = text(expression, language)
    simple = len(expression.terms) == 1 and written.replace("_", "a").isalnum()
    return written if simple else f"({written})"


def _names(expression: IntegerExpression) -> Iterator[str]:
    for monomial, _ in expression.terms:
        for atom in monomial:
            if isinstance(atom, str):
                yield atom
            else:
                yield from _names(atom.dividend)
                yield from _names(atom.divisor)


def _sum(terms: Iterable[tuple[Monomial, int]]) -> IntegerExpression:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = [(monomial, coefficient) for monomial, coefficient in sums.items() if coefficient]
    if len(kept) > 1:
        kept.sort(key=lambda term: _key(term[0]))
    return IntegerExpression(tuple(kept))


def _sorted(monomial: Monomial) -> Monomial:
    return monomial if len(monomial) < 2 else tuple(sorted(monomial, key=str))


@lru_cache(maxsize=4096)
def _key(monomial: Monomial) -> tuple[str, ...]:
    return tuple(str(atom) for atom in monomial)
