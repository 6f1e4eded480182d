"""Products whose operands both come out of slots, by wgmma: one at a time, or the sum of a walk's.

Checked by: tests/lower/cascade, tests/end_to_end/test_walked_products.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, StringAttr, i32
from xdsl.ir import Block, Region, SSAValue

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentMapOp
from tilewright.ir.cascade import SPAN_BYTES, slices_symbol
from tilewright.ir.cascade_facts import Product, first_alike
from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.ir.function import Function
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.lower.build import counted_loop
from tilewright.lower.cascade.plain_load import load_ahead
from tilewright.lower.cascade.remade import make_ahead, operand_phase, operand_ring, read_by
from tilewright.lower.cascade.results import free_staging
from tilewright.lower.cascade.running import Running
from tilewright.lower.cascade.slots import b_properties, matrix_layout, step_elements, wgmma_wait
from tilewright.lower.distribution.turns import pass_turn
from tilewright.lower.expression import scalar_function

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


def multiplied(consumer: Consumer, product: Product) -> tuple[tile.LoadOp, tile.LoadOp]:
    """The loads of a product whose operands are both brought, as the rings know them."""
    assert isinstance(product.held.owner, tile.LoadOp)
    return first_alike(consumer.program, product.held.owner), product.brought


def product_of_slots(consumer: Consumer, product: Product, start: SSAValue | None, result: SSAValue) -> None:
    """Both operands out of slots: what stays for the tile, and what comes with the streamed axis; or slice by slice of
    the axis that they share. result: the sum that this makes."""
    loads = left, brought = multiplied(consumer, product)
    starts = [] if start is None else [consumer.start(start)]
    if consumer.is_added(product.op):
        consumer.values[result] = sum_of_parts(consumer, product, loads)
        return
    if consumer.rings[left].decision.sliced:
        symbol = slices_symbol(product.op.axis.data)
        consumer.values[result] = sum_of_slots(consumer, product, loads, symbol, starts)
        return
    phases = consumer.wait(left), operand_phase(consumer, brought)
    inflight, b_reading, a_reading = issue(consumer, product, loads, phases, starts)
    consumer.running[result] = Running(inflight, ((read_by(consumer, brought), b_reading), (left, a_reading)))
    consumer.issue_postponed()
    # Before the wait, so that the loads run beside the products of the iteration before, too.
    consumer.load_along(product.op)
    unsettled = [reading for item in consumer.unsettled.values() for reading in item.readings]
    give_back(consumer, unsettled, len(consumer.running))
    consumer.unsettled = {value: replace(item, readings=()) for value, item in consumer.unsettled.items()}
    make_ahead(consumer, product.op)


def issue_next(
    consumer: Consumer, product: Product, loads: tuple[tile.LoadOp, tile.LoadOp], starts: list[SSAValue]
) -> list[SSAValue]:
    """Wait for the next slots of loads, one for those that are joined, and multiply them, as `issue` does. Cursors move
    on behind the product, which then waits for nothing but the slots."""
    found = issue(consumer, product, loads, next_slots(consumer, loads), starts)
    move_on(consumer, loads)
    return found


def next_slots(consumer: Consumer, loads: Sequence[tile.LoadOp]) -> list[SSAValue]:
    """The next slots of loads, full; one for those that are joined."""
    led = [load for load in loads if load in consumer.cursors]
    return [consumer.rings[load].wait(consumer.build, consumer.cursors[load], "full") for load in led]


def move_on(consumer: Consumer, loads: Sequence[tile.LoadOp]) -> None:
    """Put the cursors of loads behind these slots."""
    for load in (load for load in loads if load in consumer.cursors):
        consumer.cursors[load] = consumer.rings[load].advance(consumer.build, consumer.cursors[load])


def sum_of_slots(
    consumer: Consumer,
    product: Product,
    loads: tuple[tile.LoadOp, tile.LoadOp],
    symbol: str,
    starts: list[SSAValue],
    distance: int = 1,
) -> SSAValue:
    """The sum of the products of slots that come one after the other. symbol: the number of slots; starts: what the sum
    begins at, if not 0; distance: products that are issued after a slot's own before that one is waited for and the
    slot is released."""
    consumer.settle()
    led = [load for load in loads if load in consumer.cursors]
    running, *readings = issue_next(consumer, product, loads, starts)
    # Beside a product that runs, so that nothing waits for them.
    load_ahead(consumer)
    held = [readings]
    while len(held) < distance:
        running, *readings = issue_next(consumer, product, loads, [running])
        held.append(readings)
    if not distance:
        give_back(consumer, held.pop(), 0)
    carried = [*(consumer.cursors[load] for load in led), running, *chain.from_iterable(held)]
    inner, block, loop = counted_loop(consumer.build, max(1, distance), carried, symbol=symbol)
    each = len(readings)
    cursors, (running, *before) = block.args[1 : 1 + len(led)], block.args[1 + len(led) :]
    body = replace(consumer, build=inner, cursors=consumer.cursors | dict(zip(led, cursors, strict=True)))
    running, *newest = issue_next(body, product, loads, [running])
    before += newest
    give_back(body, before[:each], distance)
    inner.add(ac.YieldOp.create(operands=[*(body.cursors[load] for load in led), running, *before[each:]]))
    outputs = list(loop.outputs)
    consumer.cursors |= dict(zip(led, outputs, strict=False))
    running, *left = outputs[len(led) :]
    pass_turn(consumer.build, consumer.shared.turns, consumer.unit)
    free_staging(consumer)
    if consumer.d.grouping:
        # Its loads and divisions take as long as the last products, which are still running.
        consumer.build.add(ac.NextGroupTileOp.create())
    return drained(consumer, running, [left[at : at + each] for at in range(0, len(left), each)])


def give_back(consumer: Consumer, readings: Sequence[SSAValue], pending: int) -> None:
    """Release a slot once all but so many of the newest products are done. readings: what a product reads of it."""
    for (retired,) in [wgmma_wait(consumer.build, reading, None, pending) for reading in readings]:
        consumer.release(retired)


def drained(consumer: Consumer, running: SSAValue, held: Sequence[Sequence[SSAValue]]) -> SSAValue:
    """The settled sum, once all products are done; held: the slots that they read, the oldest first."""
    if not held:
        (settled,) = wgmma_wait(consumer.build, None, running)
        return settled
    *older, (first, *others) = held
    for number, readings in enumerate(older):
        give_back(consumer, readings, len(older) - number)
    retired, settled = wgmma_wait(consumer.build, first, running)
    for phase in [retired, *(wgmma_wait(consumer.build, other, None)[0] for other in others)]:
        consumer.release(phase, first=bool(consumer.d.releases_first))
    return settled


def sum_of_parts(consumer: Consumer, product: Product, loads: tuple[tile.LoadOp, tile.LoadOp]) -> SSAValue:
    """The product of two slots, whose contracted axis is taken a row of shared memory at a time: threads add up what
    the tensor core sums of each."""
    over, slot = product.op.axis.data, operand_ring(consumer, loads[1]).decision
    steps = consumer.depth_of(over, operand_ring(consumer, loads[1])) // step_elements(slot)
    along = SPAN_BYTES // slot.element_bytes // step_elements(slot)
    parts = [(first, min(along, steps - first)) for first in range(0, steps, along)]
    for load in loads:
        consumer.left[load] += 0 if load in consumer.rooms else len(parts) - 1
    sums: list[SSAValue] = []
    for part in parts:
        # A slot that a product reads is waited for, so that one part follows the other.
        phases = consumer.wait(loads[0]), operand_phase(consumer, loads[1])
        inflight, b_reading, a_reading = issue(consumer, product, loads, phases, [], part)
        consumer.running[inflight] = Running(
            inflight, ((read_by(consumer, loads[1]), b_reading), (loads[0], a_reading))
        )
        sums.append(inflight)
    consumer.load_along(product.op)
    make_ahead(consumer, product.op)
    consumer.wait_until(None)
    kind = sums[0].type
    assert isinstance(kind, ac.InflightType)
    total, *others = (consumer.values.pop(each) for each in sums)
    body = Block(arg_types=[ac.ScalarType()] * len(sums))
    inner = consumer.build.inside(body)
    found: SSAValue = body.args[0]
    for argument in body.args[1:]:
        found = scalar_function(inner, Function.ADD.value, found, argument)
    inner.add(ac.YieldOp.create(operands=[found]))
    op = FragmentMapOp.create(
        operands=[total, *others],
        properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(sums), 0])},
        result_types=[ac.FragmentType(kind.m, kind.n, StringAttr("mn"), StringAttr(Element.F32.value))],
        regions=[Region(body)],
    )
    consumer.build.add(op)
    return op.results[0]


def issue(
    consumer: Consumer,
    product: Product,
    loads: tuple[tile.LoadOp, tile.LoadOp],
    phases: Sequence[SSAValue],
    starts: list[SSAValue],
    part: tuple[int, int] | None = None,
) -> list[SSAValue]:
    """Multiply two slots, that of the held operand first; the accumulator, and what is read of the other and of it, or
    of both where they are joined and have one phase. part: of the steps along the contracted axis, the first and how
    many; all where none is said."""
    a, b, over = consumer.rings[loads[0]], operand_ring(consumer, loads[1]), product.op.axis.data
    depth = consumer.depth_of(over, b)
    major, leading, stride, steps = matrix_layout(a.decision, over, depth)
    # A unit's rows: 64 rows of each box, or, where rows are contiguous, a box of their own.
    apart = 64 * 128 if major == "K" else a.decision.span_bytes
    of_b = b_properties(b.decision, over, depth)
    if part is not None:
        taken = slice(part[0], part[0] + part[1])
        _, _, _, b_steps = matrix_layout(b.decision, over, depth)
        steps, of_b = steps[taken], of_b | {"b_step_bytes": int_array(b_steps[taken])}
    *held, phase = phases
    properties, kinds = consumer.issue_types(b, over)
    consumer.build.add(ac.WgmmaFenceOp.create())
    op = ac.WgmmaIssueOp.build(
        operands=[phase, a.buffer, b.buffer, consumer.unit, starts[0] if starts else None, *(held or [None])],
        properties={
            **properties,
            "steps": IntAttr(len(steps)),
            "a_major": StringAttr(major),
            "a_leading_bytes": IntAttr(leading),
            "a_stride_bytes": IntAttr(stride),
            "a_step_bytes": int_array(steps),
            "a_block_bytes": IntAttr(apart),
            "a_instance_bytes": IntAttr(0 if consumer.d.turns else consumer.d.unit_rows // BLOCK_ROWS * apart),
            **of_b,
        },
        result_types=[*kinds, ac.ReadingType(a.name) if held else None],
    )
    consumer.build.add(op)
    consumer.build.add(ac.WgmmaCommitOp.create())
    return list(op.results)
