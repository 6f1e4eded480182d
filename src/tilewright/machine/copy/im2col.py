"""Which pixels does one column of an im2col map cover, and where do their channels stand in the tensor?

Theory: PTX ISA 5.5.4 "im2col mode". The bounding box spans D, H and W: from the tensor's first pixel plus the lower
corner to its last pixel plus the upper corner. A column begins at the pixel that the coordinates name and walks W, then
H, then D through the bounding box, then on to the next image, by the element strides; of each pixel it takes
`channels_per_pixel` channels, next to each other whatever their element stride. The instruction's offsets (a filter's
tap, in pixels) move the pixel that is read, not the walk. What is then outside the tensor is filled, and counted.

Without interleave dimension 0 holds the channels, the last one the images, the ones between W, H and D. With interleave
a pixel is one slice: W, H and D come first, then the groups of channels, then the images.

Not handled: modes `im2col::w` and `im2col::w::128` (compute capability 10.0), which are refused by name.
Checked by: tests/machine/copy/test_copy_im2col.py; test_copy_hardware.py, against what an H200 left.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Im2col, TensorMap
from tilewright.base.value import dataclass
from tilewright.machine.copy.box import SLICE_BYTES, Row, check_rank, check_size, row_of
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.targets import Target

_RANKS = (3, 4, 5)


@dataclass(frozen=True, slots=True)
class Column:
    """The part of a copy that all start coordinates share.

    row, row_count: the channels of one pixel, and how many pixels; spatial: the dimensions W, H and D; batch: that of
    the images; steps, batch_step: their element strides; first, last: corners of the bounding box, as coordinates;
    strides_bytes: of each dimension in the tensor, of dimension 0 those of a unit.
    """

    row: Row
    row_count: int
    spatial: tuple[int, ...]
    batch: int
    steps: tuple[int, ...]
    batch_step: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    strides_bytes: tuple[int, ...]

    @property
    def transaction_bytes(self) -> int:
        return self.row_count * self.row.transaction_bytes


@lru_cache(maxsize=256)
def column_of(tensor_map: TensorMap, facts: Target) -> Column:
    """The column of an im2col map, as a target with these facts copies it.

    Raises EngineFault where its fields do not fit together.
    """
    im2col, rank = tensor_map.im2col, tensor_map.rank
    if im2col is None:
        raise EngineFault("TM202", "tensor-map-mode", "an im2col copy through a tensor map of tile mode")
    if im2col.mode != "im2col":
        raise EngineFault("MF007", "tensor-map", f"the machine has no model of mode {im2col.mode}")
    strides = check_rank(tensor_map, facts)
    if rank not in _RANKS or not len(im2col.lower_corner) == len(im2col.upper_corner) == rank - 2:
        raise EngineFault(
            "MF007",
            "tensor-map",
            f"im2col takes rank 3 to 5 and corners of rank minus two entries, not rank {rank} and "
            f"{im2col.lower_corner}, {im2col.upper_corner}",
        )
    if im2col.channels_per_pixel < 1 or im2col.pixels_per_column < 1:
        raise EngineFault("MF007", "tensor-map", "a column has no pixels, or a pixel no channels")
    most = facts.limit("tensor_map.im2col_pixels_max")
    if im2col.pixels_per_column > most:
        raise EngineFault("MF007", "tensor-map", f"{im2col.pixels_per_column} pixels are above a column's {most}")
    interleaved = SLICE_BYTES[tensor_map.interleave] > 0
    row = row_of(tensor_map, 1 if interleaved else im2col.channels_per_pixel)
    check_size(row, im2col.pixels_per_column)
    spatial = tuple(range(rank - 2)) if interleaved else tuple(range(1, rank - 1))
    first = im2col.lower_corner
    last = tuple(
        tensor_map.dims[dimension] - 1 + corner for dimension, corner in zip(spatial, im2col.upper_corner, strict=True)
    )
    if any(low > high for low, high in zip(first, last, strict=True)):
        raise EngineFault("MF007", "tensor-map", f"the bounding box from {first} to {last} is empty")
    return Column(
        row=row,
        row_count=im2col.pixels_per_column,
        spatial=spatial,
        batch=rank - 1,
        steps=tuple(strides[dimension] for dimension in spatial),
        batch_step=strides[rank - 1],
        first=first,
        last=last,
        strides_bytes=(row.unit_bytes, *tensor_map.strides_bytes),
    )


def stays_inside(im2col: Im2col) -> bool:
    """May a store use the map? Its bounding box must not leave the tensor (PTX ISA 9.7.9.27)."""
    return min(im2col.lower_corner) >= 0 and max(im2col.upper_corner) <= 0


def check_start(tensor_map: TensorMap, coordinates: tuple[int, ...], facts: Target) -> None:
    """Raises EngineFault `column-start` where a column begins outside its bounding box: an H200 answers that with
    CUDA_ERROR_ILLEGAL_INSTRUCTION. Images may be any."""
    column = column_of(tensor_map, facts)
    for name, dimension, first, last in zip("WHD", column.spatial, column.first, column.last, strict=False):
        at = coordinates[dimension]
        if not first <= at <= last:
            raise EngineFault(
                "MF007",
                "column-start",
                f"an im2col copy starts at {name} {at}, outside its bounding box from {first} to {last}",
            )


def check_offsets(tensor_map: TensorMap, offsets: tuple[int, ...], facts: Target) -> None:
    """Raises EngineFault `column-offset` where an offset is beyond what PTX allows at the map's rank."""
    limits = facts.limits("tensor_copy.im2col_offset_limits")
    limit = limits[_RANKS.index(tensor_map.rank)] if tensor_map.rank in _RANKS else 0
    if min(offsets) < 0 or max(offsets) >= limit:
        raise EngineFault("MF007", "column-offset", f"im2col offsets {offsets} are not in 0 to {limit - 1}")


