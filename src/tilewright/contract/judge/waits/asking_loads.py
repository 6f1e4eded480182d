"""Which loads of a text decide nothing but which boxes are brought into the cache?

A kernel that begins early may read a table before the launch before has ended, where what it reads only says for which
boxes it asks ahead: whatever the table holds by then, no thread and no copy sees what such a prefetch does, since L2 is
the point of coherence of a device's memory. So these loads are not held against it (`grid_dependency`).

They are weak loads whose results nothing reads but the coordinates of cp.async.bulk.prefetch.tensor. What the kernel
needs of the table for anything else it loads again, behind its wait.

Not handled: numbers that are computed of what is loaded. Source: PTX ISA, cp.async.bulk.prefetch.tensor.
Checked by: tests/contract/judge/waits/test_asking_loads.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction, Kernel, TensorAddress
from tilewright.machine.protocol.slicing.slice_operands import facts_of, registers_of
from tilewright.machine.symbolic.memory_words import STRONG


def asking_loads(kernel: Kernel) -> frozenset[Span]:
    """The places of such loads."""
    instructions = [item for item in kernel.body if isinstance(item, Instruction)]
    asked = {name for each in instructions for name in _coordinates(each)}
    if not asked:
        return frozenset()
    for each in instructions:
        asked -= facts_of(each).reads - _coordinates(each)
    return frozenset(
        each.span
        for each in instructions
        if each.row == "ld" and STRONG.isdisjoint(each.modifiers) and (to := facts_of(each).writes) and to <= asked
    )


def _coordinates(instruction: Instruction) -> frozenset[str]:
    """Registers that are coordinates of a box that an instruction asks for, and nothing else to it."""
    if instruction.row != "cp.async.bulk.prefetch.tensor":
        return frozenset()
    boxes = [each for each in instruction.operands if isinstance(each, TensorAddress)]
    found = {name for each in boxes for item in each.coordinates for name in registers_of(item)}
    others = {name for each in instruction.operands if each not in boxes for name in registers_of(each)}
    others |= {name for each in boxes for name in registers_of(each.base)}
    others |= {instruction.guard.register.name} if instruction.guard is not None else set()
    return frozenset(found - others)
