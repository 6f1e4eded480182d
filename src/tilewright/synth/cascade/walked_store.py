"""Which results of a walk that threads multiply on the way leave in boxes?

A result over rows and the streamed axis whose numbers are the left operand of a product, as the scores' gradient is of
the keys', is packed in A's registers when that product is issued. From there `stmatrix` brings it to staging slots, and
the copy engine stores it while the product runs; threads that store it themselves would have to round it once more, and
wait for the product first, whose operand must not be written meanwhile. A consumer has a slot for each box of an
iteration, which is waited for while the next iteration's first product runs.

Not handled (stored by threads): results that no product takes, of other elements, contiguous along neither axis of a
box, and targets whose products' sums are no registers. Checked by: tests/synth/cascade/test_walked_store.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.ir.cascade_facts import CascadeAxes, products_of
from tilewright.ir.copy_decisions import AsyncPlan, StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loops
from tilewright.ir.tile.repeats import bare
from tilewright.ir.tile.types import read_type, tensor_type, value_type
from tilewright.synth.cascade.boxed_store import box_of
from tilewright.synth.operand.async_plan import plan_store
from tilewright.synth.store.staged_store import planned
from tilewright.synth.store.store_chunks import staged_row
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class WalkedStores:
    """Those that leave in boxes, how each completes, and the slots of a consumer."""

    stores: tuple[StoreDecision, ...] = ()
    plans: tuple[AsyncPlan, ...] = ()
    slots: int = 0
    slot_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Of each consumer."""
        return self.slots * self.slot_bytes


def walked_stores(
    program: tile.ProgramOp, axes: CascadeAxes, unit_rows: int, streamed: int, target: Target, wanted: Wanted
) -> WalkedStores:
    """For tiles of so many streamed columns."""
    row = staged_row(streamed, [_ELEMENT_BYTES])
    if row is None or target.supports("tensor_memory"):
        return WalkedStores()
    found: list[StoreDecision] = []
    for op in _multiplied_stores(program):
        names = tensor_type(op.tensor).axis_names
        order = [axes.streamed, axes.row, *(axis for axis in reversed(names) if axis in axes.batch)]
        store = box_of(program, op, order, unit_rows, row, target, wanted)
        if store is not None:
            found.append(planned(store, target))
    if len(found) != 1:
        return WalkedStores()  # of several, the slots would be the same ones
    boxes = len(found[0].boxes(unit_rows, streamed))
    return WalkedStores(tuple(found), (plan_store(found[0], 1, 1),), boxes, found[0].staged_bytes)


def _multiplied_stores(program: tile.ProgramOp) -> list[tile.StoreOp]:
    """Stores of a walk whose numbers are the left operand of one of its products, rounded alike."""
    found: list[tile.StoreOp] = []
    for loop in loops(program):
        products = [each for each in products_of(program) if each.op.parent_op() is loop]
        over = [each for each in products if each.op.axis.data == loop.axis.data]
        taken = {_rounded(each.held, read_type(each.brought.tensor).element_kind) for each in over}
        for op in loop.body.block.ops:
            if isinstance(op, tile.StoreOp) and _rounded(op.value, value_type(op.value).element_kind) in taken:
                found.append(op)
    return found


def _rounded(value: SSAValue, element: Element) -> tuple[SSAValue, Element]:
    """What is rounded to an element; a cast to it is the rounding."""
    value = bare(value)
    if isinstance(value.owner, tile.CastOp) and value_type(value).element_kind is element:
        value = bare(value.owner.operand)
    return value, element
