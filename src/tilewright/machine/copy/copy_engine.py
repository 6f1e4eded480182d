"""What does one `cp.async.bulk.tensor` move: which bytes, from where, to where, and how many are counted?

Theory: PTX ISA 5.5 "Tensors" and 9.7.9.27 "cp.async.bulk.tensor". A load fills what lies outside the tensor and counts
the full box; a store leaves it out. Swizzle is a function of absolute shared addresses (`swizzle`), the geometry of a
box (`box`) does not depend on the coordinates, that of an im2col column (`im2col`) does.

Pure functions of bytes: no barrier, no event, no time. Addresses in shared memory are CTA-relative byte offsets;
offsets in global memory count from the tensor's base address. Misuse raises EngineFault: `coordinate-alignment`
(CUDA_ERROR_ILLEGAL_INSTRUCTION on an H200), `shared-alignment`, `shared-range`, `global-range`,
`store-coordinate`, `column-start`, `column-offset`, `tensor-extent`, `tensor-map`, `tensor-map-mode`.

Modes `.tile::gather4` and `.tile::scatter4` (PTX ISA 5.5.1.2): a map of rank 2 whose box has one row; the copy names
one column and four rows, which stand in shared memory as four rows of one box. Modes `.im2col` of loads and
`.im2col_no_offs` of stores: PTX ISA 5.5.4.

Not handled: stores of values of 6 bits (`.b6p2x16`) and modes `.im2col::w`, refused by name; reductions
(`cp.reduce.async.bulk.tensor` moves what a store moves; the caller combines), L2 hints and promotion (they change no
byte).
Checked by: tests/machine/copy/test_copy_engine.py and test_copy_hardware.py, byte for byte against what loads left in
an H200's shared memory, what they told its barriers, and what stores left in its global memory.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import ElementVariant, TensorMap
from tilewright.base.value import dataclass
from tilewright.machine.copy.box import (
    Box,
    Row,
    box_inside,
    box_of,
    box_ranges,
    extents_of,
    footprint_of,
    inside,
    merged,
    shared_addresses,
    shared_ranges,
    shifted,
)
from tilewright.machine.copy.im2col import check_offsets, check_start, column_bytes, column_of, stays_inside
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Ranges
from tilewright.targets import Target


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


CopyMode = Literal["tile", "rows4", "im2col"]
"""rows4: `.tile::gather4` of a load, `.tile::scatter4` of a store."""


def footprint(tensor_map: TensorMap, address: int, facts: Target, mode: CopyMode) -> tuple[Ranges, int]:
    """The shared-memory bytes of a copy to or from `address`, and what it adds to its mbarrier."""
    if mode == "tile" and tensor_map.im2col is None:
        box = box_of(tensor_map, facts)
        return box_ranges(box, address), box.transaction_bytes
    four = _four_rows(tensor_map, facts) if mode == "rows4" else tensor_map
    row, row_count = _rows(four, facts)
    return shared_ranges(row, row_count, four, address), row_count * row.transaction_bytes


def transaction_bytes(tensor_map: TensorMap, facts: Target) -> int:
    """Bytes one load adds to its mbarrier: the full box or column, whatever is out of bounds."""
    row, row_count = _rows(tensor_map, facts)
    return row_count * row.transaction_bytes


def footprint_bytes(tensor_map: TensorMap, facts: Target) -> int:
    """Bytes of shared memory that a copy takes: more than the transaction where rows are narrower than the swizzle."""
    row, row_count = _rows(tensor_map, facts)
    return footprint_of(row, row_count, tensor_map.swizzle)


def load_box(
    tensor_map: TensorMap, coordinates: tuple[int, ...], tensor: NDArray[np.uint8], destination_address: int,
    facts: Target, mode: CopyMode = "tile", offsets: tuple[int, ...] = (),
) -> BoxLoad:  # fmt: skip
    """Global to shared: `cp.async.bulk.tensor.Nd.shared::cluster.global.tile`, or `.im2col`.

    coordinates: of the box's first unit, innermost first, signed. tensor: 1-D view of the buffer's bytes from the
    tensor's base address on. facts: of the target that copies. offsets: of an im2col copy, one for each of W, H and D.
    Raises EngineFault where the box reads inside the tensor but beyond `tensor`.
    """
    if offsets and mode == "im2col":
        check_offsets(tensor_map, offsets, facts)
    placed = _placed(tensor_map, coordinates, destination_address, facts, mode, offsets, edge_bytes=1)
    four = placed.tensor_map
    if placed.ranges:
        _check_reach(placed.ranges[-1][1], tensor.size)
    if placed.keep is None:
        values = _converted(tensor[placed.global_bytes], four.variant, facts)
    else:
        values = _fill(four, placed.keep.size, facts)
        values[placed.keep] = _converted(tensor[placed.global_bytes[placed.keep]], four.variant, facts)
    return BoxLoad(
        shared_offsets=shared_addresses(placed.row, placed.row_count, four, destination_address),
        values=values,
        transaction_bytes=placed.row_count * placed.row.transaction_bytes,
        global_ranges=placed.ranges,
        shared_ranges=shared_ranges(placed.row, placed.row_count, four, destination_address),
    )


def load_reach(
    tensor_map: TensorMap, coordinates: tuple[int, ...], tensor_bytes: int, destination_address: int,
    facts: Target, mode: CopyMode = "tile", offsets: tuple[int, ...] = (),
) -> tuple[Ranges, int]:  # fmt: skip
    """The bytes that `load_box` reads, moving nothing: ranges, and how far beyond the tensor's base they lie.

    Raises what `load_box` raises. tensor_bytes: of the buffer, from the tensor's base on.
    """
    if offsets and mode == "im2col":
        check_offsets(tensor_map, offsets, facts)
    if mode == "tile" and tensor_map.im2col is None and len(coordinates) == tensor_map.rank:
        box = box_of(tensor_map, facts)
        _check_address(destination_address, facts)
        ranges, origin, whole = _box_reach(box, coordinates, 1)
        if ranges:
            _check_reach(ranges[-1][1] + origin, tensor_bytes)
        if not whole:
            _fill(tensor_map, 0, facts)
        return ranges, origin
    placed = _placed(tensor_map, coordinates, destination_address, facts, mode, offsets, edge_bytes=1)
    if placed.ranges:
        _check_reach(placed.ranges[-1][1], tensor_bytes)
    if placed.keep is not None:
        _fill(placed.tensor_map, 0, facts)
    return placed.ranges, 0


@lru_cache(maxsize=1024)
def _box_reach(box: Box, coordinates: tuple[int, ...], edge_bytes: int) -> tuple[Ranges, int, bool]:
    """The bytes of a box that lie inside the tensor: ranges, how far beyond the tensor's base they lie, and whether the
    whole box does. edge_bytes: see `_placed`."""
    row = box.row
    _check_coordinate(box.tensor_map, coordinates[0], row)
    starts, origin = _placed_box(box, coordinates)
    if box_inside(box.tensor_map, box, starts):
        return box.global_ranges, origin, True
    keep = inside(box.tensor_map, box, starts, _inner_extent(box.tensor_map, row, edge_bytes))
    return merged(box.global_bytes[keep] + origin), 0, False


def _check_reach(end: int, tensor_bytes: int) -> None:
    if end > tensor_bytes:
        raise EngineFault(
            "MF001",
            "global-range",
            f"a tensor copy reads to byte {end} of a tensor whose buffer has {tensor_bytes}",
        )


def store_box(
    tensor_map: TensorMap, coordinates: tuple[int, ...], shared: NDArray[np.uint8], source_address: int,
    facts: Target, mode: CopyMode = "tile",
) -> BoxStore:  # fmt: skip
    """Shared to global: `cp.async.bulk.tensor.Nd.global.shared::cta.tile.bulk_group`, or `.im2col_no_offs`.

    shared: the CTA's shared memory, from offset 0. What lies outside the tensor is not written; along dimension 0 the
    edge is rounded up to 16 bytes, so a tensor whose inner extent is no multiple of 16 bytes is overrun. Raises
    EngineFault on a negative start coordinate, which PTX ISA 9.7.9.27 forbids for stores and which an H200 answers with
    CUDA_ERROR_ILLEGAL_INSTRUCTION.
    """
    placed, ranges_read = _placed_store(tensor_map, coordinates, shared.size, source_address, facts, mode)
    addresses = shared_addresses(placed.row, placed.row_count, placed.tensor_map, source_address)
    keep = slice(None) if placed.keep is None else placed.keep
    return BoxStore(
        global_offsets=placed.global_bytes[keep],
        values=shared[addresses[keep]],
        shared_ranges=ranges_read,
        global_ranges=placed.ranges,
    )


def store_reach(
    tensor_map: TensorMap,
    coordinates: tuple[int, ...],
    shared_bytes: int,
    source_address: int,
    facts: Target,
    mode: CopyMode = "tile",
) -> tuple[Ranges, Ranges, int]:
    """The bytes that `store_box` reads and writes, moving nothing; the latter as ranges, with how far beyond the
    tensor's base they lie. Raises what it raises. shared_bytes: of the CTA."""
    if mode == "tile" and tensor_map.im2col is None and len(coordinates) == tensor_map.rank:
        _check_stored(tensor_map, mode)
        box = box_of(tensor_map, facts)
        _check_address(source_address, facts)
        ranges, origin, _ = _box_reach(box, coordinates, _store_edge_bytes(facts))
        _check_start(coordinates, mode)
        ranges_read = box_ranges(box, source_address)
        _check_source(ranges_read, shared_bytes)
        return ranges_read, ranges, origin
    placed, ranges_read = _placed_store(tensor_map, coordinates, shared_bytes, source_address, facts, mode)
    return ranges_read, placed.ranges, 0


