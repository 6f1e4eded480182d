"""The sum of a walk's products whose left operand is computed in registers, slot by slot.

A slot's numbers are computed while the product of the slot before runs; then that product is waited for, its slot is
released, and the next one is issued: its A registers are those of every other. Of vectors, those along the rows are
loaded once for a tile, those along the walked axis for each slot, before the wait for it.

Handled is what `synth.cascade.sums.register_sum` chooses: one tensor over rows and the walked axis, contiguous along
that, and vectors. Checked by: tests/end_to_end/test_walked_computed.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade_facts import Product, first_alike
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name
from tilewright.lower.build import counted_loop
from tilewright.lower.cascade.computed_operand import issue_computed, numbers_along, read_computed
from tilewright.lower.cascade.plain_load import load_ahead, plain_load
from tilewright.lower.cascade.results import free_staging
from tilewright.lower.cascade.slot_product import drained, give_back, move_on, next_slots
from tilewright.lower.cascade.slots import matrix_layout
from tilewright.lower.expression import loads_in

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


@dataclass(frozen=True, slots=True)
class _Operand:
    """product: whose held operand this is. loads: of the tile that it is computed of, of the vectors along the rows,
    whose numbers are `rows`, and of those along the walked axis, whose arrays are `along`."""

    product: Product
    loads: tuple[tile.LoadOp, ...]
    rows: tuple[SSAValue, ...]
    along: tuple[SSAValue, ...]


def sum_of_computed(consumer: Consumer, product: Product, symbol: str) -> SSAValue:
    """The sum of the products of slots that come one after the other. symbol: the number of slots."""
    assert consumer.d.release_distance == 1, "the slot that is released is that of the one product before"
    operand = _opened(consumer, product)
    loads = (first_alike(consumer.program, operand.loads[0]), product.brought)
    running, reading = _issue_next(consumer, operand, loads, None, None)
    # Beside a product that runs, so that nothing waits for them.
    load_ahead(consumer)
    move_on(consumer, loads)
    led = [load for load in loads if load in consumer.cursors]
    carried = [*(consumer.cursors[load] for load in led), running, reading]
    inner, block, loop = counted_loop(consumer.build, 1, carried, symbol=symbol)
    index, *arguments = block.args
    body = replace(consumer, build=inner, cursors=consumer.cursors | dict(zip(led, arguments, strict=False)))
    running, reading = _issue_next(body, operand, loads, index, (arguments[-2], arguments[-1]))
    move_on(body, loads)
    inner.add(ac.YieldOp.create(operands=[*(body.cursors[load] for load in led), running, reading]))
    *cursors, running, reading = loop.outputs
    consumer.cursors |= dict(zip(led, cursors, strict=True))
    free_staging(consumer)
    return drained(consumer, running, [[reading]])


def _opened(consumer: Consumer, product: Product) -> _Operand:
    """The operand of a tile that begins, with its rows' numbers loaded."""
    d, axes = consumer.d, consumer.axes
    found: dict[frozenset[str], list[tile.LoadOp]] = {}
    for load in loads_in(product.held):
        found.setdefault(axes.kept(load.result), []).append(load)
    (raw,) = found[frozenset({d.row, d.streamed})]
    rows, along = (found.get(frozenset({axis}), []) for axis in (d.row, d.streamed))
    numbers = tuple(plain_load(consumer, load, ahead=True) for load in rows)
    arrays = tuple(consumer.arrays[parameter_name(consumer.program, load.tensor)] for load in along)
    return _Operand(product, (raw, *rows, *along), numbers, arrays)


def _issue_next(
    consumer: Consumer,
    operand: _Operand,
    loads: tuple[tile.LoadOp, tile.LoadOp],
    iteration: SSAValue | None,
    before: tuple[SSAValue, SSAValue] | None,
) -> tuple[SSAValue, SSAValue]:
    """Wait for the next slot, compute its operand and multiply; (accumulator in flight, slot being read). before: the
    accumulator of the product before, and its slot, which is released in between."""
    d, build, over = consumer.d, consumer.build, operand.product.op.axis.data
    numbers = numbers_along(build, operand.along, d.tile_streamed, d.shares, iteration, consumer.place.share)
    (phase,) = next_slots(consumer, loads)
    a, b = (consumer.rings[load] for load in loads)
    _, _, _, steps = matrix_layout(a.decision, over, d.tile_streamed)
    slot, extents = (phase, a.buffer, consumer.unit), (d.unit_rows, d.tile_streamed)
    held = operand.product.held
    computed = read_computed(build, held, operand.loads, slot, (operand.rows, numbers), extents, steps)
    if before is not None:
        give_back(consumer, [before[1]], 0)
    layout = matrix_layout(b.decision, over, d.tile_streamed)
    running = None if before is None else before[0]
    return issue_computed(build, computed, b.buffer, d.tile_columns, running, layout)
