"""Do lanes of one warp exchange data in memory with nothing to order them but that they run in step?

Lanes are threads. Since they may be scheduled apart, a lane's access is ordered before another lane's only by a
synchronization of both: bar.warp.sync, a barrier of the CTA or cluster, or an mbarrier at which both arrive and for
which both wait. shfl.sync, vote.sync, match.sync, redux.sync and elect.sync make lanes wait for each other and order no
memory; nor do wgmma.fence or a proxy fence. An assembler that sees no synchronization may move a lane's load above its
own earlier store to another address.

A warp's clock knows all of its own accesses (`run_state`), so what a lane does not know of another is found apart: from
its last synchronization on (`WarpState.synchronized_epoch`), conflicting accesses of a warp are compared lane by lane.
A copy that a lane issues is that lane's; a cp.async is its lane's until that lane's wait, and another's after a
synchronization that follows it. What matrix instructions access, the lanes access together. A lane that arrives or
waits at an mbarrier must know that another one has initialised it (`phase_ledger`).

Taken on trust, and named among the assumptions: what one lane waits for at an mbarrier, its warp has waited for. Not
handled: lanes of one instruction that write to the same bytes; what lanes hand to a tcgen05 operation of another lane;
of global memory, a lane's read that a later read of the same warp hides; accesses of several lanes of which an event
does not tell whose bytes are which (st.bulk and tensormap.replace by several lanes).
Source: PTX ISA 9.7.13.2 (bar.warp.sync), 9.7.9.6 (shfl.sync), 8.9 (causality order).
Checked by: tests/contract/judge/order/test_lane_order.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge.run_state import ALL_LANES, ClusterState, WarpState
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.machine.core.event import TOGETHER, Access, WarpActor

_WARP_LANES = 32
_TOGETHER = -1
"""Stands for the lane of bytes that the lanes of a warp access together."""
_Footprint = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Lanes, first bytes, and bytes behind the last."""


def agent_of(warp: WarpState, event: Access) -> Hashable:
    """Whose accesses a warp's access may stand for: those by which the same lanes touch the same bytes."""
    if event.write or event.places is None or event.places is TOGETHER or event.space == "global":
        return warp.track, event.lanes
    return warp.track, event.lanes, event.places.begins


def note_access(warp: WarpState) -> None:
    """Lanes of a warp do now what others must learn of: an ordinary access, or an mbarrier.init."""
    warp.access_epoch = warp.epoch
    warp.clock.advance(warp.access_track, warp.epoch)


def synchronize(warp: WarpState, lanes: int = ALL_LANES) -> None:
    """Lanes of a warp wait for each other and know each other's accesses then."""
    if lanes == ALL_LANES:
        warp.synchronized_epoch = warp.epoch
        warp.partly_synchronized.clear()
    else:
        warp.partly_synchronized.append((warp.epoch, lanes))


def learn(warp: WarpState, published: VectorClock) -> None:
    """A warp acquires what was published: what its own lanes have published in it, all of them know then."""
    if warp.access_epoch > warp.synchronized_epoch:  # else there is nothing to learn
        known = published.at(warp.access_track)
        if known > warp.synchronized_epoch:
            warp.synchronized_epoch = known


def lanes_conflict(cluster: ClusterState, earlier: Record, later: Record) -> bool:
    """Do different lanes of one warp make two conflicting accesses that its clock knows to be in order, with no
    synchronization of these lanes between?"""
    if later.lanes == ALL_LANES and later.places is None:
        return False
    if earlier.warp_track >= 0 and later.warp_track >= 0:
        if earlier.warp_track != later.warp_track:
            return False
    elif (earlier.issuer or earlier.actor) != (later.issuer or later.actor):
        return False
    actor = later.issuer or later.actor
    warp = cluster.warps.get(actor) if isinstance(actor, WarpActor) else None
    if warp is None:
        return False
    epoch = earlier.epoch if earlier.warp_track >= 0 else _told_epoch(warp, earlier)
    if epoch <= warp.synchronized_epoch:
        return False
    if earlier.constant and earlier.constant == later.constant and earlier.write and later.write:
        return False
    if earlier.places is later.places is TOGETHER and (earlier.span, earlier.ranges) == (later.span, later.ranges):
        return False  # one matrix instruction again: the same lanes have the same bytes
    if earlier.lanes == later.lanes != 0 and not earlier.lanes & (earlier.lanes - 1):
        return False  # both are of one lane
    first, second = _footprint(earlier), _footprint(later)
    together = _synchronizations(warp, epoch)
    return first is not None and second is not None and _meet(first, second, together)


