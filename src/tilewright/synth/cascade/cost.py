"""Which of several forms of one program is the quickest, once each is decided?

By the time of all tiles (`decide.estimated_time`), where masks leave parts of the streamed axis by what is walked: no
less than the longest walk, and no less than a CTA's share of all. Of forms that take as long, the one that reads least:
a slot that serves more rows of a tile is filled for fewer of them.

Not handled: what memory alone takes. Checked by: tests/synth/cascade/test_cost.py.
"""

from __future__ import annotations

import math

from tilewright.ir.cascade import CascadeDecisions, walked_part
from tilewright.ir.cascade_facts import cascade_axes
from tilewright.ir.tile import operations as tile
from tilewright.synth.cascade.decide import estimated_time
from tilewright.targets import Target


def cost(program: tile.ProgramOp, d: CascadeDecisions, target: Target) -> tuple[float, int]:
    """Time, in the unit of `estimated_time`, and bytes that are brought into slots on the way."""
    extents = program.extents
    rows, most = -(-extents[d.row] // d.row_step), -(-extents[d.streamed] // d.tile_streamed)
    lengths = [walked_part(each.begin, each.end, most, row)[1] for each in d.walked for row in range(rows)]
    lengths = lengths or [most] * rows
    tiles_of_row = math.prod(extents[axis] for axis in d.batch)
    tiles_of_row *= -(-extents[d.column] // d.column_step) if d.column else 1
    whole, iterations = -(-rows * tiles_of_row // d.ctas) * most, sum(lengths) * tiles_of_row
    walked = max(max(lengths), -(-iterations // d.ctas)) if d.walked else whole
    time = estimated_time(program, cascade_axes(program), d, target) * walked / whole
    return time, iterations * sum(each.slot_bytes for each in d.slots if not each.resident)
