"""How maps over fragments in registers become PTX: a region's scalar code for each element of a thread.

What is the same along a row or down a column, as far as the region says so, is emitted once for that row or column. A
result that is an accumulator's number is a copy of it, since the next product writes the accumulator's registers. One
that is only multiplied goes to A's registers at once (`held_operand`).

A selection by a condition that holds everywhere in the unit's tile (`tile_bounds`), as a mask's does in most tiles, is
passed over: the chosen numbers stand in the result's registers, and a branch that all threads take leads past what
selects among them. Behind the branch bits say which are chosen (`selected_columns`), where float32 has all places; of
two 16-bit numbers in a register that are chosen or 0, those that are not are cleared: what they are computed of need
not be kept. Where numbers of rows scale a result (`skips_ones`), a warp passes over the rows whose
numbers are all 1: of the two rows that each of its threads has in a block, the first of all, and the second of all.
Checked by: tests/lower/fragment/test_registers.py and tests/lower/fragment/test_map.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.ir import OpResult, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.fragment import FragmentMapOp, region_axes
from tilewright.ir.function import Function
from tilewright.ir.tile.repeats import in_order
from tilewright.lower.fragment import narrow_operand as narrow
from tilewright.lower.fragment.carried_sum import carried_result
from tilewright.lower.fragment.epilogue import (
    Lanes,
    column_of,
    fragment_value,
    lane_offsets,
    load_element,
    row_of,
    varying_axes,
)
from tilewright.lower.fragment.held_operand import held_bank, is_kept_by_waits
from tilewright.lower.fragment.register_operand import keep_until_here, operand_registers
from tilewright.lower.fragment.selected_columns import are_ranges, selected_columns
from tilewright.lower.fragment.shared_columns import share_columns
from tilewright.lower.fragment.tile_bounds import Linear, conjuncts, emit_all_hold, inequalities, is_exact_within
from tilewright.lower.points.elementwise import affine_index, divided
from tilewright.lower.ptx.emit import float_bits
from tilewright.lower.ptx.lowering import WARP_ROWS, Lowering, integers
from tilewright.lower.ptx.numbers.scalar import emit_round
from tilewright.lower.ptx.numbers.scalar_region import lower_scalar_op
from tilewright.lower.ptx.places import (
    OPERAND_AXES,
    AccumulatorPlace,
    DeferredFragmentPlace,
    FragmentPlace,
    IndexPlace,
    LoadedFragmentPlace,
    Place,
    Places,
    ScalarPlace,
)
from tilewright.lower.ptx.run_time import extent_name

_BLOCK_ROWS, _WARPS = 64, 4
_LEAST_COLUMNS = 8
"""Of which a thread has a value of each of its rows."""
_ROWS_OF_THREAD = (0, 2)
"""Of a 64-row block, a thread's first value of each of its two rows."""
_ONE = 0x3F800000
_WORD_BITS = 32


