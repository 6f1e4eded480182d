"""In which order does a grid take tiles whose walks have different lengths?

A CTA's time is about the iterations of all its tiles, and the kernel's that of the CTA with the most. Of the orders
that `ir.tile.order` has, which CTA walks how far can be counted: one place of the batch after the other, or the tiles
of several places together, the longest first. Places that are taken together are read together, so no more of them
than a share of the L2 cache holds. The order with the least longest share is taken, of equal ones the simplest.

Not handled: what a tile costs besides its iterations. Checked by: tests/synth/cascade/test_tile_order.py.
"""

from __future__ import annotations

import math

import numpy as np

from tilewright.ir.cascade import WalkRange, walked_part
from tilewright.ir.tile.order import matrix_of, place_in_order, taken
from tilewright.targets import Target

_SHARE_OF_CACHE = 2
"""Half of the L2 cache is for what is read again; the rest holds what passes."""


def places_together(
    walked: WalkRange,
    most: int,
    tiles: tuple[int, int],
    group: int,
    places: int,
    place_bytes: int,
    ctas: int,
    target: Target,
) -> int:
    """How many places of the batch are taken together; 0 for one after the other.

    most: tiles of the streamed axis. tiles: of a place, along rows and columns, in bands of `group`. place_bytes: what
    is brought for one place along the streamed axis."""
    lengths = [walked_part(walked.begin, walked.end, most, row)[1] for row in range(tiles[0])]
    if min(lengths) == max(lengths):
        return 0
    count = math.prod(tiles)
    of_place = np.array([lengths[place_in_order(number, *tiles, group)[0]] for number in range(count)])
    room = max(1, target.limit("device.l2_bytes") // _SHARE_OF_CACHE // max(1, place_bytes))
    choices = [0, *(each for each in range(1, min(places, room) + 1) if places % each == 0)]

    def longest(together: int) -> int:
        numbers = range(count * places)
        order = np.array([matrix_of(number, count, together or None)[1] for number in numbers])
        by_number = of_place[order]
        return max(int(by_number[taken(cta, ctas, count * places, together or None)].sum()) for cta in range(ctas))

    return min(choices, key=lambda together: (longest(together), together))
