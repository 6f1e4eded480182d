"""Can two stores of one kernel touch the same element of global memory?

Stores of a role go to boxes whose origins are affine in tile numbers and the unit's number; no two CTAs have the same
tile numbers (the dialect's `ac.tiles`). Dimension by dimension, coordinates are read as mixed-radix numerals: all
boxes of one tile and unit lie in a window of width W; if the smallest coefficient is at least W, the next at least the
smallest times its atom's range, and so on, different atoms give disjoint windows. An atom without a known range (a
tile number) must come last. Every atom must occur in exactly one dimension, else two of its values may share a window.
Inside one window the boxes are compared pairwise. All of this is of integers: coordinates must fit into 32 bits.

Not handled: boxes told apart by several dimensions at once, storage that aliases through strides. What cannot be shown
is a doubt, never a finding. Checked by: tests/contract/typestate/test_typestate_store_places.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from xdsl.ir import Operation

from tilewright.base.size import Size, bounds, computed
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.places.group_places import spaced
from tilewright.contract.typestate.program import integers
from tilewright.contract.typestate.run_time_sizes import most_of, most_places, ranges_at, reaches_no_further
from tilewright.contract.typestate.steps.stream import in_one_order
from tilewright.contract.typestate.summary import RoleSummary, StorePlace
from tilewright.contract.typestate.token import UNIT, WARP, WARPS, Index
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import StreamPartOp, TurnStreamPartOp


def check_places(
    roles: Sequence[RoleSummary], findings: Findings, ranges: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Doubt every buffer whose stores can't be shown disjoint. ranges: as for `overlap_reason`, besides units."""
    for role in roles:
        stored = in_one_order(role, findings)
        buffers = sorted({place.buffer for place in stored})
        for buffer in buffers:
            places = [place for place in stored if place.buffer == buffer]
            apart = any(WARP in dict(index.terms) for place in places for index in place.origin)
            warps = {WARP: WARPS} if apart else {}
            if any(may_wrap(place, {**_counts(role), **warps, **ranges}) for place in places):
                findings.doubt(f"{role.role.name} may store to {buffer} at an index past 32 bits", places[0].op)
            seen = spaced(places, role.group_loops)
            if seen.reason:
                findings.doubt(f"{role.role.name} may store an element of {buffer} twice: {seen.reason}", places[0].op)
                continue
            places = seen.places
            loops = frozenset(atom for place in places for atom in place.loops)
            # Units that take tiles in turn are told apart by the tiles' numbers.
            units = 1 if role.takes_turns else role.role.count
            reason = overlap_reason(places, {UNIT: units, **warps, **_single_tiles(role), **ranges}, loops)
            if reason:
                findings.doubt(f"{role.role.name} may store an element of {buffer} twice: {reason}", places[0].op)


def _single_tiles(role: RoleSummary) -> dict[str, int]:
    """Atoms of tile numbers that are always 0, of loops with one tile along an axis, where no CTA of the cluster takes
    one past it."""
    single: dict[str, int] = {}
    for op, atoms in role.tile_loops.items():
        if isinstance(op, ac.TilesOp | ac.TurnTilesOp):
            ctas = integers(ac.kernel_of(op).cluster)
            extents = (most_of(op.tiles_m, op) * ctas[0], most_of(op.tiles_n, op) * ctas[1], *most_places(op))
            single.update((atom, 1) for atom, extent in zip(atoms, extents, strict=False) if extent == 1)
    return single


def _counts(role: RoleSummary) -> dict[str, int]:
    """How many values the unit's number, the indices of loops and quotients take, with the kernel's own trip counts."""
    found = {UNIT: role.role.count, **role.trips}
    for op, atoms in role.tile_loops.items():
        if isinstance(op, ac.TilesOp | ac.TurnTilesOp | StreamPartOp | TurnStreamPartOp):
            ctas = integers(ac.kernel_of(op).cluster)
            matrices = most_places(op) if isinstance(op, ac.TilesOp | ac.TurnTilesOp) else ()
            # A cluster's CTAs may take tiles past the last.
            extents = (most_of(op.tiles_m, op) + ctas[0] - 1, most_of(op.tiles_n, op) + ctas[1] - 1, *matrices)
            found.update(zip(atoms, extents, strict=False))
    for atom, (divided, size) in role.quotients.items():  # in the order in which they are computed
        found[atom] = _most(divided, found) // size + 1
    return found


