"""Which accesses to these bytes may a new access conflict with? A history for every byte, shared by equal neighbours.

Each byte remembers its last write and the reads since then, the newest of each agent (an agent's accesses are ordered
among themselves, so its newest read stands for its older ones). Atomic writes may be unordered among themselves and
with strong reads, and no race: they replace nothing, and stand beside the reads, the newest of each agent and scope. So
do writes after which another agent has written the same: readers do not mind which came last, later writers do. Bytes
with equal histories share one, by number; arrays hold the numbers of granules of 16 bytes, of global memory 128. An
access that is no whole number of granules refines the memory it falls in to the granularity at which it is one, so that
the answer is exact for every byte. The rows of a box, which are of one length and lie at one distance, are a view of
such an array. (Of memory where few sets of bytes come again and again, `atom_memory` keeps one for each atom instead.)

Reads conflict with writes alone. So one of memory near which nothing has been written is only put aside, and entered
once somebody writes there; that of an operand never is. Reads so entered later stand in the same order, and no write
lies between them, so that every history is what it would have been. Likewise a write of which the caller knows that
nobody has touched its bytes: it is entered once somebody comes near, before whatever shares a byte with it, and its
history has had its number since it was made, so that what is found is found in the same order. Where memory is mostly
written once, the same is found out here of writes that are no whole number of granules (`written_bytes`), as long as
nothing was entered in their segments: no granules are refined then, as long as nobody comes near.

Not handled: whether a conflict is a race, which is the caller's question.
Checked by: tests/contract/history/test_shadow_memory.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.history.granules import SEGMENT_BYTES, Cells, Footprints, Segment, different, renewed, split
from tilewright.contract.history.written_bytes import WrittenBytes
from tilewright.machine.core.event import Actor, Places, Ranges, WarpActor

COARSE_BYTES = 16
COARSE_GLOBAL_BYTES = 128
"""Of global memory: results are written in rows of boxes, and there is much of it."""
_NEAR_BYTES = 1 << 16
"""What is written is remembered in blocks of this size, for reads that lie in none of them."""
_NUMBER_BYTES = np.dtype(np.int32).itemsize


@dataclass(slots=True, eq=False)
class Completion:
    """When an asynchronous access is done: once `value` is known along `track`. Track -1: nothing reports it yet."""

    track: int = -1
    value: int = 0


@dataclass(slots=True, eq=False)
class Record:
    """One access in a history. Never changed, yet not frozen: one is made for every access of a run, and a frozen one
    takes three times as long to make.

    agent: whose accesses are ordered among themselves; warp_track, epoch: the access of a warp, by the generic proxy;
    completion: None for such an access, else when the asynchronous access is done; issuer: the warp that started it;
    by_engine: through the async proxy; uncertain: whether it happens depends on data; reads_value: an ordinary read, or
    atomic; scope: of a strong access; lane_tracks: the warp's tracks of single lanes, if there are any; constant: the
    bytes that each lane writes, once where they repeat, if the text gives them; places: which bytes are which lane's
    (`Access`); cluster: where the access was made, of global memory (its agent names the cluster, too); read_only: a
    load that takes the bytes for constant; identity: of the value that is written (`Access`);
    by_peer: of shared memory, by threads of another CTA than the one whose it is, asynchronously (st.async) or not.
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
    places: Places | None = None
    read_only: bool = False
    cluster: int = -1
    identity: int = 0
    by_peer: bool = False


FORGOTTEN = Record(
    WarpActor(-1, -1), None, False, False, Span("", 0, 0), ((0, 0),), operation="reads", uncertain=True,
)  # fmt: skip
"""Stands in a history for reads that are not remembered."""

Reads = Mapping[Hashable, Record]
"""By agent, in order: the newest of each. Strong reads, and writes among them, are by more than the agent."""
History = tuple[Record | None, Reads]
"""The last write; the reads since, and writes that it, or they, may not be ordered after."""
_NO_READS: Reads = MappingProxyType({})


@dataclass(slots=True)
class Histories:
    """Histories by number; 0 is the empty one. unwritten: by number, 1 where there is no write; with_writes: 1 where
    writes stand beside the reads."""

    table: list[History] = field(default_factory=lambda: [(None, _NO_READS)])
    unwritten: bytearray = field(default_factory=lambda: bytearray(b"\x01"))
    with_writes: bytearray = field(default_factory=lambda: bytearray(b"\x00"))

    def add(self, history: History, with_writes: int = 0) -> int:
        self.table.append(history)
        self.unwritten.append(history[0] is None and not with_writes)
        self.with_writes.append(with_writes)
        return len(self.table) - 1


def writes_same(first: Record, second: Record) -> bool:
    """Do two writes store the same in the same bytes: one constant, or one value whatever it is?"""
    alike = bool(first.constant) and first.constant == second.constant
    alike = alike or (first.identity != 0 and first.identity == second.identity and first.span == second.span)
    return alike and first.ranges == second.ranges


