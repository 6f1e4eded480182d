"""How fragments in registers become PTX: scalar code for each element, folds within the four threads of a row.

wgmma's accumulator order (`epilogue`) is kept throughout, so that what a product gives, computed on, rounded and packed
two to a register, is A of the next product: values (2 i, 2 i + 1) of a block are register i of A's, four registers for
each step of 16 columns (PTX ISA, wgmma: register fragments of A and D).

A map's region is evaluated for each element, but what is the same along a row or down a column, as far as the region
says so, is emitted once for that row or column. A result that is an accumulator's number is a copy of it, since the
next product writes the accumulator's registers.

A fold goes over a thread's own numbers of a row first, then twice through the quad of threads that share the row. Both
partners of an exchange fold the same two numbers, so that all four have the same bits.
Checked by: tests/lower/test_fragment.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import OpResult, SSAValue

from tilewright.ir import ac
from tilewright.ir.ac_fragment import (
    AccumulatorStartOp,
    FragmentFoldOp,
    FragmentFullOp,
    FragmentIssueOp,
    FragmentMapOp,
    FragmentReadOp,
    region_axes,
    taken_over,
)
from tilewright.lower.elementwise import affine_index, divided
from tilewright.lower.emit import float_bits
from tilewright.lower.epilogue import (
    Lanes,
    column_of,
    fragment_value,
    lane_offsets,
    load_element,
    row_of,
    varying_axes,
)
from tilewright.lower.lowering import Lowering, slot_of
from tilewright.lower.places import (
    AccumulatorPlace,
    FragmentPlace,
    IndexPlace,
    LoadedFragmentPlace,
    MappedFragmentPlace,
    Place,
    Places,
    ScalarPlace,
)
from tilewright.lower.register_operand import issue_from_registers, meet_after_reading, read_matrices
from tilewright.lower.scalar import emit_round, emit_scalar
from tilewright.lower.scalar_region import lower_scalar_op

_BLOCK_ROWS = 64
_REGISTERS = 4
"""Of A for each step of 16 columns."""
_LEAST_COLUMNS = 8
"""Of which a thread has a value of each of its rows."""
_CHAINS = 4
"""Folds of a row that go on beside one another in a thread."""
_QUAD = (1, 2)
"""Distances, in lanes, of the exchanges after which the four threads of a row have all its numbers."""
_LAST_LANE = 31

FragmentOp = (
    FragmentFullOp | FragmentMapOp | FragmentFoldOp | FragmentReadOp | AccumulatorStartOp | FragmentIssueOp
)  # fmt: skip


def lower_fragment(lowering: Lowering, op: FragmentOp) -> None:
    match op:
        case FragmentFullOp():
            _full(lowering, op)
        case FragmentMapOp():
            _map(lowering, op)
        case FragmentFoldOp():
            _fold(lowering, op)
        case FragmentReadOp():
            _read(lowering, op)
        case AccumulatorStartOp():
            _start(lowering, op)
        case FragmentIssueOp():
            _issue(lowering, op)


def _kind(value: SSAValue) -> ac.FragmentType:
    kind = value.type
    assert isinstance(kind, ac.FragmentType)
    return kind


def _place(lowering: Lowering, value: SSAValue) -> FragmentPlace:
    place = lowering.place(value)
    assert isinstance(place, FragmentPlace)
    return place


def _full(lowering: Lowering, op: FragmentFullOp) -> None:
    kind = _kind(op.result)
    value = lowering.text.into("f32", "mov.f32", float_bits(op.bits.data))
    count = 2 if kind.axes.data == "m" else kind.n.data // 2
    blocks = ((value,) * count,) * (kind.m.data // _BLOCK_ROWS)
    lowering.places[op.result] = FragmentPlace(blocks, kind.n.data, kind.axes.data, kind.element.data)


# ---------------------------------------------------------------- maps


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
        row, column = row_of(number, block), column_of(number)
        axes = self.axes[value]
        key = (value, row if "m" in axes else -1, column if "n" in axes else -1)
        place = self.found.get(key)
        if place is None:
            if isinstance(value, OpResult):
                place = self._computed(value, block, number)
            else:
                place = self._argument(value, block, number)
            self.found[key] = place
        return place

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
            case FragmentPlace() | MappedFragmentPlace():
                return ScalarPlace(fragment_value(self.lowering.places, lanes, source, block, number))
            case LoadedFragmentPlace():
                return ScalarPlace(load_element(lanes, source, 0, row, column))
            case IndexPlace(first):
                offset = row if self.axes[value] == "m" else column
                return IndexPlace(self.lowering.text.into("b32", "add.u32", first, offset) if offset else first)
            case _:
                raise AssertionError("a map takes accumulators, fragments and places")


def _map(lowering: Lowering, op: FragmentMapOp) -> None:
    block = op.body.block
    end = block.last_op
    assert isinstance(end, ac.YieldOp)
    region = _region(lowering, op)
    sums = [each for source, _ in region.sources.values() for each in _accumulators(source)]
    kept = {register for each in sums for registers in each.blocks for register in registers}
    kinds = [_kind(result) for result in op.outputs]
    blocks = range(kinds[0].m.data // _BLOCK_ROWS)
    found = [[[""] * _width(kind) for _ in blocks] for kind in kinds]
    # Of results over rows alone, the first columns' values are those of all.
    columns = max((kind.n.data for kind in kinds if kind.axes.data != "m"), default=_LEAST_COLUMNS)
    for first in range(0, columns // 2, 2):
        for number in blocks:
            for kind, value, registers in zip(kinds, end.values, found, strict=True):
                if kind.axes.data == "m":
                    if first < 2 * _width(kind):
                        result = _rounded(lowering, kind, region.register(value, number, first), kept)
                        registers[number][first // 2] = result
                    continue
                pair = [region.register(value, number, first + odd) for odd in (0, 1)]
                if _is_packed(kind):
                    packed = lowering.text.into("b32", f"cvt.rn.{kind.element.data}x2.f32", pair[1], pair[0])
                    registers[number][first // 2] = packed
                    continue
                for odd, register in enumerate(pair):
                    registers[number][first + odd] = _rounded(lowering, kind, register, kept)
    for result, kind, registers in zip(op.outputs, kinds, found, strict=True):
        place = FragmentPlace(tuple(map(tuple, registers)), kind.n.data, kind.axes.data, kind.element.data)
        lowering.places[result] = place


def _accumulators(source: Place) -> tuple[AccumulatorPlace, ...]:
    """Whose registers a map's input is in."""
    match source:
        case AccumulatorPlace():
            return (source,)
        case MappedFragmentPlace():
            return (source.accumulator, *source.others)
        case _:
            return ()


