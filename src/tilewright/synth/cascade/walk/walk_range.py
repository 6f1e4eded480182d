"""Which tiles of the streamed axis has a tile of rows to walk, where masks leave nothing of others?

One text serves all tiles of rows, so where a walk begins and ends is a line in the tile's number: of the slopes that
are tried, the one that leaves fewest tiles to walk, moved as far as every tile of rows allows.

Where consumers end by themselves, and the last tile of rows has fewer than there are, that tile may be the longest, as
under a diagonal: then it takes nearly as long as a whole one. So the first tile may begin before the axis instead, and
the last one end with it: what a tile takes is what its consumer takes that walks most. Consumers without rows pass
their tile (`lower.cascade.own_walk`), where a CTA has several tiles.

Not handled: gaps between tiles that are left (they are walked), ends that no line comes near.
Checked by: tests/synth/cascade/walk/test_walk_range.py.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tilewright.ir.cascade import CascadeDecisions, Line, WalkRange, unit_part, walked_part
from tilewright.ir.cascade_facts import CascadeAxes
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import loops
from tilewright.synth.cascade.walk.masked_tiles import empty_tiles
from tilewright.synth.cascade.walk.walk_time import walked_lengths

_INDEX_END = 1 << 31
_SEVERAL = 2
"""Tiles of a CTA, from which on the time of all of them counts, and not that of the longest."""


def walk_range(
    program: tile.ProgramOp, axes: CascadeAxes, rows: int, columns: int, before: int = 0
) -> tuple[WalkRange, ...]:
    """The range, for tiles of so many rows and columns; none where all of the axis is to be walked. Of run-time rows
    and columns it is that of the most: fewer leave nothing that these do not, and no tile is walked past the last.
    before: rows by which the first tile begins before the axis does."""
    empty = empty_tiles(program, axes, rows, columns, before)
    return () if empty is None else fitted_range(~empty, rows, columns)


def unit_range(program: tile.ProgramOp, axes: CascadeAxes, d: CascadeDecisions, tiles: int) -> tuple[WalkRange, ...]:
    """What the tiles of rows walk where consumers may end before their tile does: the range of the decisions with the
    consumers' line, and where that takes less, of tiles that end with the axis. tiles: in all."""

    def ended(walked: WalkRange) -> CascadeDecisions:
        found = replace(d, walked=(walked,))
        return replace(d, walked=(replace(walked, unit_end=unit_end(program, axes, found)),))

    first = ended(d.walked[0])
    units = -(-program.extents[d.row] // d.unit_rows)
    lacking = -units % d.tile_units
    alone = program.run_time or tiles < _SEVERAL * d.ctas
    if not lacking or first.unit_end is None or alone or not _passes(program, d):
        return first.walked
    passing = replace(first, walked=(replace(first.walked[0], passing=1),))
    if not _may_begin_before(program, d):
        return passing.walked
    later = walk_range(program, axes, d.tile_rows, d.tile_streamed, lacking * d.unit_rows)
    others = [ended(replace(each, passing=1, lacking=lacking)) for each in later]
    choices = [passing, *(each for each in others if each.unit_end is not None)]
    return min(choices, key=lambda each: sum(map(max, walked_lengths(program, each)))).walked


def _passes(program: tile.ProgramOp, d: CascadeDecisions) -> bool:
    """Whether a consumer may pass a tile of which it has no rows: of one walk, where nothing but slots goes from tile
    to tile."""
    return len(loops(program)) == 1 and not d.stores and not any(each.remade for each in d.slots)


def _may_begin_before(program: tile.ProgramOp, d: CascadeDecisions) -> bool:
    """Whether the first tile of rows may begin before the axis does, where consumers without rows pass it: what is
    brought there reads as zeros. Not where a number of the row leads to another place."""
    of_rows = [each for each in d.slots if d.row in (each.inner, each.outer)]
    moved = any(each.lookups or each.page for each in of_rows) or d.steps[0] > 0
    return not moved and all(block_size(axis) == 1 for axis in program.extents if base_axis(axis) == d.row)


def fitted_range(left: NDArray[np.bool_], rows: int, columns: int) -> tuple[WalkRange, ...]:
    """The shortest range found that has every tile of rows walk each tile that is left of its. left: by tile of rows
    and tile of columns."""
    count, most = left.shape
    some = left.any(axis=1)
    first, behind = np.argmax(left, axis=1), most - np.argmax(left[:, ::-1], axis=1)
    first[~some], behind[~some] = most - 1, 0
    best: tuple[int, tuple[WalkRange, ...]] = (count * most, ())
    begins = [_line(slope, first, most, -1) for slope in _slopes(first, rows, columns)]
    ends = [_line(slope, behind, most, 1) for slope in _slopes(behind, rows, columns)]
    for begin, end in product(begins, ends):
        if _fits(begin, count) and _fits(end, count):
            firsts, lengths = _parts(begin, end, count, most)
            if np.any(firsts > first) or np.any(firsts + lengths < behind):
                raise AssertionError("a range that leaves out what is to be walked")
            if lengths.sum() < best[0]:
                best = int(lengths.sum()), (WalkRange(begin, end, int(lengths.max())),)
    return best[1]


def unit_end(program: tile.ProgramOp, axes: CascadeAxes, d: CascadeDecisions) -> tuple[Line, ...]:
    """The line before which a consumer's walk ends, in the number of its rows, where its tile's walk has ends; none
    where no consumer ends before its tile. Of run-time rows some do at some extent: those without a row."""
    empty = empty_tiles(program, axes, d.unit_rows, d.tile_streamed)
    if empty is None:
        return ()
    some = d.row in program.run_time and d.tile_units > 1
    return fitted_end(~empty, d.walked[0], d.tile_units, d.unit_rows, d.tile_streamed, some=some)


def fitted_end(
    left: NDArray[np.bool_], walked: WalkRange, units: int, rows: int, columns: int, *, some: bool = False
) -> tuple[Line, ...]:
    """The line by which consumers walk least, each all that is left of its rows. left: by consumer's rows and tile of
    columns; units: consumers of a tile; some: there is a line even where these walk no less than their tile."""
    count, most = left.shape
    behind = np.where(left.any(axis=1), most - np.argmax(left[:, ::-1], axis=1), 0)
    last = -(-(count + walked.lacking) // units) * units - walked.lacking
    numbers = range(-walked.lacking, last)
    parts = {
        number: walked_part(walked.begin, walked.end, most, (number + walked.lacking) // units) for number in numbers
    }
    best: tuple[int, tuple[Line, ...]] = (sum(length for _, length in parts.values()) + some, ())
    for slope in _slopes(behind, rows, columns):
        line = _line(slope, behind, most, 1)
        if _fits(line, len(parts)) and _fits(line, 1 - walked.lacking):
            own = {number: unit_part(line, part, number, count) for number, part in parts.items()}
            if any(parts[number][0] + own[number] < end for number, end in enumerate(behind)):
                raise AssertionError("an end that leaves out what is to be walked")
            best = min(best, (sum(own.values()), (line,)), key=lambda each: each[0])
    return best[1]


def _parts(begin: Line, end: Line, count: int, most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """`ir.cascade.walked_part` of all tiles of rows at once."""
    numbers = np.arange(count)
    firsts, ends = (
        np.maximum(line.scale * numbers + line.offset, 0) // line.divisor for line in (begin, end)
    )  # fmt: skip
    firsts = np.minimum(firsts, most - 1)
    return firsts, np.minimum(np.maximum(ends, firsts + 1), most) - firsts


def _slopes(ends: NDArray[np.intp], rows: int, columns: int) -> list[tuple[int, int]]:
    """Tiles of columns for a tile of rows, as fractions: none, one element for each row, and from end to end."""
    found = [(0, 1), (rows, columns), (-rows, columns)]
    if len(ends) > 1:
        found.append((int(ends[-1] - ends[0]), len(ends) - 1))
    return [(rise // math.gcd(rise, run), run // math.gcd(rise, run)) for rise, run in found]


def _line(slope: tuple[int, int], ends: NDArray[np.intp], most: int, side: int) -> Line:
    """The line of this slope that is nearest to all ends, above each of them (side 1) or below (-1)."""
    scale, divisor = slope
    numbers = np.arange(len(ends))
    if side < 0:
        # No begin is behind the last tile.
        bound = ends < most - 1
        room = (divisor * ends + divisor - 1 - scale * numbers)[bound]
        offset = int(room.min()) if room.size else divisor * most
    else:
        # One tile at least is walked.
        bound = ends > 1
        room = (divisor * ends - scale * numbers)[bound]
        offset = int(room.max()) if room.size else 0
    return Line(scale, offset, divisor)


def _fits(line: Line, count: int) -> bool:
    """Whether its numbers are ones of 32 bits."""
    return max(abs(line.offset), abs(line.scale * (count - 1) + line.offset), abs(line.scale)) < _INDEX_END
