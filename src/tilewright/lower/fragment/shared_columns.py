"""How numbers of a tile's columns reach a unit's threads: loaded once by each warp, read from shared memory where used.

In wgmma's order a thread has two columns of every eight, and eight lanes have the same ones. Loads at these places
bring each number eight times over, and a thread holds a quarter of all numbers in registers until they are used. Here
lane l loads the columns l, l + 32, ..., of neighbouring addresses; where the numbers are first used they are put into a
part of shared memory that is the warp's own, and each use reads two neighbours at once. So the loads may run beside
products, as the registers wait for them at the first use alone.

The warp's accesses are ordered by bar.warp.sync: before numbers are put there, for those that read the ones before,
and behind. No other warp touches its part.
Source: PTX ISA, wgmma register fragments, bar.warp.sync. Checked by: tests/lower/cascade/test_shared_columns.py.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.lower.fragment.epilogue import lane_offsets
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, element_address, load_as_float, row_address
from tilewright.lower.ptx.lowering import Lowering, WaitingColumns
from tilewright.lower.ptx.places import BufferPlace, LoadedFragmentPlace

_WARPS, _LANES = 4, 32
_NUMBER_BYTES = 4


def load_shared_columns(
    lowering: Lowering, op: ac.FragmentLoadOp, fragment: LoadedFragmentPlace
) -> LoadedFragmentPlace:
    """The fragment, whose numbers this warp's lanes are loading."""
    text, buffer, kind = lowering.text, lowering.place(op.through[0]), op.result.type
    assert isinstance(buffer, BufferPlace) and isinstance(kind, ac.FragmentType) and op.part is not None
    columns, thread = kind.n.data, lowering.warpgroup_thread
    (extent,), (stride,) = fragment.source.shape, fragment.source.steps
    size = ELEMENT_BYTES[fragment.source.element]
    lane = text.into("b32", "and.b32", thread, _LANES - 1)
    first = text.into("b32", "add.s32", lane, fragment.column)
    base = element_address(text, fragment.source.register, first, stride, size)
    numbers: list[str] = []
    for begin in range(0, columns, _LANES):
        index = text.into("b32", "add.s32", first, begin) if begin else first
        inside = text.into("pred", "setp.lt.u32", index, extent)  # unsigned, as in `load_element`
        if columns - begin < _LANES:
            inside = text.into("pred", "setp.lt.and.u32", lane, columns - begin, inside)
        place = row_address(text, base, begin, stride, size, 0)
        numbers.append(load_as_float(text, fragment.source, place, inside))
    # Constants come last: what several loads compute of their addresses is the same then.
    unit_bytes, offset = buffer.slots * buffer.slot_bytes, buffer.address + op.part.data * columns * _NUMBER_BYTES
    own = text.into("b32", "mad.lo.u32", lowering.index(op.through[1]), unit_bytes, lowering.shared_base)
    warp = text.into("b32", "shr.u32", thread, 5)
    own = text.into("b32", "mad.lo.u32", warp, buffer.slot_bytes // _WARPS, own)
    lowering.waiting[op.result] = WaitingColumns(own, offset, lane, columns, tuple(numbers))
    _, column = lane_offsets(text, thread)
    return replace(fragment, shared=(text.into("b32", "mad.lo.u32", column, _NUMBER_BYTES, own), offset))


def share_columns(lowering: Lowering, value: SSAValue) -> None:
    """Put the numbers of a fragment where they are read, if they are not there yet."""
    waiting = lowering.waiting.pop(value, None)
    if waiting is None:
        return
    text = lowering.text
    place = text.into("b32", "mad.lo.u32", waiting.lane, _NUMBER_BYTES, waiting.own)
    text.emit("bar.warp.sync", -1)
    for number, register in enumerate(waiting.numbers):
        left = waiting.columns - _LANES * number
        guard = text.into("pred", "setp.lt.u32", waiting.lane, left) if left < _LANES else ""
        offset = waiting.offset + _LANES * _NUMBER_BYTES * number
        text.emit("st.shared.f32", f"[{place}+{offset}]", register, guard=guard)
    text.emit("bar.warp.sync", -1)
