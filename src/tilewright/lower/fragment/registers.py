"""How fragments in registers become PTX: scalar code for each element, folds within the four threads of a row.

wgmma's accumulator order (`epilogue`) is kept throughout, so that what a product gives, computed on, rounded and packed
two to a register, is A of the next product: values (2 i, 2 i + 1) of a block are register i of A's, four registers for
each step of 16 columns (PTX ISA, wgmma: register fragments of A and D).

Maps stand in `fragment.map`. A fold goes over a thread's own numbers of a row first, then twice through the quad of
threads that share the row. Both partners of an exchange fold the same two numbers, so that all four have the same bits.
Of a sum that a loop carries in parts (`late_fold`), the quad's exchange stands behind the loop.
Checked by: tests/lower/fragment/test_registers.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import (
    AccumulatorPartsOp,
    AccumulatorStartOp,
    FragmentFoldOp,
    FragmentFullOp,
    FragmentIssueOp,
    FragmentMapOp,
    FragmentReadOp,
    taken_over,
)
from tilewright.ir.function import Function
from tilewright.lower.fragment.carried_sum import carried_start
from tilewright.lower.fragment.epilogue import parts_of
from tilewright.lower.fragment.late_fold import carried_in_parts, is_finished_late
from tilewright.lower.fragment.map import lower_map
from tilewright.lower.fragment.narrow_operand import exchanged
from tilewright.lower.fragment.register_operand import (
    issue_from_registers,
    keep_until_here,
    meet_after_reading,
    read_matrices,
)
from tilewright.lower.ptx.emit import float_bits
from tilewright.lower.ptx.lowering import Emitters, Lowering, slot_of
from tilewright.lower.ptx.numbers.scalar import emit_scalar
from tilewright.lower.ptx.places import (
    AccumulatorPlace,
    FragmentPlace,
)

_BLOCK_ROWS = 64
_REGISTERS = 4
"""Of A for each step of 16 columns."""
_CHAINS = 4
"""Folds of a row that go on beside one another in a thread."""
_QUAD = (1, 2)
"""Distances, in lanes, of the exchanges after which the four threads of a row have all its numbers."""
_LAST_LANE = 31


def _parts(lowering: Lowering, op: AccumulatorPartsOp) -> None:
    accumulator = lowering.place(op.accumulator)
    assert isinstance(accumulator, AccumulatorPlace)
    lowering.places.update(zip(op.parts, parts_of(accumulator, accumulator.n // len(op.parts)), strict=True))


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


# ---------------------------------------------------------------- folds


def _fold(lowering: Lowering, op: FragmentFoldOp) -> None:
    fragment, function = _place(lowering, op.fragment), op.function.data
    blocks: list[tuple[str, ...]] = []
    for registers in fragment.blocks:
        rows: list[str] = []
        for upper in (0, 1):
            numbers = [register for number, register in enumerate(registers) if (number >> 1) & 1 == upper]
            count = min(_CHAINS, len(numbers))
            chains = [_folded(lowering, function, numbers[chain::_CHAINS]) for chain in range(count)]
            rows.append(_folded(lowering, function, chains))
        blocks.append(tuple(rows))
    own = FragmentPlace(tuple(blocks), fragment.columns, "m", fragment.element)
    if not is_finished_late(op):
        lowering.places[op.result] = _of_rows(lowering, function, own)
        return
    # Else ptxas moves the sum, and what is summed, behind what comes next.
    keep_until_here(lowering, [row for rows in own.blocks for row in rows])
    lowering.places[op.result] = own


def add_parts(lowering: Lowering, loop: ac.LoopOp) -> None:
    """Behind a loop: of the sums that it carries in parts, the rows' own."""
    for at in carried_in_parts(loop):
        result = loop.outputs[at]
        lowering.places[result] = _of_rows(lowering, Function.ADD.value, _place(lowering, result))


def _of_rows(lowering: Lowering, function: str, own: FragmentPlace) -> FragmentPlace:
    """What the four threads of each row have of it, folded."""
    text = lowering.text

    def of_row(row: str) -> str:
        for distance in _QUAD:
            theirs = text.into("f32", "shfl.sync.bfly.b32", row, distance, _LAST_LANE, -1)
            row = emit_scalar(text, function, (row, theirs))
        return row

    return replace(own, blocks=tuple(tuple(map(of_row, rows)) for rows in own.blocks))


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
    own = carried_start(lowering, op)
    if own is not None:
        lowering.places[op.result] = own
        return
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
    blocks: Sequence[Sequence[str]] = fragment.blocks
    if op.is_exchanged:
        blocks = exchanged(lowering.text, lowering.warpgroup_thread, blocks)
    issue_from_registers(lowering, op, [_steps(block) for block in blocks], slot_of(lowering, op.phase))


def _steps(registers: Sequence[str]) -> list[tuple[str, ...]]:
    """Of a 64-row block, A's registers for each step."""
    return [tuple(registers[first : first + _REGISTERS]) for first in range(0, len(registers), _REGISTERS)]


EMITTERS: Emitters = {
    FragmentFullOp: _full,
    FragmentMapOp: lower_map,
    FragmentFoldOp: _fold,
    FragmentReadOp: _read,
    AccumulatorStartOp: _start,
    AccumulatorPartsOp: _parts,
    FragmentIssueOp: _issue,
}
