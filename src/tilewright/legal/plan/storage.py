"""How could a tensor be stored so that a tensor map describes it, and at how many bytes of padding?

Two ways: where it stands, with longer strides (`padded`: whoever allocates it decides), or in a workspace to which it
is copied first (`workspaces`). Both keep every index; only addresses change. In a workspace the stride that is rounded
up can be that of any dimension: those within it then stand without gaps, which pads least where a box takes them whole.

Not handled: tensors whose elements overlap can't be padded where they stand (None). Checked by
tests/legal/plan/test_storage.py.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilewright.legal.plan.reading import Reading
from tilewright.legal.tensor_map.map_limits import MapLimits

_WHOLE_MOST = 4
"""Of dimensions that boxes take whole, so many are tried within the stride that is rounded up."""


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


def workspaces(reading: Reading, limits: MapLimits, *, whole: bool = True) -> tuple[Reading, ...]:
    """Dense copies of the tensor, those with the least padding first.

    One dimension's stride is rounded up; within it stand dimension 0 and, where boxes take them whole, any others, and
    after those one that boxes take in part (`whole`: rows of these may begin anywhere). Then come the others that boxes
    take in part, and last those of which a box takes one index: so that dimensions merge where there are too many.
    """
    full = [at for at in range(1, reading.rank) if reading.box[at] == reading.dims[at] and not reading.starts[at]]
    inner_full = reading.box[0] == reading.dims[0] and not reading.starts[0] and reading.element_strides[0] == 1
    groups: list[tuple[int, ...]] = [()]
    if whole and inner_full:
        for at in [at for at in full if reading.dims[at] > 1 and reading.element_strides[at] == 1][:_WHOLE_MOST]:
            groups += [(*group, at) for group in groups]
        partial = [at for at in range(1, reading.rank) if at not in full and reading.box[at] > 1]
        groups += [(*group, at) for group in groups for at in partial if reading.box[at] < reading.dims[at]]
    found = {_workspace(reading, group, limits.stride_multiple_bytes): None for group in groups}
    return tuple(sorted(found, key=padding_bytes))


def _workspace(reading: Reading, group: tuple[int, ...], multiple: int) -> Reading:
    rest = [at for at in range(1, reading.rank) if at not in group]
    rest.sort(key=lambda at: (reading.box[at] == 1, reading.box[at] < reading.dims[at]))
    strides, reach = [reading.element_bytes] * reading.rank, reading.element_bytes * reading.dims[0]
    for at in group:
        strides[at] = reach
        reach *= reading.dims[at]
    reach = _round_up(reach, multiple)
    for at in rest:
        strides[at] = reach
        reach *= reading.dims[at]
    return replace(reading, strides_bytes=tuple(strides), address=0)


def padding_bytes(reading: Reading) -> int:
    """Bytes between the first and the last of the tensor that hold none of its elements, where none overlap."""
    return max(0, reading.span_bytes - prod(reading.dims) * reading.element_bytes)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
