"""How could a tensor be stored so that a tensor map describes it, and at how many bytes of padding?

Two ways: where it stands, with longer strides (`padded`: whoever allocates it decides), or in a workspace to which it
is copied first (`workspaces`). Both keep every index; only addresses change. In a workspace the stride that is rounded
up can be that of any dimension: those within it then stand without gaps, which pads least where a box takes them whole.

Not handled: tensors whose elements overlap can't be padded where they stand (None). Checked by
tests/legal/test_storage.py.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilewright.legal.map_limits import MapLimits
from tilewright.legal.reading import Reading


def overlaps(reading: Reading) -> bool:
    """Whether two indices may have one address: some stride is below what the smaller strides reach."""
    reach = 0
    for stride, extent in sorted(zip(reading.strides_bytes, reading.dims, strict=True)):
        if extent == 1:
            continue
        if stride < reach + reading.element_bytes:
            return True
        reach += (extent - 1) * stride
    return False


def padded(reading: Reading, limits: MapLimits) -> Reading | None:
    """The tensor with each stride rounded up to a legal one, smaller strides first, and its beginning aligned.

    Outer strides follow: a stride is read as a number whose digits count the strides within it, and written again with
    those padded, so that what did not overlap does not overlap then. None where elements overlap, or where dimension 0
    is not contiguous.
    """
    if reading.strides_bytes[0] != reading.element_bytes or overlaps(reading):
        return None
    old, new = reading.strides_bytes, list(reading.strides_bytes)
    order = sorted((at for at in range(1, reading.rank)), key=lambda at: old[at])
    levels: list[int] = []
    for at in order:
        scaled, rest = 0, old[at]
        for level in reversed(levels):
            if old[level] > 0:
                whole, rest = divmod(rest, old[level])
                scaled += whole * new[level]
        new[at] = _round_up(scaled + rest, limits.stride_multiple_bytes)
        levels.append(at)
    address = _round_up(reading.address, limits.address_alignment_bytes)
    return replace(reading, strides_bytes=tuple(new), address=address)


def workspaces(reading: Reading, limits: MapLimits) -> tuple[Reading, ...]:
    """Dense copies of the tensor, one for each dimension whose stride is rounded up, dimensions in their order; where
    there are too many of those, the ones that boxes take whole follow dimension 0, and those of which a box takes one
    index come last: so they merge."""
    found: dict[Reading, None] = {}
    order = list(range(reading.rank))
    if reading.rank > limits.rank_max:
        order[1:] = sorted(order[1:], key=lambda at: (reading.box[at] == 1, reading.box[at] < reading.dims[at], at))
    for rounded in range(1, max(reading.rank, 2)):
        strides, reach = [reading.element_bytes] * reading.rank, reading.element_bytes * reading.dims[0]
        for place, at in enumerate(order[1:], 1):
            if place == rounded:
                reach = _round_up(reach, limits.stride_multiple_bytes)
            strides[at] = reach
            reach *= reading.dims[at]
        found[replace(reading, strides_bytes=tuple(strides), address=0)] = None
    return tuple(found)


def padding_bytes(reading: Reading) -> int:
    """Bytes between the first and the last of the tensor that hold none of its elements, where none overlap."""
    return max(0, reading.span_bytes - prod(reading.dims) * reading.element_bytes)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
