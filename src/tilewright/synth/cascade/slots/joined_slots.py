"""Which slots of a walk that sums are filled and waited for together?

Those of both operands of a product, which nothing else reads, under one barrier. Of several products with one operand
in common the others stand side by side in one slot, so that one instruction multiplies by all of them; that one comes
first.

Checked by: tests/synth/cascade/sums/test_sum_tile.py, and by `contract` on the lowered kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.ir.cascade import SlotDecision
from tilewright.ir.cascade_facts import Product, first_alike, refuse_at
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loads


def joined_slots(
    program: tile.ProgramOp,
    sums: Sequence[Product],
    brought: Sequence[tile.LoadOp],
    slots: Sequence[SlotDecision],
    *,
    read_once: bool,
    computed: bool,
) -> tuple[SlotDecision, ...]:
    """The slots of the loads of these sums, joined where nothing else reads them; that of the operand with the rows
    comes first.

    read_once: whether no byte of what the products do not have in common is expected to be read a second time;
    computed: whether the operand with the rows is computed of its slot, by which that is read alone. Raises
    TilewrightError at the author's line for operands of several products that lie in different ways."""
    products = [each.op for each in sums]
    alike = [load for load in loads(program) if first_alike(program, load) in brought]
    alone = all(use.operation in products for load in alike for use in load.result.uses)
    of_load = dict(zip(brought, slots, strict=True))
    others = [load for load in brought if load in {each.brought for each in sums}]
    first, *rest = (of_load[load] for load in brought if load not in others)
    behind = [replace(of_load[load], read_once=int(read_once)) for load in others]
    if rest or not (alone or computed):
        assert len(sums) == 1, "in a walk that only sums, products alone read what is brought for them"
        return first, *rest, *behind
    ways = {(each.inner, each.outer, each.box) for each in behind}
    if len(ways) > 1:
        names = " and ".join(each.buffer for each in behind)
        refuse_at(products[-1], f"{names} lie in memory in different ways", "give all of them one layout")
    count = len(behind)
    return first, *(replace(each, joined=1, among=count, which=at) for at, each in enumerate(behind))
