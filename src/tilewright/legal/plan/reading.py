"""How is a tensor, with the box wanted of it, described, before anyone asks whether a map can say it?

A `Reading` is a tensor in global memory and a box wanted of it, dimension 0 innermost: extents, byte strides, where it
begins, and at which coordinates boxes begin. Moves (`moves`) turn it into other readings of the same elements.

Not handled: interleaved layouts, packed elements, negative strides. Checked by tests/legal/plan/test_moves.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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


def with_entry(entries: Index, at: int, value: int) -> Index:
    """`entries` with another value at one place."""
    return (*entries[:at], value, *entries[at + 1 :])


def with_entries(entries: Index, at: int, values: Index) -> Index:
    """`entries` with several values in place of one."""
    return (*entries[:at], *values, *entries[at + 1 :])


def without(reading: Reading, at: int) -> Reading:
    """`reading` without one of its dimensions."""
    return replace(
        reading,
        dims=reading.dims[:at] + reading.dims[at + 1 :],
        strides_bytes=reading.strides_bytes[:at] + reading.strides_bytes[at + 1 :],
        box=reading.box[:at] + reading.box[at + 1 :],
        element_strides=reading.element_strides[:at] + reading.element_strides[at + 1 :],
        starts=reading.starts[:at] + reading.starts[at + 1 :],
    )
