"""What does one `cp.async.bulk.tensor` in tile mode move: which bytes, from where, to where, and how many are counted?

Theory: PTX ISA 5.5 "Tensors" and 9.7.9.27 "cp.async.bulk.tensor". A load fills what lies outside the tensor and counts
the full box; a store leaves it out. Swizzle is a function of absolute shared addresses (`swizzle`), the box's geometry
does not depend on the coordinates (`box`).

Pure functions of bytes: no barrier, no event, no time. Addresses in shared memory are CTA-relative byte offsets;
offsets in global memory count from the tensor's base address. Misuse raises EngineFault: `coordinate-alignment`
(CUDA_ERROR_ILLEGAL_INSTRUCTION on an H200), `shared-alignment`, `shared-range`, `global-range`,
`store-coordinate`, `tensor-map`.

Elements are copied as they are: a map of type TFLOAT32 would round each element to 10 bits of fraction; `TensorMap` has
no such type.

Modes `.tile::gather4` and `.tile::scatter4` (PTX ISA 5.5.1.2): a map of rank 2 whose box has one row; the copy names
one column and four rows, which stand in shared memory as four rows of one box.

Not handled: im2col, packed elements, reductions (`cp.reduce.async.bulk.tensor` moves what a store
moves; the caller combines), L2 hints and promotion (they change no byte).
Checked by: `tests/machine/test_copy_engine.py`, byte for byte against what loads left in an H200's shared memory and
what stores left in its global memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.base.element import Element
from tilewright.base.plan import TensorMap
from tilewright.machine.box import (
    Box,
    box_inside,
    box_of,
    inside,
    merged,
    shared_addresses,
    shared_ranges,
    shifted,
)
from tilewright.machine.engine_fault import EngineFault
from tilewright.machine.event import Ranges
from tilewright.targets import target

SHARED_ALIGN_BYTES = target("sm_90a").limit("tensor_map.shared_alignment_bytes")
"""Alignment of a tensor copy's shared address (PTX ISA 9.7.9.27.1; CUDA programming guide, tensor memory access)."""


@dataclass(frozen=True, eq=False, slots=True)
class BoxLoad:
    """What a load does. Arrays are of one length: byte `values[i]` goes to shared address `shared_offsets[i]`.

    transaction_bytes: what the barrier is told (the full box); global_ranges: bytes read, from the tensor's base;
    shared_ranges: bytes written.
    """

    shared_offsets: NDArray[np.int64]
    values: NDArray[np.uint8]
    transaction_bytes: int
    global_ranges: Ranges
    shared_ranges: Ranges


@dataclass(frozen=True, eq=False, slots=True)
class BoxStore:
    """What a store does: byte `values[i]` goes to offset `global_offsets[i]` from the tensor's base.

    shared_ranges: bytes read (of the whole box); global_ranges: bytes written.
    """

    global_offsets: NDArray[np.int64]
    values: NDArray[np.uint8]
    shared_ranges: Ranges
    global_ranges: Ranges


TileMode = Literal["tile", "rows4"]
"""rows4: `.tile::gather4` of a load, `.tile::scatter4` of a store."""


def footprint(tensor_map: TensorMap, address: int, mode: TileMode) -> tuple[Ranges, int]:
    """The shared-memory bytes of a copy to or from `address`, and what it adds to its mbarrier."""
    box = _four_rows(tensor_map) if mode == "rows4" else tensor_map
    return shared_ranges(box, address), box_of(box).transaction_bytes


def transaction_bytes(tensor_map: TensorMap) -> int:
    """Bytes one load adds to its mbarrier: the full box, whatever is out of bounds."""
    return box_of(tensor_map).transaction_bytes


def footprint_bytes(tensor_map: TensorMap) -> int:
    """Bytes of shared memory that a box takes: more than the transaction where rows are narrower than the swizzle."""
    return box_of(tensor_map).footprint_bytes


