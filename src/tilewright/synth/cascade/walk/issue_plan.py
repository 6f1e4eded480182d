"""Which products of a walk are issued together, which is left to the next iteration, what is loaded meanwhile, and do
consumers issue in order?

Of accumulators in registers. A product over the streamed axis whose sum is only carried on is issued by the next
iteration, behind that one's first product, so that the tensor core works on it while threads compute; of several the
last one is. Where a walk stores there is none: its stores stand in one loop, whose iterations tell them apart. Products
over the streamed axis whose operands are computed of none another's result, as two gradients are, are issued together,
each from a bank of A's registers of its own. Numbers of the streamed columns that no slot brings are loaded while the
first product runs: what brings them takes longer than a product, and they would be waited for in every iteration.

Consumers begin an iteration at once, as its slots come. Where no product is left to the next iteration, two of them
issue at the same times, then compute at the same times while the tensor core waits, and stay so. In order
(`ir.ac.issue_order`), one has the turn from the products of an iteration's values to those of the next one's slots, and
computes while the other has it. The products of values run meanwhile: they are waited for behind the first one of
those of slots. Of three, two compute beside the third's products anyway: in order the gradients of
queries of head size 64 took 6 % longer.

Where a product is left to the next iteration, it runs beside the same consumer's arithmetic, behind that one's first
product, and consumers drift apart by themselves. In order, the turn lasts from the first product to the one that was
left, so that the tensor core serves one consumer's products, not some of each: whether that is quicker,
`walk_time.order_pays` says. Not handled: ordered walks that store on the way, or, with no product left, carry on other
values than sums of products.

Checked by: tests/synth/cascade/walk/test_issue_plan.py and tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tilewright.ir.cascade_facts import (
    CascadeAxes,
    Product,
    first_alike,
    load_number,
    loads_of_walk,
    products_of,
    sum_of,
)
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loops
from tilewright.ir.tile.repeats import computed_of, users

_WAITING = 2
"""Consumers that issue in order where they wait for all products of an iteration."""


@dataclass(frozen=True, slots=True)
class IssuePlan:
    """As `CascadeDecisions` has it. ordered: whether consumers can issue in order."""

    late: tuple[int, ...]
    issued_together: tuple[tuple[int, ...], ...]
    loaded_along: tuple[int, ...]
    ordered: bool = False


def issue_plan(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    brought: Collection[tile.LoadOp],
    sliced: Collection[tile.LoadOp],
    soon: Collection[int] = (),
    *,
    consumers: int,
) -> IssuePlan:
    """brought: loads that come to slots, of those that are alike the first; sliced: those whose slots have slices;
    soon: products that are waited for in their own iteration, since threads add them to sums, or make their
    operands while the iteration's first product runs; consumers: of a tile."""
    products = products_of(program)
    ordered = consumers >= _WAITING and not sliced and not soon
    late, together, along = list[int](), list[tuple[int, ...]](), list[int]()
    for loop in loops(program):
        inside = {number: each for number, each in enumerate(products) if each.op.parent_op() is loop}
        left = [number for number in _late(axes, loop, inside, brought) if number not in soon]
        together += _together(axes, inside)
        whole = [each for each in inside.values() if each.op.axis.data != axes.streamed]
        if any(each.held.owner not in sliced for each in whole):
            along += _along(program, axes, loop, brought)
        alternates = consumers == _WAITING and _alternates(axes, loop, inside, together)
        ordered = ordered and bool(whole) and (bool(left) or alternates)
        late += left
    # One kind of turn in all walks of a tile.
    ordered = ordered and len(late) in (0, len(loops(program)))
    return IssuePlan(tuple(late), tuple(together), tuple(dict.fromkeys(along)), ordered)


def _alternates(
    axes: CascadeAxes, loop: tile.LoopOp, inside: dict[int, Product], together: Collection[tuple[int, ...]]
) -> bool:
    """Whether an iteration issues products of slots, computes, and issues one group of products of values, with nothing
    left to compute then: it carries on their sums alone."""
    over = tuple(number for number, each in inside.items() if each.op.axis.data == axes.streamed)
    sums = [sum_of(inside[number].op, axes)[1] for number in over]
    begun = any(sum_of(each.op, axes)[0] is not None for number, each in inside.items() if number not in over)
    *body, last = loop.body.block.ops
    carried = isinstance(last, tile.YieldOp) and all(value in sums for value in last.values)
    stores = any(isinstance(op, tile.StoreOp) for op in body)
    grouped = len(over) == 1 or over in together
    return 0 < len(over) < len(inside) and grouped and carried and not begun and not stores


def _late(
    axes: CascadeAxes,
    loop: tile.LoopOp,
    inside: dict[int, Product],
    brought: Collection[tile.LoadOp],
) -> list[int]:
    if any(isinstance(op, tile.StoreOp) for op in loop.body.block.ops):
        return []
    uses = loads_of_walk(loop, list(inside.values()), brought)
    found: list[int] = []
    for number, each in inside.items():
        other, result = sum_of(each.op, axes)
        carried = all(isinstance(user, tile.YieldOp) for user in users(result))
        if each.op.axis.data == axes.streamed and other is not None and carried and uses[each.brought] == 1:
            found = [number]
    return found


def _together(axes: CascadeAxes, inside: dict[int, Product]) -> list[tuple[int, ...]]:
    over = {number: each for number, each in inside.items() if each.op.axis.data == axes.streamed}
    found: list[tuple[int, ...]] = []
    for first in over:
        behind = {number: each for number, each in over.items() if number >= first}
        results = [each.op.result for each in behind.values()]
        group = tuple(number for number, each in behind.items() if not _is_computed_of(each, results))
        if len(group) > 1 and not any(set(group) <= set(other) for other in found):
            found.append(group)
    return found


def _is_computed_of(product: Product, results: Collection[object]) -> bool:
    block = product.op.parent
    assert block is not None
    return any(value in results for value in computed_of(product.held, block))


def _along(
    program: tile.ProgramOp, axes: CascadeAxes, loop: tile.LoopOp, brought: Collection[tile.LoadOp]
) -> list[int]:
    plain = [
        op for op in loop.body.block.ops if isinstance(op, tile.LoadOp) and first_alike(program, op) not in brought
    ]
    return [load_number(program, op) for op in plain if axes.kept(op.result) == frozenset({axes.streamed})]
