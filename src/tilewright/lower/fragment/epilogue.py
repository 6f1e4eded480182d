"""How an accumulator leaves the registers: elementwise work, staging for bulk stores, plain stores with bounds checks.

wgmma's accumulator fragment (PTX ISA, wgmma register fragments): thread t of the warpgroup, w = t / 32, l = t % 32,
holds in value v of a 64-row block the element at row 16 w + l / 4 + 8 ((v >> 1) & 1), column 2 (l % 4) + (v & 1) + 8
(v >> 2). Elementwise work is done where its result is used, one pair of values at a time, so that the accumulator's
registers are freed as they are consumed. Checked by: tests/lower/test_values.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import exchange_of
from tilewright.lower.exchange.staged import Staged, stage_by_plan
from tilewright.lower.fragment.paired_loads import PairedRows, load_pair
from tilewright.lower.ptx.copies.global_access import (
    ELEMENT_BYTES,
    element_address,
    load_as_float,
    row_address,
    store_element,
)
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.numbers.float8 import narrow_pair
from tilewright.lower.ptx.numbers.scalar import widened_pair
from tilewright.lower.ptx.places import (
    AccumulatorPlace,
    BufferPlace,
    DeferredFragmentPlace,
    FragmentPlace,
    GlobalPlace,
    LoadedFragmentPlace,
    Places,
)

_SWIZZLE_MASK = {"128B": 0x70, "64B": 0x30, "32B": 0x10, "none": 0}


def parts_of(accumulator: AccumulatorPlace, columns: int) -> list[AccumulatorPlace]:
    """The accumulators of `columns` columns that stand side by side in one: eight columns take four registers."""
    width = columns // 2
    return [
        AccumulatorPlace(tuple(block[begin : begin + width] for block in accumulator.blocks), columns)
        for begin in range(0, accumulator.n // 2, width)
    ]


@dataclass(slots=True)
class Lanes:
    """Where this thread's elements lie in the unit's tile (row and column of value 0), what was already loaded from
    global memory by (fragment, row, column), and each fragment's absolute first row and column."""

    text: Text
    row: str
    column: str
    loaded: dict[tuple[int, int, int], str] = field(default_factory=dict[tuple[int, int, int], str])
    origins: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])
    rows: PairedRows = field(default_factory=PairedRows)


def lane_offsets(text: Text, thread: str, warp_rows: int = 16) -> tuple[str, str]:
    """Row and column of value 0 inside the warpgroup's tile: (16 w + l / 4, 2 (l % 4)). warp_rows: how many rows after
    those of a warp the next one's begin."""
    warp = text.into("b32", "shr.u32", thread, 5)
    lane = text.into("b32", "and.b32", thread, 31)
    row = text.into("b32", "mad.lo.u32", warp, warp_rows, text.into("b32", "shr.u32", lane, 2))
    column = text.into("b32", "shl.b32", text.into("b32", "and.b32", lane, 3), 1)
    return row, column


def row_of(value: int, block: int) -> int:
    return 64 * block + 8 * ((value >> 1) & 1)


def column_of(value: int) -> int:
    return (value & 1) + 8 * (value >> 2)


def load_element(lanes: Lanes, fragment: LoadedFragmentPlace, number: int, row: int, column: int) -> str:
    """One element of loaded fragment `number` at constant offsets from this thread's first element; 0 outside."""
    text, source, axes = lanes.text, fragment.source, varying_axes(fragment)
    offsets = {"m": row if "m" in axes else 0, "n": column if "n" in axes else 0}
    if fragment.values:
        return fragment.values[offsets["m"], offsets["n"]]
    key = (number, offsets["m"], offsets["n"])
    if key in lanes.loaded:
        return lanes.loaded[key]
    if fragment.shared is not None:
        return _shared_number(lanes, fragment.shared, number, column)
    if number not in lanes.origins:
        lanes.origins[number] = {
            "m": text.into("b32", "add.s32", lanes.row, fragment.row),
            "n": text.into("b32", "add.s32", lanes.column, fragment.column),
        }
    if fragment.pairs:
        even = column & ~1
        pair = load_pair(text, lanes.rows, fragment, number, lanes.origins[number], (row, even))
        lanes.loaded.update({(number, row, even): pair[0], (number, row, even + 1): pair[1]})
        return lanes.loaded[key]
    position, inside = source.register, ""
    blocks = fragment.blocks or (1,) * len(fragment.axes)
    for axis, extent, stride, size in zip(fragment.axes, source.shape, source.steps, blocks, strict=True):
        if axis not in axes:
            continue
        index = text.into("b32", "add.s32", lanes.origins[number][axis], offsets[axis])
        if size > 1:
            index = text.into("b32", "div.u32", index, size)
        # As unsigned, so that a negative index is outside too.
        check = text.into("pred", "setp.lt.u32", index, extent)
        inside = check if not inside else text.into("pred", "and.pred", inside, check)
        position = element_address(text, position, index, stride, ELEMENT_BYTES[source.element])
    value = load_as_float(text, source, f"[{position}]", inside)
    lanes.loaded[key] = value
    return value


