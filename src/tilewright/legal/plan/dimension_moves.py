"""Which moves change the dimensions of a reading: dropped, folded, split, permuted, filled, counted by steps?

Theory: see `moves`. Checked by tests/legal/plan/test_moves.py, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from tilewright.legal.plan.reading import Index, Reading, with_entries, with_entry, without


@dataclass(frozen=True, slots=True)
class DropUnit:
    """Leave out a dimension of one element, of which every box wants that one."""

    dimension: int

    def apply(self, reading: Reading) -> Reading | None:
        at = self.dimension
        if reading.rank < 2 or reading.dims[at] != 1 or reading.box[at] != 1:
            return None
        return without(reading, at)

    def index(self, index: Index) -> Index:
        return index[: self.dimension] + index[self.dimension + 1 :]

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class InsertUnit:
    """Add a dimension of one element."""

    dimension: int

    def apply(self, reading: Reading) -> Reading | None:
        at = self.dimension
        return Reading(
            reading.element_bytes,
            (*reading.dims[:at], 1, *reading.dims[at:]),
            (*reading.strides_bytes[:at], 0, *reading.strides_bytes[at:]),
            (*reading.box[:at], 1, *reading.box[at:]),
            (*reading.element_strides[:at], 1, *reading.element_strides[at:]),
            (*reading.starts[:at], 1, *reading.starts[at:]),
            reading.address,
        )

    def index(self, index: Index) -> Index:
        return (*index[: self.dimension], 0, *index[self.dimension :])

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class Fold:
    """Add `factor` times the coordinate of `outer` to that of `inner`, whose stride is `factor` times smaller.

    A contiguous join is the case where `factor` is the inner extent. Boxes stay inside the inner dimension, and take
    one index of the outer one, or whatever lies between its indices too (`whole`).
    """

    inner: int
    outer: int
    factor: int
    whole: bool = False

    def apply(self, reading: Reading) -> Reading | None:
        inner, outer, factor = self.inner, self.outer, self.factor
        if inner == outer or factor < 1 or reading.strides_bytes[outer] != factor * reading.strides_bytes[inner]:
            return None
        if reading.element_strides[inner] != 1 or reading.element_strides[outer] != 1:
            return None
        if not reading.stays_inside(inner):
            return None
        count = reading.box[outer]
        # Past the outer end lies past the end of all, unless inner indices reach over several outer ones.
        ends_apart = factor >= reading.dims[inner] or reading.stays_inside(outer)
        if count != 1 and not (self.whole and ends_apart):
            return None
        joined = replace(
            reading,
            dims=with_entry(reading.dims, inner, (reading.dims[outer] - 1) * factor + reading.dims[inner]),
            box=with_entry(reading.box, inner, (count - 1) * factor + reading.box[inner]),
            starts=with_entry(reading.starts, inner, gcd(reading.starts[inner], factor * reading.starts[outer])),
        )
        return without(joined, outer)

    def index(self, index: Index) -> Index:
        moved = with_entry(index, self.inner, index[self.inner] + self.factor * index[self.outer])
        return moved[: self.outer] + moved[self.outer + 1 :]

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class Split:
    """Cut a dimension into runs of `size`: the remainder stays in its place, the quotient follows it."""

    dimension: int
    size: int

    def apply(self, reading: Reading) -> Reading | None:
        at, size = self.dimension, self.size
        extent, box, start = reading.dims[at], reading.box[at], reading.starts[at]
        if size < 2 or size >= extent or extent % size or reading.element_strides[at] != 1:
            return None
        if box % size == 0 and start % size == 0:
            boxes, starts = (size, box // size), (0, start // size)
        elif start and size % start == 0 and start >= box:
            boxes, starts = (box, 1), (start, 1)
        elif start == 0 and box <= size:
            boxes, starts = (box, 1), (0, 0)
        else:
            return None
        stride = reading.strides_bytes[at]
        return replace(
            reading,
            dims=with_entries(reading.dims, at, (size, extent // size)),
            strides_bytes=with_entries(reading.strides_bytes, at, (stride, stride * size)),
            box=with_entries(reading.box, at, boxes),
            element_strides=with_entries(reading.element_strides, at, (1, 1)),
            starts=with_entries(reading.starts, at, starts),
        )

    def index(self, index: Index) -> Index:
        whole, rest = divmod(index[self.dimension], self.size)
        return with_entries(index, self.dimension, (rest, whole))

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class Permute:
    """Dimension `order[i]` becomes dimension i."""

    order: Index

    def apply(self, reading: Reading) -> Reading | None:
        return replace(
            reading,
            dims=self.index(reading.dims),
            strides_bytes=self.index(reading.strides_bytes),
            box=self.index(reading.box),
            element_strides=self.index(reading.element_strides),
            starts=self.index(reading.starts),
        )

    def index(self, index: Index) -> Index:
        return tuple(index[old] for old in self.order)

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class Fill:
    """Take in what lies between the elements of a dimension: its stride becomes `factor` times smaller."""

    dimension: int
    factor: int

    def apply(self, reading: Reading) -> Reading | None:
        at, factor = self.dimension, self.factor
        if reading.strides_bytes[at] % factor or reading.element_strides[at] != 1:
            return None
        return replace(
            reading,
            dims=with_entry(reading.dims, at, (reading.dims[at] - 1) * factor + 1),
            strides_bytes=with_entry(reading.strides_bytes, at, reading.strides_bytes[at] // factor),
            box=with_entry(reading.box, at, (reading.box[at] - 1) * factor + 1),
            starts=with_entry(reading.starts, at, reading.starts[at] * factor),
        )

    def index(self, index: Index) -> Index:
        return with_entry(index, self.dimension, index[self.dimension] * self.factor)

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class Subsample:
    """Count only every `step`-th element of a dimension whose boxes begin at multiples of it and want no others."""

    dimension: int
    step: int

    def apply(self, reading: Reading) -> Reading | None:
        at, step = self.dimension, self.step
        if step < 2 or reading.element_strides[at] != step or reading.starts[at] % step:
            return None
        return replace(
            reading,
            dims=with_entry(reading.dims, at, -(-reading.dims[at] // step)),
            strides_bytes=with_entry(reading.strides_bytes, at, reading.strides_bytes[at] * step),
            box=with_entry(reading.box, at, -(-reading.box[at] // step)),
            element_strides=with_entry(reading.element_strides, at, 1),
            starts=with_entry(reading.starts, at, reading.starts[at] // step),
        )

    def index(self, index: Index) -> Index:
        return with_entry(index, self.dimension, index[self.dimension] // self.step)

    def start(self, coords: Index) -> Index:
        return self.index(coords)


@dataclass(frozen=True, slots=True)
class Restride:
    """Give a dimension of one element another stride, which no address uses."""

    dimension: int
    stride_bytes: int

    def apply(self, reading: Reading) -> Reading | None:
        if reading.dims[self.dimension] != 1:
            return None
        return replace(reading, strides_bytes=with_entry(reading.strides_bytes, self.dimension, self.stride_bytes))

    def index(self, index: Index) -> Index:
        return index

    def start(self, coords: Index) -> Index:
        return coords
