"""How does a result leave in bulk whose memory runs along the accumulator's rows, and not along its columns?

A product that is computed transposed, since its tiles come out better so, has such a result. A box of it has rows of
the accumulator's 64 rows of one block, contiguous in memory, one for each of the box's columns: for 16-bit elements as
long as a swizzle's span. `stmatrix` with `.trans` writes an 8x8 matrix so that each of its lines holds eight rows of
one column, and under the swizzle eight such lines lie in different banks: a box is written as cheaply as one that runs
along the columns (the plan is `synth.exchange.memory`'s, from the layouts of both sides, as for other boxes). A unit of
several blocks stores one block after the other.

Not handled: elements of 8 and of 32 bits, results of several elements, rows in groups; those leave by plain stores.
Source: PTX ISA, stmatrix; tensor swizzling modes. Checked by: tests/lower/test_turned_store.py; the text's staged
addresses are proved by `driver.reproof.address_proof`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.copy_decisions import BLOCK_ROWS, StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name, stores
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.store.store_chunks import StagedRow, turned_columns

_ELEMENT_BYTES = 2
_FRAGMENT_COLUMNS = 8
_UNIT_BYTES = 16
"""Of which a tensor map's pitch and rows are multiples, which the engine writes whole (PTX ISA, tensor maps)."""
_MATRIX_AXES = 2
TURNED_ROW = StagedRow(BLOCK_ROWS * _ELEMENT_BYTES, "128B")
"""A column of a box."""


def is_turnable(program: tile.ProgramOp, rows: str, misaligned: tuple[str, ...]) -> bool:
    """Whether all results leave in bulk where `rows` is the axis of the accumulator's rows. Not where the results are
    computed from other matrices: threads would read those across their rows."""
    if not turned_boxes(program, rows, _FRAGMENT_COLUMNS):
        return False
    for store in stores(program):
        tensor = tensor_type(store.tensor)
        extent = dict(zip(tensor.axis_names, tensor.extents, strict=True))[rows]
        pitch = max(tensor.stride_elements)
        whole = all(each * _ELEMENT_BYTES % _UNIT_BYTES == 0 for each in (extent, pitch))
        if not whole or parameter_name(program, store.tensor) in misaligned:
            return False
    # What is loaded outside the loop is for the results.
    read = [tensor_type(op.tensor) for op in program.body.block.ops if isinstance(op, tile.LoadOp)]
    return all(len(tensor.axis_names) < _MATRIX_AXES for tensor in read)


def turned_boxes(program: tile.ProgramOp, rows: str, part_columns: int) -> tuple[int, ...]:
    """Columns of each box, where every result lies along the accumulator's rows; empty where boxes are not turned.

    rows: axis of the accumulator's rows; part_columns: of a tile's, those that one CTA stores.
    """
    for store in stores(program):
        tensor = tensor_type(store.tensor)
        axis = dict(zip(tensor.axis_names, zip(tensor.extents, tensor.stride_elements, strict=True), strict=True))
        extent, stride = axis.get(rows, (1, 1))
        if len(axis) != 2 or tensor.element_kind.bytes != _ELEMENT_BYTES or stride != 1 or extent == 1:
            return ()
    return turned_columns(part_columns)


def turned(store: StoreDecision, boxes: tuple[int, ...]) -> StoreDecision:
    """A result in boxes of `TURNED_ROW`, whose columns lie one after another there. boxes: columns of each, by
    `turned_boxes`; `store` has those of the first."""
    chunk, short = boxes[0], boxes[-1]
    tail = (replace(store.map, box=(BLOCK_ROWS, short)),) if short < chunk else ()
    tails = sum(width < chunk for width in boxes)
    return replace(store, chunk_columns=chunk, turned=1, tail=tail, tails=tails)
