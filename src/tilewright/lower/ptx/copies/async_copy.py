"""How a warpgroup's threads fill a slot from an array that no tensor map describes.

A box's rows are 128 bytes, one span of the swizzle. A row takes 128 / p threads side by side, a piece of p bytes each,
so that a warp reads whole rows; the warpgroup's threads take as many rows at once as they cover, and go on by as many.
Then a thread's place in its row never changes, and where the swizzle puts it takes at most two values, 64 bytes apart:
the swizzle exclusive-ors bits 4 to 6 of an address with bits 7 to 9, and the rows of one thread differ by 4, 8 or 16.
What is left for each piece is one comparison (is the row inside the array?) and the copy, at constant distances from
one address on either side.

Rows of factors of blocks have a piece for each four, and lie as `ir.ac.tensor_memory.TensorFactorsOp` has them.

Past the array's end a piece is ignored by its predicate, and written as zeros; a piece that the end of a row cuts says
how many of its bytes are read. Source: PTX ISA, cp.async (ignore-src, src-size), cp.async.mbarrier.arrive, 5.5.7.
Checked by: tests/lower/ptx/copies/test_async_copy.py (values at small sizes), and by `contract` on the text.
"""

from __future__ import annotations

from tilewright.base.element import parse_element
from tilewright.ir.ac.async_copy import (
    COPYING_THREADS,
    AsyncCopyArriveOp,
    AsyncCopyFenceOp,
    AsyncCopyIssueOp,
    AsyncCopyWaitOp,
)
from tilewright.ir.ac.format import is_set
from tilewright.ir.cascade import CELL_FACTORS, FACTOR_ROWS
from tilewright.lower.ptx.copies.rings import barrier_address
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Emitters, Lowering, emitted, integers, placed, slot_of
from tilewright.lower.ptx.places import BufferPlace, GlobalPlace, SlotPlace

_ROW_BYTES = 128
_CACHE = ".L2::128B"
"""Rows are read slice after slice, so what lies beside a piece is wanted next."""

# ---------------------------------------------------------------- construction


# ---------------------------------------------------------------- emission


def _arrive(lowering: Lowering, op: AsyncCopyArriveOp) -> None:
    address = barrier_address(lowering, slot_of(lowering, op.tx), 0)
    lowering.text.emit("cp.async.mbarrier.arrive.noinc.shared::cta.b64", f"[{address}]")


def _fence(lowering: Lowering, op: AsyncCopyFenceOp) -> SlotPlace:
    lowering.text.emit("fence.proxy.async.shared::cta")
    return slot_of(lowering, op.phase)


