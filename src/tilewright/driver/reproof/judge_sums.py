"""Are the sums that a run's tensor cores made those that its program defines, and stored where they belong?

Four rules, of the products of a run and of what its warps wrote next (`contract.sums.product_trace`), held against the
program (`program_sums`):

- UM104: the two operands of a product have the same places along each axis that both have, the contracted one above
  all;
- UM105: for each element of a result, each place along the contracted axis is multiplied once, by whichever CTAs;
- UM106: products that one accumulator holds are of one tile, and what a warp stores then lies in that tile;
- UM108: the first product of a sum does not add to what its accumulator held before, each of the others does, and the
  warps read a sum after its last product, not before it.

Together with the rules that every element of a result is written and by one CTA, the tiles that a CTA loads, multiplies
and stores are the program's, however tiles are numbered, handed on and shared out. Operands whose elements are not
known (in registers, or copied by threads) leave places open: then the others are compared, and sums are counted along
the axes that are known, where each element must be met as often as any other.

Where tiles overlap in what they load (`PipelineDecisions.step_n`), a tile's own rows and columns are those up to the
next one's first: only these are counted, and only these may it store.

Products of a row of wgmmas that go on along the contracted axis are judged as one first: it has a finding if one of
them has, and only then is each looked at.

Not handled: what becomes of a sum between accumulator and store, of which `result_values` compares the expression, so
which partial sum is added to which; rows of an accumulator among one another beyond the order in which an operand's
rows lie in its array.
Checked by: tests/driver/reproof/test_judge_sums.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.plan import TensorMap
from tilewright.base.span import Span
from tilewright.base.value import value
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.contract.sums.operand_elements import MatrixPart, NoMatrix
from tilewright.contract.sums.product_trace import GroupSteps, Operand, Product, ProductTrace, Write
from tilewright.driver.reproof.program_sums import DimensionAxis, Interval, Places, ProgramSums, axes_of_map, places_of
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.machine.core.memory import GlobalMemory, VirtualBuffer

_REPORTED_MAX = 3
"""Findings of one rule that are reported."""


_Tile = tuple[tuple[str, Interval], ...]
"""Places by axis, in an order that products of one kind have in common."""


@value
class _Term:
    """Part of a product: operand number `right` times operand 0, or one of them alone. tile: its places along the axes
    that are known, but for the contracted one; depth: along that."""

    right: int
    tile: _Tile
    depth: Interval | None


@value
class _Side:
    """Part of one operand, whose number it is; axes: of the tile. pitch: rows from one group's first to the next's,
    where groups stand in one line of rows; else 0."""

    number: int
    tile: _Tile
    depth: Interval | None
    axes: frozenset[str]
    pitch: int


@dataclass(slots=True)
class _Findings:
    found: dict[tuple[str, Span | None], Diagnostic] = field(default_factory=dict[tuple[str, Span | None], Diagnostic])
    reported: Counter[str] = field(default_factory=Counter[str])

    def report(self, code: str, message: str, span: Span | None = None) -> None:
        if (code, span) in self.found or self.reported[code] >= _REPORTED_MAX:
            return
        self.reported[code] += 1
        rule = REPLAY_RULES[code]
        self.found[code, span] = Diagnostic(
            code, rule.name, message, primary=span, source=rule.source, repair=Repair(rule.remedy)
        )


def judge_sums(trace: ProductTrace, sums: ProgramSums, sizes_bytes: Mapping[str, int]) -> tuple[Diagnostic, ...]:
    """Findings in what a plan's launches multiplied and stored. sizes_bytes: of the plan's buffers, in the order in
    which the run was given them."""
    reader, findings = _Reader(sums), _Findings()
    groups = [
        (group, [_terms(product, reader, findings) for product in group.products]) for group in trace.groups.values()
    ]
    if not findings.found:
        _judge_coverage([terms for _, of_group in groups for terms in of_group], sums, findings)
        bases = _Bases.of(sizes_bytes)
        for group, terms in groups:
            _judge_group(group, terms, sums, bases, findings)
    return tuple(findings.found.values())


# ---------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True, eq=False)
class _Array:
    """How parts of one operand lie that come by one map. axes: None where the map's dimensions are no axes."""

    number: int
    axes: tuple[DimensionAxis, ...] | None


