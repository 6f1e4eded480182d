"""Which terms are one, but for the order of sums and products?

Roles of a kernel compute the same number in different orders: `(a * b) * c` here, `c * (b * a)` there. That two such
products are equal takes a solver of bit vectors very long; brought into one order, they are the same term. Equal terms
get one number, too, so that what has no meaning for the solver is at least the same where it is applied to the same.

Source: hash consing (Ershov, "On Programming of Arithmetic Operations", CACM 1958); sums and products modulo 2^n are
associative and commutative.
Not handled: differences, shifts that are products, sums of products. Checked by:
tests/driver/explore/search/test_reachable.py, test_symbolic_terms.py.
"""

from __future__ import annotations

from tilewright.solve.bit_vectors import Applied, Number, Term, Variable

_ANY_ORDER = frozenset({"add", "mul"})
"""Operations whose operands may change places, however they nest."""


class Ordered:
    """Terms, each once, with sums and products in one order: `(a * b) * c` and `c * (b * a)` are one term. Solvers take
    long to see that of products."""

    def __init__(self) -> None:
        self._once: dict[tuple[object, ...], Term] = {}
        # By identity: the terms that were asked about, which are kept, and what each is in that order, with its number.
        self._known: dict[int, tuple[Term, Term, int]] = {}
        self._parts: dict[int, tuple[Term, ...]] = {}

    def number(self, term: Term) -> int:
        """A number that equal terms share."""
        return self._found(term)[2]

    def of(self, term: Term) -> Term:
        """The term in that order."""
        return self._found(term)[1]

    def _found(self, term: Term) -> tuple[Term, Term, int]:
        known = self._known.get(id(term))
        if known is None:
            match term:
                case Applied(operation, terms, width, numbers):
                    ordered = tuple(map(self.of, terms))
                    if operation in _ANY_ORDER:
                        found = self._joined(operation, ordered, width)
                    else:
                        key = operation, width, numbers, *map(self.number, ordered)
                        found = self._kept(key, Applied(operation, ordered, width, numbers))
                case Number(value, width):
                    found = self._kept((value, width), term)
                case Variable():
                    found = self._kept((term,), term)
            number = self._known[id(found)][2]
            known = self._known[id(term)] = term, found, number
        return known

    def _kept(self, key: tuple[object, ...], term: Term) -> Term:
        found = self._once.get(key)
        if found is None:
            found = self._once[key] = term
            self._known[id(term)] = term, term, len(self._once)
        return found

    def _joined(self, operation: str, terms: tuple[Term, ...], width: int) -> Term:
        parts = sorted((part for each in terms for part in self._parts_of(operation, each)), key=self.number)
        found = parts[0]
        for place, each in enumerate(parts[1:], 2):
            key = operation, width, (), self.number(found), self.number(each)
            found = self._kept(key, Applied(operation, (found, each), width))
            self._parts[self.number(found)] = tuple(parts[:place])
        return found

    def _parts_of(self, operation: str, term: Term) -> tuple[Term, ...]:
        joined = isinstance(term, Applied) and term.operation == operation
        return self._parts.get(self.number(term), (term,)) if joined else (term,)
