"""What does a predicate written as plain Python arithmetic say, as a value that an engine can take apart?

A predicate is a function of integers built from `+ - * // %`, comparisons, `&` and `|`. Called with `Field` terms in
place of integers (`solve.constraints.tracing`), it returns its own syntax tree, which the engines then read: as
intervals (`solve.constraints.interval`), as a linear fact about one field (`solve.constraints.narrowing`), as a formula
(`solve.constraints.z3_engine`). So each predicate is stated once.

`//` and `%` are Python's: they round down, and the remainder has the divisor's sign.

Not handled: `and`, `or`, `not`, `if` on a term (an error: the tree would silently be half of the predicate), `min`,
`max`, powers. Checked by tests/solve/constraints/test_expression.py against the plain evaluation of drawn predicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from tilewright.base.error import TilewrightError


class _Node:
    """Refuses to be taken for a finished truth value."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TilewrightError(
            "a predicate over fields used `and`, `or`, `not` or `if` on a value that is not known yet",
            remedy="combine conditions with & and |",
        )


class Term(_Node):
    """An integer that is not known yet. Operators build trees; `==` compares the integers, not the trees."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __add__(self, other: Operand) -> Term:
        return Binary("+", self, term(other))

    def __radd__(self, other: Operand) -> Term:
        return Binary("+", term(other), self)

    def __sub__(self, other: Operand) -> Term:
        return Binary("-", self, term(other))

    def __rsub__(self, other: Operand) -> Term:
        return Binary("-", term(other), self)

    def __mul__(self, other: Operand) -> Term:
        return Binary("*", self, term(other))

    def __rmul__(self, other: Operand) -> Term:
        return Binary("*", term(other), self)

    def __floordiv__(self, other: Operand) -> Term:
        return Binary("//", self, term(other))

    def __rfloordiv__(self, other: Operand) -> Term:
        return Binary("//", term(other), self)

    def __mod__(self, other: Operand) -> Term:
        return Binary("%", self, term(other))

    def __rmod__(self, other: Operand) -> Term:
        return Binary("%", term(other), self)

    def __neg__(self) -> Term:
        return Binary("-", Constant(0), self)

    def __pos__(self) -> Term:
        return self

    def __eq__(self, other: Operand) -> Truth:  # type: ignore[override]
        return Comparison("==", self, term(other))

    def __ne__(self, other: Operand) -> Truth:  # type: ignore[override]
        return Comparison("!=", self, term(other))

    def __lt__(self, other: Operand) -> Truth:
        return Comparison("<", self, term(other))

    def __le__(self, other: Operand) -> Truth:
        return Comparison("<=", self, term(other))

    def __gt__(self, other: Operand) -> Truth:
        return Comparison("<", term(other), self)

    def __ge__(self, other: Operand) -> Truth:
        return Comparison("<=", term(other), self)


class Truth(_Node):
    """A condition that is not decided yet. In arithmetic it counts as 0 or 1; `p <= q` is implication, as for bool."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __and__(self, other: Condition) -> Truth:
        return Both(self, truth(other))

    def __rand__(self, other: Condition) -> Truth:
        return Both(truth(other), self)

    def __or__(self, other: Condition) -> Truth:
        return Either(self, truth(other))

    def __ror__(self, other: Condition) -> Truth:
        return Either(truth(other), self)

    def __invert__(self) -> Truth:
        return Negation(self)

    def __xor__(self, other: Condition) -> Truth:
        return Negation(self == other)

    __rxor__ = __xor__

    def __add__(self, other: Operand) -> Term:
        return term(self) + other

    def __radd__(self, other: Operand) -> Term:
        return other + term(self)

    def __sub__(self, other: Operand) -> Term:
        return term(self) - other

    def __rsub__(self, other: Operand) -> Term:
        return other - term(self)

    def __mul__(self, other: Operand) -> Term:
        return term(self) * other

    def __rmul__(self, other: Operand) -> Term:
        return other * term(self)

    def __eq__(self, other: Operand) -> Truth:  # type: ignore[override]
        return term(self) == other

    def __ne__(self, other: Operand) -> Truth:  # type: ignore[override]
        return term(self) != other

    def __lt__(self, other: Operand) -> Truth:
        return term(self) < other

    def __le__(self, other: Operand) -> Truth:
        return term(self) <= other

    def __gt__(self, other: Operand) -> Truth:
        return term(self) > other

    def __ge__(self, other: Operand) -> Truth:
        return term(self) >= other


@dataclass(frozen=True, slots=True, eq=False)
class Field(Term):
    """The field at `position` of the predicate's own arguments."""

    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Term):
    """A known integer."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Term):
    """operator: one of + - * // %."""

    operator: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False)
class Indicator(Term):
    """1 where the condition holds, else 0."""

    condition: Truth


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Truth):
    """operator: one of == != < <=."""

    operator: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False)
class Both(Truth):
    left: Truth
    right: Truth


@dataclass(frozen=True, slots=True, eq=False)
class Either(Truth):
    left: Truth
    right: Truth


@dataclass(frozen=True, slots=True, eq=False)
class Negation(Truth):
    inner: Truth


@dataclass(frozen=True, slots=True, eq=False)
class Known(Truth):
    """A condition that is decided."""

    value: bool


Operand = Term | Truth | int
Condition = Truth | bool
Expression = Term | Truth


def term(value: Operand) -> Term:
    """`value` as a term; a condition as its indicator."""
    if isinstance(value, Term):
        return value
    if isinstance(value, Truth):
        return Constant(int(value.value)) if isinstance(value, Known) else Indicator(value)
    return Constant(int(value))


def truth(value: object) -> Truth:
    """`value` as a condition. Raises TilewrightError where it is neither a condition nor a bool."""
    if isinstance(value, Truth):
        return value
    if isinstance(value, int) and value in (0, 1):
        return Known(bool(value))
    raise TilewrightError(f"a predicate over fields returned {type(value).__name__}, which is no condition")


def calculate(operator: str, left: int, right: int) -> int:
    """`left operator right`. Raises ZeroDivisionError."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right
        case _:
            return left % right


def compare(operator: str, difference: int) -> bool:
    """Whether `left operator right`, given left - right."""
    match operator:
        case "<":
            return difference < 0
        case "<=":
            return difference <= 0
        case "==":
            return difference == 0
        case _:
            return difference != 0


def unreadable(node: Expression) -> TilewrightError:
    """The error for a node of no known kind."""
    return TilewrightError(f"no reading of {type(node).__name__} in a predicate")


def parts(node: Expression) -> tuple[Expression, ...]:
    """The direct children of `node`."""
    match node:
        case Binary(_, left, right) | Comparison(_, left, right) | Both(left, right) | Either(left, right):
            return (left, right)
        case Indicator(inner) | Negation(inner):
            return (inner,)
        case _:
            return ()


def walk(node: Expression) -> Iterator[Expression]:
    """Every node of the tree, each shared one once, children first."""
    seen: set[int] = set()
    stack: list[tuple[Expression, bool]] = [(node, False)]
    while stack:
        current, done = stack.pop()
        if done:
            yield current
        elif id(current) not in seen:
            seen.add(id(current))
            stack.append((current, True))
            stack.extend((child, False) for child in reversed(parts(current)))


def divisors(node: Expression) -> tuple[Term, ...]:
    """What `node` divides by anywhere, constants other than zero left out."""
    found: list[Term] = []
    for inner in walk(node):
        if isinstance(inner, Binary) and inner.operator in ("//", "%"):
            divisor = inner.right
            if not (isinstance(divisor, Constant) and divisor.value != 0):
                found.append(divisor)
    return tuple(found)