@dataclass(slots=True)
class _Reader:
    """Parts of operands. arrays: by buffer and map."""

    sums: ProgramSums
    arrays: dict[tuple[str, TensorMap], _Array] = field(default_factory=dict[tuple[str, TensorMap], _Array])

    def read(self, operand: Operand) -> list[_Side]:
        """Of each part of an operand, which of the program's it is, and its places; nothing if one is not known."""
        found: list[_Side] = []
        for part in operand if isinstance(operand, tuple) else ():
            array = self._array_of(part)
            if array.axes is None:
                return []
            found.append(self._side(array.axes, array.number, part))
        return found

    def _array_of(self, part: MatrixPart) -> _Array:
        key = part.box.buffer, part.box.tensor_map
        array = self.arrays.get(key)
        if array is None:
            number, mapped = self.sums.operands.get(part.box.buffer, (-1, None))
            axes = axes_of_map(mapped, part.box.tensor_map) if mapped is not None else None
            array = self.arrays[key] = _Array(number, axes)
        return array

    def _side(self, axes: tuple[DimensionAxis, ...], number: int, part: MatrixPart) -> _Side:
        places = self.sums.own_of(places_of(axes, part.first, _extents(part)))
        depth = places.pop(self.sums.contracted, None)
        groups = self.sums.groups
        pitches = [each.span for each in axes if groups is not None and each.axis == groups.group]
        return _Side(number, tuple(places.items()), depth, frozenset(places), max(pitches, default=0))


def _extents(part: MatrixPart) -> list[int]:
    """How many elements a part has along each dimension of its map."""
    extents = [1] * len(part.first)
    extents[part.outer] = part.end - part.begin
    extents[part.inner] = part.depth
    return extents


def _terms(product: Product, reader: _Reader, findings: _Findings) -> tuple[_Term, ...]:
    """What a product multiplies; nothing where neither operand is known."""
    for operand in (product.left, product.right):
        if isinstance(operand, NoMatrix):
            findings.report("UM104", f"a wgmma's operand is no matrix of its array: {operand.reason}", product.span)
            return ()
    left, right = reader.read(product.left), reader.read(product.right)
    if not left or not right:
        return tuple(_Term(side.number, side.tile, side.depth) for side in left or right)
    found: list[_Term] = []
    for mine in left:
        for theirs in right:
            if (mine.number == 0) == (theirs.number == 0):
                findings.report("UM104", "a wgmma multiplies an operand of the program by itself", product.span)
                continue
            if mine.depth != theirs.depth:
                _report_apart(reader.sums.contracted, mine.depth, theirs.depth, product, findings)
            shared = mine.axes & theirs.axes
            if shared:
                mine, theirs = _in_one_group(mine, theirs, reader.sums), _in_one_group(theirs, mine, reader.sums)
            for axis in shared:
                one, other = dict(mine.tile)[axis], dict(theirs.tile)[axis]
                if one != other:
                    _report_apart(axis, one, other, product, findings)
            tiles = (_without_blocks(mine, theirs, product, findings), _without_blocks(theirs, mine, product, findings))
            found.append(_Term(max(mine.number, theirs.number), tiles[0] + tiles[1], mine.depth))
    return tuple(found)


def _in_one_group(side: _Side, other: _Side, sums: ProgramSums) -> _Side:
    """A side by rows of the group that the other side's matrix is of.

    Where groups stand apart in one line of rows, a tile of a group's last rows takes some of the groups behind it: they
    are counted on from the group's own, past its end, where no element of the result comes of them. Rows before the
    group's first stay another group's.
    """
    groups = sums.groups
    if groups is None or not side.pitch or other.pitch or groups.group not in other.axes:
        return side
    places, theirs = dict(side.tile), dict(other.tile)
    behind = places[groups.group][0] - theirs[groups.group][0]
    if behind <= 0:
        return side
    begin, end = places[groups.rows]
    places[groups.group] = theirs[groups.group]
    places[groups.rows] = begin + behind * side.pitch, end + behind * side.pitch
    return _Side(side.number, tuple(places.items()), side.depth, side.axes, side.pitch)


