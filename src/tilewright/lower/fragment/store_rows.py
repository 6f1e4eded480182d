"""How an accumulator leaves by plain stores along rows: each warp turns its rows in shared memory and writes words.

In wgmma's fragment a warp holds 16 rows of every 64, of which a store of its registers would touch eight at once, a few
bytes of each. So each warp puts 128 bytes of its 16 rows into a part of shared memory of its own, and takes them out a
row at a time: 32 lanes hold 32 words of one row. Rows of 16-bit elements may begin at any element: then the words that
are stored are the aligned ones, and the elements left at either end go alone. Which they are is found in the address of
the first row; whether the next row's are the same follows from the pitch.

The warp's accesses are ordered by bar.warp.sync; no other warp touches its part. Nothing outside the array is written:
words reach no further than the row's end.
Source: PTX ISA, wgmma register fragments, stmatrix, bar.warp.sync. Checked by: tests/lower/fragment/test_store_rows.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lower.fragment.epilogue import Lanes, Staging, StoredPlace, lane_offsets, stage_matrices, stage_pairs
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, displaced_address, element_address, row_address
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import BufferPlace, GlobalPlace

_ROW_BYTES = 128
_WARP_ROWS = 16
_BLOCK_ROWS = 64
_SWIZZLE_MASK = 0x70
"""The 128-byte swizzle, which keeps stmatrix and the loads of a row free of bank conflicts."""
_SWIZZLE_ROWS = 8


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where a warp's rows go. Registers: `part`, address of its part of shared memory; `first`, global address of its
    first row's first element; `lane`; `rows_left` and `columns_left` of the array from there;
    pitch: elements from row to row, a number or a register."""

    text: Text
    element: str
    part: str
    first: str
    lane: str
    rows_left: str
    columns_left: str
    pitch: int | str


def instance_address(lowering: Lowering, buffer: BufferPlace, unit: str) -> str:
    """The address of a unit's instance of a buffer."""
    instance = lowering.text.into("b32", "add.u32", lowering.shared_base, buffer.address)
    return lowering.text.into("b32", "mad.lo.u32", unit, buffer.slots * buffer.slot_bytes, instance)


def stage_part(staging: Staging, block: int) -> None:
    """Put a chunk of a warp's rows into its part of shared memory, between two meetings of the warp."""
    staging.text.emit("bar.warp.sync", -1)
    if ELEMENT_BYTES[staging.fragment.element] == 2:
        stage_matrices(staging, block)
    else:
        stage_pairs(staging, block)
    staging.text.emit("bar.warp.sync", -1)


