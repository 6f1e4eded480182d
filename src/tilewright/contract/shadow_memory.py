"""Which accesses to these bytes may a new access conflict with? A history for every byte, shared by equal neighbours.

Each byte remembers its last write and the reads since then, the newest of each agent (an agent's accesses are ordered
among themselves, so its newest read stands for its older ones). Bytes with equal histories share one, by number; arrays
hold the numbers of granules of 16 bytes. An access that is no whole number of granules refines the memory it falls in
to the granularity at which it is one, so that the answer is exact for every byte.

Not handled: whether a conflict is a race, which is the caller's question.
Checked by: tests/contract/test_shadow_memory.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.base.span import Span
from tilewright.machine.event import Actor, Ranges, WarpActor

COARSE_BYTES = 16
SEGMENT_BYTES = 1 << 20
_FOOTPRINTS_KEPT = 4096


@dataclass(slots=True)
class Completion:
    """When an asynchronous access is done: once `value` is known along `track`. Track -1: nothing reports it yet."""

    track: int = -1
    value: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One access in a history.

    agent: whose accesses are ordered among themselves; warp_track, epoch: the access of a warp, by the generic proxy;
    completion: None for such an access, else when the asynchronous access is done; issuer: the warp that started it;
    by_engine: through the async proxy; uncertain: whether it happens depends on data; reads_value: an ordinary read, or
    atomic; scope: of a strong access; lane_tracks: the warp's tracks of single lanes, if there are any; constant: the
    elements that each lane writes, if the text gives them; read_only: a load that takes the bytes for constant;
    cluster: where the access was made, if clusters are told apart.
    """

    actor: Actor
    agent: Hashable
    write: bool
    atomic: bool
    span: Span
    ranges: Ranges
    warp_track: int = -1
    epoch: int = 0
    lanes: int = 0xFFFF_FFFF
    completion: Completion | None = None
    issuer: Actor | None = None
    operation: str = ""
    by_engine: bool = False
    uncertain: bool = False
    reads_value: bool = False
    scope: str = ""
    lane_tracks: Sequence[int] = ()
    constant: tuple[int, ...] = ()
    read_only: bool = False
    cluster: int = -1


FORGOTTEN = Record(
    WarpActor(-1, -1), None, False, False, Span("", 0, 0), ((0, 0),), operation="reads", uncertain=True,
)  # fmt: skip
"""Stands in a history for reads that are not remembered."""

History = tuple[Record | None, tuple[Record, ...]]
"""The last write, and the reads since."""


@dataclass(slots=True)
class Histories:
    """Histories by number; 0 is the empty one."""

    table: list[History] = field(default_factory=lambda: [(None, ())])

    def add(self, history: History) -> int:
        self.table.append(history)
        return len(self.table) - 1


Cells = slice | NDArray[np.int64]