class _Aside:
    """Accesses that are yet to be entered, in order, each with a number, by the block in which it begins."""

    __slots__ = ("_added", "_blocks_most", "by_block")

    def __init__(self) -> None:
        self.by_block: dict[int, list[tuple[int, Record, int]]] = {}
        self._blocks_most = 0
        self._added = 0

    def add(self, record: Record, number: int = 0) -> None:
        first, last = record.ranges[0][0] // _NEAR_BYTES, (record.ranges[-1][1] - 1) // _NEAR_BYTES
        if last - first > self._blocks_most:
            self._blocks_most = last - first
        self._added += 1
        kept = self.by_block.get(first)
        if kept is None:
            kept = self.by_block[first] = []
        kept.append((self._added, record, number))

    def take(self, low: int, high: int) -> list[tuple[int, Record, int]]:
        """Those whose bytes lie around [low, high), in the order in which they were added; they are no longer kept."""
        first, last = low // _NEAR_BYTES - self._blocks_most, (high - 1) // _NEAR_BYTES
        if last - first < len(self.by_block):
            blocks = [each for each in range(first, last + 1) if each in self.by_block]
        else:
            blocks = [each for each in self.by_block if first <= each <= last]
        taken: list[tuple[int, Record, int]] = []
        for block in blocks:
            left: list[tuple[int, Record, int]] = []
            for item in self.by_block.pop(block):
                ranges = item[1].ranges
                (taken if ranges[0][0] < high and low < ranges[-1][1] else left).append(item)
            if left:
                self.by_block[block] = left
        taken.sort(key=lambda item: item[0])
        return taken


