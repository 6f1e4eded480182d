"""What a walk gives that only sums products of slots: the tensor core's sum, or one in two levels.

In two levels each slot's product, or each block's of a slot, is added to a total by the threads, as it is or scaled by
numbers of its block. Scales are elementwise expressions of arrays over rows, columns, or blocks of them, and blocks of
the walked axis, in batches and groups too. Their numbers are loaded before the wait for the slot that they belong to;
several scales are multiplied with one another first, and with the product then. Where an iteration has two slots, the
tensor core multiplies one while threads add the product of the other. All are added at the iteration's end: an
assembler gives up on products in flight round a loop whose registers are read. Iterations of four or eight slots, in
which the registers of two products come and go, were no quicker on an H200. Blocks of one slot follow one another.

Checked by: tests/end_to_end/test_walked_products.py, test_walked_bytes.py and test_walked_scales.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorPartsOp
from tilewright.ir.ac.promotion import ScalesLoadOp, ScalesType
from tilewright.ir.cascade_facts import Product, first_alike
from tilewright.ir.scaled_terms import blocks_of_scale, column_run, loads_of_scales, scales_of
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import index_offset, parameter_name
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import Build, affine, counted_loop
from tilewright.lower.cascade.computed_sum import sum_of_computed
from tilewright.lower.cascade.place import is_in_line, own_axes, part_of_batch
from tilewright.lower.cascade.plain_load import load_ahead, row_in_array
from tilewright.lower.cascade.slot_product import issue, issue_next, move_on, multiplied, next_slots, sum_of_slots
from tilewright.lower.cascade.slots import step_elements, wgmma_wait
from tilewright.lower.distribution.split_product import WHOLE_TILE
from tilewright.lower.expression import point_value, scalar_function
from tilewright.lower.two_levels import add_product, read_total, start_total

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


@dataclass(frozen=True, slots=True)
class _Numbers:
    """An array of scales, as a unit reads it in a tile. array: its part at the tile's place in the batch; row, column:
    its first element for the unit; axes, blocks, run: as `ac.scales.load` has them."""

    load: tile.LoadOp
    array: SSAValue
    row: SSAValue
    column: SSAValue
    axes: str
    blocks: tuple[int, ...]
    run: int


def sums_of_walk(consumer: Consumer, walk: tile.LoopOp, products: Sequence[Product]) -> dict[SSAValue, SSAValue]:
    """What a walk gives, where it sums products of one operand, by what the program calls the sums: the other operands
    stand side by side in a slot, so that one product is that of all."""
    # Slots are in the order of the loads, sums in that of the products.
    which = [consumer.rings[each.brought].decision.which for each in products]
    if consumer.d.computed:
        total = sum_of_computed(consumer, products[0], consumer.place.section.slices)
        return {walk.outputs[0]: consumer.of_all_parts(walk.outputs[0], total)}
    loads = multiplied(consumer, products[0])
    if consumer.d.partials:
        found = _in_two_levels(consumer, sorted(products, key=lambda each: which[products.index(each)]), loads)
    else:
        symbol, distance = consumer.place.section.slices, consumer.d.release_distance
        found = [sum_of_slots(consumer, products[0], loads, symbol, [], distance)]
    if len(found) == 1:
        found = _parts(consumer.build, consumer.of_all_parts(walk.outputs[0], found[0]), len(products))
    return {output: found[at] for output, at in zip(walk.outputs, which, strict=True)}


def _parts(build: Build, accumulator: SSAValue, count: int) -> list[SSAValue]:
    """Those of products side by side."""
    if count == 1:
        return [accumulator]
    kind = accumulator.type
    assert isinstance(kind, ac.AccumulatorType)
    part = ac.AccumulatorType(kind.m, IntAttr(kind.n.data // count))
    op = AccumulatorPartsOp.create(operands=[accumulator], result_types=[part] * count)
    build.add(op)
    return list(op.parts)


def _in_two_levels(
    consumer: Consumer, products: Sequence[Product], loads: tuple[tile.LoadOp, tile.LoadOp]
) -> list[SSAValue]:
    """The sum of each product, or of all of them side by side where nothing scales one. products: in the order of their
    slots."""
    d, scales = consumer.d, _scales_of_tile(consumer, products)
    led = [load for load in loads if load in consumer.cursors]
    apart = len(products) if scales else 1
    part = (d.unit_rows, len(products) // apart * d.tile_columns)
    load_ahead(consumer)
    totals = [start_total(consumer.build, *part) for _ in range(apart)]
    ahead = [number for further in range(d.scales_ahead) for number in _loaded(consumer, scales, None, further)]
    carried = [*(consumer.cursors[load] for load in led), *totals, *ahead]
    symbol = consumer.place.section.slices
    inner, block, loop = counted_loop(consumer.build, 0, carried, d.scaled_copies, symbol)
    index, *arguments = block.args
    totals, queue = arguments[len(led) : len(led) + apart], arguments[len(led) + apart :]
    body = replace(consumer, build=inner, cursors=consumer.cursors | dict(zip(led, arguments, strict=False)))
    for number, settled in enumerate(_products_of_iteration(body, products[0], loads)):
        numbers = {each.load: value for each, value in zip(scales, queue, strict=False)}
        terms = zip(products, totals, _parts(inner, settled, apart), strict=False)
        totals = [_added(consumer, inner, product, total, term, numbers) for product, total, term in terms]
        queue = [*queue[len(scales) :], *_loaded(body, scales, index, number + d.scales_ahead)]
    inner.add(ac.YieldOp.create(operands=[*(body.cursors[load] for load in led), *totals, *queue]))
    outputs = list(loop.outputs)
    consumer.cursors |= dict(zip(led, outputs, strict=False))
    return [read_total(consumer.build, *part, total) for total in outputs[len(led) : len(led) + apart]]


def _products_of_iteration(
    body: Consumer, product: Product, loads: tuple[tile.LoadOp, tile.LoadOp]
) -> Iterator[SSAValue]:
    """An iteration's products, each settled, its slot released where it is the last one of it."""
    d = body.d
    if d.slot_parts == 1:
        issued = [issue_next(body, product, loads, []) for _ in range(d.partials)]
        for left, (running, *readings) in zip(reversed(range(len(issued))), issued, strict=True):
            settled, phases = _settled(body.build, running, readings, left)
            for phase in phases:
                body.release(phase)
            yield settled
        return
    assert d.partials == 1, "blocks of one slot follow one another"
    steps = d.tile_streamed // step_elements(body.rings[loads[0]].decision) // d.slot_parts
    phases = next_slots(body, loads)
    move_on(body, loads)
    for number in range(d.slot_parts):
        running, *readings = issue(body, product, loads, phases, [], (number * steps, steps))
        settled, retired = _settled(body.build, running, readings, 0)
        phases = retired[::-1]  # what is read of the other operand comes first
        if number + 1 == d.slot_parts:
            for phase in retired:
                body.release(phase)
        yield settled


