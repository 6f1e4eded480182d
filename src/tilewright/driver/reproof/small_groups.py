"""What does the small instance of a program look like whose rows stand in groups, and with which sizes does it run?

The instance has at most five groups, among them an empty first one, an empty one between others, one that fills a tile
and goes on for a row, and a short one; rows are left over that belong to no group. Where the program has few rows, its
groups share them all the same, or one tile would be all that a CTA took. Sizes are inputs, so they are
written into the array that holds them, and the claims of the typestate proof, which hold for every number of tiles, are
put at the number that these sizes make: the run must agree with that number, not only with some.
Groups stand close together in the instance: how far apart they are is in tensor maps, and in one number of the text.
Checked by: tests/driver/reproof/test_small_groups.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of
from tilewright.ir.group_rows import GroupDecision
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.types import TensorType

GROUPS_MOST = 5
CTAS = 2
"""Of the instance: the walk over groups must skip the tiles of other CTAs."""
_SHORT, _LAST, _LEFT_OVER = 5, 7, 2


def small_rows(tile_m: int) -> int:
    """Rows that the groups of an instance ask for, in all or, where they stand apart, each."""
    return tile_m + 1 + _SHORT + _LAST + _LEFT_OVER


def group_sizes(groups: int, rows: int, tile_m: int, *, apart: bool) -> list[int]:
    """Sizes of `groups` groups, of at most `rows` rows together or each."""
    wanted = [0, tile_m + 1, 0, _SHORT, _LAST]
    # Few groups take the fullest first.
    chosen = {1: [1], 2: [1, 3], 3: [0, 1, 3], 4: [0, 1, 2, 3]}.get(groups, range(len(wanted)))
    sizes = [wanted[number] for number in chosen] + [0] * max(0, groups - len(wanted))
    missing = sum(sizes) + _LEFT_OVER - rows
    if missing > 0 and not apart:
        # The fullest has fewer, so that the others are left some: each that has rows makes a tile.
        fullest, some = sizes.index(tile_m + 1), sum(1 for size in sizes if size)
        if sizes[fullest] - missing >= min(_LAST, tile_m):
            sizes[fullest] -= missing
        else:
            sizes = [max(1, rows // some) if size else 0 for size in sizes]
    left, found = rows, list[int]()
    for size in sizes:
        found.append(min(size, left))
        left -= 0 if apart else found[-1]
    return found


def group_tiles(groups: int, rows: int, tile_m: int, *, apart: bool) -> int:
    """Tiles along the rows that `group_sizes` make."""
    return sum(-(-size // tile_m) for size in group_sizes(groups, rows, tile_m, apart=apart))


def compact_strides(tensor: TensorType, extents: Mapping[str, int], grouping: GroupDecision) -> tuple[int, ...]:
    """Strides in elements of an array of the instance: as they were, but for that of its groups.

    A group's part begins at a multiple of its outer axis, as before.
    """
    strides = tensor.stride_elements
    if len(strides) < 2 or grouping.axis not in tensor.axis_names:
        return strides
    parts = {axis: stride for axis, stride in zip(tensor.axis_names, strides, strict=True) if axis != grouping.axis}
    outer = max(parts, key=lambda axis: parts[axis])
    together = extents[outer] * parts[outer]
    return tuple(
        together if axis == grouping.axis else stride for axis, stride in zip(tensor.axis_names, strides, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Grouped:
    """Of a decided program: its groups, axes and elements of a tile along rows and columns, and how many CTAs."""

    grouping: GroupDecision
    rows: tuple[str, int]
    columns: tuple[str, int]
    ctas: int


def _decided(module: ModuleOp) -> _Grouped | None:
    match decisions_of(the_program(module).attributes["decisions"]):
        case CascadeDecisions(grouping=(grouping,)) as d:
            return _Grouped(grouping, (d.row, d.tile_rows), (d.column, d.tile_columns), d.ctas)
        case _:
            return None


def _sizes_of(module: ModuleOp, decided: _Grouped) -> list[int]:
    extents, (rows, tile_rows) = the_program(module).extents, decided.rows
    return group_sizes(extents[decided.grouping.axis], extents[rows], tile_rows, apart=bool(decided.grouping.pitch))


def limits_of(module: ModuleOp) -> dict[str, NDArray[np.uint8]]:
    """The bytes of the array of limits, by parameter, with which the small instance `module` is run."""
    decided = _decided(module)
    if decided is None:
        return {}
    sizes = _sizes_of(module, decided)
    limits = sizes if decided.grouping.pitch else list(accumulate(sizes))
    return {decided.grouping.limits: np.array(limits, np.int32).view(np.uint8)}


def at_these_sizes(module: ModuleOp, claims: Mapping[str, ProtocolClaims]) -> dict[str, ProtocolClaims]:
    """Claims of the kernels of a small instance for the number of tiles that its groups' sizes make."""
    decided = _decided(module)
    if decided is None:
        return dict(claims)
    (_, tile_rows), (columns, tile_columns) = decided.rows, decided.columns
    tiles_m = sum(-(-size // tile_rows) for size in _sizes_of(module, decided))
    tiles = tiles_m * -(-the_program(module).extents[columns] // tile_columns)
    most = -(-tiles // decided.ctas)
    name = the_program(module).sym_name.data
    return {entry: _with_tiles(claim, most) if entry == name else claim for entry, claim in claims.items()}


def _with_tiles(claim: ProtocolClaims, tiles: int) -> ProtocolClaims:
    return replace(claim, symbols=tuple((name, tiles if name == "tiles" else value) for name, value in claim.symbols))
