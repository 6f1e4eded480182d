"""Which short chains of moves lead from a reading to one that a tensor map can describe?

Theory: best-first search. The first rule that a reading breaks says which moves can help (a stride that is no multiple
of 16 bytes: fold that dimension into another, split it until a multiple is reached, and so on), so the tree stays
narrow; what a chain has cost so far, in bytes fetched and copies made, says which is tried next. The number of readings
is bounded, and a search that reaches the bound says so.

Not handled: moves that store the tensor differently (`storage`). That no longer chain would do is not claimed where the
bound was reached. Checked by tests/legal/plan/test_reading_search.py against exhaustive search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import gcd

from tilewright.legal.plan.moves import (
    DropUnit,
    Fill,
    Fold,
    Move,
    Narrow,
    Permute,
    Realign,
    Restride,
    Shift,
    Split,
    Subsample,
    Unroll,
    Widen,
)
from tilewright.legal.plan.reading import Reading
from tilewright.legal.tensor_map.map_limits import MapLimits

OVERFETCH_MOST = 4
"""A reading whose boxes bring more than so many times the bytes wanted is no plan."""
UNROLL_MOST = 16
"""Copies one by one, at most."""
_FILL_MOST = 4
_READINGS_MOST = 240


@dataclass(frozen=True, slots=True)
class Chain:
    """Moves, in order, and the reading that they lead to. copies: that one box takes, before it is cut to size."""

    moves: tuple[Move, ...]
    reading: Reading
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Found:
    """Chains to readings without faults, the cheapest first; complete: whether no reading was left unvisited."""

    chains: tuple[Chain, ...]
    complete: bool


def search(
    reading: Reading,
    limits: MapLimits,
    *,
    store: bool = False,
    most: int = 6,
    retype: bool = True,
    moved: bool = True,
    rotate: bool = True,
) -> Found:
    """Up to `most` chains from `reading` to what a map can describe.

    store: no move may make boxes larger; retype: elements may be read as others of other width; moved: the tensor may
    be said to begin elsewhere; rotate: another dimension may become the innermost.
    """
    wanted = reading.box_elements * reading.element_bytes
    count = 0
    queue: list[tuple[int, int, int, Chain]] = [(0, 0, 0, Chain((), reading))]
    seen = {reading}
    found: list[Chain] = []
    while queue and len(found) < most:
        _, _, _, chain = heappop(queue)
        fault = first_fault(chain.reading, limits)
        if fault is None:
            found.append(chain)
            continue
        for move in _moves(chain.reading, fault, limits):
            if (isinstance(move, Widen | Narrow) and not retype) or (isinstance(move, Shift) and not moved):
                continue
            if isinstance(move, Permute) and not rotate:
                continue
            after = move.apply(chain.reading)
            if after is None or after in seen:
                continue
            fetched = after.box_elements * after.element_bytes
            copies = chain.copies * move.count if isinstance(move, Unroll) else chain.copies
            total = fetched * copies
            if copies > UNROLL_MOST or total > (wanted if store else OVERFETCH_MOST * wanted + 64):
                continue
            count += 1
            if count > _READINGS_MOST:
                return Found(tuple(found), False)
            seen.add(after)
            moves = (*chain.moves, move)
            heappush(queue, (total - wanted + 128 * (copies - 1), len(moves), count, Chain(moves, after, copies)))
    return Found(tuple(found), not queue)


def first_fault(reading: Reading, limits: MapLimits) -> tuple[str, int] | None:
    """What keeps `reading` from being a map's, and at which dimension: the rule that decides the others comes first."""
    element_bytes, strides = reading.element_bytes, reading.strides_bytes
    if strides[0] != element_bytes:
        return "inner", 0
    if reading.rank > limits.rank_max:
        return "rank", 0
    for at, stride in enumerate(reading.element_strides):
        if stride > (limits.element_stride_max if at else 1):
            return "element_stride", at
    for at, extent in enumerate(reading.dims):
        if extent > limits.dim_max:
            return "dim", at
    for at in range(1, reading.rank):
        if strides[at] % limits.stride_multiple_bytes:
            return "stride", at
        if strides[at] >= limits.stride_limit_bytes:
            return "range", at
    if reading.address % limits.address_alignment_bytes:
        return "address", 0
    if reading.starts[0] * element_bytes % limits.inner_multiple_bytes:
        return "start", 0
    return None


