"""Which bytes do accesses of a warp touch whose addresses lie to one another as those of earlier ones did?

A warp comes to the same loads and stores again and again, in other tiles and slots of a ring: its addresses are other
ones, yet mostly as far from one another as before. How they lie to one another decides all but where they begin: the
ranges of bytes, whose are which, whether two of them meet. That is worked out once for each shape, which is how far all
lanes' registers lie from one of them, and is then moved to where that one points. Accesses of other stretches of a text
that are the same but for where they stand have the same shapes (`Forms`).

What is told by a shape are accesses without fault, all of one array or of the CTA's own shared memory. Whoever finds
none makes the accesses one by one, of which the one at fault says so. Alignment is decided by the shape and by the
lowest bits of the address that it is moved by, so these belong to what a shape is known by.

Checked by: tests/machine/events_only/test_access_shapes.py, against addresses that are looked up one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.base.value import dataclass
from tilewright.machine.core.event import LaneRows, Places, Ranges
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import WARP_SIZE, Lanes, indices, to_bits
from tilewright.machine.core.memory import Region, merge_spans, region_of
from tilewright.machine.core.state import Cta

_KNOWN_MOST = 1024


class LaneAccess(Protocol):
    """A load or store of the text. slot: of the address register, offset: is added to it."""

    @property
    def slot(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


@dataclass(slots=True, eq=False)
class _Shape:
    """Registers counted from one lane's, bytes from those that it leads to. lowest, highest: between which the
    registers lie; ranges: the bytes; rows: whose are which; moved: both, where they have been told before, by how far
    they were moved."""

    lowest: int
    highest: int
    ranges: Ranges
    rows: tuple[LaneRows, ...]
    moved: dict[int, tuple[Ranges, Places]] = field(default_factory=dict[int, tuple[Ranges, Places]])


_Shapes = dict[tuple[int, int, bytes], _Shape | None]
"""By the lowest bits of the address from which all is counted, and the registers' size and distances."""
Forms = dict[tuple[object, ...], _Shapes]
"""Shapes of accesses that differ in their registers alone, and in how far all of them lie from these."""


class AccessShapes:
    """The shapes of accesses of the text that a warp makes one after the other, by certain lanes each. apart: no two
    may meet; forms: the shapes of others."""

    def __init__(
        self, accesses: Sequence[LaneAccess], masks: Sequence[int], space: str, forms: Forms, *, apart: bool
    ) -> None:
        self._origin = _signed(accesses[0].offset)
        self._accesses = [
            (mask, _signed(each.offset - self._origin), each.size_bytes)
            for each, mask in zip(accesses, masks, strict=True)
        ]
        self._space = space
        self._apart = apart
        self._first_lane = (masks[0] & -masks[0]).bit_length() >> 3
        self._alignment = max([each.size_bytes for each in accesses])
        # Mostly a register has not been written between two accesses by it, and one vector stands for both.
        first_of: dict[int, int] = {}
        by_slot = [first_of.setdefault(each.slot, place) for place, each in enumerate(accesses)]
        firsts = list(first_of.values())
        numbers = {place: number for number, place in enumerate(firsts)}
        self._of_slots = look_at(firsts)
        self._by_slot = look_at(by_slot)
        self._places_of_slots = [numbers[place] for place in by_slot]
        self._shapes = forms.setdefault((apart, *by_slot, *self._accesses), {})

    def find(self, cta: Cta, vectors: tuple[Lanes, ...]) -> tuple[Region, Ranges, Places] | None:
        """Where the accesses go if their address registers hold `vectors`. None where no one array holds them, where
        one is at fault, or two meet that may not."""
        places: Sequence[int] = range(len(vectors))
        if self._by_slot(ids := tuple(map(id, vectors))) == ids:
            vectors, places = self._of_slots(vectors), self._places_of_slots
        first = vectors[0].item(self._first_lane)
        flat = vectors[0] if len(vectors) == 1 else np.concatenate(vectors)
        apart = flat - flat.dtype.type(first)
        begin = first + self._origin
        key = begin % self._alignment, flat.itemsize, apart.tobytes()
        try:
            shape = self._shapes[key]
        except KeyError:
            shape = self._shape(begin, apart, places)
            if len(self._shapes) < _KNOWN_MOST:
                self._shapes[key] = shape
        # Registers as far apart by way of what none can hold are others.
        if shape is None or first + shape.lowest < 0 or (first + shape.highest) >> 8 * flat.itemsize:
            return None
        ranges = shape.ranges
        low, high = begin + ranges[0][0], begin + ranges[-1][1]
        try:
            where, base = region_of(cta, self._space, low)
        except MachineFault:
            return None
        if low - base < where.reserved_bytes or high - base > where.size_bytes:
            return None
        if self._space == "global":
            if where.space != "global":
                return None
            return where, _moved(ranges, begin), Places(shape.rows, begin)
        if where is not cta.shared:
            return None
        found = shape.moved.get(begin - base)
        if found is None:
            found = _moved(ranges, begin - base), Places(shape.rows, begin - base)
            if len(shape.moved) < _KNOWN_MOST:
                shape.moved[begin - base] = found
        return where, *found

    def _shape(self, begin: int, apart: NDArray[Any], places: Sequence[int]) -> _Shape | None:
        """Of registers that are `apart` from one by which the first access goes to `begin`. places: of the accesses'
        registers among them."""
        vectors = apart.view(f"i{apart.itemsize}").astype(np.int64).reshape(-1, WARP_SIZE)
        registers: list[NDArray[np.int64]] = []
        rows: dict[tuple[int, int], list[NDArray[np.int64]]] = {}
        for (mask, offset, size_bytes), place in zip(self._accesses, places, strict=True):
            held = vectors[place][indices(mask)]
            begins = held + np.int64(offset)
            if ((begins + begin % self._alignment) % size_bytes).any():
                return None
            registers.append(held)
            rows.setdefault((mask, size_bytes), []).append(begins)
        found = tuple(LaneRows(to_bits(mask), np.stack(begins), size) for (mask, size), begins in rows.items())
        begins = np.concatenate([each.begins.ravel() for each in found])
        ends = np.concatenate([each.begins.ravel() + each.size_bytes for each in found])
        ranges = merge_spans(begins, ends)
        if self._apart and sum(end - begin for begin, end in ranges) != int((ends - begins).sum()):
            return None
        held = np.concatenate(registers)
        return _Shape(int(held.min()), int(held.max()), ranges, found)


def look_at(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Some of the elements of a sequence."""
    if len(places) > 1:
        return itemgetter(*places)
    (only,) = places
    return lambda each: (each[only],)


def _signed(offset: int) -> int:
    """Offsets are added modulo 2^64."""
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


def _moved(ranges: Ranges, by: int) -> Ranges:
    return tuple([(begin + by, end + by) for begin, end in ranges])
