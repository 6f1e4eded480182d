"""Under which sizes is something legal? A condition on named sizes that a program can ask before it launches.

A guard is a conjunction: what was assumed of the sizes (their declared ranges and divisibility, and conditions given
with them), and the conditions that remain. It is evaluated in Python, and written as Python or C. The C text is for
sizes held in signed 64-bit integers; where a product might not fit it is computed in `__int128`, and where even that
might overflow, or where C would round the other way, there is no text but an error.

Checked by tests/legal/symbolic/test_guard.py, the C text by a compiler where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import (
    Comparison,
    Condition,
    Either,
    Every,
    condition_text,
    every,
    holds,
    sides,
)
from tilewright.layout.numbers.condition_facts import refine
from tilewright.layout.numbers.integer_expression import IntegerExpression, Quotient, Remainder, atom_fact
from tilewright.layout.numbers.integer_fact import ANY, IntegerFact, as_fact, meet

INT64 = IntegerFact(-(2**63), 2**63 - 1)
"""What a signed 64-bit word holds."""
INT128 = IntegerFact(-(2**127), 2**127 - 1)


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

    @property
    def c_text(self) -> str:
        """The conditions as C writes them; `1` where none remains. Raises TilewrightError where 128 bits might overflow
        or an operand of a division might be negative."""
        facts = dict(self.declared)
        known = refine(self.assumed, facts) or facts
        known = {name: meet(fact, INT64) or fact for name, fact in known.items()}
        words: list[str] = []
        for condition in self.conditions:
            words.append(_c_condition(condition, known))
            # && asks the next only where this one holds
            known = refine(condition, known) or known
        return " && ".join(words) or "1"

    def __str__(self) -> str:
        return self.text


def _c_condition(condition: Condition, facts: Mapping[str, IntegerFact]) -> str:
    match condition:
        case bool():
            return str(int(condition))
        case Comparison(expression, relation):
            left, symbol, right = sides(expression, relation)
            fits = fits_in(left, facts, INT64) and fits_in(right, facts, INT64)
            if not (fits or (fits_in(left, facts, INT128) and fits_in(right, facts, INT128))):
                raise TilewrightError(
                    f"{condition} may overflow 128 bits", remedy="give its sizes upper bounds, and ask again"
                )
            return f"{_c_expression(left, facts, wide=not fits)} {symbol} {_c_expression(right, facts, wide=not fits)}"
        case Every(parts):
            return "(" + " && ".join(_c_condition(part, facts) for part in parts) + ")"
        case Either(parts):
            return "(" + " || ".join(_c_condition(part, facts) for part in parts) + ")"


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


def _c_expression(expression: IntegerExpression, facts: Mapping[str, IntegerFact], *, wide: bool) -> str:
    written = ""
    # Products first and the constant last, as people write.
    for monomial, coefficient in sorted(expression.terms, key=lambda term: -len(term[0])):
        factors = [_c_factor(atom, facts, wide=wide) for atom in monomial]
        if abs(coefficient) != 1 or not monomial:
            if coefficient not in INT64:
                raise TilewrightError(f"C has no integer {coefficient}", remedy="use smaller numbers")
            factors.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        written += f" {sign} {'*'.join(factors)}" if written else ("-" if coefficient < 0 else "") + "*".join(factors)
    return written or "0"


def _c_factor(atom: str | Quotient | Remainder, facts: Mapping[str, IntegerFact], *, wide: bool) -> str:
    if isinstance(atom, str):
        return f"(__int128){atom}" if wide else atom
    low, by = atom.dividend.fact(facts).low, atom.divisor.fact(facts).low
    if low is None or low < 0 or by is None or by < 1:
        raise TilewrightError(
            f"{atom} may have a negative operand, which C rounds towards zero",
            remedy="declare its sizes as at least 0, and ask again",
        )
    dividend = _c_expression(atom.dividend, facts, wide=wide)
    divisor = _c_expression(atom.divisor, facts, wide=wide)
    dividend = dividend if dividend.isidentifier() else f"({dividend})"
    divisor = divisor if divisor.isdigit() else f"({divisor})"
    return f"({dividend} {'/' if isinstance(atom, Quotient) else '%'} {divisor})"
