"""Which bytes does one box of a tensor map cover: where each stands in the tensor, and where in shared memory?

Theory: PTX ISA 5.5 "Tensors" (box, element strides, swizzle, interleave). A box is copied in units: one element, with
interleave one slice of 16 or 32 bytes, with packed values one byte or one group of sixteen. Unit i of dimension d lies
at coordinate c[d] + i * step[d]. In shared memory the units stand densely, dimension 0 innermost, except that the rows
of a swizzled box stand a whole span apart.

Interleaved maps, as an H200 has them: coordinate 0 counts slices (a slice is 16 or 32 bytes, whatever the element), and
the last but one dimension, that of channel groups, takes one group whatever its box says. Element strides divide the
box, rounded up; without interleave that of dimension 0 is ignored (`cuTensorMapEncodeTiled`).

Packed values (PTX ISA 5.5.1.1): of `.b4x16` two to a byte on both sides; of `.b4x16_p64` and `.b6x16_p32` sixteen to 8
or 12 bytes of global memory, which take 16 bytes of shared memory, the rest of them undefined and here not written.
Such a copy counts the bytes of global memory, 8 or 12 of sixteen values: PTX states nothing, and shipped kernels
expect so many (CUTLASS, sm100_mma_warpspecialized.hpp, `TmaTransactionBytes` with `sizeof_bits` 4 or 6; Triton, whose
padded operands have an unpadded block type). Unmeasured here: compute capability 9.0 has none.

Everything that doesn't depend on the start coordinates is computed once a map and kept. A kernel copies few boxes to
few places, over and over, so that ranges are kept, too, and are the same object each time.
Not handled: im2col (`im2col`), gather4 and scatter4 (`copy_engine`).
Checked by: tests/machine/copy/test_copy_engine.py, test_copy_hardware.py.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Swizzle, TensorMap
from tilewright.base.value import dataclass
from tilewright.machine.copy.swizzle import SPAN_BYTES, period_bytes, swizzled
from tilewright.machine.core.distinct import distinct
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Ranges
from tilewright.targets import Target

SLICE_BYTES = {"none": 0, "16B": 16, "32B": 32}
_PACKED = {"u4x16_align8": (2, 1, 1), "u4x16_align16": (16, 8, 16), "u6x16_align16": (16, 12, 16)}
"""Of packed variants: values in a unit, bytes of a unit in global memory, and in shared memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """The innermost run of a box.

    unit_values: how many values of dimension 0 a unit has; unit_bytes, shared_unit_bytes: of one unit in global and in
    shared memory; count: units in the row; pitch_bytes: from one row to the next in shared memory.
    """

    unit_values: int
    unit_bytes: int
    shared_unit_bytes: int
    count: int
    pitch_bytes: int

    @property
    def shared_bytes(self) -> int:
        return self.count * self.shared_unit_bytes

    @property
    def transaction_bytes(self) -> int:
        """What it adds to the mbarrier: of packed values without the gaps that they have in shared memory."""
        return self.count * self.unit_bytes


@dataclass(frozen=True, eq=False, slots=True)
class Box:
    """The part of a copy that all start coordinates share.

    row, row_count: the innermost run, and how many there are; counts, steps: units of each dimension, and the
    coordinates from one to the next; strides_bytes: of each dimension in the tensor, of dimension 0 those of a unit;
    transaction_bytes: what one copy adds to its barrier;
    global_bytes: of each byte of the box, its distance in the tensor from the box's first, in shared-memory order;
    global_ranges: the same as merged ranges; footprint_bytes: see `footprint_of`; tensor_map: whose box it is.
    """

    tensor_map: TensorMap
    row: Row
    row_count: int
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    transaction_bytes: int
    footprint_bytes: int
    global_bytes: NDArray[np.int64]
    global_ranges: Ranges


def row_of(tensor_map: TensorMap, inner_extent: int) -> Row:
    """The rows of a map's boxes. inner_extent: how many values of dimension 0 are asked for, before element strides.

    Raises EngineFault `tensor-map` where the row does not fit its swizzle or is not made of 16-byte pieces.
    """
    slice_bytes = SLICE_BYTES[tensor_map.interleave]
    if slice_bytes:
        return Row(1, slice_bytes, slice_bytes, inner_extent, inner_extent * slice_bytes)
    width = tensor_map.element.bytes
    values, unit_bytes, shared_unit_bytes = _PACKED.get(tensor_map.variant, (1, width, width))
    if inner_extent % values:
        raise EngineFault("MF007", "tensor-map", f"{inner_extent} packed values are no multiple of {values}")
    count = inner_extent // values
    inner_bytes = count * shared_unit_bytes
    if inner_bytes % 16:
        raise EngineFault("MF007", "tensor-map", f"the box's inner row of {inner_bytes} bytes is no multiple of 16")
    span = SPAN_BYTES[tensor_map.swizzle]
    if span and inner_bytes > span:
        raise EngineFault(
            "MF007", "tensor-map", f"the box's inner row of {inner_bytes} bytes exceeds the swizzle span {span}"
        )
    return Row(values, unit_bytes, shared_unit_bytes, count, max(inner_bytes, span))


