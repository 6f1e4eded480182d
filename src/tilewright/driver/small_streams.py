"""What does the small instance of a program look like whose first tiles are streamed over CTAs?

The instance has three streamed tiles for two helpers, one of which takes two heads, and whole tiles for both and for
one of the owners: a step from head to head, or to whole tiles, that is right for one helper alone would show. Where
CTAs take several whole tiles, each CTA has one and the first another, so that the step between them shows as well.
Where a program has less, it is taken as it is. A head is no whole number of rounds of the ring, if it can be: else each
head would begin at the ring's first slot. Heads and tails have as many slices as no other quantity of the
instance, if they can: where two are the same number, one of them in place of the other would not show.
Checked by: tests/driver/test_small_streams.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.decisions import PipelineDecisions
from tilewright.lower.turns import skip_quantities

_HELPERS, _STREAMED, _WHOLE = 2, 3, 3
_HEAD_SLICES = 4


@dataclass(frozen=True, slots=True)
class SmallStream:
    """ctas; streamed: tiles; tiles: no fewer than these in all; slices: of a tile; head_slices: of them a helper's."""

    ctas: int
    streamed: int
    tiles: int
    slices: int
    head_slices: int


def small_stream(d: PipelineDecisions, tiles: int, slices: int) -> SmallStream:
    """The instance of decisions that stream. tiles, slices: of the program, in all and of each tile."""
    streamed = min(_STREAMED, d.streamed)
    helpers = min(_HELPERS, d.helpers)
    ctas, whole = streamed + helpers, tiles - d.streamed
    taken = streamed + min(_WHOLE if whole <= d.ctas else ctas + 1, whole)
    head = min(d.head_slices, _HEAD_SLICES)
    if head % d.stages == 0:
        longer = range(head + 1, min(d.head_slices, 2 * _HEAD_SLICES) + 1)
        told_apart = (count for count in longer if count % d.stages and count not in {streamed, helpers, ctas, taken})
        head = next(told_apart, head)
    # A tail goes past the ring's end, and a CTA's parts and its whole tile together fill a ring's slots twice.
    most = slices - d.head_slices
    others = {head, streamed, helpers, ctas, taken}
    tail = next((count for count in range(d.stages + 1, most) if count not in others), most)
    return SmallStream(ctas, streamed, taken, head + tail, head)


def stream_quantities(d: PipelineDecisions, slices: int) -> list[int]:
    """Immediates of the text that depend on extents. slices: of a tile."""
    if not d.streamed:
        return []
    parts = (d.head_slices, slices - d.head_slices)
    return [d.streamed, d.helpers, *parts, *(number for part in parts for number in skip_quantities(part, d.stages))]
