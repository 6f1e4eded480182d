"""What do the walks of all tiles of rows take, beside those of another tile?

Checked by: tests/synth/cascade/test_decide.py.
"""

from __future__ import annotations

from tilewright.ir.cascade import CascadeDecisions, unit_part, walked_part
from tilewright.ir.tile import operations as tile
from tilewright.targets import Target

_EVEN = 64
"""Columns from which on wgmma multiplies no faster than it reads: 64 rows and N columns of 32 bytes, at 128 bytes a
cycle, for N / 2 cycles."""


def walk_cost(program: tile.ProgramOp, d: CascadeDecisions, target: Target) -> int:
    """Of the walks of all tiles of rows, in the time of one element: what an iteration takes besides its elements
    counts, and what tiles have too much."""
    lengths = walked_lengths(program, d)
    return round(sum(sum(each) / len(each) for each in lengths) * iteration_cost(d, target))


def iteration_cost(d: CascadeDecisions, target: Target) -> int:
    """Of one iteration, in the same. Of fewer columns than wgmma reads as fast as it multiplies, as of so many."""
    return max(d.tile_streamed, _EVEN) + target.limit("pipeline.walk_iteration_elements")


def ctas_together(d: CascadeDecisions, target: Target) -> int:
    """CTAs that a multiprocessor has at once."""
    return -(-d.ctas // target.limit("device.multiprocessors"))


def consumers_percent(d: CascadeDecisions, target: Target) -> int:
    """Of the time of a tile of two consumers that issue as they come, what a tile takes. One consumer alone has nobody
    whose products run while it computes, but half of the rows; of three, two compute then. Of two in order, one
    computes while the other multiplies."""
    if d.ordered and not d.late:
        return target.limit("pipeline.ordered_consumers_percent")
    match d.consumers:
        case 1:
            # Two CTAs of one compute and multiply alternately, as two consumers do.
            return 100 if ctas_together(d, target) > 1 else target.limit("pipeline.one_consumer_percent")
        case 3:
            waiting = not (d.late or d.tensor_columns)
            return target.limit(f"pipeline.three_{'waiting_' if waiting else ''}consumers_percent")
        case _:
            return 100


def walked_share(program: tile.ProgramOp, d: CascadeDecisions) -> float:
    """Which part of all tiles of the streamed axis is walked."""
    found = [length for each in walked_lengths(program, d) for length in each]
    return sum(found) / (len(found) * _tiles_along(program, d, d.streamed))


def walked_lengths(program: tile.ProgramOp, d: CascadeDecisions) -> list[list[int]]:
    """How many tiles of the streamed axis each tile of rows walks, of each consumer that ends by itself."""
    rows, most = (_tiles_along(program, d, axis) for axis in (d.row, d.streamed))
    parts = [walked_part(each.begin, each.end, most, row) for each in d.walked for row in range(rows)]
    if d.unit_end is None:
        return [[length] for _, length in parts or [(0, most)] * rows]
    units, end = -(-program.extents[d.row] // d.unit_rows), d.unit_end
    firsts = range(-d.walked[0].lacking, rows * d.tile_units - d.walked[0].lacking, d.tile_units)
    numbers = [range(first, first + d.tile_units) for first in firsts]
    return [[unit_part(end, part, unit, units) for unit in own] for part, own in zip(parts, numbers, strict=True)]


def _tiles_along(program: tile.ProgramOp, d: CascadeDecisions, axis: str) -> int:
    return -(-program.extents[axis] // d.tile_extent(axis))
