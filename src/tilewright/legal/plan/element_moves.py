"""Which moves change the elements of a reading, where it begins, or make several copies of one?

Theory: see `moves`. Checked by tests/legal/plan/test_moves.py, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from tilewright.legal.plan.reading import Index, Reading, with_entry, without


@dataclass(frozen=True, slots=True)
class Widen:
    """Read `factor` contiguous elements of dimension 0 as one. A box that ends inside one takes it whole."""

    factor: int

    def apply(self, reading: Reading) -> Reading | None:
        factor = self.factor
        if reading.strides_bytes[0] != reading.element_bytes or reading.element_strides[0] != 1:
            return None
        if reading.dims[0] % factor or reading.starts[0] % factor:
            return None
        return replace(
            reading,
            element_bytes=reading.element_bytes * factor,
            dims=with_entry(reading.dims, 0, reading.dims[0] // factor),
            strides_bytes=with_entry(reading.strides_bytes, 0, reading.strides_bytes[0] * factor),
            box=with_entry(reading.box, 0, -(-reading.box[0] // factor)),
            starts=with_entry(reading.starts, 0, reading.starts[0] // factor),
        )

    def index(self, index: Index) -> Index:
        return with_entry(index, 0, index[0] // self.factor)

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class Narrow:
    """Read one element of dimension 0 as `factor` narrower ones; an index goes to the first of them."""

    factor: int

    def apply(self, reading: Reading) -> Reading | None:
        factor = self.factor
        if reading.strides_bytes[0] != reading.element_bytes or reading.element_bytes % factor:
            return None
        if reading.element_strides[0] != 1:
            return None
        return replace(
            reading,
            element_bytes=reading.element_bytes // factor,
            dims=with_entry(reading.dims, 0, reading.dims[0] * factor),
            strides_bytes=with_entry(reading.strides_bytes, 0, reading.strides_bytes[0] // factor),
            box=with_entry(reading.box, 0, reading.box[0] * factor),
            starts=with_entry(reading.starts, 0, reading.starts[0] * factor),
        )

    def index(self, index: Index) -> Index:
        return with_entry(index, 0, index[0] * self.factor)

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class Expose:
    """Read each element as `factor` narrower ones, which become dimension 0; wherever the elements stand."""

    factor: int

    def apply(self, reading: Reading) -> Reading | None:
        width, rest = divmod(reading.element_bytes, self.factor)
        if rest:
            return None
        return Reading(
            width,
            (self.factor, *reading.dims),
            (width, *reading.strides_bytes),
            (self.factor, *reading.box),
            (1, *reading.element_strides),
            (0, *reading.starts),
            reading.address,
        )

    def index(self, index: Index) -> Index:
        return (0, *index)

    def start(self, coords: Index) -> Index:
        return (0, *coords)


@dataclass(frozen=True, slots=True)
class Absorb:
    """Read all of dimension 0, which every box takes whole, as one element."""

    def apply(self, reading: Reading) -> Reading | None:
        extent = reading.dims[0]
        if reading.rank < 2 or reading.strides_bytes[0] != reading.element_bytes or reading.element_strides[0] != 1:
            return None
        if reading.box[0] != extent or reading.starts[0]:
            return None
        return without(replace(reading, element_bytes=reading.element_bytes * extent), 0)

    def index(self, index: Index) -> Index:
        return index[1:]

    def start(self, coords: Index) -> Index:
        return coords[1:]


@dataclass(frozen=True, slots=True)
class Shift:
    """Begin `elements` earlier along dimension 0. Boxes begin where they did and reach that much further."""

    elements: int

    def apply(self, reading: Reading) -> Reading | None:
        if reading.strides_bytes[0] != reading.element_bytes or reading.element_strides[0] != 1:
            return None
        return replace(
            reading,
            address=reading.address - self.elements * reading.element_bytes,
            dims=with_entry(reading.dims, 0, reading.dims[0] + self.elements),
            box=with_entry(reading.box, 0, reading.box[0] + self.elements),
        )

    def index(self, index: Index) -> Index:
        return with_entry(index, 0, index[0] + self.elements)

    def start(self, coords: Index) -> Index:
        return coords


@dataclass(frozen=True, slots=True)
class Realign:
    """Let boxes begin at multiples of `elements` along dimension 0, at or before where they did, and end no earlier."""

    elements: int

    def apply(self, reading: Reading) -> Reading | None:
        unit, start = self.elements, reading.starts[0]
        if start % unit == 0 or reading.element_strides[0] != 1:
            return None
        # A box begins at most unit - gcd past a multiple of the unit.
        return replace(
            reading,
            box=with_entry(reading.box, 0, reading.box[0] + unit - gcd(start, unit)),
            starts=with_entry(reading.starts, 0, unit),
        )

    def index(self, index: Index) -> Index:
        return index

    def start(self, coords: Index) -> Index:
        return with_entry(coords, 0, coords[0] // self.elements * self.elements)


@dataclass(frozen=True, slots=True)
class Unroll:
    """Fetch the indices of a dimension that a box wants one by one, `count` copies instead of one."""

    dimension: int
    count: int

    def apply(self, reading: Reading) -> Reading | None:
        at = self.dimension
        if reading.box[at] != self.count or reading.element_strides[at] != 1 or not reading.stays_inside(at):
            return None
        return replace(reading, box=with_entry(reading.box, at, 1), starts=with_entry(reading.starts, at, 1))

    def index(self, index: Index) -> Index:
        return index

    def start(self, coords: Index) -> Index:
        return coords


@dataclass(frozen=True, slots=True)
class Select:
    """Keep the indices of a dimension that are `remainder` modulo `modulus`: one of `modulus` maps of the tensor."""

    dimension: int
    modulus: int
    remainder: int

    def apply(self, reading: Reading) -> Reading | None:
        at, modulus, remainder = self.dimension, self.modulus, self.remainder
        box, start = reading.box[at], reading.starts[at]
        if remainder >= reading.dims[at] or reading.element_strides[at] != 1:
            return None
        if box == 1:
            boxes, starts = 1, 1
        elif box % modulus == 0 and start % modulus == 0:
            boxes, starts = box // modulus, start // modulus
        else:
            return None
        return replace(
            reading,
            address=reading.address + remainder * reading.strides_bytes[at],
            dims=with_entry(reading.dims, at, (reading.dims[at] - remainder - 1) // modulus + 1),
            strides_bytes=with_entry(reading.strides_bytes, at, reading.strides_bytes[at] * modulus),
            box=with_entry(reading.box, at, boxes),
            starts=with_entry(reading.starts, at, starts),
        )

    def index(self, index: Index) -> Index:
        return with_entry(index, self.dimension, index[self.dimension] // self.modulus)

    def start(self, coords: Index) -> Index:
        return self.index(coords)
