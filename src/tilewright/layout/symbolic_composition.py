"""Into which leaves does a layout split along the symbolic extents of another, for all positive sizes?

Theory: as `layout.composition`, with divisibility of polynomials: q with q * b = a as normal forms. A stride peels off
the extents that divide it; what is left of it must divide the next extent, which it cuts; the cut must divide what is
left of the leaf, or be divided by it. Digits of one place never overflow where its steps form a chain, each a multiple
of the last step times its extent, whose end divides the place's extent.

Sufficient, not necessary: sizes that make other cuts work (a prime that divides by chance) end as `NotDecided`.
Strides and offsets below zero are not handled.
Checked by tests/layout/test_symbolic_layouts.py against enumeration at sizes.
"""

from __future__ import annotations

from tilewright.layout import nested
from tilewright.layout.answer import NotDecided
from tilewright.layout.layout import Flat
from tilewright.layout.nested import Integer
from tilewright.layout.numbers.integer_expression import IntegerExpression, Monomial, as_expression

_MOST_LEAVES = 128


def symbolic_runs(left: Flat, right: Flat) -> list[list[tuple[Integer, Integer]]] | NotDecided:
    """For each leaf of `right` the (extent, stride) of the leaves of `left` after it.

    left: coalesced leaves; right: leaves as they are. Each answer holds for all positive sizes.
    """
    if len(left) + len(right) > _MOST_LEAVES:
        return NotDecided(f"{len(left)} and {len(right)} leaves with symbolic sizes", f"{_MOST_LEAVES} or fewer in all")
    taken: list[list[tuple[Integer, Integer]]] = [[] for _ in left]
    result: list[list[tuple[Integer, Integer]]] = []
    for extent, stride in right:
        runs = _split(extent, stride, left, taken)
        if isinstance(runs, NotDecided):
            return runs
        result.append(runs)
    for place, steps in enumerate(taken):
        found = _chained(left[place][0], steps)
        if found is not None:
            return found
    return result


def _split(
    extent: Integer, stride: Integer, left: Flat, taken: list[list[tuple[Integer, Integer]]]
) -> list[tuple[Integer, Integer]] | NotDecided:
    if extent == 1:
        return [(1, 0)]
    if stride == 0:
        return [(extent, 0)]
    runs: list[tuple[Integer, Integer]] = []
    step, wanted = stride, extent
    for place, (radix, weight) in enumerate(left):
        beyond = exact_quotient(step, radix)
        if beyond is not None:
            step = beyond
            continue
        room = exact_quotient(radix, step)
        if room is None:
            return NotDecided(f"whether {step} and {radix} divide each other depends on the sizes", "the sizes")
        done = exact_quotient(room, wanted)
        if done is not None:
            taken[place].append((step, wanted))
            return [*runs, (wanted, nested.times(step, weight))]
        more = exact_quotient(wanted, room)
        if more is None:
            return NotDecided(f"whether {wanted} and {room} divide each other depends on the sizes", "the sizes")
        taken[place].append((step, room))
        runs.append((room, nested.times(step, weight)))
        step, wanted = 1, more
    return NotDecided(f"whether {extent}:{stride} stays inside the first layout depends on the sizes", "the sizes")


def _chained(radix: Integer, steps: list[tuple[Integer, Integer]]) -> NotDecided | None:
    """None where the digits `step * (0 .. count - 1)` of one place never overflow it together."""
    waiting = list(steps)
    reached: Integer = 1
    while waiting:
        found = next((pair for pair in waiting if _starts(pair, reached, waiting)), None)
        if found is None:
            return NotDecided(f"whether digits of the extent {radix} overflow depends on the sizes", "the sizes")
        waiting.remove(found)
        reached = nested.times(*found)
    if exact_quotient(radix, reached) is None:
        return NotDecided(f"whether {reached} divides {radix} depends on the sizes", "the sizes")
    return None


def _starts(pair: tuple[Integer, Integer], reached: Integer, waiting: list[tuple[Integer, Integer]]) -> bool:
    if exact_quotient(pair[0], reached) is None:
        return False
    end = nested.times(*pair)
    return all(other is pair or exact_quotient(other[0], end) is not None for other in waiting)


def never_negative(value: Integer) -> bool:
    """Whether the value is surely at least 0 for all positive sizes: nothing is subtracted."""
    if isinstance(value, int):
        return value >= 0
    return all(
        coefficient > 0
        and all(
            isinstance(atom, str) or (never_negative(atom.dividend) and never_negative(atom.divisor))
            for atom in product
        )
        for product, coefficient in value.terms
    )


def exact_quotient(dividend: Integer, divisor: Integer) -> Integer | None:
    """q with q * divisor = dividend as polynomials of the sizes; None where there is no single-term or integer q."""
    if isinstance(dividend, int) and isinstance(divisor, int):
        return dividend // divisor if divisor > 0 and dividend % divisor == 0 else None
    if divisor == 1:
        return dividend
    if dividend == divisor:
        return 1
    over, under = as_expression(dividend), as_expression(divisor)
    if not over.terms or not under.terms:
        return None
    if len(under.terms) == 1:
        monomial, coefficient = under.terms[0]
        terms: list[tuple[Monomial, int]] = []
        for product, factor in over.terms:
            rest = _without(product, monomial)
            if rest is None or factor % coefficient:
                return None
            terms.append((rest, factor // coefficient))
        return nested.settled(sum((IntegerExpression((term,)) for term in terms), IntegerExpression()))
    rest = _without(over.terms[0][0], under.terms[0][0])
    if rest is None or over.terms[0][1] % under.terms[0][1]:
        return None
    quotient = IntegerExpression(((rest, over.terms[0][1] // under.terms[0][1]),))
    return nested.settled(quotient) if quotient * under == over else None


def _without(product: Monomial, factor: Monomial) -> Monomial | None:
    """The monomial divided by another; None where it is not."""
    left = list(product)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
