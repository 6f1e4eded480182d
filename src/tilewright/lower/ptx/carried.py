"""Where do the values stand that a loop carries on, before it, at its back edge and behind it?

A carried value has registers of its own, into which what the body yields is moved. Accumulators stay where they are.

Checked by: tests/lower/test_ptx_text.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import StreamPart
from tilewright.lower.fragment.promotion import used_once
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import AccumulatorPlace, Place, ScalesPlace, registers_of, with_registers


def carry_in(lowering: Lowering, block: Block, skip: int, carried: tuple[SSAValue, ...]) -> None:
    """Give each carried block argument registers of its own and move the initial values in. Accumulators stay where
    they are: wgmma updates them in place, and a copy of them would force a wait. So do fragments in A's registers, and
    scales that are used for nothing else, whose loads may still be on their way."""
    operands = {register for registers in lowering.operand_registers.values() for register in registers}
    for argument, initial in zip(block.args[skip:], carried, strict=True):
        place = lowering.place(initial)
        stays = isinstance(place, AccumulatorPlace) or (isinstance(place, ScalesPlace) and used_once(initial))
        if stays or any(register in operands for _, register in registers_of(place)):
            lowering.places[argument] = place
            continue
        fresh: list[str] = []
        for kind, register in registers_of(place):
            fresh.append(lowering.text.into(kind, f"mov.{kind}", register))
        lowering.places[argument] = with_registers(place, tuple(fresh))


def yielded_places(lowering: Lowering, block: Block) -> list[Place]:
    terminator = block.last_op
    assert isinstance(terminator, ac.YieldOp)
    return [lowering.place(value) for value in terminator.values]


def carry_back(lowering: Lowering, block: Block, skip: int) -> None:
    """At the back edge."""
    heads = [lowering.place(argument) for argument in block.args[skip:]]
    move(lowering.text, heads, yielded_places(lowering, block))


def move(text: Text, heads: Sequence[Place], yielded: Sequence[Place]) -> None:
    """Read every yielded value before any argument is overwritten."""
    moves: list[tuple[str, str, str]] = []
    for head, value in zip(heads, yielded, strict=True):
        if isinstance(head, AccumulatorPlace) and head != value:
            raise AssertionError("an accumulator, which may be in flight, cannot be moved")
        for (kind, target), (_, source) in zip(registers_of(head), registers_of(value), strict=True):
            if target != source:
                moves.append((kind, target, source))
    targets = {target for _, target, _ in moves}
    safe = [
        (kind, target, text.into(kind, f"mov.{kind}", source) if source in targets else source)
        for kind, target, source in moves
    ]
    for kind, target, source in safe:
        text.emit(f"mov.{kind}", target, source)


def carry_out(
    lowering: Lowering, op: ac.TilesOp | ac.TurnTilesOp | ac.GroupLoop | ac.LoopOp | StreamPart, skip: int
) -> None:
    for result, argument in zip(op.outputs, op.body.block.args[skip:], strict=True):
        lowering.places[result] = lowering.place(argument)
