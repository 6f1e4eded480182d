"""What does a product that is scaled inside its loop ask of the schedule?

Each block of the contracted axis that has scales of its own becomes one slot, whose partial product is promoted to a
total by the consumers (`lower.pipeline.scaled_product`). So a slot is as deep as the least block, which must fill whole
rows in shared memory and divide the others, and a consumer's registers hold two accumulators.

Not handled, and refused at the author's line: blocks that fill no whole rows, or more than a stage holds; scales that
are displaced, or that a group picks; several scaled products in one loop.
Checked by: tests/synth/operand/test_scaled_product.py.
"""

from __future__ import annotations

import math

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import index_offset
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.synth.operand.operands import slice_depth

_MOST_REGISTERS = {1: 128, 2: 192, 3: 128}
"""Registers of a thread for the total and the partial product, by consumers."""
_KEPT_REGISTERS = 24
"""Of a thread, for addresses and loop counters."""
_LEAST_KEPT = 16
"""With which an assembler still spills nothing, where one product is in flight at a time (measured)."""
_MOST_NUMBERS = 8
"""Of a slot's scales in a thread's registers, for two slots' to be loaded ahead: each has an address of its own."""
_PAIR = 2
"""Slots of a turn, where registers hold the products of both."""
_MOST_SPANS = 4
"""Rows of shared memory in a slot's depth: as many as other products have."""


def scale_loads(dot: tile.DotOp) -> list[tile.LoadOp]:
    """The loads behind a dot's scales, each once."""
    found: dict[tile.LoadOp, None] = {}
    pending = list(dot.scales)
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, tile.LoadOp):
            found[owner] = None
        elif isinstance(owner, tile.UnaryOp | tile.BinaryOp | tile.CastOp | tile.BroadcastOp | tile.TransposeOp):
            pending.extend(owner.operands)
    return list(found)


def scaled_depth(dot: tile.DotOp) -> int:
    """Elements of the contracted axis in each slot of a scaled product; 0 for one without scales.

    Raises TilewrightError at the author's line for blocks that no slot holds.
    """
    if not dot.scales:
        return 0
    file, _, line = dot.place.data.rpartition(":")
    span = Span(file, int(line))
    contracted = dot.contracted
    element_bytes = value_type(dot.left).element_kind.bytes
    for load in scale_loads(dot):
        if any(index_offset(index) for index in load.indices):
            raise TilewrightError(
                "a product is scaled by a displaced tile", span=span, remedy="load the scales at the blocks themselves"
            )
    sizes = {
        block_size(axis)
        for load in scale_loads(dot)
        for axis in tensor_type(load.tensor).axis_names
        if base_axis(axis) == contracted
    }
    least, row = min(sizes), slice_depth(element_bytes)
    if least % row or least // row > _MOST_SPANS or any(size % least for size in sizes):
        raise TilewrightError(
            f"a product is scaled by blocks of {', '.join(map(str, sorted(sizes)))} elements of {contracted}",
            span=span,
            remedy=f"use blocks of {row}, {2 * row} or {_MOST_SPANS * row} elements, multiples of the least",
        )
    return least


def choose_promotion(
    dot: tile.DotOp, axes: tuple[str, str], part: tuple[int, int], slices: int, registers: int
) -> tuple[int, int]:
    """(slots of a turn of the loop, slots whose scales are loaded ahead) of a product that is promoted slot by slot.

    Two slots a turn, each with an accumulator of its own, let the tensor core go on while the threads promote. An
    assembler multiplies scales with one another as early as they can be there, between a turn's products: if their
    loads are on their way then, the second product waits for them. So they are loaded two turns before, four slots.
    Each where a consumer's registers hold it, and two slots only of an even number of them. axes: rows and columns of
    the accumulator; part: how many of each a consumer computes of a tile; slices: slots of a tile; registers: of the
    consumer's threads.
    """
    rows, columns = part
    accumulator = rows * columns // 128
    numbers = 0
    for load in scale_loads(dot):
        blocks = {base_axis(axis): block_size(axis) for axis in tensor_type(load.tensor).axis_names}
        down = rows // 32 if axes[0] in blocks else 1
        run = math.gcd(columns, blocks[axes[1]]) if axes[1] in blocks else columns
        across = columns // run if run % 8 == 0 else columns // 4
        numbers += down * across
    left = registers - _KEPT_REGISTERS - 2 * accumulator
    if promoted_together(part, slices, registers, numbers) == _PAIR:
        return _PAIR, 4 if accumulator + 4 * numbers <= left else 2
    return 1, 2 if numbers <= _MOST_NUMBERS and 2 * numbers <= left + _KEPT_REGISTERS - _LEAST_KEPT else 1


def promoted_together(part: tuple[int, int], slices: int, registers: int, numbers: int = 0) -> int:
    """Slots of a turn of the loop. numbers: of a slot's scales, in a thread's registers; the others as above."""
    accumulator = part[0] * part[1] // 128
    left = registers - _KEPT_REGISTERS - 2 * accumulator
    return _PAIR if slices % _PAIR == 0 and accumulator + 2 * numbers <= left else 1


def fits_registers(rows: int, columns: int, consumers: int) -> bool:
    """Whether a consumer's registers hold the total and a partial product of such a tile."""
    return 2 * rows * columns // (128 * consumers) <= _MOST_REGISTERS.get(consumers, 0)