def lanes_know(warp: WarpState, lane: int, epoch: int, lanes: int) -> bool:
    """Does each of these lanes of a warp know what one of its lanes did at an event?"""
    return epoch <= warp.synchronized_epoch or not lanes & ~_reached(lane, _synchronizations(warp, epoch))


def lanes_know_init(warp: WarpState, lane: int, epoch: int, lanes: int) -> bool:
    """The same of an mbarrier.init."""
    return epoch <= warp.released_init_epoch or lanes_know(warp, lane, epoch, lanes)


def reaches_any(warp: WarpState, lane: int, epoch: int, lanes: int) -> bool:
    """Does any of these lanes of a warp know what one of its lanes did at an event?"""
    return epoch <= warp.synchronized_epoch or bool(lanes & _reached(lane, _synchronizations(warp, epoch)))


def any_known_to(warp: WarpState, event: Record, lanes: int) -> bool:
    """Do these lanes of a warp know what some of its lanes did, each of them: themselves, or by a synchronization?"""
    return lanes_know_of(warp, event.lanes, event.epoch, lanes)


def lanes_know_of(warp: WarpState, doers: int, epoch: int, lanes: int) -> bool:
    """Does each of these lanes of a warp know what some lane of `doers` did, who acted at an event: as one of them, or
    by a synchronization?"""
    others = lanes & ~doers
    acting = [lane for lane in range(_WARP_LANES) if doers >> lane & 1]
    return not others or any(lanes_know(warp, lane, epoch, others) for lane in acting)


def _synchronizations(warp: WarpState, epoch: int) -> list[int]:
    """The lanes of each synchronization of some lanes since an event."""
    return [lanes for at, lanes in warp.partly_synchronized if at > epoch]


def _told_epoch(warp: WarpState, copy: Record) -> int:
    """At which event a wait by the issuing lanes told that a copy of their warp is done; 0 where something else told
    that, or nothing."""
    done = copy.completion
    if done is None:
        return 0
    if not copy.by_engine:
        waits = [] if warp.async_copies is None else warp.async_copies.waits
        place = bisect_left(waits, done.value, key=lambda each: each[1])  # each wait covers more than those before
        return waits[place][0] if place < len(waits) else 0
    for thread in warp.bulk.values():
        if done.track in (thread.read_track, thread.write_track):
            known = thread.known_read if done.track == thread.read_track else thread.known_done
            place = bisect_left(known, (done.value,))
            return known[place][1] if place < len(known) else 0
    return 0


def _footprint(record: Record) -> _Footprint | None:
    """Which lane's bytes are which; None where that was not told."""
    lanes = [lane for lane in range(_WARP_LANES) if record.lanes >> lane & 1]
    if len(lanes) == 1 or record.places is TOGETHER:
        bounds = np.array(record.ranges, np.int64)
        agent = lanes[0] if len(lanes) == 1 else _TOGETHER
        return np.full(len(bounds), agent, np.int64), bounds[:, 0], bounds[:, 1]
    if record.places is None:
        return None
    who: list[NDArray[np.int64]] = []
    begins: list[NDArray[np.int64]] = []
    sizes: list[NDArray[np.int64]] = []
    for each in record.places.rows:
        of_row = [lane for lane in range(_WARP_LANES) if each.lanes >> lane & 1]
        if each.begins.shape[-1] != len(of_row):
            return None
        count = each.begins.size
        who.append(np.tile(np.array(of_row, np.int64), count // len(of_row)))
        begins.append(each.begins.astype(np.int64).ravel() + record.places.at)
        sizes.append(np.full(count, each.size_bytes, np.int64))
    first = np.concatenate(begins)
    return np.concatenate(who), first, first + np.concatenate(sizes)


def _meet(first: _Footprint, second: _Footprint, together: list[int]) -> bool:
    """Do accesses of different lanes share a byte, where no synchronization of `together` tells the second of the
    first?"""
    mine, begin, end = (each[:, None] for each in first)
    theirs, low, high = second
    apart = (mine != theirs) | (mine == _TOGETHER)
    if together:
        known = np.array([_reached(int(lane), together) for lane in first[0]], np.int64)[:, None]
        apart &= (theirs == _TOGETHER) | (known >> np.maximum(theirs, 0) & 1 == 0)
    return bool((apart & (begin < high) & (low < end)).any())


def _reached(lane: int, together: list[int]) -> int:
    """The lanes that know what `lane` did before these synchronizations, each of which passes on what one knows."""
    if lane == _TOGETHER:
        return 0
    known = 1 << lane
    for lanes in together:
        if known & lanes:
            known |= lanes
    return known
