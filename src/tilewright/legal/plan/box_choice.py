"""How is the box wanted of a reading cut into the boxes of a tensor map, and under which swizzle?

Theory: a map's box has at most 256 elements a dimension, an inner row of whole 16-byte units within the swizzle's span,
and no more bytes than shared memory. Each dimension is cut into the fewest equal parts that keep these, so that copies
differ only in their coordinates. A row longer than the span is cut into several copies, or the span becomes a dimension
of its own and one copy brings all of them, or another swizzle takes it.

Not handled: parts of unequal size; interleaved layouts. Checked by tests/legal/plan/test_repairs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from tilewright.legal.plan.moves import Permute, Split
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.reading_search import Chain, first_fault
from tilewright.legal.tensor_map.map_limits import MapLimits

_ROWS = 8
_CHUNK_BYTES = 16
_LINE_BYTES = 128


@dataclass(frozen=True, slots=True)
class BoxChoice:
    """box: of the map, in elements; counts: copies along each dimension; swizzle: of the map."""

    chain: Chain
    box: tuple[int, ...]
    counts: tuple[int, ...]
    swizzle: str

    @property
    def copies(self) -> int:
        """Copies that one wanted box takes."""
        return self.chain.copies * prod(self.counts)


def choices(chain: Chain, swizzles: tuple[str, ...], limits: MapLimits, *, store: bool = False) -> list[BoxChoice]:
    """Every way to cut the box of `chain`, under each of `swizzles`. store: parts may not reach past the box."""
    found: list[BoxChoice] = []
    for swizzle in swizzles:
        for variant in _variants(chain, limits.span_bytes(swizzle), limits):
            cut = _cut(variant.reading, limits.span_bytes(swizzle), limits, store)
            if cut is not None:
                found.append(BoxChoice(variant, *cut, swizzle))
    return found


def pitch_bytes(inner_bytes: int, span_bytes: int) -> int:
    """Bytes from one row of a box to the next in shared memory: a swizzle's rows stand a whole span apart."""
    return max(inner_bytes, span_bytes)


def conflict_ways(inner_bytes: int, span_bytes: int) -> int:
    """Wavefronts that eight rows of 16 bytes, one below the other, take in shared memory where one would do.

    A swizzle with chunks of 16 bytes permutes the chunks of a row by the number of its line of 128 bytes.
    """
    pitch, width = pitch_bytes(inner_bytes, span_bytes), span_bytes // _CHUNK_BYTES
    banks = [0] * (_LINE_BYTES // _CHUNK_BYTES)
    for row in range(_ROWS):
        address = row * pitch
        chunk = address // _CHUNK_BYTES % len(banks)
        if width:
            chunk ^= address // _LINE_BYTES % width
        banks[chunk] += 1
    return max(banks)


def _variants(chain: Chain, span_bytes: int, limits: MapLimits) -> list[Chain]:
    """The chain itself, and with each extent that is too long for one box, and then all, cut into dimensions."""
    reading = chain.reading
    unit = max(1, limits.inner_multiple_bytes // reading.element_bytes)
    found = [chain]
    for at in range(reading.rank - 1, 0, -1):
        if reading.box[at] > limits.box_extent_max:
            size = _divisor(reading.box[at], reading.dims[at], limits.box_extent_max, 1)
            found += [more for known in found for more in _moved(known, limits, Split(at, size))]
    most = min(limits.box_extent_max, span_bytes // reading.element_bytes or limits.box_extent_max)
    if reading.box[0] > most:
        size = _divisor(reading.box[0], reading.dims[0], most - most % unit, unit)
        for known in list(found):
            # The pieces of a row follow the rows: each is a block of rows in shared memory, as several copies leave it.
            order = (0, *range(2, known.reading.rank + 1), 1)
            found += _moved(known, limits, Split(0, size), Permute(order))
    return found


def _divisor(box: int, extent: int, most: int, step: int) -> int:
    """The largest multiple of `step`, up to `most`, that divides both; else 1."""
    return next((size for size in range(most, 0, -step) if box % size == 0 and extent % size == 0), 1)


def _moved(chain: Chain, limits: MapLimits, *moves: Split | Permute) -> Iterator[Chain]:
    reading = chain.reading
    if reading.rank >= limits.rank_max:
        return
    for move in moves:
        after = move.apply(reading)
        if after is None:
            return
        reading = after
    if first_fault(reading, limits) is None:
        yield Chain((*chain.moves, *moves), reading, chain.copies)


def _cut(
    reading: Reading, span_bytes: int, limits: MapLimits, store: bool
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    element_bytes = reading.element_bytes
    unit = max(1, limits.inner_multiple_bytes // element_bytes)
    most = min(limits.box_extent_max, (span_bytes or limits.box_extent_max * element_bytes) // element_bytes)
    most -= most % unit
    parts = [_part(reading.box[0], most, unit)]
    for extent, step in zip(reading.box[1:], reading.element_strides[1:], strict=True):
        parts.append(_part(extent, limits.box_extent_max // step * step, step))
    if any(part < 1 for part in parts):
        return None
    _shrink(parts, reading, limits)
    counts = tuple(ceil(extent / part) for extent, part in zip(reading.box, parts, strict=True))
    if store:
        for at, (extent, part, count) in enumerate(zip(reading.box, parts, counts, strict=True)):
            if part * count != extent and extent < reading.dims[at]:
                return None
    return tuple(parts), counts


def _part(extent: int, most: int, unit: int) -> int:
    """The size of equal parts, multiples of `unit`: the fewest, or up to twice as many where those fit exactly."""
    fewest = ceil(extent / most)
    even = next((size for size in range(most, 0, -1) if extent % size == 0 and size % unit == 0), 0)
    if even and extent // even <= 2 * fewest:
        return even
    return ceil(ceil(extent / fewest) / unit) * unit


def _shrink(parts: list[int], reading: Reading, limits: MapLimits) -> None:
    """Halve the outermost parts until one box fits shared memory."""
    most = min(limits.box_footprint_bytes_max, limits.shared_bytes_max)
    for at in range(len(parts) - 1, 0, -1):
        while prod(parts) * reading.element_bytes > most and parts[at] > reading.element_strides[at]:
            step = reading.element_strides[at]
            parts[at] = ceil(ceil(parts[at] / 2) / step) * step
