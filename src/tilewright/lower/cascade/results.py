"""How results leave the consumers: in boxes through staging slots where that is decided, else by plain stores.

Checked by: tests/lower/cascade, tests/end_to_end/test_walked_products.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.copy_decisions import AsyncPlan, StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name
from tilewright.ir.tile.repeats import bare
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.lower.cascade.place import own_axes, part_of_batch, rows_first
from tilewright.lower.cascade.point_maps import mapped
from tilewright.lower.cascade.point_values import stride_along
from tilewright.lower.staged_store import free_slot, further_maps, store_boxes

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


def free_staging(consumer: Consumer) -> None:
    """Wait for the staging slot of a tile's first box, beside the tile's last products: where one CTA alone has its
    sum, which others would wait for."""
    alone = consumer.d.shares == 1 and consumer.shared.partials is None
    if consumer.summed and consumer.d.store_plans and alone:
        free_slot(consumer.build, consumer.unit, consumer.d.store_plans[0])
        consumer.boxes.freed = True


def store_result(consumer: Consumer, op: tile.StoreOp) -> None:
    """A result in boxes, or by plain stores, of a matrix along its rows."""
    name = parameter_name(consumer.program, op.tensor)
    value = bare(op.value)
    element = value_type(op.value).element_kind
    if isinstance(value.owner, tile.CastOp):
        value = bare(value.owner.operand)
    kept = consumer.axes.kept(op.value)
    others = [axis for axis in (consumer.axes.streamed, *consumer.axes.columns) if axis in kept]
    (held,) = mapped(consumer, [(value, element, None)], kept, deferred=bool(consumer.summed and others))
    boxed = consumer.d.boxed(name)
    if boxed is not None:
        _in_boxes(consumer, op, held, *boxed)
        return
    axes = rows_first(own_axes(tensor_type(op.tensor).axis_names, consumer.d), consumer.d)
    place = part_of_batch(consumer.build, axes, consumer.arrays[name], consumer.place, consumer.d)
    column = consumer.first(others[0]) if others else consumer.zero()
    if consumer.place.row_end is not None:
        _before_the_end(consumer, name, held, column)
        return
    # By whole rows, where those lie together.
    dense = len(others) == 1 and stride_along(op.tensor, others[0]) == 1 and element.bytes > 1
    through = [consumer.shared.rows, consumer.unit] if dense and consumer.shared.rows is not None else []
    vectors: dict[str, Attribute] = {"vectors": IntAttr(1)} if name in consumer.d.in_vectors else {}
    operands = [held, place, consumer.first_row(), column, *through]
    consumer.build.add(ac.GlobalStoreOp.create(operands=operands, properties=vectors))


def _before_the_end(consumer: Consumer, name: str, held: SSAValue, column: SSAValue) -> None:
    """A result over rows in groups, of which a tile may have some alone."""
    rows, end = consumer.shared.rows, consumer.place.row_end
    assert rows is not None and end is not None, "such results leave along rows"
    operands = [held, consumer.arrays[name], consumer.first_row(), column, end, rows, consumer.unit]
    vectors = any(name in each.vectors for each in consumer.d.grouping)
    consumer.build.add(ac.RowsStoreOp.create(operands=operands, properties={"vectors": IntAttr(int(vectors))}))


def _in_boxes(consumer: Consumer, op: tile.StoreOp, held: SSAValue, decision: StoreDecision, plan: AsyncPlan) -> None:
    """A result over rows and columns, as a fragment, through staging slots."""
    assert consumer.shared.staging is not None, "boxes are staged"
    (column,) = (axis for axis in consumer.axes.columns if axis in consumer.axes.kept(op.value))
    number, size = consumer.place.indices.get(column), consumer.d.stored_along(column)
    columns = [(number, consumer.d.step_along(column))] if number is not None else []
    columns += consumer.stored.columns
    axes = reversed(tensor_type(op.tensor).axis_names)
    further = [consumer.place.indices[axis] for axis in axes if axis in consumer.d.batch]
    kept = [decision.parameter, *(each for each, *_ in further_maps(consumer.program, decision))]
    descriptors = tuple(consumer.arrays[each] for each in kept)
    origin, shape = (consumer.first_row(), columns, further), (consumer.d.unit_rows, size)
    staging, unit = consumer.shared.staging, consumer.unit
    store_boxes(consumer.build, staging, unit, origin, held, decision, plan, shape, descriptors, consumer.boxes)