def check_rank(tensor_map: TensorMap, facts: Target) -> tuple[int, ...]:
    """The map's element strides. facts: of the target that copies.

    Raises EngineFault `tensor-map` where rank, strides or extents do not fit together, and `tensor-extent` where a copy
    would raise CUDA_ERROR_ILLEGAL_INSTRUCTION, although the driver encodes the map.
    """
    rank = tensor_map.rank
    strides = tensor_map.element_strides or (1,) * rank
    if not (1 <= rank <= 5 and len(strides) == rank == len(tensor_map.strides_bytes) + 1):
        raise EngineFault("MF007", "tensor-map", f"rank {rank} does not fit its strides, box or element strides")
    if min(strides) < 1 or min(tensor_map.dims) < 1:
        raise EngineFault("MF007", "tensor-map", "an extent of the tensor or of the element strides is below 1")
    if max(strides) > facts.limit("tensor_map.element_stride_max"):
        raise EngineFault("MF007", "tensor-map", f"an element stride of {max(strides)} is no tensor map's")
    for stride in tensor_map.strides_bytes:
        if not 0 <= stride < facts.limit("tensor_map.stride_limit_bytes"):
            raise EngineFault("MF007", "tensor-map", f"a stride of {stride} bytes is no tensor map's")
    most = facts.limit("tensor_copy.extent_max")
    if max(tensor_map.dims) > most:
        raise EngineFault("MF007", "tensor-extent", f"an extent of {max(tensor_map.dims)} is beyond a copy's {most}")
    if SLICE_BYTES[tensor_map.interleave] and rank < 3:
        raise EngineFault("MF007", "tensor-map", f"interleave {tensor_map.interleave} takes rank 3 or more, not {rank}")
    return strides


