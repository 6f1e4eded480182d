"""How the stores through each chosen tensor map complete: bytes of a box, slots.

A store completes as a bulk group of its own, and its slot may be written again when at most `pending` newer groups are
unread. The plans are attributes of the program; `lower` waits for what stands in them, and `contract` proves that this
is enough. How loads complete follows from their slots alone (`lower.cascade.slots`).
Source: PTX ISA, cp.async.bulk.tensor, completion mechanisms.
Checked by: tests/synth/operand/test_async_plan.py.
"""

from __future__ import annotations

from tilewright.ir.decisions import AsyncPlan, StoreDecision


def plan_store(store: StoreDecision, slots: int, chunks: int) -> AsyncPlan:
    """The store of one staged box; `slots` of them take turns over the `chunks` of a tile."""
    pending = stores_under_way(chunks, slots) - 1
    return AsyncPlan(store.parameter, store.map.tensor_map().box_bytes, slots, pending)


def stores_under_way(chunks: int, slots: int) -> int:
    """From one store to the next that takes its slot, at the least. Every tile begins with slot 0: where its chunks do
    not come out even, the last of them come back to their slots as soon as there are chunks in the last round."""
    return chunks % slots or slots


def plan_words(plan: AsyncPlan) -> str:
    """One line for the report."""
    groups = f"bulk groups, 1 box of {plan.box_bytes} bytes, {plan.stages} slots"
    return f"stores of {plan.buffer}: {groups}, {plan.pending} still being read"
