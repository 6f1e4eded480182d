"""How the copies through each chosen tensor map complete: mechanism, bytes of a stage, stages.

A load completes by transactions on the mbarrier of its slot: the full box counts, whatever part of it lies outside the
tensor; what threads copy completes by their deferred arrivals there. A store completes as a bulk group of its own, and
its slot may be written again when at most `pending` newer groups are unread. The plans are attributes of the program;
`lower` announces and waits for what stands in them, and `contract` proves that what is announced is what arrives.
Source: PTX ISA, cp.async.bulk.tensor, completion mechanisms.
Checked by: tests/synth/operand/test_async_plan.py.
"""

from __future__ import annotations

from tilewright.ir.decisions import DEFERRED_ARRIVALS, AsyncPlan, StoreDecision

GROUPS = "bulk groups"


def plan_store(store: StoreDecision, slots: int, chunks: int) -> AsyncPlan:
    """The store of one staged box; `slots` of them take turns over the `chunks` of a tile."""
    box_bytes = store.map.tensor_map().box_bytes
    pending = stores_under_way(chunks, slots) - 1
    return AsyncPlan(store.parameter, "store", GROUPS, box_bytes, 1, 1, box_bytes, slots, pending)


def stores_under_way(chunks: int, slots: int) -> int:
    """From one store to the next that takes its slot, at the least. Every tile begins with slot 0: where its chunks do
    not come out even, the last of them come back to their slots as soon as there are chunks in the last round."""
    return chunks % slots or slots


def plan_words(plan: AsyncPlan) -> str:
    """One line for the report."""
    boxes = f"{plan.boxes} box{'es' if plan.boxes > 1 else ''} of {plan.box_bytes} bytes"
    if plan.direction == "load":
        shared = f" from each of {plan.issuers} CTAs" if plan.issuers > 1 else ""
        told = "copied by threads" if plan.mechanism == DEFERRED_ARRIVALS else "announced"
        return (
            f"loads of {plan.buffer}: {plan.mechanism}, {boxes}{shared}, {plan.stage_bytes} bytes {told} in each of "
            f"{plan.stages} stages"
        )
    return f"stores of {plan.buffer}: {plan.mechanism}, {boxes}, {plan.stages} slots, {plan.pending} still being read"
