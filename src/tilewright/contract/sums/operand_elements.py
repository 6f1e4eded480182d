"""Which elements of which array does a product read, if tensor copies have brought its operand into shared memory?

A box stands in shared memory as its map says (`machine.copy.box`), an operand is read as its descriptor says (of a
wgmma: `machine.tensor_core.wgmma`, of a tcgen05.mma: `tensor_operand`); both are made of chunks of 16 bytes, along the
array's innermost dimension. Chunk by chunk the two are put against each other: an operand is a matrix of the array if
row i of it lies i further along one dimension of the map than its first row, and depth j as far along another. The
answer is the same wherever box and operand stand together, so that it is worked out once for each distance between them
(looked up by content).

Not handled (nothing is said then): operands that no tensor copy has brought, or not all of; boxes with element strides,
interleaved, or of packed values.
Source: PTX ISA 5.5, 9.7.15.5. Checked by: tests/contract/sums/test_product_trace.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import add

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import TensorMap
from tilewright.base.value import value
from tilewright.machine.copy.box import box_of, shared_addresses
from tilewright.machine.copy.swizzle import period_bytes
from tilewright.machine.core.event import BoxPlace, Ranges, SharedMatrix
from tilewright.machine.tensor_core import wgmma as tensor_core
from tilewright.machine.tensor_core.tensor_operand import tile_chunks, tile_ranges
from tilewright.targets import Target
from tilewright.targets.operand_bits import offsets_of

_CHUNK_BYTES = 16
_PERIOD_BYTES = 1024
"""Every swizzle's pattern repeats after so many bytes."""


@value
class MatrixPart:
    """Rows [begin, end) of an operand, which boxes of one map have brought, `box` the first of them.

    first: coordinates, by that map (innermost first), of the element of the first of these rows at depth 0; outer,
    inner: the dimensions along which the operand's rows and its depth run; depth: elements along the latter.
    """

    box: BoxPlace
    begin: int
    end: int
    first: tuple[int, ...]
    outer: int
    inner: int
    depth: int


@dataclass(frozen=True, slots=True)
class Placed:
    """The same, counted from where its box begins. box: its number among those that the operand meets."""

    box: int
    begin: int
    end: int
    first: tuple[int, ...]
    outer: int
    inner: int


@dataclass(frozen=True, slots=True)
class NoMatrix:
    """An operand that comes from boxes and is no matrix of their elements."""

    reason: str


@dataclass(slots=True)
class LoadedBoxes:
    """The boxes that tensor copies have brought into the shared memory of one CTA, the newest at each place: where each
    ends, and the box, by where it begins, ascending. No two share a byte."""

    facts: Target
    boxes: dict[int, tuple[int, BoxPlace]] = field(default_factory=dict[int, tuple[int, BoxPlace]])
    _starts: list[int] = field(default_factory=list[int])

    def load(self, box: BoxPlace) -> None:
        """A copy brings a box."""
        before = self.boxes.get(box.address)
        if before is not None and before[1].tensor_map == box.tensor_map:
            self.boxes[box.address] = before[0], box
            return
        end = box.address + box_of(box.tensor_map, self.facts).footprint_bytes
        self._remove(box.address, end)
        last = not self._starts or self._starts[-1] < box.address
        self.boxes[box.address] = end, box
        if not last:
            self.boxes = dict(sorted(self.boxes.items()))
        self._starts = list(self.boxes)

    def forget(self, ranges: Ranges) -> None:
        """Something else is brought to these bytes."""
        for begin, end in ranges:
            self._remove(begin, end)

    def _remove(self, begin: int, end: int) -> None:
        """Boxes that have bytes of [begin, end) are there no longer."""
        starts = self._starts
        first, last = bisect_right(starts, begin), bisect_left(starts, end)
        # The one that begins at or before these bytes may reach into them; all that begin within them do.
        if first and self.boxes[starts[first - 1]][0] > begin:
            first -= 1
        for start in starts[first:last]:
            del self.boxes[start]
        del starts[first:last]

    def parts(self, matrix: SharedMatrix) -> tuple[MatrixPart, ...] | NoMatrix:
        """Where an operand's elements come from, in the order of its rows; nothing if that is not known."""
        low, high = _extent(matrix)
        met = [box for at, (end, box) in self.boxes.items() if at < high and low < end]
        placed: tuple[Placed, ...] | NoMatrix = ()
        if met:
            placed = _distances(matrix, tuple([(box.address, box.tensor_map) for box in met]), self.facts)
        if isinstance(placed, NoMatrix):
            return placed
        parts: list[MatrixPart] = []
        for each in placed:
            box = met[each.box]
            first = tuple(map(add, box.coordinates, each.first))
            longer = _with_more_rows(parts[-1], box, each, first) if parts else None
            if longer is None:
                parts.append(MatrixPart(box, each.begin, each.end, first, each.outer, each.inner, matrix.depth))
            else:
                parts[-1] = longer
        return tuple(parts)


