"""Under which sizes is something legal? A condition on named sizes that a program can ask before it launches.

A guard is a conjunction: what was assumed of the sizes (their declared ranges and divisibility, and conditions given
with them), and the conditions that remain. It is evaluated in Python, and written as Python; `fits_in` says whether a
program may compute an expression of the sizes in 64 bits.

Checked by tests/legal/symbolic/test_guard.py and tests/lower/ptx/test_map_patch.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import (
    Condition,
    condition_text,
    every,
    holds,
)
from tilewright.layout.numbers.integer_expression import IntegerExpression, atom_fact
from tilewright.layout.numbers.integer_fact import ANY, IntegerFact, as_fact, meet

INT64 = IntegerFact(-(2**63), 2**63 - 1)
"""What a signed 64-bit word holds."""


@dataclass(frozen=True, slots=True)
class Guard:
    """declared: what is assumed of each size, by name; assumed: conditions assumed besides; conditions: what remains to
    be asked, all of which must hold; none: nothing remains."""

    declared: tuple[tuple[str, IntegerFact], ...]
    assumed: Condition
    conditions: tuple[Condition, ...]

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether these sizes satisfy the assumptions and the conditions. Raises TilewrightError for a missing size."""
        missing = [name for name, _ in self.declared if name not in sizes]
        if missing:
            raise TilewrightError(f"the guard needs the size {missing[0]}", remedy="give every size that was declared")
        return (
            all(sizes[name] in fact for name, fact in self.declared)
            and holds(self.assumed, sizes)
            and all(holds(condition, sizes) for condition in self.conditions)
        )

    @property
    def text(self) -> str:
        """The conditions as Python writes them, such as `N % 8 == 0 and M >= 1`; `True` where none remains."""
        return condition_text(every(self.conditions))

    def __str__(self) -> str:
        return self.text


def fits_in(expression: IntegerExpression, facts: Mapping[str, IntegerFact], word: IntegerFact = INT64) -> bool:
    """Whether every step of computing the expression stays in the word: the sum of magnitudes does."""
    match expression.terms:
        case (((str() as name,), 1),):
            # no step at all: the size is there already
            return meet(facts.get(name, ANY), word) == facts.get(name, ANY)
        case _:
            pass
    total = as_fact(0)
    for monomial, coefficient in expression.terms:
        product = as_fact(abs(coefficient))
        for atom in monomial:
            if not isinstance(atom, str) and not (
                fits_in(atom.dividend, facts, word) and fits_in(atom.divisor, facts, word)
            ):
                return False
            product = product * _magnitude(atom_fact(atom, facts))
        total = total + product
    return total.high is not None and word.high is not None and total.high <= word.high


def _magnitude(fact: IntegerFact) -> IntegerFact:
    # at least 1, so that a factor that may be zero does not hide the size of the steps before it
    if fact.low is None or fact.high is None:
        return ANY
    return as_fact(max(abs(fact.low), abs(fact.high), 1))
