"""How is it found, in registers, which part of a walk a tile takes?

`ac.range` says what is computed. Offsets, and how many iterations there are, go through moves, so that they are the
only immediates that change with the extents.

Checked by: tests/lower/distribution/test_tile_range.py, which runs what is emitted.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntAttr

from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_of
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.places import IndexPlace
from tilewright.lower.ptx.run_time import count_name


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
    behind = text.into("b32", "mov.u32", op.units.data)
    own = text.into("b32", "selp.b32", own, 1, text.into("pred", "setp.lt.u32", number, behind))
    lowering.trips[op.own.data] = own
    lowering.trips[op.rest.data] = text.into("b32", "sub.u32", count, own)


def _on_line(text: Text, row: str, line: ArrayAttr[IntAttr]) -> str:
    scale, offset, divisor = integers(line)
    moved = text.into("b32", "mov.u32", offset % (1 << 32))
    value = text.into("b32", "mad.lo.s32", row, scale, moved)
    positive = text.into("b32", "max.s32", value, 0)
    return text.into("b32", "div.u32", positive, divisor)