def _settled(
    build: Build, running: SSAValue, readings: Sequence[SSAValue], left: int
) -> tuple[SSAValue, list[SSAValue]]:
    """A product and what it has read, once all but so many newer ones are done."""
    first, *others = readings
    retired, settled = wgmma_wait(build, first, running, left)
    return settled, [retired, *(wgmma_wait(build, other, None, left)[0] for other in others)]


def _added(
    consumer: Consumer,
    build: Build,
    product: Product,
    total: SSAValue,
    term: SSAValue,
    numbers: dict[tile.LoadOp, SSAValue],
) -> SSAValue:
    """The total with a product, scaled if it is, added. numbers: of its block, by the load of each array."""
    scales, program = scales_of(product.op), consumer.program
    if not scales:
        return add_product(build, total, term)
    own = list(dict.fromkeys(first_alike(program, load) for load in loads_of_scales(product.op)))

    def scale(inner: Build, scalars: Sequence[SSAValue]) -> SSAValue:
        known = dict(zip(own, scalars, strict=True))
        leaves: dict[SSAValue, SSAValue] = {}
        for block in (block for each in scales for block in blocks_of_scale(each)):
            assert isinstance(block.operand.owner, tile.LoadOp), "what is loaded has a number for each block"
            leaves[block.result] = known[first_alike(program, block.operand.owner)]
        first, *others = [point_value(inner, each, leaves) for each in scales]
        for other in others:
            first = scalar_function(inner, "mul", first, other)
        return first

    return add_product(build, total, term, [numbers[load] for load in own], scale)


