"""Which loads of tensor memory bring values that nothing ever uses, or only where a select chooses them?

A pipelined loop whose first pass is peeled off under a constant predicate loads the accumulator before any product was
issued, computes on it, and stores under that predicate, which is false. What such a load reads is leftovers that are
thrown away.

Backwards over registers by name, without regard to order (M. Weiser, "Program Slicing"): whatever is not plain
arithmetic uses all that it reads, unless its guard is false wherever it is written; arithmetic uses what it reads if
its result is used.

A value may also be replaced before anything uses it: `selp` takes a constant in its place where the first pass of a
loop has nothing yet. Which one it takes is a number that a protocol run does not compute. So forwards from a load, the
result of `selp` is not counted where one of its two values comes from elsewhere: a load from which nothing else leads
to an effect is `undecided`, neither a mistake nor right.

Not handled: guards that are false on some way alone; lanes that a shuffle or vote reads (they count as used).
Checked by: tests/machine/protocol/test_thrown_away.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Immediate, Instruction
from tilewright.machine.protocol.slicing.slice import Text
from tilewright.machine.protocol.slicing.slice_operands import registers_of

_LOAD = "tcgen05.ld"
_OF_SELECT = 4
"""Operands of `selp`: the result, two values, the predicate."""


def thrown_away(text: Text) -> frozenset[Span]:
    """Where tensor memory is loaded into registers of which no effect depends."""
    instructions = text.flow.instructions
    loads = [at for at, each in enumerate(instructions) if each.row == _LOAD]
    if not loads:
        return frozenset()
    used: set[str] = set()
    waiting: list[str] = []

    def use(names: Iterable[str]) -> None:
        fresh = set(names) - used
        used.update(fresh)
        waiting.extend(fresh)

    for at, instruction in enumerate(instructions):
        if instruction.row == _LOAD:
            use(_read_by_load(instruction))
        elif text.facts[at].kind != "compute" and not _is_off(text, instruction):
            use(text.facts[at].reads)
    while waiting:
        for at in text.definitions.get(waiting.pop(), ()):
            use(text.facts[at].reads)
    return frozenset(
        instructions[at].span for at in loads if used.isdisjoint(registers_of(instructions[at].operands[0]))
    )


def undecided(text: Text, load: Span) -> bool:
    """Whether what a load brings comes to an effect through selects alone, which may take something else instead. Of
    what is no load, as a product that adds to columns, nothing is open."""
    instructions = text.flow.instructions
    brought = {
        name
        for each in instructions
        if each.row == _LOAD and each.span == load
        for name in registers_of(each.operands[0])
    }
    if not brought:
        return False
    size = 0
    while size < len(brought):
        size = len(brought)
        for at, each in enumerate(instructions):
            if text.facts[at].kind == "compute" and _brings(text, at, each, brought):
                brought |= text.facts[at].writes
    return not any(
        _reads(text, at, each, brought) and not _is_off(text, each)
        for at, each in enumerate(instructions)
        if text.facts[at].kind != "compute"
    )


def _brings(text: Text, at: int, instruction: Instruction, brought: set[str]) -> bool:
    """Whether an instruction's result is made of some values, whatever it selects."""
    if instruction.row != "selp" or len(instruction.operands) != _OF_SELECT:
        return not text.facts[at].reads.isdisjoint(brought)
    guard = () if instruction.guard is None else (instruction.guard.register,)
    if any(not brought.isdisjoint(registers_of(each)) for each in (*guard, instruction.operands[3])):
        return True
    return all(not brought.isdisjoint(registers_of(each)) for each in instruction.operands[1:3])


def _reads(text: Text, at: int, instruction: Instruction, brought: set[str]) -> bool:
    """Whether an effect rests on some values. The facts of a load count what it fills among what it reads."""
    reads = _read_by_load(instruction) if instruction.row == _LOAD else text.facts[at].reads
    return not brought.isdisjoint(reads)


def _read_by_load(instruction: Instruction) -> frozenset[str]:
    """What a load of tensor memory reads, without what it fills."""
    guard = () if instruction.guard is None else (instruction.guard.register,)
    return frozenset(name for operand in (*guard, *instruction.operands[1:]) for name in registers_of(operand))


def _is_off(text: Text, instruction: Instruction) -> bool:
    """Whether an instruction's guard is a constant that keeps it from being executed."""
    guard = instruction.guard
    if guard is None:
        return False
    written = [text.flow.instructions[at] for at in text.definitions.get(guard.register.name, ())]
    constants = [
        each.operands[1].value
        for each in written
        if each.row == "mov" and each.guard is None and isinstance(each.operands[1], Immediate)
    ]
    return bool(written) and len(constants) == len(written) and all(bool(each) == guard.negated for each in constants)