def _without_blocks(side: _Side, other: _Side, product: Product, findings: _Findings) -> _Tile:
    """A side's places without those along blocks of an axis that the other side has: they follow from the other's, and
    are reported where they are not the blocks that its elements lie in."""
    theirs = dict(other.tile)
    kept: list[tuple[str, Interval]] = []
    for axis, blocks in side.tile:
        elements = theirs.get(base_axis(axis)) if base_axis(axis) != axis else None
        if elements is None:
            kept.append((axis, blocks))
            continue
        size = block_size(axis)
        holding = elements[0] // size, (elements[1] - 1) // size + 1
        if blocks != holding:
            _report_apart(axis, blocks, holding, product, findings)
    return tuple(kept)


def _report_apart(
    axis: str, one: Interval | None, other: Interval | None, product: Product, findings: _Findings
) -> None:
    findings.report(
        "UM104",
        f"a wgmma multiplies {axis} {_interval(one)} of one operand by {axis} {_interval(other)} of the other",
        product.span,
    )


# ---------------------------------------------------------------- sums


_Counted = dict[_Tile, Counter[Interval | None]]
"""How often products of a tile were made, by their places along the contracted axis."""


def _judge_coverage(terms: Sequence[tuple[_Term, ...]], sums: ProgramSums, findings: _Findings) -> None:
    """Is each place of each sum multiplied once?"""
    if not terms or not all(terms):
        return
    counted: dict[int, _Counted] = {}
    for term in (term for of_product in terms for term in of_product):
        tiles = counted.get(term.right)
        if tiles is None:
            tiles = counted[term.right] = {}
        depths = tiles.get(term.tile)
        if depths is None:
            depths = tiles[term.tile] = Counter()
        depths[term.depth] += 1
    for right in sorted({number for number, _ in sums.operands.values()} - {0}):
        if right not in counted and 0 not in counted:
            findings.report("UM105", f"no product has the right operand number {right}")
    for each in counted.values():
        _judge_counts(each, sums, findings)


def _judge_counts(counted: _Counted, sums: ProgramSums, findings: _Findings) -> None:
    clipped = [(_clipped(dict(tile), sums), depths) for tile, depths in counted.items()]
    boxes = [(places, depths) for places, depths in clipped if places is not None]
    if not boxes:
        findings.report("UM105", "no product lies within the program's axes")
        return
    axes = sorted(boxes[0][0])
    if any(places.keys() != set(axes) for places, _ in boxes) or any(None in depths for _, depths in boxes):
        return
    summed = {axis for result in sums.results.values() for axis in result.names}
    whole = summed <= set(axes)
    if sums.groups is not None and not whole:
        return
    edges = [
        sorted(
            {0, sums.extents[axis], *(edge for places, _ in boxes for edge in places[axis])} | _row_edges(axis, sums)
        )
        for axis in axes
    ]
    last = sums.extents[sums.contracted]
    depth_edges = sorted(
        {0, last, *(min(max(edge, 0), last) for _, depths in boxes for each in depths if each for edge in each)}
    )
    numbers = [{edge: number for number, edge in enumerate(each)} for each in edges]
    depth_numbers = {edge: number for number, edge in enumerate(depth_edges)}
    counts = np.zeros([len(each) - 1 for each in (*edges, depth_edges)], np.int64)
    for places, depths in boxes:
        at = tuple(slice(*(where[edge] for edge in places[axis])) for axis, where in zip(axes, numbers, strict=True))
        times = np.zeros(len(depth_edges) - 1, np.int64)
        for depth, number in depths.items():
            begin, end = depth or (0, 0)
            times[depth_numbers[min(max(begin, 0), last)] : depth_numbers[min(max(end, 0), last)]] += number
        counts[at] += times
    wanted = 1 if whole else int(counts.flat[0])
    wrong = (counts != wanted) & _needed(axes, edges, sums)[..., None] if wanted else counts == 0
    first = np.argwhere(wrong)
    if first.size:
        cell = tuple(int(index) for index in first[0])
        names = zip((*axes, sums.contracted), (*edges, depth_edges), cell, strict=True)
        where = ", ".join(f"{axis} {of_axis[at]}" for axis, of_axis, at in names)
        findings.report(
            "UM105",
            f"the product at {where} is summed {int(counts[cell])} times"
            + ("" if whole else f", that at the origin {wanted}"),
        )