def _with_more_rows(part: MatrixPart, box: BoxPlace, placed: Placed, first: tuple[int, ...]) -> MatrixPart | None:
    """A part and the rows that another box of the same map brings, if they follow."""
    outer = part.outer
    if box.tensor_map != part.box.tensor_map or (outer, part.inner) != (placed.outer, placed.inner):
        return None
    moved = part.first[outer] + part.end - part.begin
    if (*part.first[:outer], moved, *part.first[outer + 1 :]) != first:
        return None
    return MatrixPart(part.box, part.begin, placed.end, part.first, outer, part.inner, part.depth)


@lru_cache(maxsize=4096)
def _extent(matrix: SharedMatrix) -> tuple[int, int]:
    """The bytes between which an operand lies."""
    shape = matrix.rows, matrix.depth
    if matrix.element is not None:
        ranges = tile_ranges(matrix.descriptor, *shape, matrix.element, matrix.major)
    else:
        ranges = tensor_core.operand_ranges(matrix.descriptor, *shape, matrix.element_bytes, matrix.major)
    return ranges[0][0], ranges[-1][1]


@lru_cache(maxsize=4096)
def _distances(
    matrix: SharedMatrix, boxes: tuple[tuple[int, TensorMap], ...], facts: Target
) -> tuple[Placed, ...] | NoMatrix:
    """Where an operand's rows are in boxes that stand at these addresses: the same wherever all are moved to."""
    origin = boxes[0][0] - boxes[0][0] % _PERIOD_BYTES
    start = offsets_of(matrix.descriptor)[0]
    if start >= origin:
        matrix = replace(matrix, descriptor=matrix.descriptor - (origin >> 4))
        return _put_together(matrix, tuple([(address - origin, each) for address, each in boxes]), facts)
    return _put_together(matrix, boxes, facts)


