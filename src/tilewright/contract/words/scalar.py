"""What is an integer of a structured program worth, in one run and in all that repeat it?

A value is `value + k * slope + sum of atoms`, for every k from 0 on: k counts how often a period of a loop is inserted
into the run, so one evaluation stands for all of these runs at once. Atoms are what is not known: arguments, the
program's number, results of loads, and functions of these; equal expressions are equal atoms in every agent. Whatever
is not linear in k, or not the same for all k, raises NotPeriodic: nothing is guessed.

Comparisons of atoms are decided where a loop's trip count decides them: `index + step < end` says whether another trip
follows. What is decided so takes loop counters not to overflow, and divisions of counters not to be negative.

Not handled: unsigned wrap-around, floating point. Checked by: tests/contract/words/test_structured_scalar.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import cast

from tilewright.base.value import value


class NotPeriodic(Exception):
    """A value does not behave the same however often the period is inserted."""


@value
class Scalar:
    """value + k slope + sum of (coefficient + k slope) * atom; atoms sorted, none with coefficient 0."""

    value: int
    slope: int = 0
    atoms: tuple[tuple[int, int, int], ...] = ()

    @property
    def is_known(self) -> bool:
        """Is it free of atoms?"""
        return not self.atoms


Number = int | Scalar
"""A plain int is the same for all k."""


@dataclass(slots=True)
class Atoms:
    """Every unknown that turned up, by what it is. fresh: those that are equal to no other, such as what a load
    brings; places: those that say where in the grid a program runs, from 0 on; keys: what each is; varying, by_thread:
    which numbers differ from thread to thread, and what ops make of them for each (`words.threads`)."""

    index: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    keys: list[Hashable] = field(default_factory=list[Hashable])
    fresh: set[int] = field(default_factory=set[int])
    places: set[int] = field(default_factory=set[int])
    varying: dict[Scalar, bool] = field(default_factory=dict[Scalar, bool])
    by_thread: dict[Hashable, Number | None] = field(default_factory=dict[Hashable, Number | None])

    def of(self, *key: Hashable) -> Scalar:
        """The unknown that `key` describes; the same for an equal key."""
        number = self.index.get(key)
        if number is None:
            number = self.index[key] = len(self.keys)
            self.keys.append(key)
        return Scalar(0, 0, ((number, 1, 0),))

    def one_of_its_own(self, *key: Hashable) -> Scalar:
        """An unknown that is equal to no other; `key` names it again in another evaluation of the same run."""
        found = self.of("fresh", *key)
        self.fresh.add(found.atoms[0][0])
        return found

    def place(self, *key: Hashable) -> Scalar:
        """As `of`, for a number of the grid."""
        found = self.of(*key)
        self.places.add(found.atoms[0][0])
        return found

    def at_most(self, number: Number) -> int | None:
        """The most that a number can be; None where nothing bounds it."""
        whole = scalar(number)
        bounded = all(atom in self.places and value <= 0 and not slope for atom, value, slope in whole.atoms)
        return whole.value if bounded and not whole.slope else None

    def roots(self, number: Number) -> frozenset[int]:
        """The unknowns that a number is made of, and those that they are functions of."""
        found: set[int] = set()
        left = [atom for atom, _, _ in scalar(number).atoms]
        while left:
            atom = left.pop()
            if atom not in found:
                found.add(atom)
                left += [inner for part in _parts(self.keys[atom]) for inner, _, _ in part.atoms]
        return frozenset(found)

    def is_fresh(self, number: Number) -> bool:
        """Does anything in the number stand for itself alone?"""
        return isinstance(number, Scalar) and any(atom in self.fresh for atom, _, _ in number.atoms)


def _parts(key: Hashable) -> list[Scalar]:
    """The numbers in an unknown's key, at any depth."""
    if isinstance(key, Scalar):
        return [key]
    return [part for each in cast("tuple[Hashable, ...]", key) for part in _parts(each)] if type(key) is tuple else []


def scalar(number: Number) -> Scalar:
    """A number in its long form."""
    return number if isinstance(number, Scalar) else Scalar(number)


def short(number: Scalar) -> Number:
    """A number in its short form, if it has one."""
    return number.value if not number.atoms and not number.slope else number


def add(left: Number, right: Number, factor: int = 1) -> Number:
    """left + factor * right."""
    if isinstance(left, int) and isinstance(right, int):
        return left + factor * right
    one, other = scalar(left), scalar(right)
    atoms = one.atoms
    if other.atoms:
        coefficients = {atom: (value, slope) for atom, value, slope in one.atoms}
        for atom, value, slope in other.atoms:
            before = coefficients.get(atom, (0, 0))
            coefficients[atom] = (before[0] + factor * value, before[1] + factor * slope)
        atoms = tuple((atom, *pair) for atom, pair in sorted(coefficients.items()) if pair != (0, 0))
    return short(Scalar(one.value + factor * other.value, one.slope + factor * other.slope, atoms))


