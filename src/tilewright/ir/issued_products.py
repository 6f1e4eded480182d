"""Which of an iteration's products does a role of its own issue, and which loads do they read?

Decisions name them by their numbers (`CascadeDecisions.issued`); their sums stand side by side in a slot of tensor
memory. Consumers issue the others, and read the loads of those. A load may be read by both. Checked by:
tests/contract/typestate/steps/test_issued_ahead.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import Product, first_alike, loads_of_walk, products_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loads, loops


def issued_products(program: tile.ProgramOp, d: CascadeDecisions, loop: tile.LoopOp | None = None) -> list[Product]:
    """Those that a role issues, of a walk where one is given."""
    products = products_of(program)
    return [products[at] for at in d.issued if loop is None or products[at].op.parent_op() is loop]


def operands_of(program: tile.ProgramOp, product: Product) -> tuple[tile.LoadOp, tile.LoadOp]:
    """Of the rows first, as the rings know them."""
    assert isinstance(product.held.owner, tile.LoadOp), "what a role issues takes both operands out of slots"
    return first_alike(program, product.held.owner), product.brought


def issued_columns(d: CascadeDecisions, products: Sequence[Product]) -> Mapping[SSAValue, int]:
    """Where in a slot the sum of each product of an iteration begins: each has a column for each streamed element."""
    return {each.op.result: number * d.tile_streamed for number, each in enumerate(products)}


def loads_issued(program: tile.ProgramOp, d: CascadeDecisions) -> tuple[set[tile.LoadOp], set[tile.LoadOp]]:
    """(what the role that issues reads, what consumers read) of the loads that go through shared memory."""
    listed = loads(program)
    brought = [listed[each.load] for each in d.slots]
    taken = issued_products(program, d)
    issued = {load for each in taken for load in operands_of(program, each)}
    others: set[tile.LoadOp] = set()
    for loop in loops(program):
        others |= consumers_uses(program, d, loop, brought).keys()
    return issued, others


def consumers_uses(
    program: tile.ProgramOp, d: CascadeDecisions, loop: tile.LoopOp, brought: Sequence[tile.LoadOp]
) -> dict[tile.LoadOp, int]:
    """How often the consumers read each load in a tile of a walk."""
    found = loads_of_walk(loop, products_of(program), brought)
    for each in issued_products(program, d, loop):
        for load in operands_of(program, each):
            found[load] -= 1
    return {load: count for load, count in found.items() if count}
