"""Where do stores that end with a group of rows lie, as far as telling two tiles apart goes?

By definition of `ac.group_tiles`, rows [row, min(row + tile_rows, end)) of tiles in one column do not meet, whatever
the array of limits holds. So a store that stops before `end`, and begins at or after `row`, meets no more than one at
row `tile_rows` * t for some number t of the tile's own, which `store_places` knows how to judge.

Not handled: a store that does not stop before `end`, which is a doubt. Checked by:
tests/contract/typestate/steps/test_group_tiles.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.contract.typestate.summary import GroupLoop, StorePlace
from tilewright.contract.typestate.token import Index


@dataclass(frozen=True, slots=True)
class SpacedPlaces:
    """places: as if each tile of a group began at a row of its own, `tile_rows` apart; reason: why that may not be
    said, or empty."""

    places: list[StorePlace]
    reason: str = ""


def spaced(places: list[StorePlace], loops: Mapping[str, GroupLoop]) -> SpacedPlaces:
    """What stores inside loops over groups, and those outside, come to. loops: by the atom of their rows."""
    found: list[StorePlace] = []
    for place in places:
        loop = next((loops[atom] for atom in place.loops if atom in loops), None)
        if loop is None:
            if place.row_end is not None:
                return SpacedPlaces([], "it ends with a group outside any loop over groups")
            found.append(place)
            continue
        if place.row_end != Index(((loop.end, 1),)):
            return SpacedPlaces([], "it may reach past the end of its group, into the rows of the next")
        terms = dict(place.origin[0].terms)
        others = {atom for index in place.origin[1:] for atom, _ in index.terms}
        if terms.get(loop.row) != 1 or loop.group in terms or loop.end in terms:
            return SpacedPlaces([], "its first row is not the tile's, as far as can be seen")
        if others & {loop.row, loop.group, loop.end}:
            return SpacedPlaces([], "its columns depend on the group")
        if place.origin[0].constant < 0:
            return SpacedPlaces([], "it begins before its tile")
        terms[loop.row] = loop.tile_rows
        origin = (Index(tuple(sorted(terms.items())), place.origin[0].constant), *place.origin[1:])
        around = tuple(atom for atom in place.loops if atom not in (loop.group, loop.end))
        found.append(replace(place, origin=origin, loops=around))
    return SpacedPlaces(found)
