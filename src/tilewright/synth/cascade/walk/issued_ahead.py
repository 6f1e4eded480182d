"""Which products of a walk that does more than sum may a role of its own issue?

Those whose operands are both loaded, contracted along an axis that is whole in a slot, and read by threads in the same
iteration: as queries with keys. It issues them for the rows of both consumers at once, at the tensor core's full rate,
and ahead of what the consumers compute (`lower.cascade.issued_ahead`). The price is that their columns are taken from
the consumers' parts, twice, and a warpgroup's registers. Such tiles are candidates beside others, and the time model
chooses.

A consumer's rows lie as the shared product has them, 16 of each warp's quarter of lanes. So the consumers may take no
operand with rows out of a slot themselves: all products of two slots are the role's, or none is. Not handled: rows in
groups, rows that threads read out of slots, operands that consumers make anew, 8-bit slices that threads add, parts of
a tile in slices, stores on the way. Checked by: tests/end_to_end/test_blackwell_issuer.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.cascade import SlotDecision
from tilewright.ir.cascade_facts import CascadeAxes, Product, first_alike, is_of_slots, products_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import grouping, loads, loops
from tilewright.synth.cascade.sums.added_sums import added_products
from tilewright.synth.cascade.sums.tensor_columns import slot_sums, staying_sums
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


def issuable(
    program: tile.ProgramOp, axes: CascadeAxes, brought: Sequence[tile.LoadOp], target: Target, wanted: Wanted
) -> tuple[int, ...]:
    """Their numbers; none where consumers issue all."""
    if wanted.issuer is False or not target.supports("tensor_memory") or slot_sums(program, target):
        return ()
    if grouping(program) is not None or wanted.cluster not in (None, (1, 1)):
        return ()
    products = products_of(program)
    of_slots = [number for number, each in enumerate(products) if is_of_slots(program, each)]
    fit = [number for number in of_slots if _is_issuable(program, axes, products[number], brought)]
    apart = {*staying_sums(program, axes, target), *added_products(program, axes, target, wanted)}
    if fit != of_slots or apart & set(fit):
        return ()
    storing = any(isinstance(op, tile.StoreOp) for loop in loops(program) for op in loop.body.block.ops)
    multiplied = {load for each in products for load in _loads(program, each)}
    return () if storing or set(brought) - multiplied else tuple(fit)


def _is_issuable(program: tile.ProgramOp, axes: CascadeAxes, product: Product, brought: Sequence[tile.LoadOp]) -> bool:
    loaded = _loads(program, product)
    kept = axes.kept(product.op.result)
    if product.widened:
        return False
    return len(loaded) == 2 and set(loaded) <= set(brought) and kept == frozenset({axes.row, axes.streamed})


def obstacle(program: tile.ProgramOp, issued: Sequence[int], slots: Sequence[SlotDecision]) -> str:
    """Which operand of what a role issues is not in its slot as it is multiplied, in words; "" if all are."""
    listed, products = loads(program), products_of(program)
    taken = {load for at in issued for load in _loads(program, products[at])}
    made = (each.buffer for each in slots if each.remade and listed[each.load] in taken)
    return next((f"products of {name}, which consumers make anew, by another role" for name in made), "")


def _loads(program: tile.ProgramOp, product: Product) -> list[tile.LoadOp]:
    held = product.held.owner
    found = [first_alike(program, held)] if isinstance(held, tile.LoadOp) else []
    return [*found, product.brought]
