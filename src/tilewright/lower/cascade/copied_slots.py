"""How a warpgroup's threads fill a slot of a walk from an array that no tensor map describes.

The warpgroup that fills waits for the slot as a whole, its first thread announces what the copy engine brings besides
and asks for it, and all of its threads copy pieces of each box and arrive once theirs have landed (`ir.ac.async_copy`).
Where a box begins in the array and in the slot is what it would be for the copy engine.

Checked by: tests/lower/ptx/copies/test_async_copy.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac.async_copy import AsyncCopyFenceOp, AsyncCopyIssueOp
from tilewright.ir.cascade import SlotDecision
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import Build, global_array
from tilewright.lower.program import shape_of

if TYPE_CHECKING:
    from tilewright.lower.cascade.slots import Ring


def copied_array(
    build: Build, program: tile.ProgramOp, slot: SlotDecision, declared: dict[str, SSAValue]
) -> tuple[SSAValue, tuple[int, ...]]:
    """The array that fills a slot, and along which of its dimensions the coordinates of a box run. declared: the arrays
    that there are already, by name, to which a new one is added."""
    arguments = zip(buffers(program), program.body.block.args, strict=True)
    buffer, argument = next((each, value) for each, value in arguments if each.name == slot.buffer)
    if slot.buffer not in declared:
        declared[slot.buffer] = global_array(build, buffer, shape_of(program, buffer.name))
    axes = tensor_type(argument).axis_names
    return declared[slot.buffer], tuple(axes.index(axis) for axis in (slot.inner, slot.outer, *slot.batch))


def copy_boxes(build: Build, ring: Ring, coordinates: Mapping[int, Sequence[SSAValue]], tx: SSAValue) -> SSAValue:
    """Copies of a slot's boxes, by where in the slot each is. tx: the slot's transaction; the one behind the copies."""
    slot = ring.decision
    for offset, place in coordinates.items():
        op = AsyncCopyIssueOp.create(
            operands=[ring.source, ring.buffer, tx, *place],
            properties={
                "offset_bytes": IntAttr(offset),
                "box": int_array(slot.box[:2]),
                "dimensions": int_array(ring.dimensions),
                "piece_bytes": IntAttr(slot.piece_bytes),
                **({"factors": IntAttr(1)} if slot.factors else {}),
            },
            result_types=[tx.type],
        )
        tx = build.value(op)
    return tx


def visible(build: Build, phase: SSAValue) -> SSAValue:
    """A full slot that threads copied into, for products to read."""
    return build.value(AsyncCopyFenceOp.create(operands=[phase], result_types=[phase.type]))
