"""How an accumulator leaves the registers: elementwise work, staging for bulk stores, plain stores with bounds checks.

wgmma's accumulator fragment (PTX ISA, wgmma register fragments): thread t of the warpgroup, w = t / 32, l = t % 32,
holds in value v of a 64-row block the element at row 16 w + l / 4 + 8 ((v >> 1) & 1), column 2 (l % 4) + (v & 1) + 8
(v >> 2). Elementwise work is done where its result is used, one pair of values at a time, so that the accumulator's
registers are freed as they are consumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilewright.ir import ac
from tilewright.lower.emit import Text, float_bits, float_literal
from tilewright.lower.places import (
    AccumulatorPlace,
    BufferPlace,
    GlobalPlace,
    LoadedFragmentPlace,
    MappedFragmentPlace,
    Places,
    ScalarPlace,
)
from tilewright.lower.scalar import emit_round, emit_scalar, widen

ELEMENT_BYTES = {"bf16": 2, "f16": 2, "f32": 4}
_SWIZZLE_MASK = {"128B": 0x70, "64B": 0x30, "32B": 0x10, "none": 0}


def lower_map(places: Places, op: ac.MapOp) -> MappedFragmentPlace:
    """Put the elementwise work off to whoever stores the fragment."""
    accumulator = places[op.accumulator]
    assert isinstance(accumulator, AccumulatorPlace) and isinstance(op.result.type, ac.FragmentType)
    return MappedFragmentPlace(op, accumulator, op.result.type.element.data)


@dataclass(slots=True)
class _Lanes:
    """Where this thread's elements lie in the unit's tile (row and column of value 0), what was already loaded from
    global memory by (fragment, row, column), and each fragment's absolute first row and column."""

    text: Text
    row: str
    column: str
    loaded: dict[tuple[int, int, int], str] = field(default_factory=dict[tuple[int, int, int], str])
    origins: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])


def _lane_offsets(text: Text, thread: str) -> tuple[str, str]:
    """Row and column of value 0 inside the warpgroup's tile: (16 w + l / 4, 2 (l % 4))."""
    warp = text.into("b32", "shr.u32", thread, 5)
    lane = text.into("b32", "and.b32", thread, 31)
    row = text.into("b32", "mad.lo.u32", warp, 16, text.into("b32", "shr.u32", lane, 2))
    column = text.into("b32", "shl.b32", text.into("b32", "and.b32", lane, 3), 1)
    return row, column


def _row_of(value: int, block: int) -> int:
    return 64 * block + 8 * ((value >> 1) & 1)


def _column_of(value: int) -> int:
    return (value & 1) + 8 * (value >> 2)


def _load_element(lanes: _Lanes, fragment: LoadedFragmentPlace, number: int, row: int, column: int) -> str:
    """One element of loaded fragment `number` at constant offsets from this thread's first element; 0 outside."""
    text, source = lanes.text, fragment.source
    offsets = {"m": row if "m" in fragment.axes else 0, "n": column if "n" in fragment.axes else 0}
    key = (number, offsets["m"], offsets["n"])
    if key in lanes.loaded:
        return lanes.loaded[key]
    if number not in lanes.origins:
        lanes.origins[number] = {
            "m": text.into("b32", "add.s32", lanes.row, fragment.row),
            "n": text.into("b32", "add.s32", lanes.column, fragment.column),
        }
    position, inside = source.register, ""
    for axis, extent, stride in zip(fragment.axes, source.shape, source.strides, strict=True):
        index = text.into("b32", "add.s32", lanes.origins[number][axis], offsets[axis])
        # As unsigned, so that a negative index is outside too.
        check = text.into("pred", "setp.lt.u32", index, extent)
        inside = check if not inside else text.into("pred", "and.pred", inside, check)
        position = displaced_address(text, position, index, stride * ELEMENT_BYTES[source.element])
    value = load_as_float(text, source.element, f"[{position}]", inside)
    lanes.loaded[key] = value
    return value


def displaced_address(text: Text, base: str, index: str, stride_bytes: int) -> str:
    """base + index * stride_bytes as a 64-bit address; index: a signed 32-bit register.

    mad.wide takes a factor of 32 bits; rows of an array of few and long ones may be further apart.
    """
    if stride_bytes < 2**31:
        return text.into("b64", "mad.wide.s32", index, stride_bytes, base)
    return text.into("b64", "mad.lo.s64", text.into("b64", "cvt.s64.s32", index), stride_bytes, base)