def store_along_rows(
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
    warp = text.into("b32", "shr.u32", thread, 5)
    row = text.into("b32", "mad.lo.u32", warp, lowering.warp_rows, origin[0])
    pitch = destination.steps[0]
    first = element_address(text, destination.register, row, pitch, element_bytes)
    rows = _Rows(
        text,
        fragment.element,
        text.into("b32", "mad.lo.u32", warp, _WARP_ROWS * _ROW_BYTES, instance),
        displaced_address(text, first, origin[1], element_bytes),
        text.into("b32", "and.b32", thread, 31),
        text.into("b32", "sub.s32", row_end, row),
        text.into("b32", "sub.s32", destination.shape[1], origin[1]),
        pitch,
    )
    lanes = Lanes(text, *lane_offsets(text, thread, lowering.warp_rows))
    chunk = _ROW_BYTES // element_bytes
    whole, last = divmod(fragment.columns, chunk)
    plans = {width: _WordPlan.of(rows, width) for width in (chunk if whole else 0, last) if width}
    for block in range(fragment.row_blocks):
        for begin in range(0, fragment.columns, chunk):
            end = min(begin + chunk, fragment.columns)
            stage_part(
                Staging(text, lanes, fragment, _SWIZZLE_MASK, begin, end, _ROW_BYTES, instance, thread, 0), block
            )
            _store_chunk(rows, plans[end - begin], block, begin, end - begin)


@dataclass(frozen=True, slots=True)
class _Class:
    """Rows whose addresses are alike modulo a word. element: register with the first element of this lane's word; odd:
    register, 1 if the row's first element fills no word of its own."""

    element: str
    odd: str


@dataclass(frozen=True, slots=True)
class _WordPlan:
    """classes: of even and odd rows, one where the pitch makes them the same. places: shared-memory addresses of this
    lane's word by row modulo 8: one register, or two where its elements may lie apart. Lanes past the chunk's width,
    which store nothing, read its last element again: what lies beyond is not written. (Loads under the stores'
    predicates would be waited for one by one.)"""

    classes: tuple[_Class, ...]
    places: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(rows: _Rows, width: int) -> _WordPlan:
        """width: elements of a chunk."""
        text, element_bytes = rows.text, ELEMENT_BYTES[rows.element]
        most = (width - 1) * element_bytes

        def bounded(offset: str) -> str:
            return text.into("b32", "min.u32", offset, most) if width * element_bytes < _ROW_BYTES else offset

        if element_bytes == 4:
            offset = bounded(text.into("b32", "shl.b32", rows.lane, 2))
            places = tuple((_swizzled(rows, offset, number),) for number in range(_SWIZZLE_ROWS))
            return _WordPlan((_Class(rows.lane, ""),), places)
        word = text.into("b32", "cvt.u32.u64", rows.first)
        first_odd = text.into("b32", "and.b32", text.into("b32", "shr.u32", word, 1), 1)
        odds = [first_odd]
        if isinstance(rows.pitch, str):
            odds.append(text.into("b32", "xor.b32", first_odd, text.into("b32", "and.b32", rows.pitch, 1)))
        elif rows.pitch % 2:
            odds.append(text.into("b32", "xor.b32", first_odd, 1))
        classes: list[_Class] = []
        offsets: list[tuple[str, str]] = []
        for odd in odds:
            element = text.into("b32", "mad.lo.u32", rows.lane, 2, odd)
            low = text.into("b32", "shl.b32", element, 1)
            # The last lane's second element may be one past the chunk, and is not stored then.
            high = text.into("b32", "min.u32", text.into("b32", "add.u32", low, 2), most)
            classes.append(_Class(element, odd))
            offsets.append((bounded(low), high))
        places = tuple(
            tuple(_swizzled(rows, offset, number) for offset in offsets[number % len(offsets)])
            for number in range(_SWIZZLE_ROWS)
        )
        return _WordPlan(tuple(classes), places)


def _swizzled(rows: _Rows, offset: str, row: int) -> str:
    """Address of byte `offset` of a row's 128 in the warp's part, but for the row's own 128 times its number."""
    text = rows.text
    bits = row % _SWIZZLE_ROWS << 4
    within = text.into("b32", "xor.b32", offset, bits) if bits else offset
    return text.into("b32", "add.u32", rows.part, within)


@dataclass(frozen=True, slots=True)
class _Ends:
    """What is left of a row of one class besides whole words. within: predicate, this lane's word lies in the row;
    address: global, of that word in the first row; single: this lane's lone element, its predicate `alone`, its offset
    in shared memory and its global address."""

    within: str
    address: str
    alone: str = ""
    single_offset: str = ""
    single_address: str = ""


def _store_chunk(rows: _Rows, plan: _WordPlan, block: int, begin: int, width: int) -> None:
    """`width` elements, 128 bytes at most, of each of the warp's 16 rows, from column `begin`, out of shared memory."""
    text = rows.text
    element_bytes = ELEMENT_BYTES[rows.element]
    columns = text.into("b32", "sub.s32", rows.columns_left, begin) if begin else rows.columns_left
    columns = text.into("b32", "min.s32", columns, width)
    left = text.into("b32", "sub.s32", rows.rows_left, _BLOCK_ROWS * block) if block else rows.rows_left
    ends = [_ends(rows, each, columns) for each in plan.classes]
    for row in range(_WARP_ROWS):
        end = ends[row % len(ends)]
        places = plan.places[row % _SWIZZLE_ROWS]
        behind, offset = _BLOCK_ROWS * block + row, begin * element_bytes
        inside = text.into("pred", "setp.gt.and.s32", left, row, end.within)
        target = row_address(text, end.address, behind, rows.pitch, element_bytes, offset)
        if len(places) == 1:
            word = text.into("b32", "ld.shared.b32", f"[{places[0]}+{row * _ROW_BYTES}]")
            text.emit("st.global.b32", target, word, guard=inside)
            continue
        low, high = (text.into("b16", "ld.shared.b16", f"[{place}+{row * _ROW_BYTES}]") for place in places)
        text.emit("st.global.b32", target, text.into("b32", "mov.b32", f"{{{low}, {high}}}"), guard=inside)
        alone = text.into("pred", "setp.gt.and.s32", left, row, end.alone)
        place = _swizzled(rows, end.single_offset, row)
        single = text.into("b16", "ld.shared.b16", f"[{place}+{row * _ROW_BYTES}]")
        address = row_address(text, end.single_address, behind, rows.pitch, element_bytes, offset)
        text.emit("st.global.b16", address, single, guard=alone)


def _ends(rows: _Rows, each: _Class, columns: str) -> _Ends:
    """columns: register, elements of the chunk that lie in the array, at most its width; none if not positive."""
    text = rows.text
    element_bytes = ELEMENT_BYTES[rows.element]
    address = displaced_address(text, rows.first, each.element, element_bytes)
    if element_bytes == 4:
        return _Ends(text.into("pred", "setp.gt.s32", columns, each.element), address)
    last = text.into("b32", "add.s32", columns, -1)
    within = text.into("pred", "setp.gt.s32", last, each.element)
    # Lane 0 has the row's first element if that is odd, lane 1 its last one if what lies between is no whole word.
    is_first = text.into("pred", "setp.eq.u32", rows.lane, 0)
    is_second = text.into("pred", "setp.eq.u32", rows.lane, 1)
    between = text.into("b32", "sub.s32", columns, each.odd)
    tail = text.into("b32", "and.b32", between, 1)
    head_alone = text.into("pred", "setp.gt.and.s32", columns, 0, is_first)
    head_alone = text.into("pred", "setp.ne.and.u32", each.odd, 0, head_alone)
    tail_alone = text.into("pred", "setp.gt.and.s32", between, 0, is_second)
    tail_alone = text.into("pred", "setp.ne.and.u32", tail, 0, tail_alone)
    alone = text.into("pred", "or.pred", head_alone, tail_alone)
    number = text.into("b32", "selp.b32", last, 0, tail_alone)
    single_address = displaced_address(text, rows.first, number, element_bytes)
    return _Ends(within, address, alone, text.into("b32", "shl.b32", number, 1), single_address)