class ShadowMemory:
    """Histories of one address space (a CTA's tensor memory, or global memory as one cluster sees it).

    readers_kept: remember no more agents' reads than this, beyond one of each of two clusters (two that are not ordered
    suffice where nobody is: whoever writes conflicts with one of them), and of atomic writes the last. Where a read is
    not remembered, the history holds `FORGOTTEN` in its place. once: most of what is written is written but once.
    met_unwritten: the access that was entered last touched a byte that nobody had written before; met_nothing: it was a
    write, and nobody had touched any of its bytes; put_aside: it was a read near which nobody had written.
    """

    __slots__ = (
        "_fine",
        "_fine_bytes",
        "_firsts",
        "_footprints",
        "_granule_bytes",
        "_readers_kept",
        "_reads",
        "_segments",
        "_written",
        "histories",
        "met_nothing",
        "met_unwritten",
        "put_aside",
    )  # fmt: skip

    def __init__(
        self, readers_kept: int | None = None, granule_bytes: int = COARSE_BYTES, footprints: Footprints | None = None,
        *, once: bool = False,
    ) -> None:  # fmt: skip
        self.histories = Histories()
        self.met_unwritten = False
        self.met_nothing = False
        self.put_aside = False
        self._granule_bytes = granule_bytes
        self._footprints = Footprints() if footprints is None else footprints
        self._segments: dict[int, Segment] = {}
        self._readers_kept = readers_kept
        # Stretches in which there may have been writes, disjoint and ascending; reads outside of them.
        self._written: list[tuple[int, int]] = []
        self._reads = _Aside()
        # Writes of bytes that nobody has touched before, with the numbers of their histories.
        self._firsts = _Aside()
        # The same of writes that are no whole number of granules, and all bytes of such ones.
        self._fine = _Aside()
        self._fine_bytes = WrittenBytes() if once else None

    def conflicts(self, record: Record) -> list[Record]:
        """Enter `record` into the history of its bytes; returns the earlier records, each once, that touch a byte of it
        where one of the two writes, whether or not they are ordered before it."""
        self.met_unwritten = self.met_nothing = self.put_aside = False
        ranges = record.ranges
        if not ranges:
            return []
        low, high = ranges[0][0], ranges[-1][1]
        if self._firsts.by_block:
            self._enter_put_aside(self._firsts, low, high)
        near = False
        for begin, end in self._written:
            if low < end and begin < high:
                if begin <= low and high <= end:
                    break
                near = True
        else:
            if record.write:
                self._note_write(low, high)
            elif near:
                self._enter_reads(low, high)  # those of the same bytes came before this one
            else:
                self._reads.add(record)
                self.met_unwritten = self.put_aside = True
                return []
        if record.write and self._fine_bytes is not None and self._add_fine(self._fine_bytes, ranges):
            self.met_unwritten = self.met_nothing = True
            self._fine.add(record, self.histories.add((record, _NO_READS)))
            return []
        if self._fine.by_block:
            self._enter_put_aside(self._fine, low, high)
        self.met_nothing = record.write
        found: dict[int, Record] = {}
        self._enter(record, found)
        return list(found.values())

    def put_first(self, record: Record) -> None:
        """Enter a write of bytes that nobody has touched, as the caller knows: later, once somebody does."""
        low, high = record.ranges[0][0], record.ranges[-1][1]
        for begin, end in self._written:
            if begin <= low and high <= end:
                break
        else:
            self._note_write(low, high)
        self._firsts.add(record, self.histories.add((record, _NO_READS)))

    def put_read(self, record: Record) -> None:
        """Enter a read near which nobody has written, as the caller knows: later, once somebody does."""
        self._reads.add(record)

    def _add_fine(self, written: WrittenBytes, ranges: Ranges) -> bool:
        """Is a write no whole number of granules (as far as its first piece and the second's begin tell), or near one
        that was not, and has nobody touched its bytes? Then they are `written` from now on."""
        begin, end = ranges[0]
        bits = begin | end if len(ranges) == 1 else begin | end | ranges[1][0]
        if bits % self._granule_bytes or written.holds_any(begin // SEGMENT_BYTES):
            return written.add(ranges, self._segments)
        return False

    def _enter_put_aside(self, aside: _Aside, low: int, high: int) -> None:
        """Enter the writes put aside whose bytes lie around [low, high)."""
        for _, record, number in aside.take(low, high):
            self._put(record.ranges, number)

    def _note_write(self, low: int, high: int) -> None:
        """Bytes of [low, high), not all of them among `_written`, are about to be: enter the reads put aside there."""
        low, high = low - low % _NEAR_BYTES, high + -high % _NEAR_BYTES
        self._enter_reads(low, high)
        apart: list[tuple[int, int]] = []
        for begin, end in self._written:
            if end < low or begin > high:
                apart.append((begin, end))
            else:
                low, high = min(low, begin), max(high, end)
        self._written = sorted((*apart, (low, high)))

    def _enter_reads(self, low: int, high: int) -> None:
        """Enter the reads that were put aside and whose bytes lie around [low, high); with them those that lie around
        their bytes, since an older one that came later would take the place of a newer one of its agent."""
        if not self._reads.by_block:
            return
        taken: list[tuple[int, Record, int]] = []
        while more := self._reads.take(low, high):
            taken += more
            low = min(low, min(record.ranges[0][0] for _, record, _ in more))
            high = max(high, max(record.ranges[-1][1] for _, record, _ in more))
        taken.sort(key=lambda item: item[0])
        for _, record, _ in taken:
            self._enter(record, {})

    def never_written(self, ranges: Ranges) -> Ranges:
        """The bytes of `ranges` that no access that was entered has written."""
        found: list[tuple[int, int]] = []
        for low, high in self._without_written(ranges):
            if found and found[-1][1] == low:
                low = found.pop()[0]
            found.append((low, high))
        return tuple(found)

    def _without_written(self, ranges: Ranges) -> Iterable[tuple[int, int]]:
        """The pieces of `never_written`, which may touch, ascending."""
        if not ranges:
            return ()
        low, high = ranges[0][0], ranges[-1][1]
        if not any(begin < high and low < end for begin, end in self._written):
            return ranges
        if self._firsts.by_block:
            self._enter_put_aside(self._firsts, low, high)
        left = ranges if self._fine_bytes is None else self._fine_bytes.without(ranges)
        return (piece for begin, end in left for piece in self._unwritten(begin, end))

    def touched(self, ranges: Ranges) -> list[Record]:
        """Records in the histories of `ranges`, which stay as they are."""
        if not ranges:
            return []
        for aside in (self._firsts, self._fine):
            self._enter_put_aside(aside, ranges[0][0], ranges[-1][1])
        self._enter_reads(ranges[0][0], ranges[-1][1])
        found: dict[int, Record] = {}
        for kinds in self._kinds(ranges):
            for number in kinds:
                write, reads = self.histories.table[number]
                for record in reads.values() if write is None else (write, *reads.values()):
                    found[id(record)] = record
        return list(found.values())

    def _entered(self, kinds: list[int], record: Record, found: dict[int, Record]) -> list[int]:
        """What becomes of histories that an access meets, each once and ascending; the one that they all become, if
        that is so, as of a write that is not atomic. found: gets the records with which it conflicts."""
        if not record.write:
            return [self._with_read(number, record, found) for number in kinds]
        table, unwritten = self.histories.table, self.histories.unwritten
        alike: dict[Hashable, Record] = {}
        for number in kinds:
            write, reads = table[number]
            if number:
                self.met_nothing = False
            if unwritten[number]:
                self.met_unwritten = True
            if write is not None:
                found[id(write)] = write
            for read in reads.values():
                found[id(read)] = read
            if record.constant or record.identity:
                earlier = (*reads.values(), *(() if write is None else (write,)))
                alike.update(
                    (("same", each.agent), each)
                    for each in earlier
                    if each.write and each.agent != record.agent and writes_same(each, record)
                )
        if record.atomic and self._readers_kept is None and not self.met_nothing:
            return [self._with_atomic(number, record) for number in kinds]
        return [self.histories.add((record, alike or _NO_READS), bool(alike))]

    def _with_atomic(self, number: int, record: Record) -> int:
        write, reads = self.histories.table[number]
        key = "atomic", record.agent, record.scope
        kept = dict(reads)
        kept.pop(key, None)
        kept[key] = record
        return self.histories.add((write, kept), 1)

    def _with_read(self, number: int, record: Record, found: dict[int, Record]) -> int:
        write, reads = self.histories.table[number]
        writes = self.histories.with_writes[number]
        if self.histories.unwritten[number]:
            self.met_unwritten = True
        if write is not None:
            found[id(write)] = write
        if writes:
            found.update((id(each), each) for each in reads.values() if each.write and each.atomic)
        limit = self._readers_kept
        # A strong read races with less than a weak one, for which it does not stand.
        agent = ("strong", record.agent, record.scope) if record.atomic else record.agent
        if limit is not None and limit <= len(reads) and agent not in reads:
            clusters = {read.cluster for read in reads.values() if read is not FORGOTTEN}
            if len(clusters) > 1 or record.cluster in clusters:
                if FORGOTTEN.agent in reads:
                    return number
                return self.histories.add((write, {**reads, FORGOTTEN.agent: FORGOTTEN}), writes)
        # Many agents may read what nobody writes: the copy is one step.
        kept = dict(reads)
        kept.pop(agent, None)
        kept[agent] = record
        return self.histories.add((write, kept), writes)

    # How the numbers of histories are kept: here, by granules.

    def _enter(self, record: Record, found: dict[int, Record]) -> None:
        """Enter an access into the histories of its bytes. found: gets the records with which it conflicts."""
        for segment, pieces in self._located(record.ranges):
            kinds: list[int] = []
            mixed: list[bool] = []
            for cells in pieces:
                numbers = segment.held(cells)
                raw = numbers.tobytes()
                # Faster than a comparison of few numbers by NumPy, and no slower of many.
                several = raw != raw[:_NUMBER_BYTES] * numbers.size
                mixed.append(several)
                if several:
                    kinds.extend(different(numbers))
                else:
                    kinds.append(numbers.item(0))
            if len(kinds) > 1:
                kinds = sorted(set(kinds))
            added = self._entered(kinds, record, found)
            if len(added) == 1:
                for cells in pieces:
                    segment.put(cells, added[0])
                continue
            new = dict(zip(kinds, added, strict=True))
            for cells, several in zip(pieces, mixed, strict=True):
                numbers = segment.held(cells)
                segment.put(cells, renewed(numbers, new) if several else new[numbers.item(0)])

    def _put(self, ranges: Ranges, number: int) -> None:
        """Have this history for `ranges`."""
        for segment, pieces in self._located(ranges):
            for cells in pieces:
                segment.put(cells, number)

    def _kinds(self, ranges: Ranges) -> Iterator[list[int]]:
        """The histories of `ranges`, ascending in each segment."""
        for segment, pieces in self._located(ranges):
            yield sorted({number for cells in pieces for number in different(segment.held(cells))})

    def _unwritten(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The pieces of [begin, end) whose histories have no write, ascending."""
        for index, ((low, high),) in split(((begin, end),)):
            segment = self._segments.get(index)
            if segment is None:
                yield low, high
                continue
            unwritten = np.frombuffer(bytes(self.histories.unwritten), np.bool_)
            fresh = unwritten[segment.held(segment.stretch(low, high))]
            edges = (np.flatnonzero(fresh[1:] != fresh[:-1]) + 1).tolist()
            step = segment.granule_bytes
            for at, stop in pairwise([0, *edges, fresh.size]):
                if fresh[at]:
                    yield low + at * step, low + stop * step

    def _located(self, ranges: Ranges) -> list[tuple[Segment, tuple[Cells, ...]]]:
        """Where the granules of `ranges`, which are not empty, stand: each segment once, ascending."""
        if len(ranges) == 1:
            begin, end = ranges[0]
            index = begin // SEGMENT_BYTES
            if end <= (index + 1) * SEGMENT_BYTES:
                segment = self._segment(index)
                return [(segment, (segment.stretch(begin, end),))]
        parts = self._footprints.parts(ranges)
        return [((segment := self._segment(part.index)), segment.fitted(part)) for part in parts]

    def _segment(self, index: int) -> Segment:
        segment = self._segments.get(index)
        if segment is None:
            segment = self._segments[index] = Segment(index * SEGMENT_BYTES, self._granule_bytes)
        return segment
