"""How long does device memory take for a product's operands and result, whatever the multiprocessors do meanwhile?

Each operand is read once and the result is written once, at the rate of a plain copy. A row of the result leaves in
chunks, one box of a bulk store for each. Where two chunks meet inside a cache line, each is a request of its own for a
part of it; where they meet inside a sector, the sector must besides be joined with what memory holds, which costs
several transfers of a whole one. Tiles follow one another, and so do the chunks of each; rows are taken to begin on a
line.

Not handled: operands that leave the L2 cache and are read again. Checked by: tests/synth/cost/test_memory_bound.py.
"""

from __future__ import annotations

import math
from itertools import accumulate

from tilewright.synth.tile.shape import TileQuestion
from tilewright.targets import Target


def with_meetings(question: TileQuestion, meetings: float, target: Target) -> float:
    """Cycles of the device's clock for all bytes of a product, extents as the accumulator has them. meetings: of
    `meeting_cycles`."""
    rows, columns, depth = question.extents
    operands = (rows + columns * question.products) * depth * question.element_bytes
    result = rows * columns * question.stored_bytes
    share = target.limit("pipeline.memory_percent") / 100
    written = question.batch * (operands + result) / (share * _rate(target))
    return written + meetings / share


def meeting_cycles(question: TileQuestion, chunk_bytes: tuple[int, ...], target: Target) -> float:
    """What lines and sectors of the result cost memory besides, of which two chunks write a part each.

    chunk_bytes: of one row of each chunk of a tile, none where rows do not leave in chunks. Where boxes are turned
    (`synth.store.turned_store`), a row of the result is a column of these.
    """
    if not chunk_bytes:
        return 0.0
    rows, columns, _ = question.extents
    row_bytes = columns * question.stored_bytes
    lines = meetings_inside(row_bytes, chunk_bytes, target.limit("device.line_bytes"))
    sectors = meetings_inside(row_bytes, chunk_bytes, target.limit("device.sector_bytes"))
    of_line, of_sector = target.limit("device.shared_line_bytes"), target.limit("device.shared_sector_bytes")
    return question.batch * rows * (of_line * lines + of_sector * sectors) / _rate(target)


def _rate(target: Target) -> float:
    """Bytes a cycle."""
    return target.limit("device.dram_bytes_per_second") / target.limit("device.clock_hertz")


def meetings_inside(row_bytes: int, chunk_bytes: tuple[int, ...], unit_bytes: int) -> int:
    """Of the places in a row where two chunks meet, those inside a unit of memory and not between two of them.

    chunk_bytes: of each chunk of a tile; tiles follow one another to the end of the row.
    """
    if len(set(chunk_bytes)) == 1:
        # All multiples of a chunk but those of a unit too.
        return (row_bytes - 1) // chunk_bytes[0] - (row_bytes - 1) // math.lcm(chunk_bytes[0], unit_bytes)
    ends = tuple(accumulate(chunk_bytes))
    # After so many tiles, chunks meet at the same places of a unit again.
    period = math.lcm(ends[-1], unit_bytes)
    places = [begin + end for begin in range(0, period, ends[-1]) for end in ends]
    inside = [place for place in places if place % unit_bytes]
    whole, left = divmod(row_bytes - 1, period)
    return whole * len(inside) + sum(place <= left for place in inside)