def _placed_store(
    tensor_map: TensorMap,
    coordinates: tuple[int, ...],
    shared_bytes: int,
    source_address: int,
    facts: Target,
    mode: CopyMode,
) -> tuple[_Placed, Ranges]:
    """Where a store writes, and what it reads of shared memory."""
    _check_stored(tensor_map, mode)
    placed = _placed(tensor_map, coordinates, source_address, facts, mode, (), _store_edge_bytes(facts))
    _check_start(coordinates, mode)
    ranges_read = shared_ranges(placed.row, placed.row_count, placed.tensor_map, source_address)
    _check_source(ranges_read, shared_bytes)
    return placed, ranges_read


def _check_stored(tensor_map: TensorMap, mode: CopyMode) -> None:
    if tensor_map.variant in ("u4x16_align16", "u6x16_align16"):
        raise EngineFault("MF007", "tensor-map", f"the machine has no model of stores of {tensor_map.variant}")
    if mode == "im2col" and tensor_map.im2col is not None and not stays_inside(tensor_map.im2col):
        raise EngineFault("MF007", "tensor-map", "an im2col store through a map whose bounding box leaves the tensor")


def _check_start(coordinates: tuple[int, ...], mode: CopyMode) -> None:
    if mode != "rows4" and min(coordinates) < 0:
        raise EngineFault("MF007", "store-coordinate", f"a tensor store starts at {coordinates}: negative")