def _clipped(places: Places, sums: ProgramSums) -> Places | None:
    """Without what is beyond the program's axes, and without rows of other groups; None if nothing is left."""
    groups = sums.groups
    found = {
        axis: (max(begin, 0), min(end, sums.extents[axis]))
        for axis, (begin, end) in places.items()
    }  # fmt: skip
    if groups is not None and groups.together and groups.group in found and groups.rows in found:
        number = found.pop(groups.group)[0]
        begin, end = found[groups.rows]
        first, last = _rows_of(number, groups.bounds)
        found[groups.rows] = max(begin, first), min(end, last)
    return found if all(begin < end for begin, end in found.values()) else None


def _rows_of(number: int, bounds: Sequence[int]) -> Interval:
    """The rows of a group of those that follow one another."""
    return (bounds[number - 1] if number else 0, bounds[number]) if number < len(bounds) else (0, 0)


def _row_edges(axis: str, sums: ProgramSums) -> set[int]:
    """Where rows of groups end."""
    groups = sums.groups
    return set(groups.bounds) if groups is not None and axis == groups.rows else set()


def _needed(axes: Sequence[str], edges: Sequence[Sequence[int]], sums: ProgramSums) -> NDArray[np.bool_]:
    """Which cells are part of a result."""
    groups = sums.groups
    if groups is None or groups.rows not in axes:
        return np.ones((1,) * len(axes), np.bool_)
    shape = [1] * len(axes)
    rows = np.array(edges[axes.index(groups.rows)][:-1])
    shape[axes.index(groups.rows)] = -1
    if groups.together:
        return rows.reshape(shape) < groups.bounds[-1]
    if groups.group not in axes:
        return np.zeros((1,) * len(axes), np.bool_)
    sizes = np.array([groups.bounds[number] for number in edges[axes.index(groups.group)][:-1]])
    apart = [1] * len(axes)
    apart[axes.index(groups.group)] = -1
    return rows.reshape(shape) < sizes.reshape(apart)


# ---------------------------------------------------------------- stores


@dataclass(frozen=True, slots=True)
class _Bases:
    """Where the run placed the buffers, ascending."""

    names: tuple[str, ...]
    bases: NDArray[np.int64]

    @classmethod
    def of(cls, sizes_bytes: Mapping[str, int]) -> _Bases:
        memory = GlobalMemory()
        placed = sorted((memory.place(name, VirtualBuffer(size)).base, name) for name, size in sizes_bytes.items())
        return cls(tuple(name for _, name in placed), np.array([base for base, _ in placed], np.int64))


def _judge_group(
    group: GroupSteps, terms: Sequence[tuple[_Term, ...]], sums: ProgramSums, bases: _Bases, findings: _Findings
) -> None:
    """A warpgroup's products in their order, and what its warps wrote after so many of them."""
    _judge_sums(group, terms, sums, findings)
    tiles: dict[tuple[str, int], tuple[_Tile, ...]] = {}
    for number, (product, of_product) in enumerate(zip(group.products, terms, strict=True)):
        writes = group.writes.get(number)
        if writes is not None:
            _judge_writes(writes, list(chain.from_iterable(tiles.values())), sums, bases, findings)
            tiles = {}
        for right in dict.fromkeys(term.right for term in of_product):
            key = product.accumulator, right
            before, parts = tiles.get(key), tuple(term.tile for term in of_product if term.right == right)
            if product.accumulates and before is not None and before != parts:
                one, other = next(pair for pair in zip_longest(before, parts, fillvalue=()) if pair[0] != pair[1])
                findings.report(
                    "UM106",
                    f"one accumulator sums products of {_text(dict(one))} and of {_text(dict(other))}",
                    product.span,
                )
            tiles[key] = parts
    last = list(chain.from_iterable(tiles.values()))
    _judge_writes(group.writes.get(len(group.products), ()), last, sums, bases, findings)


