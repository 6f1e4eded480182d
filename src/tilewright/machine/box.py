"""Which bytes does one box of a tensor map cover: where each stands in the tensor, and where in shared memory?

Theory: PTX ISA 5.5 "Tensors" (box, element strides, swizzle, interleave). A box is copied in units: one element, or
with interleave one slice of 16 or 32 bytes. Unit i of dimension d lies at coordinate c[d] + i * step[d]. In shared
memory the units stand densely, dimension 0 innermost, except that the rows of a swizzled box stand a whole span apart.

Interleaved maps, as an H200 has them: coordinate 0 counts slices (a slice is 16 or 32 bytes, whatever the element), and
the last but one dimension, that of channel groups, takes one group whatever its box says. Element strides divide the
box, rounded up; without interleave that of dimension 0 is ignored (`cuTensorMapEncodeTiled`).

Everything that doesn't depend on the start coordinates is computed once a map and kept.
Not handled: im2col, gather4 and scatter4, packed 4- and 6-bit elements.
Checked by: `tests/machine/test_copy_engine.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import TensorMap
from tilewright.machine.engine_fault import EngineFault
from tilewright.machine.event import Ranges
from tilewright.machine.swizzle import SPAN_BYTES, period_bytes, swizzled

_SLICE_BYTES = {"none": 0, "16B": 16, "32B": 32}


@dataclass(frozen=True, eq=False, slots=True)
class Box:
    """The part of a copy that all start coordinates share.

    unit_bytes: what moves as one; counts, steps: units of each dimension, and the coordinates from one to the next;
    strides_bytes: of each dimension in the tensor; transaction_bytes: what one copy adds to its barrier;
    global_bytes: of each byte of the box, its distance in the tensor from the box's first, in shared-memory order;
    shared_bytes: of the same bytes, the distance from the destination, not yet swizzled;
    global_ranges: the first of these as merged ranges; footprint_bytes: from the destination to past the last row.
    """

    unit_bytes: int
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    transaction_bytes: int
    footprint_bytes: int
    global_bytes: NDArray[np.int64]
    shared_bytes: NDArray[np.int64]
    global_ranges: Ranges


@lru_cache(maxsize=256)
def box_of(tensor_map: TensorMap) -> Box:
    """The box of a map. Raises EngineFault `tensor-map` where its fields do not fit together."""
    rank = tensor_map.rank
    strides = tensor_map.element_strides or (1,) * rank
    if not (1 <= rank <= 5 and len(tensor_map.box) == len(strides) == rank == len(tensor_map.strides_bytes) + 1):
        raise EngineFault("MF007", "tensor-map", f"rank {rank} does not fit its strides, box or element strides")
    if min(tensor_map.box) < 1 or min(strides) < 1 or min(tensor_map.dims) < 1:
        raise EngineFault(
            "MF007", "tensor-map", "an extent of the tensor, of the box or of the element strides is below 1"
        )
    slice_bytes = _SLICE_BYTES[tensor_map.interleave]
    if slice_bytes and rank < 3:
        raise EngineFault("MF007", "tensor-map", f"interleave {tensor_map.interleave} takes rank 3 or more, not {rank}")
    unit_bytes = slice_bytes or tensor_map.element.bytes
    steps = strides if slice_bytes else (1, *strides[1:])
    counts = [-(-extent // step) for extent, step in zip(tensor_map.box, steps, strict=True)]
    if slice_bytes:
        counts[rank - 2] = 1
    strides_bytes = (unit_bytes, *tensor_map.strides_bytes)
    inner_bytes = counts[0] * unit_bytes
    if slice_bytes == 0 and inner_bytes % 16:
        raise EngineFault("MF007", "tensor-map", f"the box's inner row of {inner_bytes} bytes is no multiple of 16")
    span = SPAN_BYTES[tensor_map.swizzle]
    if slice_bytes == 0 and span and inner_bytes > span:
        raise EngineFault(
            "MF007", "tensor-map", f"the box's inner row of {inner_bytes} bytes exceeds the swizzle span {span}"
        )
    pitch_bytes = inner_bytes if slice_bytes else max(inner_bytes, span)

    row_count = prod(counts[1:])
    in_row = np.arange(inner_bytes, dtype=np.int64)
    global_in_row = in_row // unit_bytes * (unit_bytes * steps[0]) + in_row % unit_bytes
    rows = np.zeros(1, np.int64)
    for count, step, stride in zip(counts[1:], steps[1:], strides_bytes[1:], strict=True):
        rows = (np.arange(count, dtype=np.int64)[:, None] * (step * stride) + rows[None, :]).reshape(-1)
    global_bytes = (rows[:, None] + global_in_row[None, :]).reshape(-1)
    shared_bytes = (np.arange(row_count, dtype=np.int64)[:, None] * pitch_bytes + in_row[None, :]).reshape(-1)
    return Box(
        unit_bytes=unit_bytes,
        counts=tuple(counts),
        steps=tuple(steps),
        strides_bytes=strides_bytes,
        transaction_bytes=row_count * inner_bytes,
        footprint_bytes=row_count * pitch_bytes,
        global_bytes=_frozen(global_bytes),
        shared_bytes=_frozen(shared_bytes),
        global_ranges=merged(global_bytes),
    )


def box_inside(tensor_map: TensorMap, box: Box, coordinates: tuple[int, ...]) -> bool:
    """Is every unit of the box inside the tensor?"""
    return all(
        start >= 0 and start + (count - 1) * step < extent
        for start, count, step, extent in zip(coordinates, box.counts, box.steps, tensor_map.dims, strict=True)
    )


def inside(tensor_map: TensorMap, box: Box, coordinates: tuple[int, ...], inner_extent: int) -> NDArray[np.bool_]:
    """Of each byte of the box, in the order of `global_bytes`: is it inside the tensor? [transaction_bytes]

    inner_extent: the extent of dimension 0, in units, to hold the box against.
    """
    extents = (inner_extent, *tensor_map.dims[1:])
    axes: list[NDArray[np.bool_]] = []
    for start, count, step, extent in zip(coordinates, box.counts, box.steps, extents, strict=True):
        at = start + step * np.arange(count, dtype=np.int64)
        axes.append((at >= 0) & (at < extent))
    rows = np.ones(1, np.bool_)
    for axis in axes[1:]:
        rows = (axis[:, None] & rows[None, :]).reshape(-1)
    return (rows[:, None] & np.repeat(axes[0], box.unit_bytes)[None, :]).reshape(-1)


def shared_addresses(tensor_map: TensorMap, address: int) -> NDArray[np.int64]:
    """Absolute shared addresses of the box's bytes, swizzled, for a destination (or source) at `address`."""
    phase = address % period_bytes(tensor_map.swizzle)
    return _swizzled_box(tensor_map, phase) + (address - phase)


