"""Loads of global arrays at a fragment's places, by the consumers of a kernel that walks an axis.

Numbers of the walked columns may go through a part of shared memory that each warp has of its own
(`lower.fragment.shared_columns`), which the decisions say.
Checked by: tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade_facts import first_alike, load_number
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import index_offset, parameter_name
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import affine
from tilewright.lower.cascade.place import is_in_line, part_of_batch

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


def row_in_array(consumer: Consumer, axes: Sequence[str]) -> SSAValue:
    """The unit's first row in an array over these axes. The rows of groups that stand apart are counted from the first
    group's on; an array that all groups read alike has those of one."""
    row = consumer.first_row()
    for grouping in consumer.d.grouping:
        if grouping.pitch and not is_in_line(axes, consumer.d) and consumer.d.row in map(base_axis, axes):
            group = consumer.place.indices[grouping.axis]
            return affine(consumer.build, [(row, 1), (group, -grouping.pitch)], 0)
    return row


def load_ahead(consumer: Consumer) -> None:
    """Load the vectors that results need and that are decided to be loaded while a walk's first products run; a head's
    sum is handed over, and nothing is made of it here."""
    if consumer.place.section.part == "head":
        return
    for load in consumer.program.body.block.ops:
        if isinstance(load, tile.LoadOp) and parameter_name(consumer.program, load.tensor) in consumer.d.loads_ahead:
            consumer.values[load.result] = plain_load(consumer, load, ahead=True)


def plain_load(consumer: Consumer, load: tile.LoadOp, *, ahead: bool = False, walked: str = "") -> SSAValue:
    """Plain loads at the fragment's places; of what does not change along a row, or where that is asked for, at
    once. walked: an axis of blocks of the streamed one, of which the tile's own block is loaded alone."""
    tensor = tensor_type(load.tensor)
    name = parameter_name(consumer.program, load.tensor)
    array = part_of_batch(consumer.build, tensor.axis_names, consumer.arrays[name], consumer.place, consumer.d, walked)
    letters = {consumer.axes.row: "m", **dict.fromkeys((consumer.axes.streamed, *consumer.axes.columns), "n")}
    indices = list(zip(tensor.axis_names, load.indices, strict=True))
    spread = [(axis, index) for axis, index in indices if base_axis(axis) not in consumer.axes.batch]
    spread = [(axis, index) for axis, index in spread if axis != walked]
    axes = "".join(letters[base_axis(axis)] for axis, _ in spread)
    places = {"m": row_in_array(consumer, tensor.axis_names), "n": consumer.zero()}
    for axis, index in spread:
        first = consumer.first(base_axis(axis)) if letters[base_axis(axis)] == "n" else places["m"]
        shift = index_offset(index)
        places[letters[base_axis(axis)]] = affine(consumer.build, [(first, 1)], shift) if shift else first
    kept = consumer.axes.kept(load.result) - ({consumer.axes.streamed} if walked else set())
    columns = consumer.shape(kept)[0]
    kind = ac.FragmentType(
        IntAttr(consumer.d.unit_rows), IntAttr(columns), StringAttr(axes), StringAttr(tensor.element_kind.value)
    )
    properties: dict[str, Attribute] = {} if "n" in axes and not ahead else {"ahead": IntAttr(1)}
    if name in consumer.d.paired_loads:
        properties["pairs"] = IntAttr(1)
    sizes = [block_size(axis) for axis, _ in spread]
    if max(sizes, default=1) > 1:
        properties["blocks"] = int_array(sizes)
    through: list[SSAValue] = []
    number = load_number(consumer.program, first_alike(consumer.program, load))
    if ahead and consumer.shared.columns is not None and number in consumer.d.shared_columns:
        properties = {"part": IntAttr(consumer.d.shared_columns.index(number))}
        through = [consumer.shared.columns, consumer.unit]
    op = ac.FragmentLoadOp.create(
        operands=[array, places["m"], places["n"], *through], properties=properties, result_types=[kind]
    )
    return consumer.build.value(op)
