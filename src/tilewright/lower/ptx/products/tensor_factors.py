"""How factors of blocks become PTX: copies from a slot of shared memory to columns of tensor memory, and what a product
says of them.

A unit of 128 rows is 512 bytes of a slot, 32 rows of 16 bytes, which one tcgen05.cp takes to 32 lanes and 4 columns,
and again to each further quarter. So rows 32 c to 32 c + 31 stand in column c, four factors of a row in the bytes of
one cell, of which the scale factor id of a product names the first. A row's next four stand behind all rows' first
ones. The matrix descriptor is of no swizzle: groups of 8 rows are 128 bytes apart.

Source: PTX ISA, tcgen05.cp; tcgen05: Scale factor layouts, Instruction descriptor of block-scaled kinds. Checked by:
tests/end_to_end/test_block_factors.py.
"""

from __future__ import annotations

from tilewright.ir.ac.tensor_memory import TensorFactorsOp, TensorFillOp
from tilewright.ir.cascade import CELL_FACTORS, FACTOR_ROWS
from tilewright.lower.ptx.lowering import Lowering, slot_of
from tilewright.lower.ptx.places import BufferPlace, FactorsPlace
from tilewright.lower.ptx.products.tensor_asserts import assert_columns
from tilewright.lower.ptx.products.tensor_core import offset_descriptor
from tilewright.lower.ptx.products.tensor_memory import factors_taken, memory_of, registers, shared_descriptor

_COPY = "tcgen05.cp.cta_group::1.32x128b.warpx4"
_GROUP_BYTES = 128
"""From 8 rows of 16 bytes to the next 8."""


def copy_factors(lowering: Lowering, op: TensorFactorsOp) -> None:
    """Those of a slot, to the slot's columns."""
    text, memory, slot = lowering.text, memory_of(lowering, op.memory), slot_of(lowering, op.phase)
    buffer, rows = lowering.place(op.buffer), op.rows.data
    assert isinstance(buffer, BufferPlace)
    source = shared_descriptor(lowering, buffer, 0, _GROUP_BYTES, slot.stage, "")
    first = text.into("b32", "add.u32", registers(lowering).base, memory.first_factor + op.column.data)
    columns = op.cells.data * rows // FACTOR_ROWS
    first = text.into("b32", "mad.lo.u32", slot.stage, columns, first)
    copied_rows = lowering.facts.limit("block_scales.copied_rows")
    copied_bytes, copied_columns = copied_rows * CELL_FACTORS, copied_rows // FACTOR_ROWS
    assert_columns(lowering, memory, first, columns)
    # Units of all rows' first cells, then of their second ones: as they lie in the slot.
    places = [first]
    for unit in range(op.cells.data * rows // copied_rows):
        descriptor = offset_descriptor(text, source, copied_bytes * unit)
        if unit:
            places.append(text.into("b32", "add.u32", first, copied_columns * unit))
        text.emit(_COPY, f"[{places[unit]}]", descriptor)
    lowering.places[op.result] = FactorsPlace(slot, tuple(places[:: rows // copied_rows]))


def take_factors(lowering: Lowering, op: TensorFillOp) -> list[list[str]]:
    """The addresses of a product's factors, by step, which it hands on."""
    if not op.factors:
        return []
    taken = factors_taken(lowering.facts, op)
    found = [list[str]() for _ in range(op.steps.data)]
    for factors, kept in zip(op.factors, op.kept, strict=True):
        place = lowering.place(factors)
        assert isinstance(place, FactorsPlace)
        lowering.places[kept] = place
        for step, addresses in enumerate(found):
            addresses.append(f"[{place.columns[taken * step // CELL_FACTORS]}]")
    return found