def shared_ranges(tensor_map: TensorMap, address: int) -> Ranges:
    """The bytes at `shared_addresses`, as merged ranges."""
    phase = address % period_bytes(tensor_map.swizzle)
    return shifted(_swizzled_ranges(tensor_map, phase), address - phase)


@lru_cache(maxsize=256)
def _swizzled_box(tensor_map: TensorMap, phase: int) -> NDArray[np.int64]:
    return _frozen(swizzled(box_of(tensor_map).shared_bytes + phase, tensor_map.swizzle))


@lru_cache(maxsize=256)
def _swizzled_ranges(tensor_map: TensorMap, phase: int) -> Ranges:
    return merged(_swizzled_box(tensor_map, phase))


def merged(addresses: NDArray[np.int64]) -> Ranges:
    """Byte addresses, in any order and repeated or not, as sorted disjoint half-open ranges."""
    if addresses.size == 0:
        return ()
    steps = np.diff(addresses)
    if steps.size and steps.min() <= 0:
        addresses = np.unique(addresses)
        steps = np.diff(addresses)
    breaks = np.flatnonzero(steps != 1)
    starts = addresses[np.concatenate((np.zeros(1, np.int64), breaks + 1))]
    ends = addresses[np.concatenate((breaks, np.full(1, addresses.size - 1, np.int64)))] + 1
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))


def shifted(ranges: Ranges, distance: int) -> Ranges:
    """`ranges` moved up by `distance` bytes."""
    return tuple((start + distance, end + distance) for start, end in ranges)


def _frozen(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.setflags(write=False)
    return array
