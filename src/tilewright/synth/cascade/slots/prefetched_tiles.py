"""Of how many tiles does the thread that fills slots ask for all boxes before the launch before has ended?

A walk of which each tile brings its own bytes waits for device memory, and has nothing on its way when it begins. So it
asks for its first tile, to be brought into the L2 cache, while the launch before ends. Where a table says where that
is, it reads the table as it stands: what the launch before may still write there only makes it ask for other bytes. Not
where a CTA has several tiles, which would ask again for each of theirs.

Checked by: tests/synth/cascade/slots/test_prefetched_tiles.py.
"""

from __future__ import annotations

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile import operations as tile
from tilewright.synth.cascade.groups import tiles_of


def prefetched_tiles(program: tile.ProgramOp, d: CascadeDecisions) -> int:
    """d: decided but for that."""
    passing = [each for each in d.slots if not each.resident]
    if not d.filler_waits or d.walked or tiles_of(program, d) > d.ctas:
        return 0
    return int(all(each.read_once for each in passing))