@dataclass(slots=True)
class _Region:
    """A map's region at the places of a thread. axes: along which each value changes; sources: of its arguments'
    numbers; found: by value, row and column, -1 along an axis that the value does not change along."""

    lowering: Lowering
    axes: dict[SSAValue, str]
    sources: dict[SSAValue, tuple[Place, Lanes]]
    found: dict[tuple[SSAValue, int, int], Place] = field(default_factory=dict[tuple[SSAValue, int, int], Place])

    def at(self, value: SSAValue, block: int, number: int) -> Place:
        """A value of the region at value `number` of a 64-row block."""
        place = self.found.get(self._key(value, block, number))
        if place is not None:
            return place
        for each in in_order(value, lambda each: self._key(each, block, number) not in self.found):
            key = self._key(each, block, number)
            if key not in self.found and isinstance(each, OpResult):
                self.found[key] = self._computed(each, block, number)
            elif key not in self.found:
                self.found[key] = self._argument(each, block, number)
        return self.found[self._key(value, block, number)]

    def _key(self, value: SSAValue, block: int, number: int) -> tuple[SSAValue, int, int]:
        axes = self.axes[value]
        return value, row_of(number, block) if "m" in axes else -1, column_of(number) if "n" in axes else -1

    def stands_in(self, value: SSAValue, registers: Sequence[Sequence[str]]) -> None:
        """A value has been moved to registers, by 64-row block and number in it."""
        if self.axes[value] == "mn":
            for block, each in enumerate(registers):
                for number, register in enumerate(each):
                    self.found[value, row_of(number, block), column_of(number)] = ScalarPlace(register)

    def is_common(self, value: SSAValue) -> bool:
        """Whether a value is one number for the whole tile, and none that the program is written with."""
        return self.axes[value] == "" and not isinstance(value.owner, ac.ConstantOp)

    def register(self, value: SSAValue, block: int, number: int) -> str:
        place = self.at(value, block, number)
        assert isinstance(place, ScalarPlace)
        return place.register

    def _computed(self, value: OpResult, block: int, number: int) -> Place:
        text, op = self.lowering.text, value.op
        places: Places = {operand: self.at(operand, block, number) for operand in op.operands}
        match op:
            case ac.AffineOp():
                return IndexPlace(affine_index(text, places, op))
            case ac.IndexDivideOp():
                return IndexPlace(divided(text, places, op))
            case ac.ExtentOp():
                size = op.size.size
                return IndexPlace(self.lowering.passed.register(text, extent_name(size), size))
            case _:
                if not lower_scalar_op(text, places, op):
                    raise AssertionError(f"{op.name} cannot stand in a map's region")
                return places[value]

    def _argument(self, value: SSAValue, block: int, number: int) -> Place:
        source, lanes = self.sources[value]
        row, column = row_of(number, block), column_of(number)
        match source:
            case AccumulatorPlace():
                return ScalarPlace(source.blocks[block][number])
            case FragmentPlace() if source.axes == "m":
                return ScalarPlace(source.blocks[block][(number >> 1) & 1])
            case FragmentPlace():
                return ScalarPlace(fragment_value(lanes, source, block, number))
            case LoadedFragmentPlace():
                return ScalarPlace(load_element(lanes, source, 0, row, column))
            case IndexPlace(first):
                offset = {"m": row, "n": column}.get(self.axes[value], 0)
                return IndexPlace(self.lowering.text.into("b32", "add.u32", first, offset) if offset else first)
            case _:
                raise AssertionError("a map takes accumulators, fragments and places")


