"""What of a unit's room do its threads write, and what may a product read of it?

A room is a buffer with a slot for each unit of a role, of which the unit's threads make an operand (`ir.ac.remade`).
Ranges are logical ones, as in `footprint`. Checked by: tests/contract/typestate/steps/test_remade.py.
"""

from __future__ import annotations

from tilewright.contract.typestate.places.footprint import Ranges, merged, overlap, size
from tilewright.contract.typestate.program import Buffer
from tilewright.contract.typestate.token import Slot, Token
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac.remade import CHUNK_BYTES, ROW_BYTES, RoomStartOp, SlotRemakeOp

WIDENED = 2
"""Bytes of an element, of one of 8 bits."""


def is_room(walk: RoleWalk, buffer: Buffer) -> bool:
    return any(op.room is buffer.op.result for op in walk.kernel.operations.of(RoomStartOp))


def slot_ranges(op: SlotRemakeOp) -> Ranges:
    """What is read of the slot: whole rows of spans."""
    spans = -(-op.chunks.data * CHUNK_BYTES // ROW_BYTES)
    return ((0, spans * op.rows.data * ROW_BYTES),)


def room_ranges(op: SlotRemakeOp) -> Ranges:
    """What is written of the room."""
    if op.remaking == "widened":
        spans = WIDENED * op.chunks.data * CHUNK_BYTES // ROW_BYTES
        return ((0, spans * op.rows.data * ROW_BYTES),)
    rows, depth = CHUNK_BYTES * op.chunks.data, op.rows.data
    return merged(
        (first * rows + row * ROW_BYTES, first * rows + row * ROW_BYTES + min(ROW_BYTES, depth - first))
        for first in range(0, depth, ROW_BYTES)
        for row in range(rows)
    )


def check_room_read(walk: RoleWalk, op: object, slot: Token | None, buffer: Buffer, ranges: Ranges) -> None:
    """What a product reads of a room must have been made, whichever operation made it last."""
    if not isinstance(slot, Slot) or slot.ring != buffer.name:
        return
    for made in walk.kernel.operations.of(SlotRemakeOp):
        if made.room is buffer.op.result:
            written = room_ranges(made)
            if overlap(ranges, written) != ranges:
                walk.report(
                    "WG007",
                    op,  # pyright: ignore[reportArgumentType]
                    f"reads {size(ranges)} bytes of room {buffer.name}, of which {size(overlap(ranges, written))} are "
                    "made",
                    against=made,
                )
