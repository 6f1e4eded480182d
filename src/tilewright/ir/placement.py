"""Where do the slices of a value lie, by the named levels of the machine? The lattice of `ir.placed_program`.

Work is dealt to places by a hierarchy (`layout.linear.hierarchy`): the digits of a register's, lane's, warp's,
warpgroup's, CTA's and cluster's number move along the program's axes. A CTA's number is its rank in its cluster. Of a
value, each digit has a state, by what places hold that differ in this digit alone:

- `Held.EVERYWHERE`: any slice, and however often it is counted: zeros, infinities;
- `Held.SAME`: the same elements;
- `Along`: each its own slice, so many elements behind that of the place before; places past `count` hold nothing;
- `Held.ONE`: one of them holds what there is, the others nothing;
- `Partial`: each a contribution; folded, all of them are the value;
- `Held.MIXED`: nothing that is known.

The order is that of what is lost: EVERYWHERE, SAME, then Along and ONE, each apart, then MIXED; Partial lies between
EVERYWHERE and MIXED alone. `joined` is the least upper bound, so a join never says that a place holds what it may not
hold. Besides, a value has a space, the narrowest from which all who read it reach it: register, shared::cta,
shared::cluster, global, each wider than the one before. Conversions are explicit: `exchanged` makes of contributions a
value, through the space that joins places of the level (`SPACE_OF`); how CTAs bring a slice that several need is read
off `sharing`.

Not handled: a digit that moves along two axes of one value is MIXED.
Checked by: tests/ir/test_placement.py (laws, and against enumeration of who holds what).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from typing import Literal

from tilewright.layout.linear.hierarchy import Hierarchy, hierarchy

Space = Literal["register", "shared::cta", "shared::cluster", "global"]
SPACES: tuple[Space, ...] = ("register", "shared::cta", "shared::cluster", "global")
"""The narrowest first."""
SPACE_OF: Mapping[str, Space] = {
    "register": "register",
    "lane": "register",
    "warp": "shared::cta",
    "warpgroup": "shared::cta",
    "cta": "shared::cluster",
    "cluster": "global",
}
"""Through which space places of a level exchange: lanes shuffle registers. The innermost level first."""


class Held(Enum):
    """What places hold that differ in one digit, where it is no slice each."""

    EVERYWHERE = "everywhere"
    SAME = "same"
    ONE = "one of them"
    MIXED = "unknown"


@dataclass(frozen=True, slots=True)
class Along:
    """Place i holds the slice that lies i * step elements behind that of place 0, for i < count; others nothing."""

    axis: str
    step: int
    count: int


@dataclass(frozen=True, slots=True)
class Partial:
    """Each place holds a contribution; `function` of all is the value."""

    function: str


State = Held | Along | Partial


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of a place's number at a level: its values, at least 2, and what places hold that differ in it."""

    level: str
    extent: int
    state: State


@dataclass(frozen=True, slots=True)
class Placement:
    """digits: of all levels, the innermost first, and of a level the fastest first."""

    space: Space
    digits: tuple[Digit, ...]

    def __str__(self) -> str:
        words = [f"{each.level} {each.extent} x {_words(each)}" for each in self.digits]
        return f"{self.space}: {', '.join(words) or 'one place'}"


def _words(digit: Digit) -> str:
    match digit.state:
        case Along(axis, step, count):
            return f"({axis} +{step})" + (f" in the first {count}" if count < digit.extent else "")
        case Partial(function):
            return f"a contribution to {function}"
        case Held():
            return digit.state.value


def dealt(digits: Mapping[str, Sequence[tuple[int, str, int]]]) -> Hierarchy:
    """The hierarchy by which work is dealt out. digits: by level, the innermost first, extent, axis and step of each;
    one of extent 1, or without an axis, is left out."""
    kept = {level: [each for each in listed if each[0] > 1 and each[1]] for level, listed in digits.items()}
    reach: dict[str, int] = {}
    for extent, axis, step in (each for listed in kept.values() for each in listed):
        reach[axis] = reach.get(axis, 1) + (extent - 1) * step
    return hierarchy(
        {level: [(extent, {axis: step}) for extent, axis, step in listed] for level, listed in kept.items()}, reach
    )