def constant_address(text: Text, base: str, offset_bytes: int) -> str:
    """The operand for the address base + offset_bytes; an offset in an operand has 32 bits, signed."""
    if offset_bytes < 2**31:
        return f"[{base}+{offset_bytes}]"
    return f"[{text.into('b64', 'add.s64', base, offset_bytes)}]"


def load_as_float(text: Text, element: str, address: str, guard: str) -> str:
    """A global element widened to float32; 0 where the guard is false."""
    if element == "f32":
        value = text.into("f32", "mov.f32", float_literal(0.0))
        text.emit("ld.global.nc.f32", value, address, guard=guard)
        return value
    narrow = text.into("b16", "mov.b16", 0)
    text.emit("ld.global.nc.b16", narrow, address, guard=guard)
    return widen(text, element, narrow)


def store_from_float(text: Text, element: str, address: str, value: str, guard: str) -> None:
    """Round a float32 register to the element and store it where the guard holds."""
    if element == "f32":
        text.emit("st.global.f32", address, value, guard=guard)
        return
    narrow = text.into("b16", f"cvt.rn.{element}.f32", value)
    text.emit("st.global.b16", address, narrow, guard=guard)


def _mapped_value(places: Places, lanes: _Lanes, fragment: MappedFragmentPlace, block: int, value: int) -> str:
    """Evaluate the map's region for one accumulator element."""
    operation, body = fragment.operation, fragment.operation.body.block
    scalars: Places = {body.args[0]: ScalarPlace(fragment.accumulator.blocks[block][value])}
    for number, (argument, operand) in enumerate(zip(body.args[1:], operation.fragments, strict=True)):
        loaded = places[operand]
        assert isinstance(loaded, LoadedFragmentPlace)
        register = _load_element(lanes, loaded, number, _row_of(value, block), _column_of(value))
        scalars[argument] = ScalarPlace(register)
    return evaluate_scalars(lanes.text, scalars, list(body.ops))


def evaluate_scalars(text: Text, scalars: Places, ops: Sequence[Operation]) -> str:
    """Emit a region of scalar ops; returns the register of the (last) yielded value."""
    result = ""

    def register(value: SSAValue) -> str:
        place = scalars[value]
        assert isinstance(place, ScalarPlace)
        return place.register

    for op in ops:
        match op:
            case ac.ScalarOp():
                inputs = tuple(register(item) for item in op.inputs)
                scalars[op.result] = ScalarPlace(emit_scalar(text, op.function.data, inputs))
            case ac.RoundOp():
                scalars[op.result] = ScalarPlace(emit_round(text, op.element.data, register(op.input)))
            case ac.ConstantOp():
                scalars[op.result] = ScalarPlace(text.into("f32", "mov.f32", float_bits(op.bits.data)))
            case ac.YieldOp():
                result = register(op.values[0])
            case _:
                raise AssertionError(f"{op} cannot stand in an elementwise region")
    return result


def lower_stage_write(
    text: Text, places: Places, op: ac.StageWriteOp, shared_base: str, thread: str, unit: str
) -> None:
    """Columns [begin, end) of a fragment into a staging slot, in the swizzled rows that the bulk store expects."""
    fragment, buffer = places[op.fragment], places[op.buffer]
    assert isinstance(fragment, MappedFragmentPlace) and isinstance(buffer, BufferPlace)
    begin, end = op.column_begin.data, op.column_end.data
    element_bytes = ELEMENT_BYTES[fragment.element]
    pitch = (end - begin) * element_bytes
    lanes = _Lanes(text, *_lane_offsets(text, thread))
    origin = text.into("b32", "add.u32", shared_base, buffer.address + op.slot.data * buffer.slot_bytes)
    origin = text.into("b32", "mad.lo.u32", unit, buffer.slots * buffer.slot_bytes, origin)
    for block in range(len(fragment.accumulator.blocks)):
        if element_bytes == 2:
            _stage_matrices(text, places, lanes, fragment, buffer, (begin, end), pitch, origin, thread, block)
        else:
            _stage_pairs(text, places, lanes, fragment, buffer, (begin, end), pitch, origin, thread, block)


def _swizzled(text: Text, row_offset: str, within: str, mask: int) -> str:
    """row_offset + (within xor the row's swizzle bits): address bits 9:7 are xored into bits 6:4, under `mask`."""
    if mask:
        bits = text.into("b32", "and.b32", text.into("b32", "shr.u32", row_offset, 3), mask)
        within = text.into("b32", "xor.b32", within, bits)
    return text.into("b32", "add.u32", row_offset, within)


