"""Which loads of tensor memory bring values that nothing ever uses?

A pipelined loop whose first pass is peeled off under a constant predicate loads the accumulator before any product was
issued, computes on it, and stores under that predicate, which is false. What such a load reads is leftovers that are
thrown away.

Backwards over registers by name, without regard to order (M. Weiser, "Program Slicing"): whatever is not plain
arithmetic uses all that it reads, unless its guard is false wherever it is written; arithmetic uses what it reads if
its result is used. Not handled: guards that are false on some way alone; lanes that a shuffle or vote reads (they
count as used). Checked by: tests/machine/protocol/test_thrown_away.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Immediate, Instruction
from tilewright.machine.protocol.slice import Text
from tilewright.machine.protocol.slice_operands import registers_of

_LOAD = "tcgen05.ld"


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
        if instruction.row == _LOAD:  # its facts count what it fills among what it reads
            guard = () if instruction.guard is None else (instruction.guard.register,)
            use(name for operand in (*guard, *instruction.operands[1:]) for name in registers_of(operand))
        elif text.facts[at].kind != "compute" and not _is_off(text, instruction):
            use(text.facts[at].reads)
    while waiting:
        for at in text.definitions.get(waiting.pop(), ()):
            use(text.facts[at].reads)
    return frozenset(
        instructions[at].span for at in loads if used.isdisjoint(registers_of(instructions[at].operands[0]))
    )


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
