"""How many events happen, for every trip count at once: polynomials with integer coefficients over named counts.

A loop nest without branches performs each of its events a polynomial number of times: sums over sequence, products over
nesting. Two programs that agree as polynomials agree for every value of their symbols, so equality is decided by
comparing coefficients. `is_never_negative` shifts each variable by its least value and asks for coefficients of one
sign: sound, and incomplete (x^2 - 2x + 1 is not recognised).

Not handled: division, max and min. Checked by: tests/contract/typestate/test_typestate_polynomial.py against
evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.base.value import value

Monomial = tuple[str, ...]


@value
class Polynomial:
    """terms: (monomial, coefficient) pairs, monomials as sorted tuples of variable names, coefficients never 0."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    def __add__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            # Most are counted on by a number, which stands first among the terms: they stay sorted.
            begin = 1 if self.terms and not self.terms[0][0] else 0
            constant = self.terms[0][1] + other if begin else other
            rest = self.terms[begin:]
            return Polynomial(((_ONE, constant), *rest) if constant else rest)
        added = other
        if not added.terms:
            return self
        if not self.terms:
            return added
        sums = dict(self.terms)
        for monomial, coefficient in added.terms:
            sums[monomial] = sums.get(monomial, 0) + coefficient
        return _normal(sums)

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple([(monomial, -coefficient) for monomial, coefficient in self.terms]))

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            return Polynomial(tuple([(monomial, each * other) for monomial, each in self.terms])) if other else _ZERO
        products: dict[Monomial, int] = {}
        for left, left_coefficient in self.terms:
            for right, right_coefficient in other.terms:
                monomial = tuple(sorted(left + right))
                products[monomial] = products.get(monomial, 0) + left_coefficient * right_coefficient
        return _normal(products)

    @property
    def constant(self) -> int | None:
        """The value, where it does not depend on any variable."""
        match self.terms:
            case ():
                return 0
            case (((), value),):
                return value
            case _:
                return None

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def at(self, values: Mapping[str, int]) -> int:
        """The value where variable `name` is `values[name]`. Raises KeyError for a variable without a value."""
        total = 0
        for monomial, coefficient in self.terms:
            for name in monomial:
                coefficient *= values[name]
            total += coefficient
        return total

    def is_never_negative(self, minima: Mapping[str, int]) -> bool:
        """True only if the value is >= 0 wherever each variable is at least its minimum (0 where none is given)."""
        return all(coefficient >= 0 for _, coefficient in self._shifted(minima).terms)

    def most(self, minima: Mapping[str, int]) -> int | None:
        """A number that the value never exceeds wherever each variable is at least its minimum (0 where none is
        given); None if none is found."""
        shifted = self._shifted(minima)
        if any(monomial and coefficient > 0 for monomial, coefficient in shifted.terms):
            return None
        return dict(shifted.terms).get(_ONE, 0)

    def _shifted(self, minima: Mapping[str, int]) -> Polynomial:
        """In variables that are each how far the one of that name is above its minimum."""
        shifted = Polynomial()
        for monomial, coefficient in self.terms:
            product = as_polynomial(coefficient)
            for name in monomial:
                product = product * (variable(name) + minima.get(name, 0))
            shifted = shifted + product
        return shifted

    def degree(self, name: str) -> int:
        """The highest power of a variable."""
        return max((monomial.count(name) for monomial, _ in self.terms), default=0)

    def put(self, name: str, value: Polynomial | int) -> Polynomial:
        """With a value in place of a variable."""
        result = Polynomial()
        for monomial, coefficient in self.terms:
            product = Polynomial(((tuple(each for each in monomial if each != name), coefficient),))
            for _ in range(monomial.count(name)):
                product = product * value
            result = result + product
        return result

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in sorted(self.terms, key=lambda term: (-len(term[0]), term[0])):
            size = abs(coefficient)
            factors = ([str(size)] if size != 1 or not monomial else []) + list(monomial)
            sign = "-" if coefficient < 0 else "+"
            parts.append(f"{sign} {'*'.join(factors)}")
        text = " ".join(parts) or "0"
        return text.removeprefix("+ ").replace("- ", "-", 1) if text.startswith("- ") else text.removeprefix("+ ")


def _normal(sums: Mapping[Monomial, int]) -> Polynomial:
    return Polynomial(tuple(sorted([term for term in sums.items() if term[1]])))


def as_polynomial(number: Polynomial | int) -> Polynomial:
    if isinstance(number, Polynomial):
        return number
    return Polynomial(((_ONE, number),)) if number else _ZERO


_ONE: Monomial = ()
_ZERO = Polynomial()


def variable(name: str) -> Polynomial:
    return Polynomial((((name,), 1),))