def _check_source(ranges_read: Ranges, shared_bytes: int) -> None:
    if ranges_read[-1][1] > shared_bytes:
        raise EngineFault(
            "MF001",
            "shared-range",
            f"a tensor store reads to {ranges_read[-1][1]}, past {shared_bytes} bytes of shared memory",
        )


@dataclass(frozen=True, eq=False, slots=True)
class _Placed:
    """A copy's bytes. tensor_map: the map, of rows4 the one of four rows; global_bytes: of each byte in shared-memory
    order, its distance from the tensor's base; keep: which of them are inside, None for all; ranges: those inside."""

    tensor_map: TensorMap
    row: Row
    row_count: int
    global_bytes: NDArray[np.int64]
    keep: NDArray[np.bool_] | None
    ranges: Ranges


def _placed(
    tensor_map: TensorMap, coordinates: tuple[int, ...], address: int, facts: Target, mode: CopyMode,
    offsets: tuple[int, ...], edge_bytes: int,
) -> _Placed:  # fmt: skip
    """edge_bytes: what the tensor's edge along dimension 0 is rounded up to."""
    four = _four_rows(tensor_map, facts) if mode == "rows4" else tensor_map
    row, row_count = _rows(four, facts)
    if (mode == "im2col") != (four.im2col is not None):
        raise EngineFault("TM202", "tensor-map-mode", f"{_a_mode(mode)} copy through a tensor map of another mode")
    expected = 5 if mode == "rows4" else four.rank
    if len(coordinates) != expected:
        raise EngineFault(
            "MF007",
            "tensor-map",
            f"{len(coordinates)} coordinates for one column and four rows"
            if mode == "rows4"
            else f"{len(coordinates)} coordinates for a tensor map of rank {four.rank}",
        )
    _check_address(address, facts)
    _check_coordinate(four, coordinates[0], row)
    inner_extent = _inner_extent(four, row, edge_bytes)
    if mode == "im2col":
        check_start(four, coordinates, facts)
        global_bytes, keep = column_bytes(four, coordinates, offsets or (0,) * (four.rank - 2), inner_extent, facts)
    elif mode == "rows4":
        global_bytes, keep = _row_offsets(four, row, coordinates, inner_extent)
    else:
        box = box_of(four, facts)
        starts, origin = _placed_box(box, coordinates)
        if box_inside(four, box, starts):
            ranges = shifted(box.global_ranges, origin)
            return _Placed(four, row, row_count, box.global_bytes + origin, None, ranges)
        global_bytes, keep = box.global_bytes + origin, inside(four, box, starts, inner_extent)
    return _Placed(four, row, row_count, global_bytes, keep, merged(global_bytes[keep]))


