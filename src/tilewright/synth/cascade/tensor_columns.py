"""How many columns of tensor memory does a tile take, and what stands where in them?

Where walks only sum, a role of its own issues, and the columns are slots for a tile's sums: two where they fit, so that
one is read while the other is filled. Elsewhere each consumer issues its own products, and has an equal part of the
columns: the widest accumulator first, behind it a left operand that threads computed, two elements in a cell.

A CTA allocates a power of two (PTX ISA, tcgen05.alloc). Checked by: tests/synth/cascade/test_decide.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir.cascade_facts import CascadeAxes, Product, all_slot_sums, products_of, shared_sums
from tilewright.ir.cascade_facts import slot_sums as sums_of_walk
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loads, loops
from tilewright.ir.tile.gather import GatherOp
from tilewright.targets import Target

_CELL_BYTES = 4
"""Of a row, in a column of tensor memory."""
SUM_SLOTS = 2
"""Of a tile's sums: one is read while the other is filled."""


def slot_sums(program: tile.ProgramOp, target: Target) -> tuple[Product, ...]:
    """The products of a program all of whose walks do nothing but sum products of two slots; where sums are registers,
    only of those of one operand, and of arrays as they lie."""
    if target.supports("tensor_memory"):
        return all_slot_sums(program)
    gathered = any(isinstance(load.tensor.owner, GatherOp) for load in loads(program))
    return () if gathered else shared_sums(program)


def summed_columns(program: tile.ProgramOp, axes: CascadeAxes, wide: Mapping[str, int]) -> int:
    """Of the sums of a walk's tile, of that walk which has most. wide: columns of a tile, by axis."""
    return max(
        sum(wide[axes.column_of(axes.kept(each.op.result))] for each in sums_of_walk(program, loop))
        for loop in loops(program)
    )


def tensor_columns(
    program: tile.ProgramOp, axes: CascadeAxes, wide: Mapping[str, int], consumers: int, streamed: int, target: Target
) -> tuple[int, int, int]:
    """Columns of tensor memory that a CTA allocates; where in a consumer's part left operands begin that threads
    computed; and slots for a tile's sums. (0, 0, 0) where accumulators are registers. wide: columns of a tile, by axis;
    streamed: along the streamed one."""
    if not target.supports("tensor_memory"):
        return 0, 0, 0
    step = target.limit("tensor_memory.allocation_columns_min")
    if slot_sums(program, target):
        columns = summed_columns(program, axes, wide)
        slots = SUM_SLOTS if SUM_SLOTS * columns <= target.limit("tensor_memory.columns") else 1
        return _power_of_two(max(slots * columns, step)), 0, slots
    over = {product.op.axis.data == axes.streamed for product in products_of(program)}
    widest = max(max(wide.values(), default=0) if walks else streamed for walks in over)
    bytes_each = [each.element_bytes for each in products_of(program) if each.op.axis.data == axes.streamed]
    stored = streamed * max(bytes_each) // _CELL_BYTES if bytes_each else 0
    return _power_of_two(consumers * -(-(widest + stored) // step) * step), widest, 0


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