@lru_cache(maxsize=1024)
def _put_together(
    matrix: SharedMatrix, boxes: tuple[tuple[int, TensorMap], ...], facts: Target
) -> tuple[Placed, ...] | NoMatrix:
    """Empty where some rows come from no box."""
    size = matrix.element_bytes
    per_chunk = _CHUNK_BYTES // size
    # Of the chunks' first elements, the operand's rows down and its depth across.
    along_depth = matrix.major == "k"
    if matrix.element is not None:
        chunks = tile_chunks(matrix.descriptor, matrix.rows, matrix.depth, matrix.element, matrix.major)
    else:
        elements = tensor_core.operand_addresses(matrix.descriptor, matrix.rows, matrix.depth, size, matrix.major)
        chunks = elements[:, ::per_chunk] if along_depth else elements[::per_chunk]
    found: list[Placed] = []
    covered = 0
    for number, (address, tensor_map) in enumerate(boxes):
        if not _plain(tensor_map, size):
            return ()
        table = _chunk_numbers(tensor_map, address % period_bytes(tensor_map.swizzle), facts)
        inside = (chunks >= address) & (chunks < address + box_of(tensor_map, facts).footprint_bytes)
        lines = np.flatnonzero(inside.any(axis=1))
        if not lines.size:
            continue
        begin, end = int(lines[0]), int(lines[-1]) + 1
        if not inside[begin:end].all():
            return NoMatrix("its rows end in the middle of a box")
        covered += end - begin
        numbers = table[(chunks[begin:end] - address) // _CHUNK_BYTES]
        if int(numbers.min()) < 0:
            return NoMatrix("it reads bytes between a box's rows")
        coordinates = _coordinates(numbers, tensor_map, per_chunk, facts)
        placed = _as_matrix(coordinates, along_depth, per_chunk)
        if isinstance(placed, NoMatrix):
            return placed
        first, outer, inner = placed
        lines_per_row = 1 if along_depth else per_chunk
        found.append(Placed(number, begin * lines_per_row, end * lines_per_row, first, outer, inner))
    return tuple(sorted(found, key=lambda each: each.begin)) if covered == len(chunks) else ()


def _plain(tensor_map: TensorMap, element_bytes: int) -> bool:
    return (
        tensor_map.element.bytes == element_bytes
        and tensor_map.interleave == "none"
        and set(tensor_map.element_strides) <= {1}
    )


@lru_cache(maxsize=256)
def _chunk_numbers(tensor_map: TensorMap, phase: int, facts: Target) -> NDArray[np.int64]:
    """The numbers, in the box's order, of the chunks that stand where a box begins `phase` bytes into the swizzle's
    pattern; -1 where none does."""
    box = box_of(tensor_map, facts)
    places = (shared_addresses(box.row, box.row_count, tensor_map, phase)[::_CHUNK_BYTES] - phase) // _CHUNK_BYTES
    table = np.full(max(int(places.max()) + 1, box.footprint_bytes // _CHUNK_BYTES), -1, np.int64)
    table[places] = np.arange(places.size)
    return table


def _coordinates(
    numbers: NDArray[np.int64], tensor_map: TensorMap, per_chunk: int, facts: Target
) -> list[NDArray[np.int64]]:
    """By dimension of the map, how far from the box's first element these chunks' first elements are."""
    box = box_of(tensor_map, facts)
    rest, chunk = np.divmod(numbers, box.row.shared_bytes // _CHUNK_BYTES)
    found = [chunk * per_chunk]
    for count in box.counts[1:]:
        rest, at = np.divmod(rest, count)
        found.append(at)
    return found


def _as_matrix(
    coordinates: list[NDArray[np.int64]], along_depth: bool, per_chunk: int
) -> tuple[tuple[int, ...], int, int] | NoMatrix:
    """First element, dimension of the rows and dimension of the depth. along_depth: whether chunks run along it."""
    lines, columns = len(coordinates[0]), len(coordinates[0][0])
    down = np.arange(lines, dtype=np.int64).reshape(-1, 1)
    across = np.arange(columns, dtype=np.int64).reshape(1, -1)
    along, crossing = (across, down) if along_depth else (down, across)
    if bool(np.any(coordinates[0] - coordinates[0][0, 0] != along * per_chunk)):
        return NoMatrix("its chunks are not those that follow one another in the array")
    other: list[int] = []
    for dimension, at in enumerate(coordinates[1:], start=1):
        moved = at - at[0, 0]
        if moved.any():
            if bool(np.any(moved != crossing)):
                return NoMatrix("its rows are not those that follow one another in the array")
            other.append(dimension)
    if len(other) > 1:
        return NoMatrix("its rows run along two dimensions of the array")
    if not other:
        # One line alone runs along any of the others.
        if (lines if along_depth else columns) > 1 or len(coordinates) < 2:
            return NoMatrix("its rows are all the same")
        other = [1]
    first = tuple(int(at[0, 0]) for at in coordinates)
    return (first, other[0], 0) if along_depth else (first, 0, other[0])
