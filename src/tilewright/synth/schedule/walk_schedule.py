"""How many products late does a walk that sums release its slots?

By the schedules of its loop's tasks (`synth.schedule.loop_schedule`). A sum in two levels waits for
each product as its part is added, which is none of the distances here.
Checked by: tests/synth/cascade/sums/test_sum_tile.py.
"""

from __future__ import annotations

from tilewright.ir.schedule import summary_line
from tilewright.ir.tile_stream import TileStream
from tilewright.synth.schedule.loop_schedule import LoopShape, ScheduledLoop, schedule_loop
from tilewright.synth.schedule.release_distance import possible_distances, require_distance
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


def shortest_walk(slices: int, stream: TileStream | None) -> int:
    """Slices of a tile, or of the shorter part of one that is cut."""
    return slices if stream is None else min(stream.head_slices, slices - stream.head_slices)


def schedule_walk(
    name: str,
    shape: LoopShape,
    slots: int,
    slices: int,
    target: Target,
    wanted: Wanted,
    reasons: list[str],
    *,
    turns: bool,
    plain: bool,
) -> ScheduledLoop:
    """The loop's schedule with its distance, and a reason. slots: of the ring; slices: of the shortest walk; plain:
    nothing but products happens in it. Raises TilewrightError for a wish that this ring or walk does not grant."""
    possible = possible_distances(slots, slices, turns=turns, plain=plain)
    if wanted.release_distance is not None:
        possible = (require_distance(wanted.release_distance, possible),)
    found = schedule_loop(name, shape, slots, possible, target, wanted.schedule)
    reasons += (str(found), summary_line(found.schedule))
    return found
