"""Below what can a cost not go, by what all constraints say together?

The intervals of a search bound a cost by its fields alone, and so never see that the box whose bytes it counts is
limited by a constraint. Here, once at the root of a search, each comparison that must hold bounds the expressions it is
made of (a multiple, a quotient, a sum with a known integer), by their structure; the cost is then evaluated over facts
of integers (`layout.numbers.integer_fact`: intervals with congruences), each expression met with its bound. A search
that reaches the floor stops.

Sound, not exact: comparisons under `|` bound nothing. Checked by tests/solve/constraints/test_fields.py (no cost below
its floor, and the optima that only a floor proves within the limit).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from tilewright.layout.numbers.integer_fact import ANY, IntegerFact, meet
from tilewright.solve.constraints.expression import (
    Binary,
    Both,
    Comparison,
    Constant,
    Field,
    Term,
    Truth,
)
from tilewright.solve.constraints.narrowing import Domain, size

Key = tuple[object, ...]
"""An expression's structure, fields by their number in the problem."""


def cost_floors(
    domains: Sequence[Domain],
    constraints: Sequence[tuple[Truth, Sequence[int]]],
    costs: Sequence[tuple[Term, Sequence[int]]],
) -> tuple[int | None, ...]:
    """A lower bound of each cost, None where none is known. Trees come with the problem's fields that they read."""
    facts = {("field", i): _fact(domain) for i, domain in enumerate(domains)}
    bounds: dict[Key, IntegerFact] = {}
    for tree, fields in constraints:
        for comparison in _conjuncts(tree):
            _learn(comparison, fields, facts, bounds)
    return tuple(_evaluate(tree, fields, facts, bounds).low for tree, fields in costs)


def _fact(domain: Domain) -> IntegerFact:
    if isinstance(domain, range):
        return IntegerFact(domain[0], domain[-1], domain.step, domain.start)
    if size(domain) == 1:
        return IntegerFact(domain[0], domain[0])
    return IntegerFact(domain[0], domain[-1], gcd(*(value - domain[0] for value in domain)), domain[0])


def _conjuncts(node: Truth) -> Iterator[Comparison]:
    match node:
        case Both(left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case Comparison():
            yield node
        case _:
            return


def _learn(
    node: Comparison, fields: Sequence[int], facts: dict[tuple[str, int], IntegerFact], bounds: dict[Key, IntegerFact]
) -> None:
    if node.operator == "!=":
        return
    left, right = (_evaluate(side, fields, facts, bounds) for side in (node.left, node.right))
    less = node.operator == "<"
    most = None if right.high is None else right.high - less
    least = None if left.low is None else left.low + less
    _bound(node.left, fields, (right.low if node.operator == "==" else None, most), bounds)
    _bound(node.right, fields, (least, left.high if node.operator == "==" else None), bounds)


def _bound(
    node: Term, fields: Sequence[int], ends: tuple[int | None, int | None], bounds: dict[Key, IntegerFact]
) -> None:
    """Keep that `node` lies between `ends`, and what this says of the part of it that is not known."""
    low, high = ends
    if low is not None and high is not None and low > high:
        return
    key = _key(node, fields)
    known = meet(bounds.get(key, ANY), IntegerFact(low, high))
    if known is None:
        return
    bounds[key] = known
    match node:
        case Binary("*", inner, Constant(k)) | Binary("*", Constant(k), inner) if k > 0:
            inward = None if low is None else -(-low // k), None if high is None else high // k
        case Binary("//", inner, Constant(k)) if k > 0:
            inward = None if low is None else low * k, None if high is None else high * k + k - 1
        case Binary("+", inner, Constant(k)) | Binary("+", Constant(k), inner):
            inward = None if low is None else low - k, None if high is None else high - k
        case Binary("-", inner, Constant(k)):
            inward = None if low is None else low + k, None if high is None else high + k
        case Binary("-", Constant(k), inner):
            inward = None if high is None else k - high, None if low is None else k - low
        case _:
            return
    _bound(inner, fields, inward, bounds)


def _evaluate(
    node: Term, fields: Sequence[int], facts: dict[tuple[str, int], IntegerFact], bounds: dict[Key, IntegerFact]
) -> IntegerFact:
    match node:
        case Field(position):
            found = facts["field", fields[position]]
        case Constant(value):
            return IntegerFact(value, value)
        case Binary(operator, left, right):
            a, b = (_evaluate(side, fields, facts, bounds) for side in (left, right))
            match operator:
                case "+":
                    found = a + b
                case "-":
                    found = a - b
                case "*":
                    found = a * b
                case "//":
                    found = a // b
                case _:
                    found = a % b
        case _:
            found = IntegerFact(0, 1)
    bound = bounds.get(_key(node, fields))
    # No value satisfies both: the search finds out by itself that the constraints conflict.
    return found if bound is None else meet(found, bound) or found


def _key(node: Term, fields: Sequence[int]) -> Key:
    match node:
        case Field(position):
            return ("field", fields[position])
        case Constant(value):
            return ("constant", value)
        case Binary(operator, left, right):
            return (operator, _key(left, fields), _key(right, fields))
        case _:
            return ("opaque", id(node))