def _judge_sums(group: GroupSteps, terms: Sequence[tuple[_Term, ...]], sums: ProgramSums, findings: _Findings) -> None:
    """Does each sum begin anew, and is it read when it is whole? One that no result has a part of may be left."""
    before: dict[str, int] = {}
    for number, (product, taken) in enumerate(zip(group.products, group.taken, strict=True)):
        last = before.get(product.accumulator)
        before[product.accumulator] = number
        if product.accumulates and last is None:
            findings.report("UM108", "a wgmma adds to an accumulator in which no sum has begun", product.span)
        elif product.accumulates and taken:
            findings.report("UM108", "a wgmma adds to a sum that has been read already", product.span)
        elif not product.accumulates and last is not None and not taken and _counts(terms[last], sums):
            findings.report("UM108", "a wgmma begins a sum anew where nobody has read the one before", product.span)


def _counts(terms: Sequence[_Term], sums: ProgramSums) -> bool:
    """Is a product part of a result, as far as is known?"""
    return not terms or any(_clipped(dict(term.tile), sums) is not None for term in terms)


def _judge_writes(
    writes: Sequence[Write], tiles: Collection[_Tile], sums: ProgramSums, bases: _Bases, findings: _Findings
) -> None:
    """Do writes to results keep to the tiles that were multiplied before them?"""
    held = _hull([_in_group(dict(places), sums) for places in tiles])
    for span, places in _stored(writes, sums, bases) if held else ():
        for axis, (begin, end) in places.items():
            begin, end = max(begin, 0), min(end, sums.extents[axis])
            if axis in held and begin < end and not held[axis][0] <= begin <= end <= held[axis][1]:
                findings.report("UM106", f"{axis} {_interval((begin, end))} is stored, summed was {_text(held)}", span)


def _in_group(places: Places, sums: ProgramSums) -> Places:
    """Of a tile of a group of rows, those that are the group's."""
    groups = sums.groups
    if groups is None or not groups.together or groups.group not in places or groups.rows not in places:
        return places
    first, last = _rows_of(places[groups.group][0], groups.bounds)
    begin, end = places[groups.rows]
    return {**places, groups.rows: (max(begin, first), min(end, last))}


def _hull(tiles: Sequence[Places]) -> Places:
    """Along the axes that all have, the places between which they lie."""
    if not tiles:
        return {}
    axes = set(tiles[0]).intersection(*tiles)
    return {axis: (min(each[axis][0] for each in tiles), max(each[axis][1] for each in tiles)) for axis in axes}


def _stored(writes: Sequence[Write], sums: ProgramSums, bases: _Bases) -> Iterable[tuple[Span, Places]]:
    """Places of results that are written."""
    flat: list[int] = []
    for write in writes:
        box = write.box
        if box is not None:
            result = sums.results.get(box.buffer)
            places = result.of_box(box.tensor_map, box.coordinates, box.tensor_map.box) if result is not None else None
            if places is not None:
                yield write.span, places
        flat.extend(chain.from_iterable(write.ranges))
    if not flat:
        return
    ranges = np.array(flat, np.int64).reshape(-1, 2)
    owners: NDArray[np.int64] = np.searchsorted(bases.bases, ranges[:, 0], "right") - 1
    for owner, name in enumerate(bases.names):
        result = sums.results.get(name)
        mine = ranges[owners == owner] - bases.bases[owner]
        if result is not None and len(mine):
            span = next(write.span for write in writes if write.ranges)
            yield span, result.of_ranges(mine[:, 0], mine[:, 1])


def _interval(interval: Interval | None) -> str:
    return "unknown" if interval is None else f"[{interval[0]}, {interval[1]})"


def _text(places: Places) -> str:
    return ", ".join(f"{axis} {_interval(each)}" for axis, each in sorted(places.items()))
