"""How an accumulator leaves where its rows may end inside the tile: along rows, in vectors of 16 bytes.

In wgmma's fragment a warp holds 16 rows of every 64. It puts 128 bytes of each, the 8 chunks of 16 bytes swizzled by
the row, into a part of shared memory of its own, and takes them out a vector a lane: 8 lanes hold 128 bytes of one row,
so one store of the warp writes four whole lines. A row is stored if it lies before the limit, a vector if it begins
inside the row. Rows of the array begin and end at multiples of 16 bytes, so a vector lies wholly inside or outside.

Arrays without such rows go through `store_rows`, in words. The warp's accesses are ordered by
bar.warp.sync; no other warp touches its part.
Source: PTX ISA, wgmma register fragments, stmatrix, ld.shared, st.global (vectors are aligned to their size),
bar.warp.sync. Checked by: tests/lower/distribution/test_group_tiles.py.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.lower.fragment.epilogue import Lanes, Staging, StoredPlace, lane_offsets
from tilewright.lower.fragment.store_rows import instance_address, stage_part, store_along_rows
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, displaced_address, element_address, row_address
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import BufferPlace, GlobalPlace

VECTOR_BYTES = 16
_ROW_BYTES = 128
_WARP_ROWS = 16
_BLOCK_ROWS = 64
_SWIZZLE_MASK = 0x70
_ROW_LANES = _ROW_BYTES // VECTOR_BYTES
_STORE_ROWS = 32 // _ROW_LANES


def lower_rows_store(lowering: Lowering, op: ac.RowsStoreOp) -> None:
    """Every element of the fragment before the row limit and inside the array's columns."""
    fragment, destination = lowering.place(op.fragment), lowering.array(op.destination)
    buffer = lowering.place(op.buffer)
    assert isinstance(fragment, StoredPlace) and isinstance(buffer, BufferPlace) and destination.steps[1] == 1
    store = store_in_vectors if op.vectors.data else store_along_rows
    origin, through = (lowering.index(op.row), lowering.index(op.column)), (buffer, lowering.index(op.unit))
    store(lowering, fragment, destination, through, origin, lowering.index(op.row_end))


def lower_store_through(
    lowering: Lowering, op: ac.GlobalStoreOp, fragment: StoredPlace, destination: GlobalPlace, origin: tuple[str, str]
) -> None:
    """Every element of the fragment that lies inside the array. origin: row and column of the unit's first element."""
    buffer = lowering.place(op.through[0])
    assert isinstance(buffer, BufferPlace) and destination.steps[1] == 1
    store = store_along_rows if op.vectors is None else store_in_vectors
    through = (buffer, lowering.index(op.through[1]))
    store(lowering, fragment, destination, through, origin, destination.shape[0])


def store_in_vectors(
    lowering: Lowering,
    fragment: StoredPlace,
    destination: GlobalPlace,
    through: tuple[BufferPlace, str],
    origin: tuple[str, str],
    row_end: str | int,
) -> None:
    """Every element of the fragment in rows before `row_end`, and in the array's columns. through: buffer and unit."""
    text = lowering.text
    element_bytes = ELEMENT_BYTES[fragment.element]
    thread, instance = lowering.warpgroup_thread, instance_address(lowering, *through)
    warp, lane = text.into("b32", "shr.u32", thread, 5), text.into("b32", "and.b32", thread, 31)
    # Lane l has vector l % 8 of row l / 8 of every four.
    lane_row, vector = text.into("b32", "shr.u32", lane, 3), text.into("b32", "and.b32", lane, _ROW_LANES - 1)
    warp_row = text.into("b32", "mul.lo.u32", warp, _WARP_ROWS)
    apart = lowering.warp_rows != _WARP_ROWS
    first_row = text.into("b32", "mul.lo.u32", warp, lowering.warp_rows) if apart else warp_row
    row = text.into("b32", "add.u32", text.into("b32", "add.u32", first_row, lane_row), origin[0])
    part = text.into("b32", "mad.lo.u32", text.into("b32", "add.u32", warp_row, lane_row), _ROW_BYTES, instance)
    vector_elements = VECTOR_BYTES // element_bytes

    def sources_of(columns: int) -> tuple[str, str]:
        """Where this lane's vector of a row of so many columns is, in even and in odd rows of every four. Lanes behind
        the last one read that again: what lies beyond is not written."""
        narrow = columns < chunk
        number = text.into("b32", "min.u32", vector, columns // vector_elements - 1) if narrow else vector
        # The vector's place in row r is its number xor r % 8; rows 4 apart differ in one bit of it.
        shifted = text.into("b32", "shl.b32", text.into("b32", "xor.b32", number, lane_row), 4)
        first = text.into("b32", "add.u32", part, shifted)
        other = text.into("b32", "xor.b32", shifted, _STORE_ROWS * VECTOR_BYTES)
        return first, text.into("b32", "add.u32", part, other)

    chunk = _ROW_BYTES // element_bytes
    whole, last = divmod(fragment.columns, chunk)
    sources = {width: sources_of(width) for width in (chunk if whole else 0, last) if width}
    column = text.into("b32", "mad.lo.u32", vector, vector_elements, origin[1])
    pitch = destination.steps[0]
    first = element_address(text, destination.register, row, pitch, element_bytes)
    first = displaced_address(text, first, column, element_bytes)
    left = text.into("b32", "sub.s32", row_end, row)
    columns = text.into("b32", "mov.u32", destination.shape[1])
    columns_left = text.into("b32", "sub.s32", columns, column)
    lanes = Lanes(text, *lane_offsets(text, thread, lowering.warp_rows))
    for block in range(fragment.row_blocks):
        inside = [
            text.into("pred", "setp.gt.s32", left, _BLOCK_ROWS * block + number)
            for number in range(0, _WARP_ROWS, _STORE_ROWS)
        ]
        for begin in range(0, fragment.columns, chunk):
            end = min(begin + chunk, fragment.columns)
            stage_part(
                Staging(text, lanes, fragment, _SWIZZLE_MASK, begin, end, _ROW_BYTES, instance, thread, 0), block
            )
            fits = text.into("pred", "setp.gt.s32", columns_left, begin)
            if end - begin < chunk:
                fits = text.into("pred", "setp.lt.and.u32", vector, (end - begin) // vector_elements, fits)
            for number, within in enumerate(inside):
                offset = number * _STORE_ROWS
                words = "{" + ", ".join(text.register("b32") for _ in range(4)) + "}"
                source = f"[{sources[end - begin][number % 2]}+{offset * _ROW_BYTES}]"
                text.emit("ld.shared.v4.b32", words, source)
                guard = text.into("pred", "and.pred", within, fits)
                behind, place = _BLOCK_ROWS * block + offset, begin * element_bytes
                address = row_address(text, first, behind, pitch, element_bytes, place)
                text.emit("st.global.v4.b32", address, words, guard=guard)
