"""How does a result leave in bulk whose memory runs along the accumulator's rows, and not along its columns?

A product that is computed transposed, since its tiles come out better so, has such a result. A box of it has rows of
the accumulator's 64 rows of one block, contiguous in memory, one for each of the box's columns: for 16-bit elements as
long as a swizzle's span. `stmatrix` with `.trans` writes an 8x8 matrix so that each of its lines holds eight rows of
one column, and under the swizzle eight such lines lie in different banks: a box is written as cheaply as one that runs
along the columns (the plan is `synth.exchange_memory`'s, from the layouts of both sides, as for other boxes). A unit of
several blocks stores one block after the other.

Not handled: elements of 8 and of 32 bits, results of several elements, rows in groups; those leave by plain stores.
Source: PTX ISA, stmatrix; tensor swizzling modes. Checked by: tests/lower/test_turned_store.py; the text's staged
addresses are proved by `driver.address_proof`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir import tile
from tilewright.ir.decisions import BLOCK_ROWS, StoreDecision
from tilewright.ir.tile_facts import stores
from tilewright.ir.tile_types import tensor_type
from tilewright.synth.operands import Site, decide_store
from tilewright.synth.store_chunks import StagedRow

_ELEMENT_BYTES = 2
_ROW = StagedRow(BLOCK_ROWS * _ELEMENT_BYTES, "128B")
_CHUNKS = (64, 32, 16, 8)
"""Columns of a box, a power of two as layouts have it: at least a fragment's group."""


def turned_chunk(program: tile.ProgramOp, rows: str, part_columns: int) -> int:
    """Columns of a box, where every result lies along the accumulator's rows; 0 where boxes are not turned.

    rows: axis of the accumulator's rows; part_columns: of a tile's, those that one CTA stores.
    """
    for store in stores(program):
        tensor = tensor_type(store.tensor)
        axis = dict(zip(tensor.axis_names, zip(tensor.extents, tensor.stride_elements, strict=True), strict=True))
        extent, stride = axis[rows]
        if len(axis) != 2 or tensor.element_kind.bytes != _ELEMENT_BYTES or stride != 1 or extent == 1:
            return 0
    return next((chunk for chunk in _CHUNKS if part_columns % chunk == 0), 0)


def turned_store(site: Site, store: tile.StoreOp, axes: tuple[str, str], chunk: int) -> StoreDecision | None:
    """Bulk stores of boxes of `chunk` columns, each of 64 rows; None where no tensor map takes them.

    axes: rows and columns of the accumulator.
    """
    found = decide_store(replace(site, reasons=[]), store, (axes[1], axes[0]), chunk, _ROW)
    return replace(found, chunk_columns=chunk, turned=1) if found.path == "tma" else None