@lru_cache(maxsize=256)
def pixels(
    tensor_map: TensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...], facts: Target
) -> NDArray[np.int64]:
    """The coordinates of every pixel of a column, offsets added, dimension 0 in units. [pixels, rank]"""
    column = column_of(tensor_map, facts)
    at, images = [coordinates[dimension] for dimension in column.spatial], coordinates[column.batch]
    found = np.empty((column.row_count, tensor_map.rank), np.int64)
    found[:] = coordinates
    found[:, 0] //= column.row.unit_values
    walked: list[list[int]] = []
    for _ in range(column.row_count):
        walked.append([*at, images])
        for axis, (step, first, last) in enumerate(zip(column.steps, column.first, column.last, strict=True)):
            at[axis] += step
            if at[axis] <= last:
                break
            at[axis] = first
        else:
            images += column.batch_step
    found[:, [*column.spatial, column.batch]] = walked
    found[:, list(column.spatial)] += offsets
    found.setflags(write=False)
    return found


def column_bytes(
    tensor_map: TensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...], inner_extent: int, facts: Target
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Of each byte of a column, in shared-memory order: its distance from the tensor's base, and is it inside?

    inner_extent: the extent of dimension 0, in units, to hold the column against.
    """
    column, at = column_of(tensor_map, facts), pixels(tensor_map, coordinates, offsets, facts)
    extents = np.array((inner_extent, *tensor_map.dims[1:]), np.int64)
    fits: NDArray[np.bool_] = (at >= 0) & (at < extents)
    starts = at @ np.array(column.strides_bytes, np.int64)
    units = np.arange(column.row.count, dtype=np.int64)
    in_unit = np.arange(column.row.unit_bytes, dtype=np.int64)
    in_row = (units[:, None] * column.row.unit_bytes + in_unit[None, :]).reshape(-1)
    # With interleave dimension 0 is W, and a row is one slice.
    inner = units + (0 if SLICE_BYTES[tensor_map.interleave] else at[0, 0])
    whole_row: NDArray[np.bool_] = np.asarray(fits[:, 0 if SLICE_BYTES[tensor_map.interleave] else 1 :].all(axis=1))
    in_extent: NDArray[np.bool_] = (inner >= 0) & (inner < inner_extent)
    keep: NDArray[np.bool_] = np.repeat(whole_row[:, None] & in_extent[None, :], column.row.unit_bytes, axis=1)
    return (starts[:, None] + in_row[None, :]).reshape(-1), keep.reshape(-1)
