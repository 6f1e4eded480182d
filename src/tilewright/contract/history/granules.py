"""Where do the granules of some bytes stand in arrays that hold one number for each?

Memory is cut into segments, each with an array of the numbers of its granules: as many as have been touched, and as
fine as what touched them asks for. The bytes of an access are worked out once as parts, one for each segment, in a form
that arrays are quick to read and write by: a stretch, the rows of a box (of one length, at one distance), a few long
stretches, or else granule by granule.

Not handled: what the numbers mean, which is for `shadow_memory`, `atoms` and `staged_bytes` to say; granules are never
made coarser again. Checked by: tests/contract/history/test_shadow_memory.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.core.event import Ranges

SEGMENT_BYTES = 1 << 20
_KEPT = 4096
_LONG_BYTES = 1 << 10
"""Stretches of this length in the mean are rather looked at one after the other than granule by granule."""
_FEW = 512
_GRANULES_LEAST = 1 << 12
_GROWTH = 2


class Grid(NamedTuple):
    """Rows of granules that lie `pitch` granules apart: the first one's place, and how many granules a row has."""

    first: int
    rows: int
    pitch: int
    width: int


Cells = slice | Grid | NDArray[np.int64]


class Segment:
    """The numbers of a stretch of memory that begins at `base`."""

    __slots__ = ("base", "granule_bytes", "numbers")

    def __init__(self, base: int, granule_bytes: int) -> None:
        self.base = base
        self.granule_bytes = granule_bytes
        self.numbers: NDArray[np.int32] = np.zeros(0, np.int32)

    def refine(self, bits: int) -> None:
        """Make the granules so fine that offsets with no other bits than these are whole ones."""
        granule = self.granule_bytes
        while bits % granule:
            granule //= 2
        self.numbers = np.repeat(self.numbers, self.granule_bytes // granule)
        self.granule_bytes = granule

    def reserve(self, granules: int) -> None:
        """Have so many granules, which are more than there are."""
        grown = np.zeros(max(granules, _GROWTH * self.numbers.size, _GRANULES_LEAST), np.int32)
        grown[: self.numbers.size] = self.numbers
        self.numbers = grown

    def stretch(self, begin: int, end: int) -> slice:
        """The granules of the bytes from `begin` to `end`, which lie in this segment."""
        begin, end = begin - self.base, end - self.base
        if (begin | end) % self.granule_bytes:
            self.refine(begin | end)
        first, last = begin // self.granule_bytes, end // self.granule_bytes
        if last > self.numbers.size:
            self.reserve(last)
        return slice(first, last)

    def fitted(self, part: Part) -> tuple[Cells, ...]:
        """Where the granules of a part of this segment stand, which then are fine enough, and there."""
        if part.bits % self.granule_bytes:
            self.refine(part.bits)
        granules = part.end // self.granule_bytes
        if granules > self.numbers.size:
            self.reserve(granules)
        return part.cells(self.granule_bytes)

    def held(self, cells: Cells) -> NDArray[np.int32]:
        """The numbers there: a view, but for cells that are given one by one."""
        if type(cells) is Grid:
            first, rows, pitch, width = cells
            return self.numbers[first : first + rows * pitch].reshape(rows, pitch)[:, :width]
        return self.numbers[cells]

    def put(self, cells: Cells, numbers: int | NDArray[np.int32]) -> None:
        """Have these numbers there."""
        if type(cells) is Grid:
            self.held(cells)[...] = numbers
        else:
            self.numbers[cells] = numbers


class Part:
    """Bytes of one segment. bits: those that occur in offsets within it; end: behind the last byte that is looked at,
    as an offset; rows: of a box, the first one's offset, how many there are, their distance and their length."""

    __slots__ = ("_again", "_cells", "_granule_bytes", "_ranges", "bits", "end", "index", "rows")

    def __init__(self, index: int, ranges: Ranges, rows: tuple[int, int, int, int] | None = None) -> None:
        self.index = index
        self.rows = rows
        self._granule_bytes = 0
        self._again = False
        self._cells: tuple[Cells, ...] = ()
        self._ranges = ranges
        if rows is not None:
            first, count, pitch, width = rows
            self.bits, self.end = first | pitch | width, first + count * pitch
            return
        base, self.bits = index * SEGMENT_BYTES, 0
        for begin, end in ranges:
            self.bits |= (begin - base) | (end - base)
        self.end = ranges[-1][1] - base

    def cells(self, granule_bytes: int) -> tuple[Cells, ...]:
        """Where they stand, with granules of this size, of which `bits` are whole ones."""
        if granule_bytes != self._granule_bytes:
            self._granule_bytes, self._again = granule_bytes, False
            self._cells = self._placed(granule_bytes)
        elif not self._again:
            # A box that comes again is worth an array of its places: if they are few, that is quicker to use.
            self._again = True
            if self.rows is not None and self.rows[1] * self.rows[3] <= _FEW * granule_bytes:
                self._cells = (self._one_by_one(granule_bytes),)
        return self._cells

    def _placed(self, step: int) -> tuple[Cells, ...]:
        if self.rows is not None:
            first, count, pitch, width = self.rows
            return (Grid(first // step, count, pitch // step, width // step),)
        base, ranges = self.index * SEGMENT_BYTES, self._ranges
        if sum(end - begin for begin, end in ranges) >= _LONG_BYTES * len(ranges):
            return tuple(slice((begin - base) // step, (end - base) // step) for begin, end in ranges)
        return (self._one_by_one(step),)

    def _one_by_one(self, step: int) -> NDArray[np.int64]:
        bounds = (np.array(self._ranges, np.int64) - self.index * SEGMENT_BYTES) // step
        lengths = bounds[:, 1] - bounds[:, 0]
        before = np.cumsum(lengths) - lengths
        return np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(bounds[:, 0] - before, lengths)


class Footprints:
    """The parts of what is touched, each set of bytes looked at once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Ranges, list[Part]] = {}

    def parts(self, ranges: Ranges) -> list[Part]:
        """The parts of `ranges`, which are not empty, ascending."""
        found = self._known.get(ranges)
        if found is not None:
            return found
        found = _boxed(ranges)
        if found is None:
            found = [Part(index, part) for index, part in split(ranges)]
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[ranges] = found
        return found


def _boxed(ranges: Ranges) -> list[Part] | None:
    """The parts of rows of one length at one distance, if `ranges` are such and none lies in two segments."""
    if len(ranges) == 1:
        return None
    begin, end = ranges[0]
    width, pitch = end - begin, ranges[1][0] - begin
    at = begin
    for low, high in ranges:
        if low != at or high - low != width:
            return None
        at += pitch
    found: list[Part] = []
    done = 0
    while done < len(ranges):
        index, first = divmod(begin, SEGMENT_BYTES)
        count = min(len(ranges) - done, (SEGMENT_BYTES - first - width) // pitch + 1)
        if count <= 0 or (done + count < len(ranges) and first + count * pitch < SEGMENT_BYTES):
            return None
        part = ranges[done : done + count]
        found.append(Part(index, part, (first, count, pitch, width) if count > 1 else None))
        begin += count * pitch
        done += count
    return found


def split(ranges: Ranges) -> Iterator[tuple[int, Ranges]]:
    """The bytes of `ranges` in each segment, with its index."""
    if not ranges:
        return
    low, high = ranges[0][0] // SEGMENT_BYTES, (ranges[-1][1] - 1) // SEGMENT_BYTES
    if low == high:
        yield low, ranges
        return
    part: list[tuple[int, int]] = []
    index, end = low, (low + 1) * SEGMENT_BYTES
    for start, stop in ranges:
        if start >= end:
            if part:
                yield index, tuple(part)
                part = []
            index = start // SEGMENT_BYTES
            end = (index + 1) * SEGMENT_BYTES
        while stop > end:
            yield index, (*part, (start, end))
            part, start, index, end = [], end, index + 1, end + SEGMENT_BYTES
        part.append((start, stop))
    if part:
        yield index, tuple(part)


def renewed(numbers: NDArray[np.int32], new: dict[int, int]) -> NDArray[np.int32]:
    """What `new` has for each of `numbers`."""
    least = min(new)
    table = np.zeros(max(new) - least + 1, np.int32)
    for number, successor in new.items():
        table[number - least] = successor
    return table[numbers - least]


def different(numbers: NDArray[np.int32]) -> list[int]:
    """The numbers that occur, ascending. Neighbours mostly have the same one."""
    flat = numbers.ravel()
    changed = (flat[1:] != flat[:-1]).nonzero()[0]
    return sorted({flat.item(0), *flat[changed + 1].tolist()})