def _most(index: Index, counts: Mapping[str, int]) -> int:
    """How far from 0 an index may be; past all bounds where one of its atoms has none."""
    return abs(index.constant) + sum(
        abs(factor) * (counts[atom] - 1) if atom in counts else _UNBOUNDED for atom, factor in index.terms
    )


def may_wrap(place: StorePlace, counts: Mapping[str, int]) -> bool:
    """Whether a coordinate may pass what a signed index of 32 bits holds, so that two of them are one."""
    for index, extent in zip(place.origin, place.extents, strict=False):
        if _most(index, counts) + extent >= _INDEX_END:
            return True
    return False


def overlap_reason(places: Sequence[StorePlace], ranges: Mapping[str, int], loops: frozenset[str]) -> str:
    """Why boxes of different atoms or places may overlap; empty if they can't.

    ranges: how many values an atom takes, where that is bounded; loops: atoms of the loops around the stores.
    """
    rank = len(places[0].origin)
    if any(len(place.origin) != rank or len(place.extents) != rank for place in places):
        return "its stores differ in rank"
    if len({place.strides_bytes for place in places}) > 1:
        return "its stores see it with different strides"
    shapes = {tuple(index.terms for index in place.origin) for place in places}
    if len(shapes) > 1:
        return "its stores depend on tile and unit in different ways"
    dimensions = shapes.pop()
    needed = {atom for atom in loops if ranges.get(atom) != 1} | {atom for atom, count in ranges.items() if count > 1}
    seen: set[str] = set()
    for number, terms in enumerate(dimensions):
        first = min(place.origin[number].constant for place in places)
        width = max(place.origin[number].constant + place.extents[number] for place in places) - first
        for atom, coefficient in sorted(terms, key=lambda term: (term[0] not in ranges, term[1])):
            if atom in seen:
                return f"{atom} moves two dimensions at once"
            seen.add(atom)
            if ranges.get(atom) == 1:
                continue
            if coefficient < width:
                return f"boxes of neighbouring {atom} overlap: {coefficient} apart, {width} wide"
            # Past an atom without bound no other fits into the same dimension.
            width = coefficient * ranges[atom] if atom in ranges else _UNBOUNDED
    if needed - seen:
        return f"its stores do not depend on {', '.join(sorted(needed - seen))}"
    for left, right in combinations(places, 2):
        if left.section == right.section and all(
            a.constant < b.constant + right_extent and b.constant < a.constant + left_extent
            for a, b, left_extent, right_extent in zip(
                left.origin, right.origin, left.extents, right.extents, strict=True
            )
        ):
            return "two boxes of one tile overlap"
    return ""


def may_share(extents: Sequence[Size], strides: Sequence[Size], op: Operation) -> bool:
    """Whether two elements of an array may lie at one place, at some extent: of strides that are numbers, whether they
    do at the largest (`may_alias`); else whether one is not seen to reach as far as all elements that the next smaller
    one goes through."""
    ranges = ranges_at(op)
    if all(isinstance(stride, int) for stride in strides):
        return may_alias([bounds(each, ranges)[1] for each in extents], [bounds(each, ranges)[0] for each in strides])
    sides = [(stride, extent) for stride, extent in zip(strides, extents, strict=True) if extent != 1]
    sides.sort(key=lambda side: bounds(side[0], ranges)[1], reverse=True)
    reaches = [computed("*", extent, stride) for stride, extent in sides]
    fit = [reaches_no_further(reach, stride, op) for (stride, _), reach in zip(sides, reaches[1:], strict=False)]
    return not all(fit) or any(bounds(stride, ranges)[0] < 1 for stride, _ in sides)


def may_alias(extents: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of an array may lie at one place: some stride does not pass all that smaller ones span.

    extents and strides in one order and unit; a negative stride reaches as far as a positive one.
    """
    spanned = 0
    for stride, extent in sorted((abs(stride), extent) for extent, stride in zip(extents, strides, strict=True)):
        if extent > 1 and stride <= spanned:
            return True
        spanned += stride * (extent - 1)
    return False


_UNBOUNDED = 1 << 62
_INDEX_END = 1 << 31
