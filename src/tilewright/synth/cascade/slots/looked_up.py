"""What does it cost the thread that fills slots to ask tables where rows lie?

Registers, while it waits for a slot: what a table says, and its address. Arrays that go by one table ask it once.
Not handled: tables of values, which consumers load. Checked by: tests/synth/cascade/test_decide.py.
"""

from __future__ import annotations

from tilewright.ir.cascade import SlotDecision
from tilewright.synth.cascade.slots.remade import in_words
from tilewright.targets import Target

_LOOKED_UP, _REGISTERS_LOOKED_UP = 2, 4
"""So many places that tables say fit in these; each further one takes so many more, for it and its address: with 64,
ptxas (13.0) spills nothing where 8 pages of 16 rows fill a slot."""


def looked_up_registers(slots: tuple[SlotDecision, ...], target: Target) -> int:
    """Of the thread that fills slots, beyond what it has anyway."""
    step = target.limit("setmaxnreg.registers_step")
    asked = {(each.table, each.axes, slot.outer): slot.boxes_down for slot in slots for each in slot.lookups}
    most = sum(asked.values())
    return -(-_REGISTERS_LOOKED_UP * max(0, most - _LOOKED_UP) // step) * step


def by_tables(slot: SlotDecision) -> str:
    """How tables lead to what a slot has, and what consumers do with that, in words."""
    tables = ", ".join(dict.fromkeys(each.table for each in slot.lookups))
    return (f", {slot.box_rows} rows at a time where {tables} says" if tables else "") + in_words(slot)
