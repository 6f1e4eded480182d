"""How operands that threads make anew become PTX: matrices turned on the way through registers, or elements widened.

A warp takes every fourth chunk of 16 bytes of a slot's rows. Under swizzle 128B a row's chunks are exchanged by its
number modulo 8; here those of the slot, and those of the room, are such rows.

*Turned.* `ldmatrix.x4.trans` brings 32 rows of a chunk, as pairs of bytes: lane l has of rows 2 (l % 4) and the next,
of each eight, bytes 2 (l / 4) and 2 (l / 4) + 1. Two permutations of bytes make of two of its registers four rows'
numbers of either byte, which are neighbours in the room; `stmatrix.x4` writes them. Rows of the room that one matrix
has are 2 r for the first four lanes of eight and 2 r + 1 for the others, so that their chunks lie in different banks.

*Widened.* A lane has eight elements of a row and writes them as sixteen bytes; eight lanes side by side have eight
rows, whose chunks lie in different banks on both sides.

Each thread fences what it read and wrote towards the async proxy, and then the unit's threads meet.
Source: PTX ISA, ldmatrix, stmatrix, prmt; Asynchronous Warpgroup Level Matrix Shared Memory Layout. Checked by:
tests/end_to_end/test_narrow_attention.py.
"""

from __future__ import annotations

from tilewright.ir.ac.remade import CHUNK_BYTES, ROW_BYTES, WIDENED_ROWS, RoomEndOp, RoomStartOp, SlotRemakeOp
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Emitters, Lowering, nothing, placed, slot_of
from tilewright.lower.ptx.numbers.float8_bits import widened_word
from tilewright.lower.ptx.places import BufferPlace, RingPlace, SlotPlace

_UNIT_THREADS, _WARPS = 128, 4
_CHUNKS = ROW_BYTES // CHUNK_BYTES
"""Of a row, in one span."""
_TURNED_ROWS = 32
"""Of a slot, that a warp takes at a time."""
_EVEN_BYTES, _ODD_BYTES = 0x6420, 0x7531
"""Selectors of every second byte of two registers."""
_NO_RING = RingPlace(0, 0, 0, 0)


def _start(lowering: Lowering, op: RoomStartOp) -> SlotPlace:
    """A unit's room is the slot of its number."""
    return SlotPlace(_NO_RING, lowering.index(op.unit))


def _remake(lowering: Lowering, op: SlotRemakeOp) -> None:
    text = lowering.text
    source, room = _address(lowering, op.source, slot_of(lowering, op.phase)), slot_of(lowering, op.free)
    target = _address(lowering, op.room, room)
    if op.kind.data == "turned":
        _turn(lowering, op, source, target)
    else:
        _widen(lowering, op, source, target)
    text.emit("fence.proxy.async.shared::cta")
    text.emit("bar.sync", text.into("b32", "add.u32", lowering.index(op.unit), op.first_barrier.data), _UNIT_THREADS)
    lowering.places[op.made] = room
    lowering.places[op.held] = slot_of(lowering, op.phase)


def _address(lowering: Lowering, buffer: object, slot: SlotPlace) -> str:
    text, place = lowering.text, lowering.place(buffer)  # pyright: ignore[reportArgumentType]
    assert isinstance(place, BufferPlace) and place.swizzle == "128B"
    first = text.into("b32", "add.u32", lowering.shared_base, place.address)
    return text.into("b32", "mad.lo.u32", slot.stage, place.slot_bytes, first)