def _issue(lowering: Lowering, op: AsyncCopyIssueOp) -> None:
    text = lowering.text
    source, buffer, slot = lowering.place(op.source), lowering.place(op.buffer), slot_of(lowering, op.tx)
    assert isinstance(source, GlobalPlace) and isinstance(buffer, BufferPlace)
    element = parse_element(source.element)
    assert element is not None
    width, piece, (across, rows) = element.bytes, op.piece_bytes.data, integers(op.box)
    dimensions = integers(op.dimensions)
    inner_extent, outer_extent = source.shape[dimensions[0]], source.shape[dimensions[1]]
    assert isinstance(inner_extent, int), "rows of a length that only the launch knows"
    pitch_bytes = source.strides[dimensions[1]] * width
    inner, outer, *further = (lowering.index(value) for value in op.coordinates)
    beside = across * width // piece
    at_once = COPYING_THREADS // beside

    number = text.into("b32", "and.b32", lowering.warpgroup_thread, beside - 1)
    first_row = text.into("b32", "shr.u32", lowering.warpgroup_thread, beside.bit_length() - 1)
    base = text.into("b32", "add.u32", lowering.shared_base, buffer.address + op.offset_bytes.data)
    base = text.into("b32", "mad.lo.u32", slot.stage, buffer.slot_bytes, base)
    place = (
        _place_of_factors(text, number if beside > 1 else "", first_row, rows)
        if is_set(op.factors)
        else _swizzled_place(text, number, first_row, piece)
    )
    even = text.into("b32", "add.u32", base, place)
    odd = text.into("b32", "xor.b32", even, 64) if at_once == 4 else even

    # Where they come from.
    column = text.into("b32", "mad.lo.s32", number, piece // width, inner)
    row = text.into("b32", "add.s32", outer, first_row)
    address = text.into("b64", "mad.wide.s32", column, width, source.register)
    address = text.into("b64", "mad.wide.s32", row, pitch_bytes, address)
    for index, dimension in zip(further, dimensions[2:], strict=True):
        address = text.into("b64", "mad.wide.s32", index, source.strides[dimension] * width, address)

    # Rows left inside the array from this thread's first one; none, where its column lies outside.
    left = text.into("b32", "sub.s32", outer_extent, row)
    outside = text.into("pred", "setp.ge.s32", column, inner_extent)
    left = text.into("b32", "selp.b32", 0, left, outside)
    cut = bool(inner_extent * width % piece)
    bytes_left = ""
    if cut:
        bytes_left = text.into("b32", "sub.s32", inner_extent, column)
        bytes_left = text.into("b32", "mul.lo.s32", bytes_left, width)
        bytes_left = text.into("b32", "min.s32", bytes_left, piece)
    opcode = f"cp.async.{'cg' if piece == 16 else 'ca'}.shared.global{_CACHE}"
    for turn in range(-(-rows // at_once)):
        done = turn * at_once
        guard = ""
        if rows - done < at_once:
            guard = text.into("pred", "setp.lt.u32", first_row, rows - done)
        past = text.into("pred", "setp.le.s32", left, done)
        further_on = _distance_of_factors(done) if is_set(op.factors) else done * _ROW_BYTES
        to = f"[{odd if turn % 2 else even}+{further_on}]"
        if cut:
            read = text.into("b32", "selp.b32", 0, bytes_left, past)
            text.emit(opcode, to, f"[{address}+{done * pitch_bytes}]", piece, read, guard=guard)
        else:
            text.emit(opcode, to, f"[{address}+{done * pitch_bytes}]", piece, past, guard=guard)
    lowering.places[op.result] = slot


def _swizzled_place(text: Text, number: str, row: str, piece: int) -> str:
    """Where a piece of a row goes: rows are 128 bytes, of which the swizzle turns bits 4 to 6 by bits 7 to 9."""
    turned = text.into("b32", "and.b32", row, 7)
    turned = text.into("b32", "shl.b32", turned, 4)
    within = text.into("b32", "shl.b32", number, piece.bit_length() - 1)
    within = text.into("b32", "xor.b32", within, turned)
    return text.into("b32", "mad.lo.u32", row, _ROW_BYTES, within)


def _place_of_factors(text: Text, cell: str, row: str, rows: int) -> str:
    """Where a row's four factors go: 16 bytes behind those of the row before, but for 32 rows each 4 bytes further on.
    cell: which four of a row, behind those of all rows before; "" where there are no others."""
    low = text.into("b32", "shl.b32", text.into("b32", "and.b32", row, FACTOR_ROWS - 1), 4)
    low = text.into("b32", "mad.lo.u32", text.into("b32", "shr.u32", row, 5), CELL_FACTORS, low)
    return text.into("b32", "mad.lo.u32", cell, rows * CELL_FACTORS, low) if cell else low


def _distance_of_factors(rows: int) -> int:
    """From a row's factors to those of the row so many behind it, whole times 32."""
    units, left = divmod(rows, COPYING_THREADS)
    return units * COPYING_THREADS * CELL_FACTORS + left // FACTOR_ROWS * CELL_FACTORS


EMITTERS: Emitters = {
    AsyncCopyIssueOp: _issue,
    AsyncCopyArriveOp: _arrive,
    AsyncCopyFenceOp: placed(_fence),
    AsyncCopyWaitOp: emitted("cp.async.wait_all"),
}
