"""How two-level accumulation becomes PTX: scales loaded ahead of a product, then fused multiply-adds of its results, or
additions where nothing scales them.

Each number of a scale is loaded once for all the places that share it: a row's for the row's columns, a run of columns'
for the run. The loads are issued where the operation stands, before the wait for the slot, so that their latency passes
while the tensor core works. A thread holds two rows of each 64-row block and pairs of columns (see `epilogue`).
Source: PTX ISA, wgmma register fragments, fma. Checked by: tests/lower/test_block_scales.py.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.promotion import PromotedReadOp, PromotedStartOp, PromotedType, PromoteOp, ScalesLoadOp
from tilewright.lower.fragment.epilogue import lane_offsets
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, displaced_address, load_as_float
from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.lowering import Emitters, Lowering, integers, placed
from tilewright.lower.ptx.numbers.scalar_region import lower_scalar_op, scalar_register
from tilewright.lower.ptx.places import (
    AccumulatorPlace,
    GlobalPlace,
    Place,
    Places,
    ScalarPlace,
    ScalesBase,
    ScalesPlace,
)

_BLOCK_ROWS = 64
_MOST_KEPT = 8
"""Numbers of a slot whose addresses are kept in registers from slot to slot."""
_ONE_BITS = 0x3F800000
"""Of 1.0 in float32."""
_GROUP_COLUMNS = 8
"""Columns of which a thread holds one pair."""


def _start(lowering: Lowering, op: PromotedStartOp) -> AccumulatorPlace:
    kind = op.result.type
    assert isinstance(kind, PromotedType)
    zero = float_literal(0.0)
    blocks = tuple(
        tuple(lowering.text.into("f32", "mov.f32", zero) for _ in range(kind.n.data // 2))
        for _ in range(kind.m.data // _BLOCK_ROWS)
    )
    return AccumulatorPlace(blocks, kind.n.data)


def _read(lowering: Lowering, op: PromotedReadOp) -> Place:
    return lowering.place(op.total)


def _load(lowering: Lowering, op: ScalesLoadOp) -> ScalesPlace:
    text, source = lowering.text, lowering.place(op.source)
    assert isinstance(source, GlobalPlace)
    first = _first_slice(lowering, op)
    loaded = lowering.fresh_scales(list(first.places), by_row=first.by_row, run=first.run)
    if first.along is None:
        for key, (address, inside) in first.places.items():
            load_as_float(text, source, f"[{address}]", inside, loaded.values[key])
        return loaded
    extent, stride_bytes, block = first.along
    if block % op.depth.data == 0:
        index = _divided(text, lowering.index(op.slice), block // op.depth.data)
    else:
        index = _divided(text, text.into("b32", "mul.lo.u32", lowering.index(op.slice), op.depth.data), block)
    reached = text.into("pred", "setp.lt.u32", index, extent)
    for key, (address, inside) in first.places.items():
        fits = text.into("pred", "and.pred", reached, inside) if inside else reached
        at = displaced_address(text, address, index, stride_bytes)
        load_as_float(text, source, f"[{at}]", fits, loaded.values[key])
    return loaded


def _first_slice(lowering: Lowering, op: ScalesLoadOp) -> ScalesBase:
    """Where the numbers of slice 0 are, and which lie inside the array: the same for every slice, so that a loop's
    loads take what was computed before the loop, if the registers of few numbers hold it."""
    key = (op.source, op.row, op.column, op.axes.data, op.result.type)
    known = lowering.scales_bases.get(key)
    block = op.parent_block()
    assert block is not None
    if known is not None and _is_around(known[0], block):
        return known[1]
    found = _computed_base(lowering, op)
    if len(found.places) <= _MOST_KEPT:
        lowering.scales_bases[key] = (block, found)
    return found


def _is_around(outer: Block, inner: Block | None) -> bool:
    while inner is not None and inner is not outer:
        owner = inner.parent_op()
        inner = owner.parent_block() if owner is not None else None
    return inner is outer


def _computed_base(lowering: Lowering, op: ScalesLoadOp) -> ScalesBase:
    text, source = lowering.text, lowering.place(op.source)
    assert isinstance(source, GlobalPlace)
    kind = op.result.type
    element_bytes = ELEMENT_BYTES[source.element]
    dimensions = {
        axis: (extent, stride * element_bytes, block)
        for axis, extent, stride, block in zip(
            op.axes.data, source.shape, source.strides, integers(op.blocks), strict=True
        )
    }
    lane_row, lane_column = lane_offsets(text, lowering.warpgroup_thread)
    rows: dict[int, tuple[str, str]] = {0: (source.register, "")}
    if "m" in dimensions:
        first = text.into("b32", "add.s32", lane_row, lowering.index(op.row))
        places = [row for block in range(kind.m.data // _BLOCK_ROWS) for row in (64 * block, 64 * block + 8)]
        rows = {row: _stepped(text, rows[0], first, row, dimensions["m"]) for row in places}
    run = op.column_run.data if op.column_run.data % _GROUP_COLUMNS == 0 else 1
    columns = [0]
    first = lowering.index(op.column)
    if "n" in dimensions:
        columns = list(range(0, kind.n.data, run))
        if run == 1:
            first = text.into("b32", "add.s32", lane_column, first)
            columns = [group + odd for group in range(0, kind.n.data, _GROUP_COLUMNS) for odd in (0, 1)]
    found: dict[tuple[int, int], tuple[str, str]] = {}
    for row, place in rows.items():
        for column in columns:
            found[row, column] = place
            if "n" in dimensions:
                found[row, column] = _stepped(text, place, first, column, dimensions["n"])
    return ScalesBase(found, "m" in dimensions, run if "n" in dimensions else 0, dimensions.get("k"))


def _divided(text: Text, number: str, divisor: int) -> str:
    if divisor == 1:
        return number
    if divisor & (divisor - 1) == 0:
        return text.into("b32", "shr.u32", number, divisor.bit_length() - 1)
    return text.into("b32", "div.u32", number, divisor)


def _stepped(
    text: Text, place: tuple[str, str], first: str, offset: int, dimension: tuple[int | str, int, int]
) -> tuple[str, str]:
    """(address, guard) of `place`, further along a dimension, (extent, stride in bytes, elements that share a number):
    at element first + offset."""
    extent, stride_bytes, block = dimension
    element = text.into("b32", "add.s32", first, offset) if offset else first
    index = _divided(text, element, block)
    # As unsigned, so that what lies past 2^31 is outside too.
    fits = text.into("pred", "setp.lt.u32", index, extent)
    inside = text.into("pred", "and.pred", place[1], fits) if place[1] else fits
    return displaced_address(text, place[0], index, stride_bytes), inside


def _promote(lowering: Lowering, op: PromoteOp) -> None:
    text = lowering.text
    total, partial = lowering.place(op.total), lowering.place(op.partial)
    assert isinstance(total, AccumulatorPlace) and isinstance(partial, AccumulatorPlace)
    known: dict[tuple[str, ...], str] = {}
    plain = _is_one(op)
    for block, (sums, products) in enumerate(zip(total.blocks, partial.blocks, strict=True)):
        for value, (register, product) in enumerate(zip(sums, products, strict=True)):
            if plain:
                text.emit("add.rn.f32", register, register, product)
                continue
            row = _BLOCK_ROWS * block + 8 * ((value >> 1) & 1)
            column = (value & 1) + _GROUP_COLUMNS * (value >> 2)
            numbers = tuple(_number(lowering, scales, row, column) for scales in op.scales)
            if numbers not in known:
                known[numbers] = _scale(text, op, numbers)
            text.emit("fma.rn.f32", register, product, known[numbers], register)
    lowering.places[op.result] = total
    # Nothing else reads them, so that the next partial product and the next scales may have their registers.
    for value in (op.partial, *op.scales):
        place = lowering.place(value)
        if _is_last_use(value, op) and _is_of_block(value, op) and isinstance(place, AccumulatorPlace | ScalesPlace):
            lowering.spare.append(place)


def _is_one(op: PromoteOp) -> bool:
    """Whether the scale of every place is 1, so that terms are added as they are."""
    item = op.body.block.first_op
    return (
        isinstance(item, ac.ConstantOp)
        and item.bits.data == _ONE_BITS
        and isinstance(item.next_op, ac.YieldOp)
        and item.next_op.values[0] is item.results[0]
    )


def used_once(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1


def _is_last_use(value: SSAValue, op: PromoteOp) -> bool:
    """Whether nothing uses the value behind `op`, or in another block."""
    users = [use.operation for use in value.uses]
    return all(each is op or (each.parent is op.parent and each.is_before_in_block(op)) for each in users)


def _is_of_block(value: SSAValue, op: PromoteOp) -> bool:
    """Whether the value is made, or given as an argument, in the very block that `op` stands in."""
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent_block()) is op.parent_block()


def _number(lowering: Lowering, scales: SSAValue, row: int, column: int) -> str:
    """The register with a scale's number at a place of this thread's."""
    place = lowering.place(scales)
    assert isinstance(place, ScalesPlace)
    along = column // place.run * place.run if place.run > 1 else column if place.run else 0
    return place.values[row if place.by_row else 0, along]


def _scale(text: Text, op: PromoteOp, numbers: tuple[str, ...]) -> str:
    body = op.body.block
    scalars: Places = {argument: ScalarPlace(number) for argument, number in zip(body.args, numbers, strict=True)}
    for item in body.ops:
        if isinstance(item, ac.YieldOp):
            return scalar_register(scalars, item.values[0])
        if not lower_scalar_op(text, scalars, item):
            raise AssertionError(f"{item.name} cannot stand in a scale's region")
    raise AssertionError("a scale's region yields its result")


EMITTERS: Emitters = {
    PromotedStartOp: placed(_start),
    ScalesLoadOp: placed(_load),
    PromoteOp: _promote,
    PromotedReadOp: placed(_read),
}
