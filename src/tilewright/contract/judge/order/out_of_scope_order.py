"""What would be known if the scopes of synchronization did not count?

A release and an acquire order memory between two threads only if each one's scope includes the other thread (PTX ISA
8.7, morally strong; 8.9, synchronizes-with). An arrival of CTA scope at a peer's mbarrier, or a wait of CTA scope for a
peer's arrival, still counts and still lets through; it orders nothing. The judge has to tell that from no edge at all,
for two reasons: a tensor core's or copy engine's access that was waited for is done, and nothing that is issued later
undoes that, whatever the scope; and whoever refutes must say what is missing.

So such an edge passes on hearsay: for each track of a clock there is a second one, of what is heard along it. Both are
components of one clock, so hearsay goes wherever knowledge goes, and what is heard of hearsay is the same hearsay.
Along a chain of edges, knowledge remains knowledge only if every edge orders (causality order is transitive, whatever
the scopes of the single edges).

The data of a complete_tx counts as visible to any acquiring wait for its phase; what a peer's threads have stored so
is contested where no wait is of the cluster's scope (`narrow_wait`, in `launch_state`).

Not handled: scopes of bulk copies.
Checked by: tests/contract/judge/test_barrier_scopes.py.
"""

from __future__ import annotations

import numpy as np

from tilewright.contract.judge.vector_clock import Tracks, VectorClock


class OutOfScopeOrder:
    """The tracks of a cluster along which things are only heard."""

    __slots__ = ("_heard_of", "_own", "_tracks")

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._heard_of: dict[int, int] = {}
        self._own: set[int] = set()

    def __bool__(self) -> bool:
        """Was anything heard in this cluster?"""
        return bool(self._heard_of)

    def of(self, clock: VectorClock) -> VectorClock:
        """What an edge passes on that orders nothing: all that `clock` knows or has heard, as hearsay."""
        passed = VectorClock()
        for track in np.flatnonzero(clock.values).tolist():
            passed.advance(self.track_of(track), clock.at(track))
        return passed

    def believed(self, clock: VectorClock) -> VectorClock:
        """What `clock` would know if it had been told by edges that order."""
        believing = clock.copy()
        for track, heard in self._heard_of.items():
            believing.advance(track, clock.at(heard))
        return believing

    def track_of(self, track: int) -> int:
        """Along which that is heard which is known along `track`."""
        if track in self._own:
            return track
        heard = self._heard_of.get(track)
        if heard is None:
            heard = self._heard_of[track] = self._tracks.of(("heard", track))
            self._own.add(heard)
        return heard
