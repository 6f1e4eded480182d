"""What do sums in two levels ask of a walk, where numbers of blocks scale its products or the tensor core keeps too few
bits?

Each block of the walked axis that has scales of its own is a product of its own, which the consumers scale and add to a
total (`lower.two_levels`). A slot is as deep as the least block, or, where that is shorter than a row of shared
memory, as such a row: then its blocks are multiplied one after the other. A consumer's registers hold the total and a
product, or, where they suffice, those of two slots, of which one is added while the tensor core multiplies the other.

Not handled, and refused at the author's line: blocks that a row of shared memory is no multiple of, or that are no
whole number of rows; blocks of more rows than a stage holds. Checked by: tests/synth/cascade/sums/test_scaled_sums.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.ir.cascade_facts import CascadeAxes, Product, first_alike, refuse_at
from tilewright.ir.scaled_terms import blocks_of_scale, column_run, loads_of_scales, scales_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.operand.scaled_product import KEPT_REGISTERS, PAIR, promoted_together

_STEP_BYTES = 32
"""Of the contracted axis, that one wgmma takes (PTX ISA: Matrix shape)."""
_LEAST_KEPT = 16
"""With which an assembler still spills nothing, where one product is in flight at a time (measured)."""
_MOST_NUMBERS = 8
"""Of a product's scales in a thread's registers, for two products' to be loaded ahead: each has an address."""
_MOST_SPANS = 4
"""Rows of shared memory in a slot's depth: as many as other products have."""


@dataclass(frozen=True, slots=True)
class Levels:
    """slots: of an iteration, 0 of a sum that the tensor core keeps; parts: products of a slot; ahead: products whose
    scales are loaded or on their way, 0 where none has any."""

    slots: int = 0
    parts: int = 1
    ahead: int = 0


def least_block(sums: Sequence[Product]) -> int:
    """Elements of the walked axis that share all scales; 0 where nothing scales a sum."""
    sizes = [block_size(each.axis.data) for op in _scales(sums) for each in blocks_of_scale(op)]
    return min(sizes, default=0)


def scaled_depth(sums: Sequence[Product]) -> int:
    """Elements of the walked axis in each slot of scaled sums; 0 where nothing scales one. Raises TilewrightError at
    the author's line for blocks that no slot holds."""
    least = least_block(sums)
    if not least:
        return 0
    op, row = sums[0].op, slice_depth(sums[0].element_bytes)
    step = _STEP_BYTES // sums[0].element_bytes
    sizes = sorted({block_size(each.axis.data) for scale in _scales(sums) for each in blocks_of_scale(scale)})
    in_row = row % least == 0 and least % step == 0
    if not (in_row or (least % row == 0 and least // row <= _MOST_SPANS)) or any(size % least for size in sizes):
        refuse_at(
            op,
            f"a product is scaled by blocks of {', '.join(map(str, sizes))} elements of {op.axis.data}",
            f"use blocks of {step}, {row}, {2 * row} or {_MOST_SPANS * row} elements, multiples of the least",
        )
    return max(least, row)


def choose_levels(
    program: tile.ProgramOp, axes: CascadeAxes, sums: Sequence[Product], part: tuple[int, int], depth: int,
    slices: int, registers: int,
) -> Levels:  # fmt: skip
    """How an iteration adds up products, where sums have two levels.

    Two slots an iteration, each with an accumulator of its own, let the tensor core go on while the threads add. An
    assembler multiplies scales with one another as early as they can be there, between an iteration's products: if
    their loads are on their way then, the second product waits for them. So they are loaded two iterations before, four
    slots. Each where a consumer's registers hold it, and two slots only of an even number of them. part: rows and
    columns that a consumer computes of one product's tile; depth: of a slot; slices: slots of a tile; registers: of the
    consumer's threads."""
    rows, columns = part
    together = (rows, columns * len(sums))
    loaded = list(dict.fromkeys(first_alike(program, load) for each in sums for load in loads_of_scales(each.op)))
    if not loaded:
        return Levels(promoted_together(together, slices, registers))
    parts, accumulator = depth // min(depth, least_block(sums)), rows * together[1] // 128
    numbers = sum(_numbers(load, axes, part) for load in loaded)
    left = registers - KEPT_REGISTERS - 2 * accumulator
    if parts == 1 and promoted_together(together, slices, registers, numbers) == PAIR:
        return Levels(PAIR, 1, 4 if accumulator + 4 * numbers <= left else 2)
    fits = numbers <= _MOST_NUMBERS and 2 * numbers <= left + KEPT_REGISTERS - _LEAST_KEPT
    return Levels(1, parts, 2 if fits else 1)


def _scales(sums: Sequence[Product]) -> list[SSAValue]:
    return [scale for each in sums for scale in scales_of(each.op)]


def _numbers(load: tile.LoadOp, axes: CascadeAxes, part: tuple[int, int]) -> int:
    """Of a load, that a thread holds for one product."""
    rows, columns = part
    blocks = {base_axis(axis): block_size(axis) for axis in tensor_type(load.tensor).axis_names}
    down = rows // 32 if axes.row in blocks else 1
    run = column_run(load, axes.column, columns)
    return down * (columns // run if run % 8 == 0 else columns // 4)