def placed(deal: Hierarchy, axes: Collection[str], space: Space = "register") -> Placement:
    """Of a value over these axes the slices that each place's work takes."""
    names, digits = list(deal.output_sizes), list[Digit]()
    for level in deal.levels:
        for mode in level.modes:
            moved = [(name, step) for name, step in zip(names, mode.steps, strict=True) if step and name in axes]
            state = Along(*moved[0], mode.extent) if len(moved) == 1 else Held.MIXED if moved else Held.SAME
            digits.append(Digit(level.name, mode.extent, state))
    return Placement(space, tuple(digits))


def everywhere(deal: Hierarchy) -> Placement:
    """Of a constant that may be counted any number of times."""
    found = placed(deal, ())
    return replace(found, digits=tuple(replace(each, state=Held.EVERYWHERE) for each in found.digits))


def unknown(deal: Hierarchy) -> Placement:
    """The greatest element."""
    found = placed(deal, (), "global")
    return replace(found, digits=tuple(replace(each, state=Held.MIXED) for each in found.digits))


def joined_state(left: State, right: State) -> State:
    """What holds of a value that is one or the other."""
    if left == right:
        return left
    low, high = sorted((left, right), key=_height)
    if low is Held.EVERYWHERE or (low is Held.SAME and not isinstance(high, Partial)):
        return high
    return Held.MIXED


def _height(state: State) -> int:
    match state:
        case Held.EVERYWHERE:
            return 0
        case Held.SAME:
            return 1
        case Held.MIXED:
            return 3
        case _:
            return 2


def joined(left: Placement, right: Placement) -> Placement:
    """The least upper bound of two placements of the same digits."""
    space = SPACES[max(SPACES.index(left.space), SPACES.index(right.space))]
    pairs = zip(left.digits, right.digits, strict=True)
    return Placement(space, tuple(replace(one, state=joined_state(one.state, other.state)) for one, other in pairs))


def folded(placement: Placement, axis: str, function: str) -> Placement:
    """Of what each place makes of its own slice by a fold along an axis."""

    def of_fold(state: State) -> State:
        return Partial(function) if isinstance(state, Along) and state.axis == axis else state

    return replace(placement, digits=tuple(replace(each, state=of_fold(each.state)) for each in placement.digits))


def contributors(placement: Placement, level: str) -> int:
    """Places of a level that have a contribution each; 1 where there is nothing to fold."""
    return math.prod(each.extent for each in placement.digits if each.level == level and is_partial(each.state))


def is_partial(state: State) -> bool:
    return isinstance(state, Partial)


def exchanged(placement: Placement, level: str, after: State) -> Placement:
    """The value whose contributions places of a level have folded, of which each then holds what `after` says."""
    digits = tuple(
        replace(each, state=after) if each.level == level and is_partial(each.state) else each
        for each in placement.digits
    )
    return replace(placement, digits=digits)


def sharing(placement: Placement, level: str) -> tuple[tuple[int, ...], ...]:
    """The numbers of a level's places, in groups of those that hold the same: the masks of a multicast. Places of which
    that is not known stand alone, and those that hold nothing in no group."""
    groups: dict[tuple[int, ...], list[int]] = {}
    digits = [each for each in placement.digits if each.level == level]
    for number, place in enumerate(product(*(range(each.extent) for each in reversed(digits)))):
        values = list(zip(digits, reversed(place), strict=True))
        if any(isinstance(digit.state, Along) and value >= digit.state.count for digit, value in values):
            continue
        key = tuple(value for digit, value in values if digit.state not in (Held.SAME, Held.EVERYWHERE))
        groups.setdefault(key, []).append(number)
    return tuple(map(tuple, groups.values()))


def parted(placement: Placement, level: str, axis: str, extent: int) -> Placement:
    """What each place of a level brings where those that hold the same bring an equal part each, along an axis of which
    they hold so many elements."""
    alike = math.prod(each.extent for each in placement.digits if each.level == level and each.state is Held.SAME)
    assert extent % alike == 0, f"{alike} places have no equal parts of {extent}"
    step, digits = extent // alike, list[Digit]()
    for each in placement.digits:
        if each.level == level and each.state is Held.SAME:
            each, step = replace(each, state=Along(axis, step, each.extent)), step * each.extent
        digits.append(each)
    return replace(placement, digits=tuple(digits))
