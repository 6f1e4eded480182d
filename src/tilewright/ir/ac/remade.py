"""Operands that a unit's threads make anew for the tensor core, in the asynchronous contract.

What a slot brings may not be what the tensor core takes: 8-bit elements that lie across the contracted axis, or 8-bit
elements that are to be multiplied as 16-bit ones. So a unit has a *room* of its own in shared memory: a buffer with a
slot for each unit, guarded by no ring. Its threads read a full slot, write what they make of it to the unit's room, and
multiply that.

- `ac.room.start` gives a unit its room, as a phase that names the buffer and has been retired.
- `ac.slot.remake` writes it, and hands back the slot that was read.
- A product takes the room for its B as it takes a slot, and the wait for it retires the room.
- `ac.room.end` gives it up.

The phase of a room is used once, as every phase is, so nobody writes it while a product reads it. `kind` is one of

- "turned": rows of the slot become columns. Row r of the room has column r of the slot, and the slot's row at place
  8 (i / 2) + 2 t + i % 2 of sixteen stands at place 4 t + i: the order in which threads have the columns of an
  accumulator (`lower.fragment.narrow_operand`), which costs no exchange.
- "widened": rows stay rows, and each element becomes one of 16 bits, which has every number of 8 bits.

Source: PTX ISA, ldmatrix, stmatrix, cvt; fence.proxy.async. Checked by: tests/contract/typestate/steps/test_remade.py
and tests/end_to_end/test_narrow_attention.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import AcOperation, Values, types_of
from tilewright.ir.tier import MemoryType

Remaking = Literal["turned", "widened"]
WIDENED_ROWS = 16
"""Of a slot, that a warp widens at a time: an operand that is widened has a multiple of them."""
CHUNK_BYTES = 16
"""Of a slot's row, that is taken at a time."""
ROW_BYTES = 128
"""Of a row, in one span of the swizzle."""


@irdl_op_definition
class RoomStartOp(AcOperation):
    """The unit's room, which nobody reads."""

    name = "ac.room.start"
    room = operand_def(MemoryType)
    unit = operand_def(ac.IndexType)
    result = result_def(ac.PhaseType)


@irdl_op_definition
class SlotRemakeOp(AcOperation):
    """Make the room of a slot's first `chunks` times 16 bytes of each of its `rows` rows.

    Every thread reads and writes its part, fences what it did towards the async proxy, and knows then that all of the
    unit's threads have: they meet at the named barrier `first_barrier` plus the unit's number.
    """

    name = "ac.slot.remake"
    kind = prop_def(StringAttr)
    rows = prop_def(IntAttr)
    chunks = prop_def(IntAttr)
    first_barrier = prop_def(IntAttr)
    phase = operand_def(ac.PhaseType)
    source = operand_def(MemoryType)
    free = operand_def(ac.PhaseType)
    room = operand_def(MemoryType)
    unit = operand_def(ac.IndexType)
    made = result_def(ac.PhaseType)
    held = result_def(ac.PhaseType)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        slots, rooms = (types_of(ac.PhaseType, operands, name) for name in ("phase", "free"))
        if not slots or not rooms:
            return {}
        return {"made": ac.PhaseType(rooms[0].ring, StringAttr("full")), "held": slots[0]}

    @property
    def remaking(self) -> Remaking | None:
        """None for a kind that is none of both."""
        return self.kind.data if self.kind.data in ("turned", "widened") else None


@irdl_op_definition
class RoomEndOp(AcOperation):
    """The unit needs its room no longer."""

    name = "ac.room.end"
    phase = operand_def(ac.PhaseType)


OPERATIONS = (RoomStartOp, SlotRemakeOp, RoomEndOp)