def _shared_number(lanes: Lanes, shared: tuple[str, int], number: int, column: int) -> str:
    """Of a column, read out of shared memory with its neighbour."""
    even, (register, offset) = column & ~1, shared
    pair = lanes.text.register("f32"), lanes.text.register("f32")
    place = f"[{register}+{offset + _NUMBER_BYTES * even}]"
    lanes.text.emit("ld.shared.v2.f32", f"{{{pair[0]}, {pair[1]}}}", place)
    lanes.loaded.update({(number, 0, even): pair[0], (number, 0, even + 1): pair[1]})
    return pair[column & 1]


def varying_axes(fragment: LoadedFragmentPlace) -> str:
    """The axes along which the array has several numbers: of those that it has in blocks, the ones that one block does
    not cover."""
    blocks = fragment.blocks or (1,) * len(fragment.axes)
    sizes = zip(fragment.axes, fragment.source.shape, blocks, strict=True)
    return "".join(axis for axis, extent, size in sizes if size == 1 or isinstance(extent, str) or extent > 1)


def load_vector(
    text: Text, fragment: LoadedFragmentPlace, shape: tuple[int, int], thread: str, warp_rows: int
) -> LoadedFragmentPlace:
    """The fragment of a vector, or of one number, with every number of this thread's places loaded. shape: rows and
    columns; warp_rows: as in `lane_offsets`."""
    rows = [64 * block + 8 * upper for block in range(shape[0] // 64) for upper in (0, 1)]
    columns = [group + odd for group in range(0, shape[1], 8) for odd in (0, 1)]
    lanes = Lanes(text, *lane_offsets(text, thread, warp_rows))
    match varying_axes(fragment):
        case "":
            places = [(0, 0)]
        case "m":
            places = [(row, 0) for row in rows]
        case _:
            places = [(0, column) for column in columns]
    if len(fragment.axes) == 1 and not fragment.blocks:
        return replace(fragment, values=_vector_values(lanes, fragment, places))
    return replace(fragment, values={place: load_element(lanes, fragment, 0, *place) for place in places})


def _vector_values(
    lanes: Lanes, fragment: LoadedFragmentPlace, places: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """A vector's elements, at constant distances from this thread's first; 0 outside."""
    text, source = lanes.text, fragment.source
    lane, first = (lanes.row, fragment.row) if fragment.axes == "m" else (lanes.column, fragment.column)
    origin, (stride,), size = text.into("b32", "add.s32", lane, first), source.steps, ELEMENT_BYTES[source.element]
    base = element_address(text, source.register, origin, stride, size)
    found: dict[tuple[int, int], str] = {}
    for place in places:
        index = text.into("b32", "add.s32", origin, max(place))
        inside = text.into("pred", "setp.lt.u32", index, source.shape[0])  # unsigned, as in `load_element`
        found[place] = load_as_float(text, source, row_address(text, base, max(place), stride, size, 0), inside)
    return found


_NUMBER_BYTES = 4
StoredPlace = DeferredFragmentPlace | FragmentPlace
"""What may be stored: computed where that is done, or in registers."""


def fragment_value(lanes: Lanes, fragment: StoredPlace, block: int, value: int) -> str:
    """One element of a fragment over "mn", as float32."""
    if isinstance(fragment, DeferredFragmentPlace):
        return fragment.number(block, value)
    if fragment.is_packed:
        return widened_pair(lanes.text, fragment.element, fragment.blocks[block][value >> 1])[value & 1]
    return fragment.blocks[block][value]


def _fragment_pair(lanes: Lanes, fragment: StoredPlace, block: int, value: int) -> str:
    """Two elements of 16 bits side by side, in a register."""
    if isinstance(fragment, FragmentPlace):
        return fragment.blocks[block][value >> 1]
    low, high = (fragment_value(lanes, fragment, block, value + odd) for odd in (0, 1))
    return lanes.text.into("b32", f"cvt.rn.{fragment.element}x2.f32", high, low)


def lower_stage_write(
    text: Text, places: Places, op: ac.StageWriteOp, shared_base: str, thread: str, unit: str
) -> None:
    """Columns [begin, end) of a fragment into a staging slot, in the swizzled rows that the bulk store expects."""
    fragment, buffer = places[op.fragment], places[op.buffer]
    assert isinstance(fragment, StoredPlace) and isinstance(buffer, BufferPlace)
    begin, end = op.column_begin.data, op.column_end.data
    element_bytes = ELEMENT_BYTES[fragment.element]
    pitch = (end - begin) * element_bytes
    lanes = Lanes(text, *lane_offsets(text, thread))
    origin = text.into("b32", "add.u32", shared_base, buffer.address + op.slot.data * buffer.slot_bytes)
    origin = text.into("b32", "mad.lo.u32", unit, buffer.slots * buffer.slot_bytes, origin)
    if op.plan is not None:
        values, first = (end - begin) // 2, 0 if op.block is None else op.block.data

        def value(number: int) -> str:
            """Of the plan's numbers, which count the chunk's values of one block of 64 rows after the other's."""
            return fragment_value(lanes, fragment, first + number // values, begin // 2 + number % values)

        def pair(number: int) -> str:
            assert isinstance(fragment, FragmentPlace)
            return fragment.blocks[first + number // values][(begin // 2 + number % values) // 2]

        packed = isinstance(fragment, FragmentPlace) and fragment.is_packed
        staged = Staged(text, fragment.element, value, pair if packed else None)
        stage_by_plan(staged, exchange_of(op.plan), origin, thread)
        return
    staging = Staging(text, lanes, fragment, _SWIZZLE_MASK[buffer.swizzle], begin, end, pitch, origin, thread)
    for block in range(fragment.row_blocks):
        if element_bytes == 2:
            stage_matrices(staging, block)
        elif element_bytes == 1:
            stage_bytes(staging, block)
        else:
            stage_pairs(staging, block)


@dataclass(frozen=True, slots=True)
class Staging:
    """Columns [begin, end) of a fragment on their way to a staging slot.

    swizzle_mask: which address bits are exchanged; pitch: bytes of a row; origin: register with the slot's address;
    blocks_apart: 1 if each 64-row block has a place of its own in the slot, 0 if all take the first.
    """

    text: Text
    lanes: Lanes
    fragment: StoredPlace
    swizzle_mask: int
    begin: int
    end: int
    pitch: int
    origin: str
    thread: str
    blocks_apart: int = 1


def _displaced(staging: Staging, address: str, offset_bytes: int) -> str:
    """`offset_bytes` further along a row. Under a swizzle rows are as long as its span, so that bits are exchanged."""
    operation = "xor.b32" if staging.swizzle_mask else "add.u32"
    return staging.text.into("b32", operation, address, offset_bytes) if offset_bytes else address


def _swizzled(text: Text, row_offset: str, within: str, mask: int) -> str:
    """row_offset + (within xor the row's swizzle bits): address bits 9:7 are xored into bits 6:4, under `mask`."""
    if mask:
        bits = text.into("b32", "and.b32", text.into("b32", "shr.u32", row_offset, 3), mask)
        within = text.into("b32", "xor.b32", within, bits)
    return text.into("b32", "add.u32", row_offset, within)


def stage_matrices(staging: Staging, block: int) -> None:
    """16-bit elements: stmatrix writes four 8x8 matrices at once (rows 0-7 and 8-15 of the warp, 16 columns)."""
    text, fragment, pitch = staging.text, staging.fragment, staging.pitch
    lane = text.into("b32", "and.b32", staging.thread, 31)
    warp = text.into("b32", "shr.u32", staging.thread, 5)
    row_in_warp = text.into("b32", "and.b32", lane, 15)
    row = text.into("b32", "mad.lo.u32", warp, 16, row_in_warp)
    row_offset = text.into("b32", "mul.lo.u32", row, pitch)
    half = text.into("b32", "shl.b32", text.into("b32", "shr.u32", lane, 4), 4)
    address = _swizzled(text, row_offset, half, staging.swizzle_mask)
    place = 64 * pitch * block * staging.blocks_apart
    slot = text.into("b32", "add.u32", staging.origin, place) if place else staging.origin
    for column in range(staging.begin, staging.end, 16):
        packed: list[str] = []
        # A last group of 8 columns goes alone: two matrices, addressed by the lanes of the first half of the warp.
        groups = range(column // 8, min(column + 16, staging.end) // 8)
        for group in groups:
            for upper in (0, 1):
                first = 4 * group + 2 * upper
                packed.append(_fragment_pair(staging.lanes, fragment, block, first))
        offset = _displaced(staging, address, (column - staging.begin) * 2)
        destination = text.into("b32", "add.u32", slot, offset)
        registers = "{" + ", ".join(packed) + "}"
        text.emit(f"stmatrix.sync.aligned.m8n8.x{2 * len(groups)}.shared.b16", f"[{destination}]", registers)


def stage_pairs(staging: Staging, block: int) -> None:
    """32-bit elements: each thread stores its pairs of neighbouring columns."""
    text = staging.text
    row, column = lane_offsets(text, staging.thread)
    for upper in (0, 1):
        place = text.into("b32", "add.u32", row, 8 * upper + 64 * block * staging.blocks_apart)
        row_offset = text.into("b32", "mul.lo.u32", place, staging.pitch)
        within = text.into("b32", "shl.b32", column, 2)
        address = _swizzled(text, row_offset, within, staging.swizzle_mask)
        for start in range(staging.begin, staging.end, 8):
            first = 4 * (start // 8) + 2 * upper
            low = fragment_value(staging.lanes, staging.fragment, block, first)
            high = fragment_value(staging.lanes, staging.fragment, block, first + 1)
            offset = _displaced(staging, address, (start - staging.begin) * 4)
            destination = text.into("b32", "add.u32", staging.origin, offset)
            text.emit("st.shared.v2.f32", f"[{destination}]", f"{{{low}, {high}}}")


def stage_bytes(staging: Staging, block: int) -> None:
    """8-bit elements: each thread stores its pairs of neighbouring columns. Swizzled, the eight rows that a warp writes
    at once lie in different banks."""
    text = staging.text
    row, column = lane_offsets(text, staging.thread)
    for upper in (0, 1):
        place = text.into("b32", "add.u32", row, 8 * upper + 64 * block * staging.blocks_apart)
        row_offset = text.into("b32", "mul.lo.u32", place, staging.pitch)
        address = _swizzled(text, row_offset, column, staging.swizzle_mask)
        for start in range(staging.begin, staging.end, 8):
            first = 4 * (start // 8) + 2 * upper
            low = fragment_value(staging.lanes, staging.fragment, block, first)
            high = fragment_value(staging.lanes, staging.fragment, block, first + 1)
            offset = _displaced(staging, address, start - staging.begin)
            destination = text.into("b32", "add.u32", staging.origin, offset)
            packed = narrow_pair(text, staging.fragment.element, low, high)
            text.emit("st.shared.b16", f"[{destination}]", packed)


def lower_global_store(
    text: Text, fragment: StoredPlace, destination: GlobalPlace, thread: str, origin: tuple[str, str], warp_rows: int
) -> None:
    """Every element by a plain store, where its row and column lie inside the array. origin: row and column of the
    unit's first element; warp_rows: as in `lane_offsets`."""
    lanes = Lanes(text, *lane_offsets(text, thread, warp_rows))
    row = text.into("b32", "add.s32", lanes.row, origin[0])
    column = text.into("b32", "add.s32", lanes.column, origin[1])
    element_bytes = ELEMENT_BYTES[fragment.element]
    rows, columns = destination.shape
    row_stride, column_stride = destination.steps
    for block in range(fragment.row_blocks):
        for upper in (0, 1):
            place = text.into("b32", "add.s32", row, 64 * block + 8 * upper)
            # As unsigned, so that a last tile that reaches past 2^31 is outside and not negative.
            inside = text.into("pred", "setp.lt.u32", place, rows)
            address = element_address(text, destination.register, place, row_stride, element_bytes)
            address = element_address(text, address, column, column_stride, element_bytes)
            for value in range(2 * upper, fragment.columns // 2, 4):
                for item in (value, value + 1):
                    offset = column_of(item)
                    fits = _before_end(text, column, offset, columns)
                    guard = text.into("pred", "and.pred", inside, fits)
                    result = fragment_value(lanes, fragment, block, item)
                    target = row_address(text, address, offset, column_stride, element_bytes, 0)
                    store_element(text, fragment.element, target, result, guard)


def _before_end(text: Text, column: str, offset: int, columns: int | str) -> str:
    """Whether a column so far on is one of the array's."""
    if isinstance(columns, int):
        return text.into("pred", "setp.lt.u32", column, max(columns - offset, 0))
    place = text.into("b32", "add.u32", column, offset) if offset else column
    return text.into("pred", "setp.lt.u32", place, columns)


def lower_row_store(
    text: Text, fragment: FragmentPlace, destination: GlobalPlace, thread: str, row_origin: str, warp_rows: int
) -> None:
    """A number of each row to an array of rows: of the four threads that share one, the first stores it."""
    lanes = Lanes(text, *lane_offsets(text, thread, warp_rows))
    first = text.into("pred", "setp.eq.u32", text.into("b32", "and.b32", thread, 3), 0)
    row = text.into("b32", "add.s32", lanes.row, row_origin)
    (rows,), (stride,) = destination.shape, destination.steps
    for block, numbers in enumerate(fragment.blocks):
        for upper, number in enumerate(numbers):
            offset = 64 * block + 8 * upper
            place = text.into("b32", "add.s32", row, offset) if offset else row
            guard = text.into("pred", "setp.lt.and.u32", place, rows, first)
            address = element_address(text, destination.register, place, stride, ELEMENT_BYTES[fragment.element])
            store_element(text, fragment.element, f"[{address}]", number, guard)