def _placed_box(box: Box, coordinates: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Coordinates of a box's first unit, dimension 0 in units, and its distance from the tensor's base."""
    starts = (coordinates[0] // box.row.unit_values, *coordinates[1:])
    return starts, sum(at * stride for at, stride in zip(starts, box.strides_bytes, strict=True))


def _inner_extent(tensor_map: TensorMap, row: Row, edge_bytes: int) -> int:
    """The extent of dimension 0 in units, rounded up to `edge_bytes`."""
    extent = extents_of(tensor_map, row)[0]
    return -(-extent * row.unit_bytes // edge_bytes) * edge_bytes // row.unit_bytes


def _rows(tensor_map: TensorMap, facts: Target) -> tuple[Row, int]:
    """The rows of a box or column, and how many there are."""
    if tensor_map.im2col is not None:
        column = column_of(tensor_map, facts)
        return column.row, column.row_count
    box = box_of(tensor_map, facts)
    return box.row, box.row_count


def _a_mode(mode: CopyMode) -> str:
    return {"tile": "a tile", "rows4": "a gather4 or scatter4", "im2col": "an im2col"}[mode]


def _four_rows(tensor_map: TensorMap, facts: Target) -> TensorMap:
    """The map whose box is the four rows of a gather or scatter."""
    box = tensor_map.box
    if tensor_map.rank != 2 or len(box) != 2 or box[1] != 1 or tensor_map.interleave != "none":
        raise EngineFault(
            "TM202",
            "tensor-map-field",
            f"gather4 and scatter4 take a map of rank 2 with a box of one row, not {tensor_map.box}",
        )
    return replace(tensor_map, box=(tensor_map.box[0], facts.limit("tensor_copy.gather_rows")))


def _row_offsets(
    four: TensorMap, row: Row, coordinates: tuple[int, ...], inner_extent: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Distance from the tensor's base of every byte of the four rows, and whether it is inside the tensor."""
    column, *rows = coordinates
    inner = np.arange(row.count * row.unit_bytes, dtype=np.int64) + column // row.unit_values * row.unit_bytes
    inside_row = (inner >= 0) & (inner < inner_extent * row.unit_bytes)
    starts = np.array(rows, np.int64)
    offsets = (starts[:, None] * four.strides_bytes[0] + inner[None, :]).reshape(-1)
    keep = (((starts >= 0) & (starts < four.dims[1]))[:, None] & inside_row[None, :]).reshape(-1)
    return offsets, keep


def _store_edge_bytes(facts: Target) -> int:
    """The engine writes chunks whole: the one that holds the last element of a row goes out as it is."""
    return facts.limit("tensor_copy.store_edge_bytes")


def _check_address(address: int, facts: Target) -> None:
    """Raises EngineFault AL201 or MF001. Source: PTX ISA 9.7.9.27.1; CUDA programming guide, tensor memory access."""
    alignment = facts.limit("tensor_map.shared_alignment_bytes")
    if address % alignment:
        raise EngineFault(
            "AL201",
            "shared-alignment",
            f"shared address {address} of a tensor copy is no multiple of {alignment}",
        )
    if address < 0:
        raise EngineFault("MF001", "shared-range", f"shared address {address} of a tensor copy is negative")


def _check_coordinate(tensor_map: TensorMap, coordinate: int, row: Row) -> None:
    if tensor_map.interleave != "none":
        return
    if tensor_map.variant in ("u4x16_align16", "u6x16_align16"):
        if coordinate % _PADDED_COORDINATE:
            raise EngineFault(
                "AL202",
                "coordinate-alignment",
                f"start coordinate {coordinate} of {tensor_map.variant} is no multiple of {_PADDED_COORDINATE}",
            )
        return
    inner, rest = divmod(coordinate * row.unit_bytes, row.unit_values)
    if inner % 16 or rest:
        raise EngineFault(
            "AL202",
            "coordinate-alignment",
            f"start coordinate {coordinate} of dimension 0 is {inner} bytes in, no multiple of 16",
        )


_PADDED_COORDINATE = 128
"""Of `.b4x16_p64` and `.b6x16_p32`, start coordinates along dimension 0 are multiples of this (PTX ISA 9.7.9.27.1)."""


def _converted(values: NDArray[np.uint8], variant: ElementVariant, facts: Target) -> NDArray[np.uint8]:
    """What a load makes of elements: those of `.tf32` are rounded to 10 bits of fraction, every NaN becomes one NaN.

    As an H200 does it: to nearest even, subnormal numbers included, whether the type says `.ftz` or not; and `.f32.ftz`
    changes nothing. (PTX ISA 5.5.1 says no more than "rounded to nearest even".)
    """
    if variant not in ("tf32", "tf32_ftz"):
        return values
    words = values.view(np.uint32)
    nearest = words + 0x0FFF + (words >> 13 & 1) & np.uint32(0xFFFF_E000)
    nan = words & np.uint32(0x7FFF_FFFF) > _INFINITY
    return np.where(nan, np.uint32(facts.limit("tensor_copy.tf32_nan")), nearest).astype(np.uint32).view(np.uint8)


_INFINITY = np.uint32(0x7F80_0000)


def _fill(tensor_map: TensorMap, byte_count: int, facts: Target) -> NDArray[np.uint8]:
    """What stands for elements outside the tensor. The NaN of CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA is 16
    bits, repeated over the element."""
    if tensor_map.out_of_bounds == "zero":
        return np.zeros(byte_count, np.uint8)
    if not tensor_map.element.is_float:
        raise EngineFault(
            "MF007", "tensor-map", f"NaN fill needs a floating-point element, not {tensor_map.element.value}"
        )
    return np.full(byte_count // 2, facts.limit("tensor_copy.fill_nan_half"), np.uint16).view(np.uint8)