class Segment:
    """Histories of a stretch of memory that begins at `base` and grows as it is touched."""

    __slots__ = ("base", "footprints", "granule_bytes", "numbers")

    def __init__(self, base: int) -> None:
        self.base = base
        self.granule_bytes = COARSE_BYTES
        self.numbers: NDArray[np.int32] = np.zeros(0, np.int32)
        self.footprints: dict[Ranges, Cells] = {}

    def cells(self, ranges: Ranges) -> Cells:
        """Where the granules of `ranges` (which lie in this segment) stand in `numbers`."""
        found = self.footprints.get(ranges)
        if found is not None:
            return found
        bounds = np.array(ranges, np.int64) - self.base
        self._refine(int(np.bitwise_or.reduce(bounds, axis=None)))
        bounds //= self.granule_bytes
        self._reserve(int(bounds[-1, 1]))
        if len(ranges) == 1:
            cells: Cells = slice(int(bounds[0, 0]), int(bounds[0, 1]))
        else:
            lengths = bounds[:, 1] - bounds[:, 0]
            before = np.cumsum(lengths) - lengths
            cells = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(bounds[:, 0] - before, lengths)
        if len(self.footprints) >= _FOOTPRINTS_KEPT:
            self.footprints.clear()
        self.footprints[ranges] = cells
        return cells

    def _refine(self, bits: int) -> None:
        granule = self.granule_bytes
        while bits % granule:
            granule //= 2
        if granule != self.granule_bytes:
            self.numbers = np.repeat(self.numbers, self.granule_bytes // granule)
            self.granule_bytes = granule
            self.footprints.clear()

    def _reserve(self, granules: int) -> None:
        if granules > self.numbers.size:
            grown = np.zeros(max(granules, 2 * self.numbers.size), np.int32)
            grown[: self.numbers.size] = self.numbers
            self.numbers = grown


class ShadowMemory:
    """Histories of one address space (a CTA's shared memory, or global memory as one cluster sees it).

    readers_kept: remember no more agents' reads than this, beyond one of each of two clusters (two that are not ordered
    suffice where nobody is: whoever writes conflicts with one of them). Where a read is not remembered, the history
    holds `FORGOTTEN` in its place.
    """

    __slots__ = ("_readers_kept", "_segments", "histories")

    def __init__(self, readers_kept: int | None = None) -> None:
        self.histories = Histories()
        self._segments: dict[int, Segment] = {}
        self._readers_kept = readers_kept

    def conflicts(self, record: Record) -> list[Record]:
        """Enter `record` into the history of its bytes; returns the earlier records, each once, that touch a byte of it
        where one of the two writes, whether or not they are ordered before it."""
        found: dict[int, Record] = {}
        for segment, ranges in self._split(record.ranges):
            self._enter(segment, ranges, record, found)
        return list(found.values())

    def touched(self, ranges: Ranges) -> list[Record]:
        """Records in the histories of `ranges`, which stay as they are."""
        found: dict[int, Record] = {}
        for segment, part in self._split(ranges):
            for number in np.unique(segment.numbers[segment.cells(part)]):
                write, reads = self.histories.table[int(number)]
                for record in reads if write is None else (write, *reads):
                    found[id(record)] = record
        return list(found.values())

    def _enter(self, segment: Segment, ranges: Ranges, record: Record, found: dict[int, Record]) -> None:
        cells = segment.cells(ranges)
        numbers = segment.numbers[cells]
        first = int(numbers[0])
        uniform = bool((numbers == first).all())
        table = self.histories.table
        if record.write:
            for number in (first,) if uniform else np.unique(numbers).tolist():
                write, reads = table[number]
                if write is not None:
                    found[id(write)] = write
                for read in reads:
                    found[id(read)] = read
            segment.numbers[cells] = self.histories.add((record, ()))
            return
        if uniform:
            segment.numbers[cells] = self._with_read(first, record, found)
            return
        distinct, inverse = np.unique(numbers, return_inverse=True)
        renewed = [self._with_read(int(number), record, found) for number in distinct.tolist()]
        segment.numbers[cells] = np.array(renewed, np.int32)[inverse]

    def _with_read(self, number: int, record: Record, found: dict[int, Record]) -> int:
        write, reads = self.histories.table[number]
        if write is not None:
            found[id(write)] = write
        agent = record.agent
        kept = tuple(read for read in reads if read.agent != agent)
        limit = self._readers_kept
        if limit is not None and limit <= len(kept) == len(reads):
            clusters = {read.cluster for read in kept if read is not FORGOTTEN}
            if len(clusters) > 1 or record.cluster in clusters:
                return number if FORGOTTEN in reads else self.histories.add((write, (*reads, FORGOTTEN)))
        return self.histories.add((write, (*kept, record)))

    def _split(self, ranges: Ranges) -> Iterator[tuple[Segment, Ranges]]:
        if not ranges:
            return
        low, high = ranges[0][0] // SEGMENT_BYTES, (ranges[-1][1] - 1) // SEGMENT_BYTES
        if low == high:
            yield self._segment(low), ranges
            return
        for index in range(low, high + 1):
            start, end = index * SEGMENT_BYTES, (index + 1) * SEGMENT_BYTES
            part = tuple((max(a, start), min(b, end)) for a, b in ranges if a < end and b > start)
            if part:
                yield self._segment(index), part

    def _segment(self, index: int) -> Segment:
        segment = self._segments.get(index)
        if segment is None:
            segment = self._segments[index] = Segment(index * SEGMENT_BYTES)
        return segment