def load_box(
    tensor_map: TensorMap, coordinates: tuple[int, ...], tensor: NDArray[np.uint8], destination_address: int,
    mode: TileMode = "tile",
) -> BoxLoad:  # fmt: skip
    """Global to shared: `cp.async.bulk.tensor.Nd.shared::cluster.global.tile`.

    coordinates: of the box's first unit, innermost first, signed. tensor: 1-D view of the buffer's bytes from the
    tensor's base address on. Raises EngineFault where the box reads inside the tensor but beyond `tensor`.
    """
    if mode == "rows4":
        return _gather(tensor_map, coordinates, tensor, destination_address)
    box = _checked(tensor_map, coordinates, destination_address)
    origin = sum(at * stride for at, stride in zip(coordinates, box.strides_bytes, strict=True))
    if box_inside(tensor_map, box, coordinates):
        offsets = box.global_bytes + origin
        ranges = shifted(box.global_ranges, origin)
        _check_end(ranges, tensor.size)
        values = tensor[offsets]
    else:
        keep = inside(tensor_map, box, coordinates, tensor_map.dims[0])
        read = box.global_bytes[keep] + origin
        ranges = merged(read)
        _check_end(ranges, tensor.size)
        values = _fill(tensor_map, keep.size)
        values[keep] = tensor[read]
    return BoxLoad(
        shared_offsets=shared_addresses(tensor_map, destination_address),
        values=values,
        transaction_bytes=box.transaction_bytes,
        global_ranges=ranges,
        shared_ranges=shared_ranges(tensor_map, destination_address),
    )


