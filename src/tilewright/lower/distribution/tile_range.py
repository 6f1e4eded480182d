"""How is it found, in registers, which part of a walk a tile takes?

`ac.range` and `ac.unit_range` say what is computed, `ac.unit_pass` what a unit does that has no rows. Offsets, and how
many iterations there are, go through moves, so that they are the only immediates that change with the extents.

Checked by: tests/lower/distribution/test_tile_range.py, which runs what is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_of
from tilewright.lower.ptx.carried import move
from tilewright.lower.ptx.copies.rings import behind, meet, release_slot, wait_for_slot
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import LeftTile, Lowering, integers
from tilewright.lower.ptx.places import CursorPlace, IndexPlace
from tilewright.lower.ptx.run_time import UNITS, count_name


def lower_range(lowering: Lowering, op: ac.RangeOp) -> IndexPlace:
    """The part's first iteration; its length is what loops over the symbol run from here on."""
    text, row = lowering.text, lowering.index(op.row)
    name, size = count_name(op.symbol.data), size_of(op.most)
    last = text.into("b32", "mov.u32", size - 1) if isinstance(size, int) else ""
    if not isinstance(size, int):
        last = text.into("b32", "sub.u32", lowering.passed.register(text, name, size), 1)
    first = text.into("b32", "min.u32", _on_line(text, row, op.begin), last)
    least = text.into("b32", "add.u32", first, 1)
    end = text.into("b32", "max.u32", _on_line(text, row, op.end), least)
    most = lowering.passed.register(text, name, size)
    end = text.into("b32", "min.u32", end, most)
    lowering.trips[op.symbol.data] = text.into("b32", "sub.u32", end, first)
    return IndexPlace(first)


def lower_unit_range(lowering: Lowering, op: ac.UnitRangeOp) -> None:
    """How many iterations loops over the symbols of a unit run from here on."""
    text, count = lowering.text, lowering.trips[op.symbol.data]
    number = text.into("b32", "mad.lo.s32", lowering.index(op.row), op.tile_units.data, lowering.index(op.unit))
    number = text.into("b32", "sub.s32", number, op.units_lacking) if op.units_lacking else number
    before = text.into("b32", "sub.s32", _on_line(text, number, op.end), lowering.index(op.first))
    own = text.into("b32", "min.u32", text.into("b32", "max.s32", before, 1), count)
    behind_all = lowering.passed.register(text, UNITS, size_of(op.units))
    lowering.has_rows = text.into("pred", "setp.lt.u32", number, behind_all)
    own = text.into("b32", "selp.b32", own, 1, lowering.has_rows)
    lowering.trips[op.own.data] = own
    lowering.trips[op.rest.data] = text.into("b32", "sub.u32", count, own)


def lower_unit_pass(lowering: Lowering, op: ac.UnitPassOp) -> None:
    """A unit without rows leaves the body, to where `pass_tile` is emitted."""
    tile = op.parent_block()
    assert tile is not None
    left = lowering.left_tiles[tile] = LeftTile(op, lowering.text.label("no_rows"), lowering.text.label("next_tile"))
    lowering.text.emit("bra", left.begin, guard=f"!{lowering.has_rows}")


def pass_tile(lowering: Lowering, left: LeftTile) -> None:
    """Pass the tile's slots, and go on with the next tile. This stands behind the loop over tiles, so that others fetch
    their instructions in a row."""
    text, op = lowering.text, left.op
    loop, end = text.label("pass"), text.label("pass_end")

    def pass_slots(passed: Sequence[tuple[SSAValue, SSAValue]]) -> None:
        for ring, cursor in passed:
            place = lowering.place(cursor)
            assert isinstance(place, CursorPlace)
            slot = wait_for_slot(lowering, ring, place)
            meet(lowering, op.unit, op.first_barrier.data, lowering.facts.limit("warpgroup.threads"))
            release_slot(lowering, slot)
            move(text, [place], [behind(lowering, ring, place)])

    text.place(left.begin)
    pass_slots(op.cursors[: op.staying.data])
    index = text.into("b32", "mov.u32", 0)
    text.place(loop)
    last = text.into("pred", "setp.ge.u32", index, lowering.trips[op.symbol.data])
    text.emit("bra", end, guard=last)
    pass_slots(op.cursors[op.staying.data :])
    text.emit("add.u32", index, index, 1)
    text.emit("bra", loop)
    text.place(end)
    text.emit("bra", left.following)


def _on_line(text: Text, row: str, line: ArrayAttr[IntAttr]) -> str:
    scale, offset, divisor = integers(line)
    moved = text.into("b32", "mov.u32", offset % (1 << 32))
    value = text.into("b32", "mad.lo.s32", row, scale, moved)
    positive = text.into("b32", "max.s32", value, 0)
    return text.into("b32", "div.u32", positive, divisor)
