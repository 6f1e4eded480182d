"""What does an actor know of the others? Vector clocks whose components are whatever can only advance.

Theory: Lamport's happens-before as vector clocks (Fidge, Mattern). Besides one component for each warp's own events
there are components for facts that only grow and that synchronization passes on: "this mbarrier's phases before the
k-th are complete", "this thread's first k bulk groups have been read", "this warpgroup's first k wgmma groups are
done", "this warp's events up to the k-th lie before its proxy fence". An asynchronous operation needs no component of
its own then: it is done, for whoever knows enough of the fact that reports its completion.

A component is a track, an index into the clock; tracks are given out as they turn up, and a clock that is shorter than
a track knows nothing of it. Checked by: tests/contract/judge/test_happens_before.py.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

_TRACKS_TOGETHER = 64
_NOTHING = np.zeros(0, np.int32)
"""Of clocks that know nothing yet: most of them learn all that another one knows first."""


class Tracks:
    """The components in use: a key (any hashable, such as `("warp", 0, 3)`) to its index."""

    __slots__ = ("_index",)

    def __init__(self) -> None:
        self._index: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        """The track of `key`, a new one if it has none yet."""
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self._index)
        return index

    def known(self, key: Hashable) -> int | None:
        """The track of `key`, or None if nothing was ever said of it."""
        return self._index.get(key)


class VectorClock:
    """How far along each track something is known. Starts at 0 everywhere: nothing known."""

    __slots__ = ("values",)

    def __init__(self, values: NDArray[np.int32] | None = None) -> None:
        self.values: NDArray[np.int32] = _NOTHING if values is None else values

    def at(self, track: int) -> int:
        """What is known along `track`."""
        values = self.values
        return values.item(track) if track < values.size else 0

    def advance(self, track: int, value: int) -> None:
        """Know at least `value` along `track`."""
        values = self.values
        if track >= values.size:
            values = self._grow(track + 1)
        if values.item(track) < value:
            values[track] = value

    def lower(self, track: int, value: int) -> None:
        """Forget what is known along `track` beyond `value`."""
        if track < self.values.size and self.values[track] > value:
            self.values[track] = value

    def join(self, other: VectorClock) -> None:
        """Learn all that `other` knows."""
        mine, theirs = self.values, other.values
        if theirs.size > mine.size:
            self.values = grown = theirs.copy()
            if not mine.size:
                return
            theirs, mine = mine, grown[: mine.size]
        elif theirs.size < mine.size:
            if not theirs.size:
                return
            mine = mine[: theirs.size]
        np.maximum(mine, theirs, out=mine)

    def copy(self) -> VectorClock:
        return VectorClock(self.values.copy())

    def _grow(self, size: int) -> NDArray[np.int32]:
        """A quarter more than asked for: a clock that lives long grows seldom, yet clocks, which nearly every event
        touches, stay small enough for the processor's cache."""
        most = -(-(size + size // 4) // _TRACKS_TOGETHER) * _TRACKS_TOGETHER
        values = np.zeros(most, np.int32)
        values[: self.values.size] = self.values
        self.values = values
        return values


def common(clocks: list[VectorClock]) -> VectorClock:
    """What all of `clocks` know (at least one clock): the greatest lower bound."""
    size = min(clock.values.size for clock in clocks)
    values = clocks[0].values[:size].copy()
    for clock in clocks[1:]:
        np.minimum(values, clock.values[:size], out=values)
    return VectorClock(values)
