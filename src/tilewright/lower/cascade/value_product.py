"""Products of values in registers with slots: which are issued together, and in whose turn.

Where consumers issue in order (`distribution.issue_order`), a consumer takes its turn before the products of an
iteration's values, and passes it on once those of the next iteration's slots are issued. So all products of one
consumer run while the other computes. The next iteration waits for the products of values once its own first one is
issued: waited for before, they would leave the tensor core idle until that is. Where a product is left to the next
iteration, the turn lasts from that one's first product to the one that is left.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.lower.cascade.point_maps import left_operand
from tilewright.lower.cascade.remade import operand_phase, operand_ring, read_by
from tilewright.lower.cascade.running import Postponed, Room, Running
from tilewright.lower.cascade.slots import b_properties, step_elements
from tilewright.lower.cascade.walked_store import leave_walked, stage_operands
from tilewright.lower.distribution.issue_order import take_issue

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


def products_of_values(consumer: Consumer, first: ContractOp) -> None:
    """Multiply values in registers, each from a bank of its own, added to what the program adds them to: of a product,
    and of those that are issued with it."""
    ops = _together(consumer, first)
    # ptxas moves no arithmetic across the loop that waits for a slot. So what stands before it runs beside the
    # product of the iteration before, for which what comes next waits.
    for op in ops:
        brought = consumer.products[op].brought
        if brought not in consumer.held and brought not in consumer.rooms:
            consumer.wait(brought)
    starts = [other and consumer.begun(other) for other, _ in map(consumer.start_of, ops)]
    products = [consumer.products[op] for op in ops]
    held = [left_operand(consumer, each.op, each.element) for each in products]
    staged = stage_operands(consumer, products, held)
    if consumer.late is None:
        take_issue(consumer.build, consumer.issue_order)
    for bank, (product, start, operand) in enumerate(zip(products, starts, held, strict=True)):
        result, phase = consumer.start_of(product.op)[1], operand_phase(consumer, product.brought)
        if result is consumer.late and start is not None:
            del consumer.held[product.brought]
            consumer.postponed[result] = Postponed(product.op, start, operand, phase)
        else:
            reads = read_by(consumer, product.brought)
            consumer.running[result] = issue_held(consumer, product.op, operand, phase, start, reads, bank)
    leave_walked(consumer, staged)


def _together(consumer: Consumer, op: ContractOp) -> list[ContractOp]:
    """The products that are issued with this one."""
    listed = [each.op for each in consumer.products.values()]
    groups = ([listed[number] for number in group] for group in consumer.d.issued_together)
    return next((group for group in groups if group[0] is op), [op])


def issue_held(
    consumer: Consumer,
    op: ContractOp,
    held: SSAValue,
    phase: SSAValue,
    start: SSAValue | None,
    load: tile.LoadOp | Room | None,
    bank: int,
) -> Running:
    """Multiply a fragment, in a bank of A's registers, with a slot, added to another. load: as `Running` has it."""
    brought = consumer.products[op].brought
    ring, turned = operand_ring(consumer, brought), consumer.rings[brought].decision.remade == "turned"
    depth = consumer.d.tile_streamed
    properties, kinds = consumer.issue_types(ring, op.axis.data)
    if start is not None and not isinstance(start.type, ac.InflightType):
        start = consumer.start(start)
    issue = FragmentIssueOp.create(
        operands=[held, phase, ring.buffer, *([] if start is None else [start])],
        properties=properties
        | {"steps": IntAttr(depth // step_elements(ring.decision))}
        | ({"exchanged": IntAttr(1)} if ring.decision.element_bytes == 1 and not turned else {})
        | ({"bank": IntAttr(bank)} if bank else {})
        | b_properties(ring.decision, op.axis.data, depth),
        result_types=kinds,
    )
    consumer.build.add(issue)
    consumer.build.add(ac.WgmmaCommitOp.create())
    return Running(issue.results[0], ((load, issue.results[1]),), computed=True)
