"""In which other words can the same elements of a tensor, and the same box of them, be described?

A `Reading` is a tensor in global memory and a box wanted of it, dimension 0 innermost: extents, byte strides, where it
begins, and at which coordinates boxes begin. A `Move` turns one reading into another that has the same elements at the
same addresses: it drops a dimension of one element, folds two dimensions into one, splits one, permutes them, reads
elements as wider or narrower ones, begins earlier, or takes in what lies between strided elements. Each move says where
an index and a box's first coordinate go, so that a plan can be checked element by element.

Theory: a reading is an affine map from indices to addresses on a box of integers. A move is right where (1) addresses
agree on every index of the tensor, (2) every box that begins at a permitted coordinate lies, after the move, in the
moved box, and (3) an index past the tensor's end, within a wanted box, is past the end afterwards too, so that it is
filled and not read from a neighbour. A move whose conditions do not hold answers None. Two moves make several copies
of one: `Unroll` takes one index at a time, `Select` is one of several maps that share the tensor's indices.

Not handled: interleaved layouts, packed elements, negative strides, element strides other than 1 in a dimension that a
move combines (only `Permute` and `Subsample` accept them). Checked by tests/legal/test_reading.py, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A tensor and the box wanted of it. All tuples have one entry a dimension, innermost first.

    strides_bytes: of every dimension, the innermost too; box: extents of one box in elements, from its first to its
    last; element_strides: distance in elements between those that are wanted; starts: boxes begin at multiples of
    these, 0 where every box begins at coordinate 0; address: of element (0, ..., 0).
    """

    element_bytes: int
    dims: Index
    strides_bytes: Index
    box: Index
    element_strides: Index
    starts: Index
    address: int

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def span_bytes(self) -> int:
        """Bytes from the first element's first to the last element's last."""
        reach = sum((extent - 1) * stride for extent, stride in zip(self.dims, self.strides_bytes, strict=True))
        return reach + self.element_bytes

    @property
    def box_elements(self) -> int:
        """Elements that one box wants."""
        count = 1
        for extent, stride in zip(self.box, self.element_strides, strict=True):
            count *= -(-extent // stride)
        return count

    def stays_inside(self, dimension: int) -> bool:
        """Whether no box reaches past the tensor's end along `dimension`."""
        extent, start, size = self.dims[dimension], self.starts[dimension], self.box[dimension]
        if start == 0:
            return size <= extent
        if size == 1:
            return True
        # Boxes begin at every multiple of `start` below the extent.
        last = (extent - 1) // start * start
        return last + size <= extent


@dataclass(frozen=True, slots=True)
class DropUnit:
    """Leave out a dimension of one element, of which every box wants that one."""

    dimension: int

    def apply(self, reading: Reading) -> Reading | None:
        at = self.dimension
        if reading.rank < 2 or reading.dims[at] != 1 or reading.box[at] != 1:
            return None
        return _without(reading, at)

    def index(self, index: Index) -> Index:
        return index[: self.dimension] + index[self.dimension + 1 :]

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
        if count != 1 and not (self.whole and reading.stays_inside(outer)):
            return None
        joined = replace(
            reading,
            dims=_set(reading.dims, inner, (reading.dims[outer] - 1) * factor + reading.dims[inner]),
            box=_set(reading.box, inner, (count - 1) * factor + reading.box[inner]),
            starts=_set(reading.starts, inner, gcd(reading.starts[inner], factor * reading.starts[outer])),
        )
        return _without(joined, outer)

    def index(self, index: Index) -> Index:
        moved = _set(index, self.inner, index[self.inner] + self.factor * index[self.outer])
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
            dims=_insert(reading.dims, at, (size, extent // size)),
            strides_bytes=_insert(reading.strides_bytes, at, (stride, stride * size)),
            box=_insert(reading.box, at, boxes),
            element_strides=_insert(reading.element_strides, at, (1, 1)),
            starts=_insert(reading.starts, at, starts),
        )

    def index(self, index: Index) -> Index:
        whole, rest = divmod(index[self.dimension], self.size)
        return _insert(index, self.dimension, (rest, whole))

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
            dims=_set(reading.dims, 0, reading.dims[0] // factor),
            strides_bytes=_set(reading.strides_bytes, 0, reading.strides_bytes[0] * factor),
            box=_set(reading.box, 0, -(-reading.box[0] // factor)),
            starts=_set(reading.starts, 0, reading.starts[0] // factor),
        )

    def index(self, index: Index) -> Index:
        return _set(index, 0, index[0] // self.factor)

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
            dims=_set(reading.dims, 0, reading.dims[0] * factor),
            strides_bytes=_set(reading.strides_bytes, 0, reading.strides_bytes[0] // factor),
            box=_set(reading.box, 0, reading.box[0] * factor),
            starts=_set(reading.starts, 0, reading.starts[0] * factor),
        )

    def index(self, index: Index) -> Index:
        return _set(index, 0, index[0] * self.factor)

    def start(self, coords: Index) -> Index:
        return self.index(coords)


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
            dims=_set(reading.dims, 0, reading.dims[0] + self.elements),
            box=_set(reading.box, 0, reading.box[0] + self.elements),
        )

    def index(self, index: Index) -> Index:
        return _set(index, 0, index[0] + self.elements)

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
            box=_set(reading.box, 0, reading.box[0] + unit - gcd(start, unit)),
            starts=_set(reading.starts, 0, unit),
        )

    def index(self, index: Index) -> Index:
        return index

    def start(self, coords: Index) -> Index:
        return _set(coords, 0, coords[0] // self.elements * self.elements)


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
            dims=_set(reading.dims, at, (reading.dims[at] - 1) * factor + 1),
            strides_bytes=_set(reading.strides_bytes, at, reading.strides_bytes[at] // factor),
            box=_set(reading.box, at, (reading.box[at] - 1) * factor + 1),
            starts=_set(reading.starts, at, reading.starts[at] * factor),
        )

    def index(self, index: Index) -> Index:
        return _set(index, self.dimension, index[self.dimension] * self.factor)

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
            dims=_set(reading.dims, at, -(-reading.dims[at] // step)),
            strides_bytes=_set(reading.strides_bytes, at, reading.strides_bytes[at] * step),
            box=_set(reading.box, at, -(-reading.box[at] // step)),
            element_strides=_set(reading.element_strides, at, 1),
            starts=_set(reading.starts, at, reading.starts[at] // step),
        )

    def index(self, index: Index) -> Index:
        return _set(index, self.dimension, index[self.dimension] // self.step)

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
        return replace(reading, strides_bytes=_set(reading.strides_bytes, self.dimension, self.stride_bytes))

    def index(self, index: Index) -> Index:
        return index

    def start(self, coords: Index) -> Index:
        return coords


@dataclass(frozen=True, slots=True)
class Unroll:
    """Fetch the indices of a dimension that a box wants one by one, `count` copies instead of one."""

    dimension: int
    count: int

    def apply(self, reading: Reading) -> Reading | None:
        at = self.dimension
        if reading.box[at] != self.count or reading.element_strides[at] != 1 or not reading.stays_inside(at):
            return None
        return replace(reading, box=_set(reading.box, at, 1), starts=_set(reading.starts, at, 1))

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
            dims=_set(reading.dims, at, (reading.dims[at] - remainder - 1) // modulus + 1),
            strides_bytes=_set(reading.strides_bytes, at, reading.strides_bytes[at] * modulus),
            box=_set(reading.box, at, boxes),
            starts=_set(reading.starts, at, starts),
        )

    def index(self, index: Index) -> Index:
        return _set(index, self.dimension, index[self.dimension] // self.modulus)

    def start(self, coords: Index) -> Index:
        return self.index(coords)


Move = (
    DropUnit | Fold | Split | Permute | Widen | Narrow | Shift | Realign | Fill | Subsample | Restride | Unroll | Select
)


def _set(entries: Index, at: int, value: int) -> Index:
    return (*entries[:at], value, *entries[at + 1 :])


def _insert(entries: Index, at: int, values: Index) -> Index:
    return (*entries[:at], *values, *entries[at + 1 :])


def _without(reading: Reading, at: int) -> Reading:
    return replace(
        reading,
        dims=reading.dims[:at] + reading.dims[at + 1 :],
        strides_bytes=reading.strides_bytes[:at] + reading.strides_bytes[at + 1 :],
        box=reading.box[:at] + reading.box[at + 1 :],
        element_strides=reading.element_strides[:at] + reading.element_strides[at + 1 :],
        starts=reading.starts[:at] + reading.starts[at + 1 :],
    )