def multiply(left: Number, right: Number, atoms: Atoms) -> Number:
    """left * right; an atom where neither is the same for all k."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if not isinstance(right, int):
        left, right = right, left
    if isinstance(right, int):
        one = scalar(left)
        scaled = tuple((atom, value * right, slope * right) for atom, value, slope in one.atoms) if right else ()
        return short(Scalar(one.value * right, one.slope * right, scaled))
    assert isinstance(left, Scalar)
    for known, other in ((left, right), (right, left)):
        if known.is_known and not other.slope and not any(slope for _, _, slope in other.atoms):
            if other.is_known and not other.slope:
                break
            scaled = tuple((atom, value * known.value, value * known.slope) for atom, value, _ in other.atoms)
            kept = tuple(each for each in scaled if each[1:] != (0, 0))
            return short(Scalar(other.value * known.value, other.value * known.slope, kept))
    return atoms.of("multiply", *sorted((left, right), key=repr))


def divide(left: Number, right: Number, atoms: Atoms, *, up: bool = False) -> Number:
    """left / right rounded towards zero (up: upwards)."""
    if isinstance(right, int) and right > 0:
        one = scalar(left)
        if one.is_known and not one.slope:
            magnitude = -(-one.value // right) if up or one.value < 0 else one.value // right
            return magnitude
        if one.is_known and one.slope % right == 0 and one.value >= 0 and one.slope >= 0:
            return short(Scalar(-(-one.value // right) if up else one.value // right, one.slope // right))
    return atoms.of("divide", up, left, right)


def remainder(left: Number, right: Number, atoms: Atoms) -> Number:
    """left % right, with the sign of left."""
    if isinstance(right, int) and right > 0:
        one = scalar(left)
        if one.is_known and (not one.slope or (one.slope % right == 0 and one.value >= 0 and one.slope >= 0)):
            return one.value % right if one.value >= 0 else -(-one.value % right)
    return atoms.of("remainder", left, right)


def bitwise(name: str, left: Number, right: Number, atoms: Atoms) -> Number:
    """and, or, xor."""
    if isinstance(left, int) and isinstance(right, int):
        return left & right if name == "and" else left | right if name == "or" else left ^ right
    if name == "and":
        for one, mask in ((left, right), (right, left)):
            if mask == 0:
                return 0
            if not isinstance(mask, int) or not isinstance(one, Scalar) or not one.is_known:
                continue
            if mask > 0 and mask & (mask + 1) == 0 and one.slope % (mask + 1) == 0:
                return one.value & mask
    return atoms.of(name, *sorted((left, right), key=repr))


def with_slope(number: Number, gained: Number) -> Number:
    """number + k * gained, where gained is the same for all k."""
    one, more = scalar(number), scalar(gained)
    coefficients = {atom: (value, slope) for atom, value, slope in one.atoms}
    for atom, each, _ in more.atoms:
        before = coefficients.get(atom, (0, 0))
        coefficients[atom] = (before[0], before[1] + each)
    atoms = tuple((atom, *pair) for atom, pair in sorted(coefficients.items()) if pair != (0, 0))
    return short(Scalar(one.value, one.slope + more.value, atoms))


def slopes(number: Number) -> tuple[int, tuple[tuple[int, int], ...]]:
    """What the number gains with k."""
    whole = scalar(number)
    return whole.slope, tuple((atom, slope) for atom, _, slope in whole.atoms if slope)


def constant_sign(value: int, slope: int) -> bool:
    """Is value + k slope below 0, for every k? Raises NotPeriodic where that depends on k."""
    if value < 0 and slope <= 0:
        return True
    if value >= 0 and slope >= 0:
        return False
    raise NotPeriodic("a comparison turns out differently as a loop gets longer")


@dataclass(frozen=True, slots=True)
class TripCount:
    """A loop's distance from first index to end, its step, and how many trips it makes."""

    distance: Number
    step: Number
    count: Scalar


Trips = Mapping[Hashable, TripCount]


def is_less(left: Number, right: Number, trips: Trips) -> bool | None:
    """left < right; None where neither the numbers nor any loop's trip count decide it."""
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    difference = scalar(add(left, right, -1))
    if difference.is_known:
        return constant_sign(difference.value, difference.slope)
    for trip in trips.values():
        taken = _multiple(add(difference, trip.distance), trip)
        if taken is not None:
            # left < right is taken * step < distance, which is taken < count: the next index is still before the end.
            return _below(taken, trip.count)
        taken = _multiple(_negated(add(difference, trip.distance, -1)), trip)
        if taken is not None:
            # left < right is distance < taken * step.
            if trip.step == 1:
                return _below(trip.count, taken)
            margin = add(trip.count, taken, -1)
            if scalar(margin) != Scalar(0):
                return constant_sign(scalar(margin).value, scalar(margin).slope)
    return None


def is_equal(left: Number, right: Number, trips: Trips) -> bool | None:
    """left == right, as `is_less`."""
    difference = scalar(add(left, right, -1))
    if difference.is_known:
        if not difference.slope:
            return difference.value == 0
        if difference.value * difference.slope > 0:
            return False
        raise NotPeriodic("an equality turns out differently as a loop gets longer")
    below, above = is_less(left, right, trips), is_less(right, left, trips)
    if below is None or above is None:
        return None
    return not below and not above


def _negated(number: Number) -> Number:
    return add(0, number, -1)


def _below(one: Number, other: Number) -> bool:
    margin = scalar(add(one, other, -1))
    return constant_sign(margin.value, margin.slope)


def _multiple(number: Number, trip: TripCount) -> Number | None:
    """How many steps of the loop `number` is, rounded up (the next index that is not before it); None if it is no
    number of steps."""
    whole = scalar(number)
    if isinstance(trip.step, int):
        if not whole.is_known:
            return None
        if whole.slope % trip.step:
            return None
        if whole.value % trip.step == 0:
            return short(Scalar(whole.value // trip.step, whole.slope // trip.step))
        return None
    step = trip.step
    if len(step.atoms) != 1 or step.value or step.slope:
        return None
    atom, coefficient, slope = step.atoms[0]
    if slope or abs(coefficient) != 1:
        return None
    if whole == Scalar(0):
        return 0
    if whole.value or whole.slope or len(whole.atoms) != 1 or whole.atoms[0][0] != atom:
        return None
    return short(Scalar(whole.atoms[0][1] * coefficient, whole.atoms[0][2] * coefficient))
