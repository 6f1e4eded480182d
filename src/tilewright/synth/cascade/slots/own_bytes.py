"""Does each tile of a walk bring bytes into its slots that no other tile brings?

Then neighbours gain nothing by asking at the same time, the L2 cache need not keep what passes, and device memory sets
the time (`synth.cut.time.streaming_slots`). What stays for a tile is not counted.

Not handled: tables that name one place twice. Checked by: tests/synth/cascade/slots/test_own_bytes.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.cascade import SlotDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis


def brings_its_own(
    program: tile.ProgramOp,
    slots: Sequence[SlotDecision],
    row: tuple[str, int],
    column: tuple[str, int],
    batch: Sequence[str],
) -> bool:
    """row, column: axes, and elements of a tile along them."""
    sides = [*(row, column), *((axis, 1) for axis in batch)]
    along = {axis for axis, size in sides if axis and program.extents[axis] > size}
    return all(along <= _axes(each) for each in slots if not each.resident)


def _axes(slot: SlotDecision) -> set[str]:
    """What the place of a slot's bytes depends on."""
    looked_up = (base_axis(axis) for each in slot.lookups for axis in each.axes)
    return {slot.inner, slot.outer, *slot.batch, *looked_up}
