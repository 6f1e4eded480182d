"""Which cp.asyncs of a warp may be told as one, where a run is made for its events alone?

A thread that copies a tile issues many cp.asyncs in a row, with nothing between them but arithmetic. Told one by one,
each is three events, and each of them is judged. Here such a row is one copy that begins at its last instruction: it
writes the bytes of all of them, reads those of all of them, and is done when all are.

Why a judgement that finds nothing wrong with the joined copy would find nothing wrong with its parts. Between the parts
the warp does nothing that orders it with anybody: what it knows, and what others know of it, is the same at each of
them as at the last; so whoever is ordered with one is ordered with all. Whoever knows that the joined copy is done
knows it of each part, and the other way round, since whatever waits for copies (a group, a deferred arrival) comes
behind the last and covers all that came before. The parts' writes meet each other nowhere, and each lane's bytes stay
its own, so that any other access conflicts with the joined copy where it conflicts with a part. What differs is which
instruction a finding names, and in what orders parts may land, of which a judgement by a partial order is free. So
whoever joins copies must make the run again, one by one, unless nothing was found to be wrong
(`driver.reproof.reproof`).

Joined are unguarded copies of the same size by all lanes of a warp, with steps between them that only compute, whose
sources lie in one buffer, each of which reads all of its bytes or none, and in which no byte is written twice. All
others are issued one by one, and fault where they did.

Not handled: runs that keep values. Checked by: tests/machine/events_only/test_joined_copies.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.machine.copy import async_copies
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.event import Access, AsyncCopyIssue, CopyActor, LaneRows, Places
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import FULL, WARP_SIZE, Lanes, indices, of_lanes, to_bits
from tilewright.machine.core.memory import Located, Region, locate, merge_ranges
from tilewright.machine.core.state import Warp

_ALL_BITS = to_bits(FULL)


@dataclass(frozen=True, slots=True, eq=False)
class LaneCopies:
    """What one cp.async of a whole warp would do: of each lane, the address it writes, the one it reads, and how many
    bytes it reads there (None: all of size_bytes). issue: begins it by itself."""

    shared: Lanes
    source: Lanes
    read: Lanes | None
    size_bytes: int
    span: Span
    issue: Callable[[Warp, int, LaneCopies], None]


def may_join(decoder: Decoder) -> bool:
    """Is this a run for its events alone, whose caller looks again where something is wrong?"""
    dropped = decoder.dropped
    return dropped is not None and dropped.joins and not decoder.mathematics


def issue_row(warp: Warp, row: Sequence[LaneCopies]) -> None:
    """Begin the copies of a row, those of one size and source together if they can be told as one."""
    for _, part in groupby(row, lambda copy: (copy.size_bytes, _source_of(warp, copy))):
        copies = list(part)
        if len(copies) == 1 or not _issue_joined(warp, copies):
            for copy in copies:
                copy.issue(warp, FULL, copy)


def _source_of(warp: Warp, copy: LaneCopies) -> Region | None:
    """The buffer that a copy reads from, in the first lane that reads."""
    lane = 0 if copy.read is None else int(copy.read.argmax())
    return warp.cta.cluster.memory.find(int(copy.source[lane]))


def _issue_joined(warp: Warp, copies: Sequence[LaneCopies]) -> bool:
    """Begin the copies as one; False, and nothing has happened, if they cannot be told as one."""
    cluster, size_bytes = warp.cta.cluster, copies[0].size_bytes
    observe, dropped = cluster.observe, cluster.program.decoder.dropped
    if observe is None or dropped is None or cluster.memory.forgiving:
        return False
    reading = _reading(copies)
    if reading is None:
        return False
    source = np.stack([copy.source for copy in copies])
    try:
        targets = locate(
            warp.cta, "shared::cta", np.concatenate([copy.shared for copy in copies]), size_bytes, copies[0].span
        )
        chosen = source.ravel() if reading.all() else source[reading]
        sources = locate(warp.cta, "global", chosen, size_bytes, copies[0].span) if chosen.size else []
    except MachineFault:
        return False  # the one of them that is at fault says so
    if len(targets) != 1 or len(sources) > 1 or targets[0].region is not warp.cta.shared:
        return False
    offsets = targets[0].offsets
    written = merge_ranges(offsets, size_bytes)
    if sum(end - begin for begin, end in written) != offsets.size * size_bytes:
        return False
    actor, span = CopyActor(cluster.counts.copies), copies[0].span
    cluster.counts.copies += len(copies)
    dropped.joined = True
    places = Places((LaneRows(_ALL_BITS, offsets.reshape(len(copies), WARP_SIZE), size_bytes),))
    observe(AsyncCopyIssue(warp.actor, _ALL_BITS, actor, written, span, places))

    def land() -> None:
        for lanes, ranges in _read(sources, reading, size_bytes):
            observe(Access(actor, "global", -1, ranges, False, "generic", span, lanes=lanes))
        dropped.drop(warp.cta.shared)
        observe(Access(actor, "shared", warp.cta.linear, written, True, "generic", span, lanes=_ALL_BITS))

    async_copies.begin(warp, FULL, actor, land)
    return True


def _reading(copies: Sequence[LaneCopies]) -> npt.NDArray[np.bool_] | None:
    """By copy and lane, whether it reads its source; None where a part of a piece is read."""
    reading = np.ones((len(copies), WARP_SIZE), np.bool_)
    for index, copy in enumerate(copies):
        if copy.read is not None:
            reading[index] = copy.read == copy.size_bytes
            if ((copy.read != 0) & ~reading[index]).any():
                return None
    return reading


def _read(
    sources: Sequence[Located], reading: npt.NDArray[np.bool_], size_bytes: int
) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
    """Lanes (a member mask) and bytes of what is read: of all copies at once where each reads in every lane, else of
    one after the other, since lanes that read alone are told apart by that."""
    if not sources:
        return []
    (found,) = sources
    addresses = found.offsets + found.region.base
    if reading.all():
        return [(_ALL_BITS, merge_ranges(addresses, size_bytes))]
    parts: list[tuple[int, tuple[tuple[int, int], ...]]] = []
    at = 0
    for lanes in reading:
        chosen = np.flatnonzero(lanes)
        if chosen.size:
            part = merge_ranges(addresses[at : at + chosen.size], size_bytes)
            parts.append((to_bits(of_lanes(indices(FULL)[chosen], FULL)), part))
            at += chosen.size
    return parts
