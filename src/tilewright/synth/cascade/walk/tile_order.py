"""In which order does a grid take tiles whose walks have different lengths?

A CTA's time is about the iterations of all its tiles, and the kernel's that of the CTA with the most. Of the orders
that `ir.tile.order` has, which CTA walks how far can be counted: one place of the batch after the other, or the tiles
of several places together, the longest first. Places that are taken together are read together, so no more of them
than a share of the L2 cache holds; how many there are need not divide all of them, and the number whose tiles fill
whole rounds leaves no CTA a long tile at the end. Rounds that alternate in direction balance if each has whole places;
else each begins a few tiles later than the one before, and shares may differ by half. So grids of somewhat fewer CTAs
are counted, too, and taken where they save more than they may cost besides. Where the hardware hands tiles out, each
CTA takes the next one as it is done, and none waits long for the last. Of all these the one with the least longest
share is taken, of equal ones the simplest.

Where consumers of a tile end their walks by themselves, the one with the most iterations in all counts, since none goes
far ahead of the others. A tile counts for an iteration more than it has: its first product, its last one and its
results stand alone.

Not handled: groups of more places than `_MOST_TOGETHER`. Checked by: tests/synth/cascade/walk/test_tile_order.py.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.ir.tile.order import place_in_order
from tilewright.targets import Target

_SHARE_LEFT_IDLE = 16
"""Of the CTAs, no more than the sixteenth part is left out."""
_WORTH_SAVING = 32
"""Of the longest share, more than this part must be saved by leaving CTAs out, or by handing tiles out."""
_SHARE_OF_CACHE = 2
"""Half of the L2 cache is for what is read again; the rest holds what passes."""
_MOST_TOGETHER = 256
_OF_TILE = 1
"""Iterations that a tile takes besides its own: of causal attention, 64 elements a head, 1.3 us, and an iteration 1.25
(H200, `python -m bench attention`)."""


@dataclass(frozen=True, slots=True)
class TakenOrder:
    """together: places of the batch whose tiles are taken together, 0 for one place after the other; ctas: that run at
    once; handed: whether each takes the next tile as it is done with one (`ir.ac.handed`)."""

    together: int
    ctas: int
    handed: bool = False


def order_of_walks(
    lengths: Sequence[Sequence[int]],
    tiles: tuple[int, int],
    group: int,
    places: int,
    place_bytes: int,
    ctas: int,
    target: Target,
    handed: bool | None,
    of: int = 0,
) -> TakenOrder:
    """In which order, and by how many of `ctas` CTAs, tiles are taken. handed: whether they may be handed out, and must
    be; None where that is to be found out; of: a number that places taken together divide, where there is one.

    lengths: of each tile of rows, of each consumer that ends by itself. tiles: of a place, along rows and columns, in
    bands of `group`. place_bytes: what is brought for one place along the streamed axis."""
    if len({tuple(each) for each in lengths}) == 1:
        return TakenOrder(0, ctas)
    count = math.prod(tiles)
    numbered = [place_in_order(number, *tiles, group)[0] for number in range(count)]
    of_place = _OF_TILE + np.array([lengths[row] for row in numbered]).T
    room = max(1, target.limit("device.l2_bytes") // _SHARE_OF_CACHE // max(1, place_bytes))
    groups = [each for each in range(min(places, room, _MOST_TOGETHER) + 1) if not (each and of % each)]
    fewest = ctas - ctas // _SHARE_LEFT_IDLE
    by_number = {each: _in_order(of_place, places, each) for each in groups}

    def best(counts: Iterable[int]) -> tuple[int, TakenOrder]:
        choices = [TakenOrder(together, few) for together in groups for few in counts]
        shares = [_longest(by_number[each.together], each) for each in choices]
        return min(zip(shares, choices, strict=True), key=lambda each: each[0])

    share, order = best([ctas])
    mean = int(of_place.sum(axis=1).max()) * places // ctas
    if handed is not True and _WORTH_SAVING * (share - mean) <= share:
        return order
    fewer, other = best(range(ctas, fewest - 1, -1))
    share, order = (fewer, other) if _WORTH_SAVING * (share - fewer) > share else (share, order)
    if handed is False:
        return order
    even = (each for each in groups if not each or places % each == 0)
    found, together = min((_as_they_come(by_number[each], ctas), each) for each in even)
    return TakenOrder(together, ctas, True) if handed or _WORTH_SAVING * (share - found) > share else order


def _as_they_come(lengths: NDArray[np.int64], ctas: int) -> int:
    """The iterations of the CTA with the most, where each takes the next tile as it is done with one."""
    busy = [0] * ctas
    for length in lengths.max(axis=0):
        heapq.heapreplace(busy, busy[0] + int(length))
    return max(busy)


def _in_order(of_place: NDArray[np.int64], places: int, together: int) -> NDArray[np.int64]:
    """The lengths of all places' tiles, by consumer, in the order in which they are numbered
    (`ir.tile.order.matrix_of`)."""
    if not together:
        return np.tile(of_place, places)
    whole, rest = divmod(places, together)
    back = of_place[:, ::-1]
    groups = np.tile(np.repeat(back, together, axis=1), whole)
    return np.concatenate([groups, np.repeat(back, rest, axis=1)], axis=1)


def _longest(lengths: NDArray[np.int64], order: TakenOrder) -> int:
    """The iterations of the consumer with the most, in any CTA (`ir.tile.order.taken`). lengths: of the tiles by their
    numbers, by consumer."""
    units, tiles = lengths.shape
    count = -(-tiles // order.ctas)
    rounds = np.zeros((units, count * order.ctas), np.int64)
    rounds[:, :tiles] = lengths
    rounds = rounds.reshape(units, count, order.ctas)
    if order.together:
        rounds[:, 1::2] = rounds[:, 1::2, ::-1]
    return int(rounds.sum(axis=1).max())