def store_box(
    tensor_map: TensorMap, coordinates: tuple[int, ...], shared: NDArray[np.uint8], source_address: int,
    mode: TileMode = "tile",
) -> BoxStore:  # fmt: skip
    """Shared to global: `cp.async.bulk.tensor.Nd.global.shared::cta.tile.bulk_group`.

    shared: the CTA's shared memory, from offset 0. What lies outside the tensor is not written; along dimension 0 the
    edge is rounded up to 16 bytes, so a tensor whose inner extent is no multiple of 16 bytes is overrun. Raises
    EngineFault on a negative start coordinate, which PTX ISA 9.7.9.27 forbids for stores and which an H200 answers with
    CUDA_ERROR_ILLEGAL_INSTRUCTION.
    """
    if mode == "rows4":
        return _scatter(tensor_map, coordinates, shared, source_address)
    box = _checked(tensor_map, coordinates, source_address)
    if min(coordinates) < 0:
        raise EngineFault("MF007", "store-coordinate", f"a tensor store starts at {coordinates}: negative")
    ranges_read = shared_ranges(tensor_map, source_address)
    if ranges_read[-1][1] > shared.size:
        raise EngineFault(
            "MF001",
            "shared-range",
            f"a tensor store reads to {ranges_read[-1][1]}, past {shared.size} bytes of shared memory",
        )
    origin = sum(at * stride for at, stride in zip(coordinates, box.strides_bytes, strict=True))
    addresses = shared_addresses(tensor_map, source_address)
    if box_inside(tensor_map, box, coordinates):
        return BoxStore(
            global_offsets=box.global_bytes + origin,
            values=shared[addresses],
            shared_ranges=ranges_read,
            global_ranges=shifted(box.global_ranges, origin),
        )
    # The engine writes 16-byte chunks whole: the chunk that holds the last element of a row goes out as it is.
    inner_extent = -(-tensor_map.dims[0] * box.unit_bytes // 16) * 16 // box.unit_bytes
    keep = inside(tensor_map, box, coordinates, inner_extent)
    written = box.global_bytes[keep] + origin
    return BoxStore(
        global_offsets=written,
        values=shared[addresses[keep]],
        shared_ranges=ranges_read,
        global_ranges=merged(written),
    )


def _four_rows(tensor_map: TensorMap) -> TensorMap:
    """The map whose box is the four rows of a gather or scatter."""
    if tensor_map.rank != 2 or tensor_map.box[1] != 1 or tensor_map.interleave != "none":
        raise EngineFault(
            "TM202",
            "tensor-map-field",
            f"gather4 and scatter4 take a map of rank 2 with a box of one row, not {tensor_map.box}",
        )
    return replace(tensor_map, box=(tensor_map.box[0], 4))


def _row_offsets(
    tensor_map: TensorMap, coordinates: tuple[int, ...], inner_extent: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Distance from the tensor's base of every byte of the four rows, and whether it is inside the tensor."""
    box, width = box_of(_four_rows(tensor_map)), tensor_map.element.bytes
    if len(coordinates) != 5:
        raise EngineFault("MF007", "tensor-map", f"{len(coordinates)} coordinates for one column and four rows")
    column, *rows = coordinates
    inner = np.arange(box.counts[0] * width, dtype=np.int64) + column * width
    inside_row = (inner >= 0) & (inner < inner_extent * width)
    starts = np.array(rows, np.int64)
    offsets = (starts[:, None] * box.strides_bytes[1] + inner[None, :]).reshape(-1)
    keep = (((starts >= 0) & (starts < tensor_map.dims[1]))[:, None] & inside_row[None, :]).reshape(-1)
    return offsets, keep


def _gather(tensor_map: TensorMap, coordinates: tuple[int, ...], tensor: NDArray[np.uint8], address: int) -> BoxLoad:
    four = _four_rows(tensor_map)
    _checked(four, coordinates[:2], address)
    offsets, keep = _row_offsets(tensor_map, coordinates, tensor_map.dims[0])
    read = offsets[keep]
    ranges = merged(np.unique(read))
    _check_end(ranges, tensor.size)
    values = _fill(tensor_map, keep.size)
    values[keep] = tensor[read]
    return BoxLoad(
        shared_offsets=shared_addresses(four, address),
        values=values,
        transaction_bytes=box_of(four).transaction_bytes,
        global_ranges=ranges,
        shared_ranges=shared_ranges(four, address),
    )


def _scatter(tensor_map: TensorMap, coordinates: tuple[int, ...], shared: NDArray[np.uint8], address: int) -> BoxStore:
    four = _four_rows(tensor_map)
    _checked(four, coordinates[:2], address)
    inner_extent = -(-tensor_map.dims[0] * tensor_map.element.bytes // 16) * 16 // tensor_map.element.bytes
    offsets, keep = _row_offsets(tensor_map, coordinates, inner_extent)
    addresses = shared_addresses(four, address)
    written = offsets[keep]
    return BoxStore(
        global_offsets=written,
        values=shared[addresses[keep]],
        shared_ranges=shared_ranges(four, address),
        global_ranges=merged(np.unique(written)),
    )


def _checked(tensor_map: TensorMap, coordinates: tuple[int, ...], address: int) -> Box:
    box = box_of(tensor_map)
    if len(coordinates) != tensor_map.rank:
        raise EngineFault(
            "MF007", "tensor-map", f"{len(coordinates)} coordinates for a tensor map of rank {tensor_map.rank}"
        )
    if address % SHARED_ALIGN_BYTES:
        raise EngineFault(
            "AL201",
            "shared-alignment",
            f"shared address {address} of a tensor copy is no multiple of {SHARED_ALIGN_BYTES}",
        )
    if address < 0:
        raise EngineFault("MF001", "shared-range", f"shared address {address} of a tensor copy is negative")
    inner = coordinates[0] * tensor_map.element.bytes
    if tensor_map.interleave == "none" and inner % 16:
        raise EngineFault(
            "AL202",
            "coordinate-alignment",
            f"start coordinate {coordinates[0]} of dimension 0 is {inner} bytes in, no multiple of 16",
        )
    return box


def _check_end(ranges: Ranges, size: int) -> None:
    if ranges and ranges[-1][1] > size:
        raise EngineFault(
            "MF001", "global-range", f"a tensor copy reads to byte {ranges[-1][1]} of a tensor whose buffer has {size}"
        )


def _fill(tensor_map: TensorMap, byte_count: int) -> NDArray[np.uint8]:
    if tensor_map.out_of_bounds == "zero":
        return np.zeros(byte_count, np.uint8)
    return _nan_fill(tensor_map.element, byte_count)


def _nan_fill(element: Element, byte_count: int) -> NDArray[np.uint8]:
    if not element.is_float:
        raise EngineFault("MF007", "tensor-map", f"NaN fill needs a floating-point element, not {element.value}")
    return np.full(byte_count // 2, _NAN_HALF, np.uint16).view(np.uint8)


# The special NaN of CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA: these 16 bits, repeated over the element.
# Measured on an H200 for f16, bf16, f32 and f64.
_NAN_HALF = 0x7FF7
