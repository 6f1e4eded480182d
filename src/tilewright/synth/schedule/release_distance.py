"""How many products late may a consumer release a slot?

At distance d a consumer issues the products of d further slots before it waits for a slot's own and gives it back. At 0
it waits for each: slots come back soonest, and the tensor cores have work meanwhile only if another consumer has. Each
product more keeps the tensor cores busy over a longer wait, and a slot of the ring away from the copies for a turn
longer. Which is best follows from the schedules (`synth.schedule.loop_schedule`); here is which are possible at all: a
ring has a slot more than are held back, and a tile a slice for each product that is in flight at its end.

Not handled: products scaled inside their loop, whose slots are released as their parts are promoted; left operands that
consumers compute, which are computed while one product runs. Both have a distance of 1.
Checked by: tests/synth/schedule/test_release_distance.py, tests/lower/test_release_distance.py, and `contract` on every
kernel.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError

MOST = 2
FIXED = 1
"""Where the loop does more than multiply."""


def possible_distances(stages: int, slices: int, *, turns: bool, plain: bool) -> tuple[int, ...]:
    """Distances with which a pipeline goes on, the least first. slices: of a tile; turns: consumers alternate whole
    tiles, and pass a turn on once a product of the tile is done; plain: nothing but products happens in the loop."""
    if not plain:
        return (FIXED,)
    most = min(MOST, stages - 1, slices - 1 if turns else slices)
    return tuple(range(most + 1))


def require_distance(distance: int, possible: tuple[int, ...]) -> int:
    """The distance. Raises TilewrightError for one that is not among the possible ones."""
    if distance not in possible:
        raise TilewrightError(
            f"slots cannot be released {distance} products late",
            remedy=f"use {' or '.join(map(str, possible))}, or leave it to the compiler",
        )
    return possible[possible.index(distance)]