def _moves(reading: Reading, fault: tuple[str, int], limits: MapLimits) -> Iterator[Move]:
    kind, at = fault
    match kind:
        case "inner":
            yield from _contiguous_first(reading)
        case "rank":
            yield from _fewer_dimensions(reading)
        case "element_stride":
            yield Subsample(at, reading.element_strides[at])
        case "dim":
            if at == 0:
                yield from (Widen(factor) for factor in (2, 4, 8) if factor * reading.element_bytes <= 8)
            yield from (Split(at, size) for size in _split_sizes(reading, at, limits))
        case "stride":
            yield from _repaired_stride(reading, at, limits)
        case "range":
            if reading.dims[at] == 1:
                yield DropUnit(at)
                yield Restride(at, limits.stride_multiple_bytes)
        case "address":
            distance = reading.address % limits.address_alignment_bytes
            if distance % reading.element_bytes:
                yield Narrow(reading.element_bytes)
            else:
                yield Shift(distance // reading.element_bytes)
        case _:
            yield Realign(limits.inner_multiple_bytes // reading.element_bytes)


def _contiguous_first(reading: Reading) -> Iterator[Move]:
    """Bring a contiguous dimension to the front, or make one: of a single element, or by taking in the gaps."""
    element_bytes = reading.element_bytes
    if reading.dims[0] == 1:
        yield Restride(0, element_bytes)
    for dimension in range(1, reading.rank):
        if reading.strides_bytes[dimension] == element_bytes:
            yield _to_front(reading.rank, dimension)
    for dimension, stride in enumerate(reading.strides_bytes):
        factor, rest = divmod(stride, element_bytes)
        if rest or not 2 <= factor <= _FILL_MOST:
            continue
        yield Fill(0, factor) if dimension == 0 else _to_front(reading.rank, dimension)


def _fewer_dimensions(reading: Reading) -> Iterator[Move]:
    """A move that takes nothing away from others, where there is one: a unit dropped, a dimension joined to one that it
    continues. Else every fold."""
    for dimension in range(reading.rank - 1, 0, -1):
        if reading.dims[dimension] == 1 and reading.box[dimension] == 1:
            yield DropUnit(dimension)
            return
    for outer in range(reading.rank - 1, 0, -1):
        for inner in range(reading.rank):
            join = Fold(inner, outer, reading.dims[inner], whole=reading.box[outer] > 1)
            if (not join.whole or reading.box[inner] == reading.dims[inner]) and join.apply(reading) is not None:
                yield join
                return
    for outer in range(1, reading.rank):
        yield from _folds(reading, outer)


def _to_front(rank: int, dimension: int) -> Permute:
    return Permute((dimension, *(other for other in range(rank) if other != dimension)))


def _folds(reading: Reading, outer: int) -> Iterator[Move]:
    """Folds of one dimension into each whose stride divides its own; where a box wants several indices, one by one."""
    stride, count = reading.strides_bytes[outer], reading.box[outer]
    for inner in range(reading.rank):
        within = reading.strides_bytes[inner]
        if inner == outer or within <= 0 or stride % within or stride < within:
            continue
        factor = stride // within
        if factor >= reading.dims[inner] or factor > 1 or count == 1:
            yield Fold(inner, outer, factor, whole=count > 1)
    if 1 < count <= UNROLL_MOST:
        yield Unroll(outer, count)


def _repaired_stride(reading: Reading, at: int, limits: MapLimits) -> Iterator[Move]:
    multiple = limits.stride_multiple_bytes
    stride = reading.strides_bytes[at]
    if reading.dims[at] == 1:
        if reading.box[at] == 1:
            yield DropUnit(at)
        yield Restride(at, -(-max(stride, 1) // multiple) * multiple)
        return
    yield from _folds(reading, at)
    period = multiple // gcd(stride, multiple)
    yield Split(at, period)


def _split_sizes(reading: Reading, at: int, limits: MapLimits) -> tuple[int, ...]:
    """Sizes that divide the extent and leave a quotient that fits: the box's, and powers of two."""
    extent, sizes = reading.dims[at], list[int]()
    if reading.box[at] > 1:
        sizes.append(reading.box[at])
    power = extent & -extent
    while power > 1:
        sizes.append(power)
        power //= 2
    return tuple(size for size in dict.fromkeys(sizes) if extent % size == 0 and extent // size <= limits.dim_max)[:4]