def lower_map(lowering: Lowering, op: FragmentMapOp) -> None:
    end = op.body.block.last_op
    assert isinstance(end, ac.YieldOp)
    carried = carried_result(lowering, op)
    if carried is not None:
        lowering.places[op.outputs[0]] = carried
        return
    region = _region(lowering, op)
    if op.is_deferred:
        kind = _kind(op.outputs[0])
        number = partial(region.register, end.values[0])
        place = DeferredFragmentPlace(kind.element.data, kind.n.data, kind.m.data // _BLOCK_ROWS, number)
        lowering.places[op.outputs[0]] = place
        return
    kinds = [_kind(result) for result in op.outputs]
    blocks = kinds[0].m.data // _BLOCK_ROWS
    found = [[[""] * _width(kind) for _ in range(blocks)] for kind in kinds]
    banks = [held_bank(result) if _is_packed(kind) else None for kind, result in zip(kinds, op.outputs, strict=True)]
    held = [bank is not None for bank in banks]
    for kind, registers, bank in zip(kinds, found, banks, strict=True):
        if bank is not None:
            flat = iter(operand_registers(lowering, blocks * _width(kind), bank))
            registers[:] = [[next(flat) for _ in each] for each in registers]
    for registers, result, is_held in zip(found, op.outputs, held, strict=True):
        if is_held and not is_kept_by_waits(result):
            keep_until_here(lowering, [each for block in registers for each in block])
    scaled = _scaled(region, op) if is_set(op.skips_ones) else None
    if scaled is not None:
        found[0] = _scaled_rows(region, *scaled)
        lowering.places[op.outputs[0]] = FragmentPlace(tuple(map(tuple, found[0])), kinds[0].n.data, "mn", "f32")
        return
    passed_over = _passed_over(region, op)
    if passed_over is None:
        _write(region, kinds, end.values, found)
    else:
        chosen, everywhere = passed_over
        if not held[0]:
            kind = "b32" if _is_packed(kinds[0]) else "f32"
            found[0] = [[lowering.text.register(kind) for _ in each] for each in found[0]]
        _write(region, kinds, [chosen], found)
        if not _is_packed(kinds[0]):
            # What was chosen stands there now: read elsewhere, it would take as many registers again.
            region.stands_in(chosen, found[0])
        label = lowering.text.label("everywhere")
        lowering.text.emit("bra", label, guard=everywhere)
        forms = _exact_forms(op) or ()
        if forms and _is_packed(kinds[0]) and _is_else_zero(op):
            _clear_halves(region, op, forms, found[0])
        elif forms and not _is_packed(kinds[0]) and are_ranges(forms):
            _select(region, op, forms, found[0])
        else:
            _write(region, kinds, end.values, found)
        lowering.text.place(label)
    for result, kind, registers in zip(op.outputs, kinds, found, strict=True):
        place = FragmentPlace(tuple(map(tuple, registers)), kind.n.data, kind.axes.data, kind.element.data)
        lowering.places[result] = place


def _passed_over(region: _Region, op: FragmentMapOp) -> tuple[SSAValue, str] | None:
    """Of a map that selects: the chosen value, and a predicate that it is chosen at every place of the tile."""
    lowering, end = region.lowering, op.body.block.last_op
    assert isinstance(end, ac.YieldOp)
    value, *others = end.values
    kind = _kind(op.outputs[0])
    if others or kind.axes.data != "mn" or not isinstance(value, OpResult) or not isinstance(value.op, ac.ScalarOp):
        return None
    if value.op.function.data != Function.WHERE.value:
        return None
    places = op.body.block.args[len(op.inputs) :]
    if not places:
        return None
    condition, chosen, _ = value.op.inputs
    rows = kind.m.data + (_WARPS - 1) * (lowering.warp_rows - WARP_ROWS)
    conditions = inequalities(condition, places, (rows, kind.n.data), region.is_common)
    if conditions is None:
        return None
    first = [lowering.index(each) for each in op.places]
    common = partial(region.register, block=0, number=0)
    return chosen, emit_all_hold(lowering.text, conditions, first, common)


def _scaled(region: _Region, op: FragmentMapOp) -> tuple[SSAValue, SSAValue, ac.FragmentType] | None:
    """Of a map that multiplies by numbers of rows: what is multiplied, by what, and what the result is."""
    end, kind = op.body.block.last_op, _kind(op.outputs[0])
    assert isinstance(end, ac.YieldOp)
    value, *others = end.values
    product = value.owner
    if others or not isinstance(product, ac.ScalarOp) or product.function.data != Function.MUL.value:
        return None
    scaled, factor = sorted(product.inputs, key=lambda each: "n" not in region.axes[each])
    axes = (kind.axes.data, region.axes[scaled], region.axes[factor])
    return (scaled, factor, kind) if axes == ("mn", "mn", "m") and not _is_packed(kind) else None


def _scaled_rows(region: _Region, scaled: SSAValue, factor: SSAValue, kind: ac.FragmentType) -> list[list[str]]:
    """Numbers times those of their rows, by 64-row block. As they are they move to registers of their own, and are
    multiplied there, but for rows that are passed over."""
    text, found = region.lowering.text, list[list[str]]()
    for block in range(kind.m.data // _BLOCK_ROWS):
        numbers = [region.register(scaled, block, number) for number in range(_width(kind))]
        registers = [text.into("f32", "mov.f32", number) for number in numbers]
        for first in _ROWS_OF_THREAD:
            by, label = region.register(factor, block, first), text.label("ones")
            one = text.into("pred", "setp.eq.f32", by, float_bits(_ONE))
            text.emit("bra", label, guard=text.into("pred", "vote.sync.all.pred", one, -1))
            for number, register in enumerate(registers):
                if row_of(number, block) == row_of(first, block):
                    text.emit("mul.rn.f32", register, register, by)
            text.place(label)
        found.append(registers)
    return found


def _selection(op: FragmentMapOp) -> ac.ScalarOp:
    """What a map that selects ends with."""
    end = op.body.block.last_op
    assert isinstance(end, ac.YieldOp)
    selection = end.values[0].owner
    assert isinstance(selection, ac.ScalarOp)
    return selection


def _is_else_zero(op: FragmentMapOp) -> bool:
    """Whether a map selects a value or 0."""
    _, _, other = _selection(op).inputs
    return isinstance(other.owner, ac.ConstantOp) and other.owner.bits.data == 0


def _exact_forms(op: FragmentMapOp) -> tuple[Linear, ...] | None:
    """Of a map that selects: forms that are at least 0 where the value is chosen; None where what decides is something
    else besides, or places may be too far for them."""
    if op.reach is None or not is_exact_within(integers(op.reach)):
        return None
    condition, _, _ = _selection(op).inputs
    found = conjuncts(condition, op.body.block.args[len(op.inputs) :][:2])
    forms = tuple(each for each in found or () if isinstance(each, Linear))
    return forms if found is not None and len(forms) == len(found) else None


def _totals(region: _Region, op: FragmentMapOp, forms: Sequence[Linear]) -> list[str]:
    """The forms at a thread's first place."""
    text, arguments = region.lowering.text, op.body.block.args[len(op.inputs) :]
    first: list[str] = []
    for argument in arguments[:2]:
        place, _ = region.sources[argument]
        assert isinstance(place, IndexPlace)
        first.append(place.register)
    totals: list[str] = []
    for form in forms:
        total = text.into("b32", "mov.u32", int(form.constant))
        for factor, register in ((form.row, first[0]), (form.column, first[1])):
            total = text.into("b32", "mad.lo.s32", register, factor, total) if factor else total
        totals.append(total)
    return totals


def _select(region: _Region, op: FragmentMapOp, forms: Sequence[Linear], found: Sequence[Sequence[str]]) -> None:
    """Leave of numbers those at whose place all forms are at least 0, and put the other value in place of the rest.
    found: by block of rows."""
    text, totals, kind = region.lowering.text, _totals(region, op, forms), _kind(op.outputs[0])
    _, _, other = _selection(op).inputs
    for block, registers in enumerate(found):
        for first in _ROWS_OF_THREAD:
            here = [number for number in range(len(registers)) if row_of(number, block) == row_of(first, block)]
            words = selected_columns(text, forms, totals, row_of(first, block), len(here))
            for at, number in enumerate(here):
                bit = text.into("b32", "and.b32", words[at // _WORD_BITS], 1 << at % _WORD_BITS)
                holds = text.into("pred", "setp.ne.u32", bit, 0)
                instead = emit_round(text, kind.element.data, region.register(other, block, number))
                text.emit("selp.f32", registers[number], registers[number], instead, holds)


def _clear_halves(region: _Region, op: FragmentMapOp, forms: Sequence[Linear], found: Sequence[Sequence[str]]) -> None:
    """Leave of each pair of 16-bit numbers those at whose place all forms are at least 0. found: by block of rows."""
    text, totals = region.lowering.text, _totals(region, op, forms)
    for block, registers in enumerate(found):
        for at, register in enumerate(registers):
            halves: list[str] = []
            for number, bits in ((2 * at, 0xFFFF), (2 * at + 1, 0xFFFF0000)):
                holds = ""
                for form, total in zip(forms, totals, strict=True):
                    least = -(form.row * row_of(number, block) + form.column * column_of(number))
                    other = text.into("pred", "setp.ge.s32", total, least)
                    holds = text.into("pred", "and.pred", holds, other) if holds else other
                halves.append(text.into("b32", "selp.b32", bits, 0, holds))
            text.emit("and.b32", register, register, text.into("b32", "or.b32", *halves))


def _write(
    region: _Region,
    kinds: Sequence[ac.FragmentType],
    values: Sequence[SSAValue],
    found: Sequence[list[list[str]]],
) -> None:
    """Values of a region to the results' registers, by block of rows; to fresh ones where none are named."""
    text = region.lowering.text
    sums = [each for source, _ in region.sources.values() for each in _accumulators(source)]
    kept = {register for each in sums for registers in each.blocks for register in registers}

    def put(registers: list[str], at: int, value: str) -> None:
        if registers[at]:
            text.emit("mov.f32", registers[at], value)
        else:
            # A register that no product writes.
            registers[at] = text.into("f32", "mov.f32", value) if value in kept else value

    # Of results over rows alone, the first columns' values are those of all.
    columns = max((kind.n.data for kind in kinds if kind.axes.data != "m"), default=_LEAST_COLUMNS)
    for first in range(0, columns // 2, 2):
        for number in range(kinds[0].m.data // _BLOCK_ROWS):
            for kind, value, blocks in zip(kinds, values, found, strict=True):
                registers, element = blocks[number], kind.element.data
                if kind.axes.data == "m":
                    if first < 2 * _width(kind):
                        put(registers, first // 2, emit_round(text, element, region.register(value, number, first)))
                    continue
                if kind.axes.data == OPERAND_AXES:
                    at, packed = narrow.register_of(first)
                    if packed:
                        registers[at] = registers[at] or text.register("b32")
                        numbers = [region.register(value, number, each) for each in packed]
                        narrow.pack(text, element, registers[at], numbers)
                    continue
                pair = [region.register(value, number, first + odd) for odd in (0, 1)]
                if _is_packed(kind):
                    registers[first // 2] = registers[first // 2] or text.register("b32")
                    text.emit(f"cvt.rn.{element}x2.f32", registers[first // 2], pair[1], pair[0])
                    continue
                for odd, register in enumerate(pair):
                    put(registers, first + odd, emit_round(text, element, register))


def _kind(value: SSAValue) -> ac.FragmentType:
    kind = value.type
    assert isinstance(kind, ac.FragmentType)
    return kind


def _accumulators(source: Place) -> tuple[AccumulatorPlace, ...]:
    """Whose registers a map's input is in."""
    match source:
        case AccumulatorPlace():
            return (source,)
        case _:
            return ()


def _is_packed(kind: ac.FragmentType) -> bool:
    return FragmentPlace((), 0, kind.axes.data, kind.element.data).is_packed


def _width(kind: ac.FragmentType) -> int:
    """Registers of a 64-row block."""
    if kind.axes.data == "m":
        return 2
    if kind.axes.data == OPERAND_AXES:
        return kind.n.data // 8
    return kind.n.data // 4 if _is_packed(kind) else kind.n.data // 2


def _region(lowering: Lowering, op: FragmentMapOp) -> _Region:
    text, arguments = lowering.text, op.body.block.args
    offsets = lane_offsets(text, lowering.warpgroup_thread, lowering.warp_rows)
    sources: dict[SSAValue, tuple[Place, Lanes]] = {}
    along: list[str] = []
    for argument, value in zip(arguments, op.inputs, strict=False):
        share_columns(lowering, value)
        place = lowering.place(value)
        sources[argument] = (place, Lanes(text, *offsets))
        match place:
            case FragmentPlace():
                along.append(place.axes)
            case LoadedFragmentPlace():
                along.append("".join(axis for axis in "mn" if axis in varying_axes(place)))
            case _:
                along.append("mn")
    for argument, value, offset, axis in zip(arguments[len(along) :], op.places, offsets, "mn", strict=False):
        first = IndexPlace(text.into("b32", "add.s32", offset, lowering.index(value)))
        sources[argument] = (first, Lanes(text, *offsets))
        along.append(axis)
    for argument, value in zip(arguments[len(along) :], op.places[2:], strict=True):
        sources[argument] = (IndexPlace(lowering.index(value)), Lanes(text, *offsets))
        along.append("")
    return _Region(lowering, region_axes(op.body.block, along), sources)