def _scales_of_tile(consumer: Consumer, products: Sequence[Product]) -> list[_Numbers]:
    """The arrays of a walk's scales, each once, as this unit reads them in its tile."""
    d, axes, build = consumer.d, consumer.axes, consumer.build
    letters = {d.row: "m", d.column: "n", d.streamed: "k"}
    alike = [first_alike(consumer.program, load) for each in products for load in loads_of_scales(each.op)]
    # Of the whole tile, whatever part of it this CTA stores.
    whole = replace(consumer, stored=WHOLE_TILE)
    rows: dict[bool, SSAValue] = {}
    found: list[_Numbers] = []
    column, none = whole.first(d.column), whole.zero()
    for load in dict.fromkeys(alike):
        names = tensor_type(load.tensor).axis_names
        array = consumer.arrays[parameter_name(consumer.program, load.tensor)]
        array = part_of_batch(build, names, array, consumer.place, d)
        spread = [axis for axis in own_axes(names, d) if base_axis(axis) not in axes.batch]
        shifts = {base_axis(axis): index_offset(index) for axis, index in zip(names, load.indices, strict=True)}
        has_rows = d.row in map(base_axis, spread)
        if has_rows and (line := is_in_line(names, d)) not in rows:
            rows[line] = row_in_array(whole, names)
        first = rows[is_in_line(names, d)] if has_rows else none
        row, across = (_moved(build, at, shifts.get(axis, 0)) for at, axis in ((first, d.row), (column, d.column)))
        blocks = tuple(map(block_size, spread))
        run = math.gcd(column_run(load, d.column, d.tile_columns), d.column_step)
        found.append(
            _Numbers(load, array, row, across, "".join(letters[base_axis(axis)] for axis in spread), blocks, run)
        )
    return found


def _moved(build: Build, index: SSAValue, by: int) -> SSAValue:
    return affine(build, [(index, 1)], by) if by else index


def _loaded(consumer: Consumer, scales: Sequence[_Numbers], index: SSAValue | None, further: int) -> list[SSAValue]:
    """The numbers of each array for the product that comes so much further than the first of iteration `index`; of the
    walk's first iteration where that is None."""
    d = consumer.d
    slot, part = divmod(further, d.slot_parts)
    terms = [] if index is None else [(index, d.shares * d.walked_together * d.slot_parts)]
    terms += [(consumer.place.share, d.slot_parts)] if consumer.place.share is not None else []
    if not scales:
        return []
    place = affine(consumer.build, terms, slot * d.shares * d.slot_parts + part)
    kind = ScalesType(IntAttr(d.unit_rows), IntAttr(d.tile_columns))
    return [
        consumer.build.value(
            ScalesLoadOp.create(
                operands=[each.array, each.row, each.column, place],
                properties={
                    "axes": StringAttr(each.axes),
                    "blocks": int_array(list(each.blocks)),
                    "depth": IntAttr(d.tile_streamed // d.slot_parts),
                    "column_run": IntAttr(each.run),
                },
                result_types=[kind],
            )
        )
        for each in scales
    ]