def _is_packed(kind: ac.FragmentType) -> bool:
    return FragmentPlace((), 0, kind.axes.data, kind.element.data).is_packed


def _width(kind: ac.FragmentType) -> int:
    """Registers of a 64-row block."""
    if kind.axes.data == "m":
        return 2
    return kind.n.data // 4 if _is_packed(kind) else kind.n.data // 2


def _rounded(lowering: Lowering, kind: ac.FragmentType, register: str, kept: set[str]) -> str:
    """A number of the result's element, in a register that no product writes."""
    rounded = emit_round(lowering.text, kind.element.data, register)
    return lowering.text.into("f32", "mov.f32", rounded) if rounded in kept else rounded


def _region(lowering: Lowering, op: FragmentMapOp) -> _Region:
    text, arguments = lowering.text, op.body.block.args
    offsets = lane_offsets(text, lowering.warpgroup_thread)
    sources: dict[SSAValue, tuple[Place, Lanes]] = {}
    along: list[str] = []
    for argument, value in zip(arguments, op.inputs, strict=False):
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
    return _Region(lowering, region_axes(op.body.block, along), sources)


# ---------------------------------------------------------------- folds


def _fold(lowering: Lowering, op: FragmentFoldOp) -> None:
    fragment, function, text = _place(lowering, op.fragment), op.function.data, lowering.text
    blocks: list[tuple[str, ...]] = []
    for registers in fragment.blocks:
        rows: list[str] = []
        for upper in (0, 1):
            own = [register for number, register in enumerate(registers) if (number >> 1) & 1 == upper]
            chains = [_folded(lowering, function, own[chain::_CHAINS]) for chain in range(min(_CHAINS, len(own)))]
            row = _folded(lowering, function, chains)
            for distance in _QUAD:
                theirs = text.into("f32", "shfl.sync.bfly.b32", row, distance, _LAST_LANE, -1)
                row = emit_scalar(text, function, (row, theirs))
            rows.append(row)
        blocks.append(tuple(rows))
    lowering.places[op.result] = FragmentPlace(tuple(blocks), fragment.columns, "m", fragment.element)


def _folded(lowering: Lowering, function: str, registers: Iterable[str]) -> str:
    total = ""
    for register in registers:
        total = emit_scalar(lowering.text, function, (total, register)) if total else register
    return total


# ---------------------------------------------------------------- products


def _read(lowering: Lowering, op: FragmentReadOp) -> None:
    kind, slot = _kind(op.result), slot_of(lowering, op.phase)
    blocks: list[list[str]] = [[] for _ in range(kind.m.data // _BLOCK_ROWS)]
    for block, _, words in read_matrices(lowering, op, slot, len(blocks)):
        blocks[block] += words
    meet_after_reading(lowering, op)
    lowering.places[op.result] = FragmentPlace(tuple(map(tuple, blocks)), kind.n.data, "mn", kind.element.data)
    lowering.places[op.held] = slot


def _start(lowering: Lowering, op: AccumulatorStartOp) -> None:
    fragment = _place(lowering, op.fragment)
    carried = taken_over(op)
    accumulator = (
        lowering.fresh_accumulator(_BLOCK_ROWS * fragment.row_blocks, fragment.columns)
        if carried is None
        else lowering.place(carried)
    )
    assert isinstance(accumulator, AccumulatorPlace)
    for targets, sources in zip(accumulator.blocks, fragment.blocks, strict=True):
        for target, source in zip(targets, sources, strict=True):
            lowering.text.emit("mov.f32", target, source)
    lowering.places[op.result] = accumulator


def _issue(lowering: Lowering, op: FragmentIssueOp) -> None:
    fragment = _place(lowering, op.a)
    issue_from_registers(lowering, op, [_steps(block) for block in fragment.blocks], slot_of(lowering, op.phase))


def _steps(registers: Sequence[str]) -> list[tuple[str, ...]]:
    """Of a 64-row block, A's registers for each step."""
    return [tuple(registers[first : first + _REGISTERS]) for first in range(0, len(registers), _REGISTERS)]
