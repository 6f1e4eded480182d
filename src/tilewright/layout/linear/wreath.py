"""Permutations of nested blocks: which rearrangements keep every block of every level together?

Theory: an index is a tuple of indices of named levels, such as element, row and tile, the innermost first. A
permutation is of the wreath product of the levels' symmetric groups exactly if it maps blocks to whole blocks: the new
index at a level depends on the old one there and on outer ones, never on an inner one. So it is, for each level, one
permutation for every index of the outer levels. XOR swizzles (columns permuted as the row says), rotations by rank and
warps that own whole tiles are of this kind; a transpose is not. The wreath product is a group: composition and inverse
stay inside it and are taken level by level, without listing all places.

What is of this kind moves no data out of a block, so `outermost_moved` says which level must carry the data.

Not handled: more than `MOST_PLACES` places; maps that are no permutation. Checked by tests/layout/linear/test_wreath.py
against permutations of all places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, coordinates, is_bijective
from tilewright.layout.linear.parts import transpose_outputs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Permutation = tuple[int, ...]

MOST_PLACES = 1 << 16
"""Places of all levels together that are handled."""


@dataclass(frozen=True, slots=True)
class Wreath:
    """A permutation that keeps blocks together.

    levels: name and size, the innermost first; permutations: for each level, for each index of the levels outside it
    (the next one fastest), where its indices go. Raises TilewrightError where sizes and permutations do not agree.
    """

    levels: tuple[tuple[str, int], ...]
    permutations: tuple[tuple[Permutation, ...], ...]

    def __post_init__(self) -> None:
        _check_levels(self.levels)
        if len(self.permutations) != len(self.levels):
            raise TilewrightError(f"wreath: {len(self.levels)} levels, permutations of {len(self.permutations)}")
        outer = prod(size for _, size in self.levels)
        for (name, size), permutations in zip(self.levels, self.permutations, strict=True):
            outer //= size
            if len(permutations) != outer:
                raise TilewrightError(f"wreath: level {name!r} has {len(permutations)} permutations, not {outer}")
            for each in set(permutations):
                if sorted(each) != list(range(size)):
                    raise TilewrightError(f"wreath: {each} permutes no {size} indices of level {name!r}")

    @property
    def size(self) -> int:
        """Places of all levels together."""
        return prod(size for _, size in self.levels)

    def __call__(self, **places: int) -> dict[str, int]:
        """Where a place goes: each level's index by name. Raises TilewrightError for other names and indices."""
        if sorted(places) != sorted(name for name, _ in self.levels):
            raise TilewrightError(f"wreath: levels are {[name for name, _ in self.levels]}, not {list(places)}")
        outer = 0
        found: dict[str, int] = {}
        for (name, size), permutations in zip(reversed(self.levels), reversed(self.permutations), strict=True):
            index = places[name]
            if not 0 <= index < size:
                raise TilewrightError(f"wreath: {name} is 0 to {size - 1}, not {index}")
            found[name] = permutations[outer][index]
            outer = index + size * outer
        return {name: found[name] for name, _ in self.levels}


def identity(levels: Mapping[str, int]) -> Wreath:
    """Every place to itself; levels by name, the innermost first."""
    return uniform(levels, {})


def uniform(levels: Mapping[str, int], permutations: Mapping[str, Sequence[int]]) -> Wreath:
    """One permutation for each level, whatever the outer indices; levels not named stay. Raises TilewrightError."""
    _check_levels(tuple(levels.items()))
    strange = set(permutations) - set(levels)
    if strange:
        raise TilewrightError(f"wreath: no levels {sorted(strange)}; there are {list(levels)}")
    outer = prod(levels.values())
    found: list[tuple[Permutation, ...]] = []
    for name, size in levels.items():
        outer //= size
        found.append((tuple(permutations.get(name, range(size))),) * outer)
    return Wreath(tuple(levels.items()), tuple(found))


def compose(outer: Wreath, inner: Wreath) -> Wreath:
    """`outer` after `inner`. Raises TilewrightError where the levels differ."""
    if outer.levels != inner.levels:
        raise TilewrightError(f"wreath: levels {dict(outer.levels)} and {dict(inner.levels)} differ")
    moved = _outer_moves(inner)
    return Wreath(
        inner.levels,
        tuple(
            tuple(
                tuple(after[moves[at]][place] for place in permutation) for at, permutation in enumerate(before)
            )
            for after, before, moves in zip(outer.permutations, inner.permutations, moved, strict=True)
        ),
    )  # fmt: skip