def _stage_matrices(
    text: Text,
    places: Places,
    lanes: _Lanes,
    fragment: MappedFragmentPlace,
    buffer: BufferPlace,
    columns: tuple[int, int],
    pitch: int,
    origin: str,
    thread: str,
    block: int,
) -> None:
    """16-bit elements: stmatrix writes four 8x8 matrices at once (rows 0-7 and 8-15 of the warp, 16 columns)."""
    lane = text.into("b32", "and.b32", thread, 31)
    warp = text.into("b32", "shr.u32", thread, 5)
    row_in_warp = text.into("b32", "and.b32", lane, 15)
    row = text.into("b32", "mad.lo.u32", warp, 16, row_in_warp)
    row_offset = text.into("b32", "mul.lo.u32", row, pitch)
    half = text.into("b32", "shl.b32", text.into("b32", "shr.u32", lane, 4), 4)
    address = _swizzled(text, row_offset, half, _SWIZZLE_MASK[buffer.swizzle])
    slot = text.into("b32", "add.u32", origin, 64 * pitch * block) if block else origin
    for column in range(columns[0], columns[1], 16):
        packed: list[str] = []
        for group in (column // 8, column // 8 + 1):
            for upper in (0, 1):
                first = 4 * group + 2 * upper
                low = _mapped_value(places, lanes, fragment, block, first)
                high = _mapped_value(places, lanes, fragment, block, first + 1)
                packed.append(text.into("b32", f"cvt.rn.{fragment.element}x2.f32", high, low))
        offset = text.into("b32", "xor.b32", address, (column - columns[0]) * 2)
        destination = text.into("b32", "add.u32", slot, offset)
        registers = "{" + ", ".join(packed) + "}"
        text.emit("stmatrix.sync.aligned.m8n8.x4.shared.b16", f"[{destination}]", registers)


def _stage_pairs(
    text: Text,
    places: Places,
    lanes: _Lanes,
    fragment: MappedFragmentPlace,
    buffer: BufferPlace,
    columns: tuple[int, int],
    pitch: int,
    origin: str,
    thread: str,
    block: int,
) -> None:
    """32-bit elements: each thread stores its pairs of neighbouring columns."""
    row, column = _lane_offsets(text, thread)
    for upper in (0, 1):
        place = text.into("b32", "add.u32", row, 8 * upper + 64 * block)
        row_offset = text.into("b32", "mul.lo.u32", place, pitch)
        within = text.into("b32", "shl.b32", column, 2)
        address = _swizzled(text, row_offset, within, _SWIZZLE_MASK[buffer.swizzle])
        for start in range(columns[0], columns[1], 8):
            first = 4 * (start // 8) + 2 * upper
            low = _mapped_value(places, lanes, fragment, block, first)
            high = _mapped_value(places, lanes, fragment, block, first + 1)
            offset = text.into("b32", "xor.b32", address, (start - columns[0]) * 4)
            destination = text.into("b32", "add.u32", origin, offset)
            text.emit("st.shared.v2.f32", f"[{destination}]", f"{{{low}, {high}}}")


def lower_global_store(
    text: Text, places: Places, op: ac.GlobalStoreOp, thread: str, row_origin: str, column_origin: str
) -> None:
    """Every element by a plain store, where its row and column lie inside the array."""
    fragment, destination = places[op.fragment], places[op.destination]
    assert isinstance(fragment, MappedFragmentPlace) and isinstance(destination, GlobalPlace)
    lanes = _Lanes(text, *_lane_offsets(text, thread))
    row = text.into("b32", "add.s32", lanes.row, row_origin)
    column = text.into("b32", "add.s32", lanes.column, column_origin)
    element_bytes = ELEMENT_BYTES[fragment.element]
    rows, columns = destination.shape
    row_stride, column_stride = (stride * element_bytes for stride in destination.strides)
    for block in range(len(fragment.accumulator.blocks)):
        for upper in (0, 1):
            place = text.into("b32", "add.s32", row, 64 * block + 8 * upper)
            # As unsigned, so that a last tile that reaches past 2^31 is outside and not negative.
            inside = text.into("pred", "setp.lt.u32", place, rows)
            address = displaced_address(text, destination.register, place, row_stride)
            address = displaced_address(text, address, column, column_stride)
            for value in range(2 * upper, fragment.accumulator.n // 2, 4):
                for item in (value, value + 1):
                    offset = _column_of(item)
                    fits = text.into("pred", "setp.lt.u32", column, max(columns - offset, 0))
                    guard = text.into("pred", "and.pred", inside, fits)
                    result = _mapped_value(places, lanes, fragment, block, item)
                    target = constant_address(text, address, offset * column_stride)
                    store_from_float(text, fragment.element, target, result, guard)
