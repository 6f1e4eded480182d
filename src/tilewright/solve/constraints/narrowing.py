"""Which values of one field satisfy a condition, when every other field is fixed?

Where the condition is linear in the field (bounds, congruences, and what `&` and decided `|` build from them), the
answer is computed, also for a domain of 2^64 values; otherwise the domain comes back with `exact` False, and the caller
filters or searches it.

A domain is an ascending `range` or an ascending tuple of distinct integers. Not handled: a hole in a large range, a
union of ranges (both inexact). Checked by tests/solve/constraints/test_expression.py against filtering.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

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
    compare,
    divisors,
)

Domain = range | tuple[int, ...]

_ENUMERATED = 1024
"""Values up to which a range with a hole becomes a tuple."""


def narrow(node: Truth, fixed: Sequence[int | None], domain: Domain) -> tuple[Domain, bool]:
    """`domain` without values at which `node` fails, and whether none such is left.

    fixed: values by position; None at the free field. node: as traced.
    """
    match node:
        case Known(value):
            return (domain if value else ()), True
        case Both(left, right):
            kept, first = narrow(left, fixed, domain)
            if not kept:
                return kept, True
            kept, second = narrow(right, fixed, kept)
            return kept, (first and second) or not kept
        case Either(left, right):
            kept, exact = narrow(left, fixed, domain)
            if exact and not kept:
                return narrow(right, fixed, domain)
            if exact and kept == domain:
                return domain, True
            other, other_exact = narrow(right, fixed, domain)
            if other_exact and not other:
                return kept, exact
            if isinstance(kept, tuple) and isinstance(other, tuple) and exact and other_exact:
                return tuple(sorted({*kept, *other})), True
            return domain, other_exact and other == domain
        case Comparison():
            return _compare(node, fixed, domain)
        case _:
            return domain, False


def size(domain: Domain) -> int:
    """How many values. Unlike `len`, also where they are more than 2^63."""
    if isinstance(domain, range):
        return max(0, -((domain.start - domain.stop) // domain.step))
    return len(domain)


def clip(domain: Domain, low: int | None, high: int | None) -> Domain:
    """The values from `low` to `high`, both included."""
    if not isinstance(domain, range):
        return tuple(value for value in domain if (low is None or value >= low) and (high is None or value <= high))
    start, stop, step = domain.start, domain.stop, domain.step
    if low is not None and low > start:
        start += -((start - low) // step) * step
    if high is not None:
        stop = min(stop, high + 1)
    return range(start, max(start, stop), step)


def congruent(domain: Domain, factor: int, offset: int, modulus: int) -> Domain:
    """The values x for which `factor * x + offset` is a multiple of `modulus` (positive)."""
    if not isinstance(domain, range):
        return tuple(value for value in domain if (factor * value + offset) % modulus == 0)
    # With x = start + step * k: a linear congruence in k.
    coefficient, target = factor * domain.step, -(factor * domain.start + offset)
    common = gcd(coefficient, modulus)
    if target % common:
        return ()
    period = modulus // common
    first = target // common * pow(coefficient // common, -1, period) % period if period > 1 else 0
    start = domain.start + domain.step * first
    return range(start, max(start, domain.stop), domain.step * period)


def linear(node: Term, fixed: Sequence[int | None]) -> tuple[int, int] | None:
    """`(factor, offset)` where `node` equals factor * x + offset for the free field x, or None where it may not."""
    match node:
        case Field(position):
            value = fixed[position]
            return (1, 0) if value is None else (0, value)
        case Constant(value):
            return 0, value
        case Binary(operator, left, right):
            first, second = linear(left, fixed), linear(right, fixed)
            if first is None or second is None:
                return None
            (a, b), (c, d) = first, second
            match operator:
                case "+":
                    return a + c, b + d
                case "-":
                    return a - c, b - d
                case "*":
                    return None if a and c else (a * d + c * b, b * d)
                case _:
                    # (a x + b) // d is linear where d divides a, and the remainder then does not depend on x.
                    if c or d == 0 or a % d:
                        return None
                    return (a // d, b // d) if operator == "//" else (0, b % d)
        case Indicator(condition):
            decided = None if _by_zero(condition, fixed) else decide(condition, fixed)
            return None if decided is None else (0, int(decided))
        case _:
            return None


def decide(node: Truth, fixed: Sequence[int | None]) -> bool | None:
    """Whether `node` holds, or None where that hangs on the free field."""
    match node:
        case Known(value):
            return value
        case Both(left, right):
            first, second = decide(left, fixed), decide(right, fixed)
            if first is False or second is False:
                return False
            return None if first is None or second is None else True
        case Either(left, right):
            first, second = decide(left, fixed), decide(right, fixed)
            if first or second:
                return True
            return None if first is None or second is None else False
        case Comparison(operator, left, right):
            difference = linear(Binary("-", left, right), fixed)
            if difference is None:
                return False if _by_zero(node, fixed) else None
            if difference[0]:
                return None
            return compare(operator, difference[1])
        case _:
            return None


def _by_zero(node: Truth, fixed: Sequence[int | None]) -> bool:
    """Whether `node` divides by a zero that does not hang on the free field."""
    return any(linear(divisor, fixed) == (0, 0) for divisor in divisors(node))


def _compare(node: Comparison, fixed: Sequence[int | None], domain: Domain) -> tuple[Domain, bool]:
    operator, left, right = node.operator, node.left, node.right
    difference = linear(Binary("-", left, right), fixed)
    if difference is not None:
        return _linear(operator, *difference, domain)
    if _by_zero(node, fixed):
        return (), True
    for value, other, flipped in ((left, right, False), (right, left, True)):
        limit = linear(other, fixed)
        if limit is None or limit[0] or not isinstance(value, Binary) or value.operator not in ("//", "%"):
            continue
        inner, divisor = linear(value.left, fixed), linear(value.right, fixed)
        if inner is None or divisor is None or divisor[0] or divisor[1] <= 0:
            continue
        if value.operator == "%":
            return _remainder(operator, inner, divisor[1], limit[1], domain)
        return _quotient(operator, inner, divisor[1], limit[1], flipped, domain)
    return domain, False


def _linear(operator: str, factor: int, offset: int, domain: Domain) -> tuple[Domain, bool]:
    """The values x of `domain` with `factor * x + offset OPERATOR 0`."""
    if factor == 0:
        return (domain if compare(operator, offset) else ()), True
    match operator:
        case "<" | "<=":
            most = -offset - (operator == "<")
            # factor * x <= most
            if factor > 0:
                return clip(domain, None, most // factor), True
            return clip(domain, -(most // -factor), None), True
        case "==":
            if offset % factor:
                return (), True
            value = -offset // factor
            return ((value,) if value in domain else ()), True
        case _:
            if offset % factor:
                return domain, True
            return _without(domain, -offset // factor)


def _without(domain: Domain, value: int) -> tuple[Domain, bool]:
    if value not in domain:
        return domain, True
    if isinstance(domain, range):
        if value == domain[0]:
            return range(domain.start + domain.step, max(domain.start + domain.step, domain.stop), domain.step), True
        if value == domain[-1]:
            return range(domain.start, value, domain.step), True
        if size(domain) > _ENUMERATED:
            return domain, False
    return tuple(other for other in domain if other != value), True


def _remainder(operator: str, inner: tuple[int, int], modulus: int, limit: int, domain: Domain) -> tuple[Domain, bool]:
    if operator != "==":
        return domain, False
    if not 0 <= limit < modulus:
        return (), True
    return congruent(domain, inner[0], inner[1] - limit, modulus), True


def _quotient(
    operator: str, inner: tuple[int, int], divisor: int, limit: int, flipped: bool, domain: Domain
) -> tuple[Domain, bool]:
    """`inner // divisor OPERATOR limit`, or with the sides exchanged where `flipped`."""
    factor, offset = inner
    match operator, flipped:
        case "<", False:
            return _linear("<", factor, offset - limit * divisor, domain)
        case "<=", False:
            return _linear("<", factor, offset - (limit + 1) * divisor, domain)
        case "<", True:
            return _linear("<=", -factor, (limit + 1) * divisor - offset, domain)
        case "<=", True:
            return _linear("<=", -factor, limit * divisor - offset, domain)
        case "==", _:
            kept, _ = _linear("<", factor, offset - (limit + 1) * divisor, domain)
            return _linear("<=", -factor, limit * divisor - offset, kept)
        case _:
            return domain, False