def invert(wreath: Wreath) -> Wreath:
    """The permutation that undoes it."""
    found: list[tuple[Permutation, ...]] = []
    for permutations, moves in zip(wreath.permutations, _outer_moves(wreath), strict=True):
        undone: list[Permutation] = [()] * len(permutations)
        for at, permutation in enumerate(permutations):
            back = [0] * len(permutation)
            for place, image in enumerate(permutation):
                back[image] = place
            undone[moves[at]] = tuple(back)
        found.append(tuple(undone))
    return Wreath(wreath.levels, tuple(found))


def places(wreath: Wreath) -> NDArray[np.int64]:
    """The permutation of packed places, the innermost level fastest. [size]"""
    import numpy as np

    return np.asarray(_packed_moves(wreath), np.int64)


def wreath_of(levels: Mapping[str, int], moved: Sequence[int] | NDArray[np.int64]) -> Wreath | NotExpressible:
    """The permutation of packed places (the innermost level fastest) as one that keeps blocks together; where it does
    not, the reason names a block that it tears. Raises TilewrightError for what is no permutation of the places."""
    import numpy as np

    _check_levels(tuple(levels.items()))
    total = prod(levels.values())
    table = np.asarray(moved, np.int64)
    if table.shape != (total,) or not np.array_equal(np.sort(table), np.arange(total)):
        raise TilewrightError(f"wreath: no permutation of {total} places")
    found: list[tuple[Permutation, ...]] = []
    inside = 1
    for name, size in levels.items():
        blocks = (table // inside).reshape(-1, inside)
        if (blocks != blocks[:, :1]).any():
            at = int(np.flatnonzero((blocks != blocks[:, :1]).any(axis=1))[0])
            return NotExpressible(f"elements of one index {at % size} of level {name!r} go to different ones")
        found.append(tuple(tuple(each) for each in (blocks[:, 0] % size).reshape(-1, size).tolist()))
        inside *= size
    return Wreath(tuple(levels.items()), tuple(found))


def wreath_of_linear(layout: LinearLayout) -> Wreath | NotExpressible:
    """A linear layout from places to places of the same levels, as a permutation that keeps blocks together. Domain:
    one to one, inputs and outputs named alike and of one size, and no output that depends on an inner input."""
    names = [name for name, _ in layout.input_bits]
    if layout.input_sizes != layout.output_sizes:
        return NotExpressible(f"inputs {layout.input_sizes} and outputs {layout.output_sizes} are not one machine")
    if not is_bijective(layout):
        return NotExpressible("the layout is not one to one")
    if layout.size > MOST_PLACES:
        return NotExpressible(f"{layout.size} places are more than the {MOST_PLACES} that are listed")
    import numpy as np

    aligned = transpose_outputs(layout, names)
    packed = np.zeros(layout.size, np.int64)
    weight = 1
    for name, table in coordinates(aligned).items():
        packed += weight * table.transpose().reshape(-1)
        weight *= layout.input_sizes[name]
    return wreath_of(layout.input_sizes, packed)


def outermost_moved(wreath: Wreath) -> str | None:
    """The outermost level at which some index changes, or None for the identity."""
    for (name, size), permutations in zip(reversed(wreath.levels), reversed(wreath.permutations), strict=True):
        if any(each != tuple(range(size)) for each in set(permutations)):
            return name
    return None


def depends_on_outer(wreath: Wreath) -> tuple[str, ...]:
    """The levels whose permutation is not the same for all outer indices: none for a direct product."""
    return tuple(
        name for (name, _), permutations in zip(wreath.levels, wreath.permutations, strict=True)
        if len(set(permutations)) > 1
    )  # fmt: skip


def _outer_moves(wreath: Wreath) -> list[list[int]]:
    """For each level, where each packed index of the levels outside it goes."""
    found: list[list[int]] = []
    moves = [0]
    for (_, size), permutations in zip(reversed(wreath.levels), reversed(wreath.permutations), strict=True):
        found.append(moves)
        moves = [place + size * outer for outer, permutation in zip(moves, permutations, strict=True)
                 for place in permutation]  # fmt: skip
    return found[::-1]


def _packed_moves(wreath: Wreath) -> list[int]:
    moves = [0]
    for (_, size), permutations in zip(reversed(wreath.levels), reversed(wreath.permutations), strict=True):
        moves = [place + size * outer for outer, permutation in zip(moves, permutations, strict=True)
                 for place in permutation]  # fmt: skip
    return moves


def _check_levels(levels: Sequence[tuple[str, int]]) -> None:
    names = [name for name, _ in levels]
    if len(set(names)) != len(names):
        raise TilewrightError(f"wreath: a level comes twice in {names}")
    if any(size < 1 for _, size in levels):
        raise TilewrightError(f"wreath: sizes {[size for _, size in levels]} are not all positive")
    total = prod(size for _, size in levels)
    if total > MOST_PLACES:
        raise TilewrightError(f"wreath: {total} places; at most {MOST_PLACES} are handled")