def footprint_of(row: Row, row_count: int, swizzle: Swizzle) -> int:
    """Bytes from the destination to past the last row: whole spans, over which a swizzle spreads what is in them."""
    span = max(SPAN_BYTES[swizzle], 1)
    return -(-row_count * row.pitch_bytes // span) * span


def check_size(row: Row, row_count: int) -> None:
    """Raises EngineFault `tensor-map` for a box that no shared memory holds: nothing of that size is worked out."""
    if row_count * row.pitch_bytes > _MOST_BYTES:
        raise EngineFault("MF007", "tensor-map", f"a box of {row_count} rows of {row.pitch_bytes} bytes")


_MOST_BYTES = 1 << 22


@lru_cache(maxsize=256)
def box_of(tensor_map: TensorMap, facts: Target) -> Box:
    """The box of a map of tile mode, as a target with these facts copies it.

    Raises EngineFault `tensor-map` where its fields do not fit together.
    """
    strides, rank = check_rank(tensor_map, facts), tensor_map.rank
    if tensor_map.im2col is not None or len(tensor_map.box) != rank:
        raise EngineFault("MF007", "tensor-map", f"rank {rank} does not fit its strides, box or element strides")
    if min(tensor_map.box) < 1:
        raise EngineFault("MF007", "tensor-map", "an extent of the box is below 1")
    interleaved = SLICE_BYTES[tensor_map.interleave] > 0
    steps = strides if interleaved else (1, *strides[1:])
    counts = [-(-extent // step) for extent, step in zip(tensor_map.box, steps, strict=True)]
    row = row_of(tensor_map, counts[0])
    counts[0] = row.count
    if interleaved:
        counts[rank - 2] = facts.limit("tensor_copy.slice_groups")
    strides_bytes = (row.unit_bytes, *tensor_map.strides_bytes)
    row_count = prod(counts[1:])
    check_size(row, row_count)

    in_unit = np.arange(row.unit_bytes, dtype=np.int64)
    starts = np.arange(row.count, dtype=np.int64) * (row.unit_bytes * steps[0])
    in_row = (starts[:, None] + in_unit[None, :]).reshape(-1)
    rows = np.zeros(1, np.int64)
    for count, step, stride in zip(counts[1:], steps[1:], strides_bytes[1:], strict=True):
        rows = (np.arange(count, dtype=np.int64)[:, None] * (step * stride) + rows[None, :]).reshape(-1)
    global_bytes = (rows[:, None] + in_row[None, :]).reshape(-1)
    return Box(
        tensor_map=tensor_map,
        row=row,
        row_count=row_count,
        counts=tuple(counts),
        steps=tuple(steps),
        strides_bytes=strides_bytes,
        transaction_bytes=row_count * row.transaction_bytes,
        footprint_bytes=footprint_of(row, row_count, tensor_map.swizzle),
        global_bytes=_frozen(global_bytes),
        global_ranges=merged(global_bytes),
    )


def extents_of(tensor_map: TensorMap, row: Row) -> tuple[int, ...]:
    """The tensor's extents, that of dimension 0 in units."""
    return (-(-tensor_map.dims[0] // row.unit_values), *tensor_map.dims[1:])


def box_inside(tensor_map: TensorMap, box: Box, coordinates: tuple[int, ...]) -> bool:
    """Is every unit of the box inside the tensor? coordinates: of the box's first unit, dimension 0 in units."""
    return all(
        start >= 0 and start + (count - 1) * step < extent
        for start, count, step, extent in zip(
            coordinates, box.counts, box.steps, extents_of(tensor_map, box.row), strict=True
        )
    )


def inside(tensor_map: TensorMap, box: Box, coordinates: tuple[int, ...], inner_extent: int) -> NDArray[np.bool_]:
    """Of each byte of the box, in the order of `global_bytes`: is it inside the tensor?

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
    return (rows[:, None] & np.repeat(axes[0], box.row.unit_bytes)[None, :]).reshape(-1)


def shared_addresses(row: Row, row_count: int, tensor_map: TensorMap, address: int) -> NDArray[np.int64]:
    """Absolute shared addresses of the bytes of rows, swizzled, for a destination (or source) at `address`."""
    phase = address % period_bytes(tensor_map.swizzle)
    return _swizzled_rows(row, row_count, tensor_map.swizzle, phase) + (address - phase)


def shared_ranges(row: Row, row_count: int, tensor_map: TensorMap, address: int) -> Ranges:
    """The bytes at `shared_addresses`, as merged ranges."""
    phase = address % period_bytes(tensor_map.swizzle)
    return shifted(_swizzled_ranges(row, row_count, tensor_map.swizzle, phase), address - phase)


@lru_cache(maxsize=1024)
def box_ranges(box: Box, address: int) -> Ranges:
    """The bytes of shared memory that a box at `address` takes."""
    return shared_ranges(box.row, box.row_count, box.tensor_map, address)


@lru_cache(maxsize=256)
def _swizzled_rows(row: Row, row_count: int, mode: Swizzle, phase: int) -> NDArray[np.int64]:
    in_unit = np.arange(row.unit_bytes, dtype=np.int64)
    in_row = (np.arange(row.count, dtype=np.int64)[:, None] * row.shared_unit_bytes + in_unit[None, :]).reshape(-1)
    rows = np.arange(row_count, dtype=np.int64) * row.pitch_bytes
    return _frozen(swizzled((rows[:, None] + in_row[None, :]).reshape(-1) + phase, mode))


@lru_cache(maxsize=256)
def _swizzled_ranges(row: Row, row_count: int, mode: Swizzle, phase: int) -> Ranges:
    return merged(_swizzled_rows(row, row_count, mode, phase))


def merged(addresses: NDArray[np.int64]) -> Ranges:
    """Byte addresses, in any order and repeated or not, as sorted disjoint half-open ranges."""
    if addresses.size == 0:
        return ()
    steps = addresses[1:] - addresses[:-1]
    if steps.size and steps.min() <= 0:
        addresses = distinct(addresses)
        steps = addresses[1:] - addresses[:-1]
    breaks = np.flatnonzero(steps != 1)
    starts = addresses[np.concatenate((np.zeros(1, np.int64), breaks + 1))]
    ends = addresses[np.concatenate((breaks, np.full(1, addresses.size - 1, np.int64)))] + 1
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))


def shifted(ranges: Ranges, distance: int) -> Ranges:
    """`ranges` moved up by `distance` bytes."""
    return tuple([(start + distance, end + distance) for start, end in ranges])


def _frozen(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.setflags(write=False)
    return array