def _turn(lowering: Lowering, op: SlotRemakeOp, source: str, target: str) -> None:
    text, rows, chunks = lowering.text, op.rows.data, op.chunks.data
    lane = text.into("b32", "and.b32", lowering.warpgroup_thread, 31)
    warp = text.into("b32", "shr.u32", lowering.warpgroup_thread, 5)
    eighth = text.into("b32", "and.b32", lane, 7)
    # The lane's row of 32, and its first chunk.
    line = text.into("b32", "mad.lo.u32", lane, ROW_BYTES, source)
    begin = _swizzled(text, line, warp, eighth)
    # Of the room: which of the four matrices the lane gives an address of, and its row among sixteen.
    matrix = text.into("b32", "shr.u32", lane, 3)
    later = text.into("b32", "shr.u32", eighth, 2)
    odd = text.into("b32", "xor.b32", text.into("b32", "and.b32", matrix, 1), later)
    within = text.into("b32", "mad.lo.u32", eighth, 2, odd)
    row = text.into("b32", "mad.lo.u32", warp, CHUNK_BYTES, within)
    line = text.into("b32", "mad.lo.u32", row, ROW_BYTES, target)
    half = text.into("b32", "shr.u32", matrix, 1)
    end = _swizzled(text, line, half, text.into("b32", "and.b32", within, 7))
    swapped = text.into("pred", "setp.ge.u32", lane, 16)
    first = text.into("b32", "selp.b32", _ODD_BYTES, _EVEN_BYTES, swapped)
    second = text.into("b32", "selp.b32", _EVEN_BYTES, _ODD_BYTES, swapped)
    room_span = CHUNK_BYTES * chunks * ROW_BYTES
    for chunk in range(0, chunks, _WARPS):
        read = _moved(text, begin, chunk % _CHUNKS)
        for group in range(0, rows // _TURNED_ROWS):
            words = tuple(text.register("b32") for _ in range(4))
            away = chunk // _CHUNKS * ROW_BYTES * rows + group * _TURNED_ROWS * ROW_BYTES
            text.emit("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", _vector(words), f"[{read}+{away}]")
            made = [
                text.into("b32", "prmt.b32", *words[pair : pair + 2], selector)
                for pair in (0, 2)
                for selector in (first, second)
            ]
            span, across = divmod(group * _TURNED_ROWS // CHUNK_BYTES, _CHUNKS)
            away = span * room_span + chunk * CHUNK_BYTES * ROW_BYTES
            text.emit(
                "stmatrix.sync.aligned.m8n8.x4.shared.b16", f"[{_moved(text, end, across)}+{away}]", _vector(made)
            )


def _widen(lowering: Lowering, op: SlotRemakeOp, source: str, target: str) -> None:
    text, rows, chunks = lowering.text, op.rows.data, op.chunks.data
    place, room = lowering.place(op.source), lowering.place(op.room)
    assert isinstance(place, BufferPlace) and isinstance(room, BufferPlace)
    lane = text.into("b32", "and.b32", lowering.warpgroup_thread, 31)
    warp = text.into("b32", "shr.u32", lowering.warpgroup_thread, 5)
    eighth = text.into("b32", "and.b32", lane, 7)
    upper = text.into("b32", "shr.u32", lane, 4)
    half = text.into("b32", "and.b32", text.into("b32", "shr.u32", lane, 3), 1)
    row = text.into("b32", "mad.lo.u32", upper, 8, eighth)
    line = text.into("b32", "mad.lo.u32", row, ROW_BYTES, source)
    begin = text.into("b32", "mad.lo.u32", half, CHUNK_BYTES // 2, _swizzled(text, line, warp, eighth))
    line = text.into("b32", "mad.lo.u32", row, ROW_BYTES, target)
    end = _swizzled(text, line, text.into("b32", "mad.lo.u32", warp, 2, half), eighth)
    for chunk in range(0, chunks, _WARPS):
        read = _moved(text, begin, chunk % _CHUNKS)
        for first in range(0, rows, WIDENED_ROWS):
            words = tuple(text.register("b32") for _ in range(2))
            away = (chunk // _CHUNKS * rows + first) * ROW_BYTES
            text.emit("ld.shared.v2.b32", _vector(words), f"[{read}+{away}]")
            made = [wide for word in words for wide in widened_word(text, place.element, room.element, word)]
            away = (chunk // _WARPS * rows + first) * ROW_BYTES
            text.emit("st.shared.v4.b32", f"[{end}+{away}]", _vector(made))


def _swizzled(text: Text, line: str, chunk: str, row: str) -> str:
    """The address of a chunk of a row that begins at `line`. row: its number modulo 8."""
    place = text.into("b32", "shl.b32", text.into("b32", "xor.b32", chunk, row), 4)
    return text.into("b32", "add.u32", line, place)


def _moved(text: Text, address: str, chunks: int) -> str:
    """A chunk's address, so many further on, where that is to set bits that the chunk's number does not have."""
    return text.into("b32", "xor.b32", address, chunks * CHUNK_BYTES) if chunks else address


def _vector(names: tuple[str, ...] | list[str]) -> str:
    return "{" + ", ".join(names) + "}"


EMITTERS: Emitters = {
    RoomStartOp: placed(_start),
    SlotRemakeOp: _remake,
    RoomEndOp: nothing,
}
