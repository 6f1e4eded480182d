"""How a result of an iteration leaves in boxes: out of the registers of a product's left operand.

The operand's registers may be read until its product is issued, so they are staged before that; the threads meet, and
the copy engine stores, behind it. The slots are waited for right before they are written: the copy engine has read them
by then. Beside the iteration's first product the wait would hold up the second one.

Checked by: tests/lower/cascade/test_walked_store.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.ir.cascade_facts import Product
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name
from tilewright.ir.tile.repeats import bare
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.lower.staged_store import StagedBox, free_slot, further_maps, leave, stage

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


@dataclass(frozen=True, slots=True)
class Staged:
    """A result of this iteration that stands in staging slots."""

    op: tile.StoreOp
    boxes: tuple[StagedBox, ...]


def boxed_stores(consumer: Consumer, inside: Sequence[object]) -> list[tile.StoreOp]:
    """The results of a walk that leave in boxes. inside: its operations."""
    found = [op for op in inside if isinstance(op, tile.StoreOp)]
    return [op for op in found if consumer.d.boxed(parameter_name(consumer.program, op.tensor)) is not None]


def stage_operands(consumer: Consumer, products: Sequence[Product], held: Sequence[SSAValue]) -> list[Staged]:
    """Stage the results that operands of products are. held: those operands, packed."""
    found: list[Staged] = []
    for product, operand in zip(products, held, strict=True):
        element = Element(consumer.rings[product.brought].decision.element)
        block = product.op.parent
        for op in boxed_stores(consumer, list(block.ops) if block is not None else []):
            boxed = consumer.d.boxed(parameter_name(consumer.program, op.tensor))
            alike = value_type(op.value).element_kind is element
            if alike and _rounded(op.value, element) is _rounded(product.held, element) and boxed is not None:
                assert consumer.shared.staging is not None, "boxes are staged"
                shape = (consumer.d.unit_rows, consumer.d.tile_streamed)
                free_slot(consumer.build, consumer.unit, boxed[1])
                boxes = stage(consumer.build, consumer.shared.staging, consumer.unit, operand, boxed[0], shape)
                found.append(Staged(op, tuple(boxes)))
    return found


def _rounded(value: SSAValue, element: Element) -> SSAValue:
    """What is rounded to an element: a cast to it is the rounding."""
    value = bare(value)
    if isinstance(value.owner, tile.CastOp) and value_type(value).element_kind is element:
        value = bare(value.owner.operand)
    return value


def leave_walked(consumer: Consumer, staged: Sequence[Staged]) -> None:
    """Store what is staged."""
    for each in staged:
        boxed = consumer.d.boxed(parameter_name(consumer.program, each.op.tensor))
        assert boxed is not None and consumer.shared.staging is not None, "it leaves in boxes"
        decision, _ = boxed
        streamed = consumer.axes.streamed
        axes = reversed(tensor_type(each.op.tensor).axis_names)
        further = [consumer.place.indices[axis] for axis in axes if axis in consumer.d.batch]
        columns = [(consumer.place.indices[streamed], consumer.d.tile_streamed)]
        kept = [decision.parameter, *(name for name, *_ in further_maps(consumer.program, decision))]
        descriptors = tuple(consumer.arrays[name] for name in kept)
        origin = (consumer.first_row(), columns, further)
        shape = (consumer.d.unit_rows, consumer.d.tile_streamed)
        leave(consumer.build, consumer.shared.staging, consumer.unit, origin, each.boxes, decision, shape, descriptors)
