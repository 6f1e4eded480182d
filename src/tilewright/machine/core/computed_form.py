"""Which instructions that only compute are decoded alike? Those that differ in nothing but which registers they name.

A text has hundreds of additions. What a handler makes of one follows from its row, its modifiers and the kinds of its
operands, and then from slots: of declared registers that have exactly the width that is wanted, and of integers. So a
handler says of the first of a form how a step is made of slots alone (`ComputedForms.remember`), and the others need no
handler (`ComputedForms.step`). What is unlike the first in any way (a guard, a special register, a wider one, `_`, one
that is not declared, an integer that nobody has used) is left to the handler, which does it or refuses it.

Not handled: operands other than registers, integers and negated predicates; steps that depend on an integer of the
text, or on the instruction's place. Checked by: tests/machine/core/test_computed_form.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Immediate, Instruction, Negated, Operand, Register
from tilewright.machine.core.step import Plain, Step

MakeStep = Callable[[int, tuple[int, ...]], Plain]
"""A step of the slot of its result and those of its sources."""

_LOOKS: dict[type[Operand], Callable[[Any], Any]] = {
    Register: attrgetter("name"), Immediate: attrgetter("value"), Negated: attrgetter("operand.name"),
}  # fmt: skip
"""What tells the slot of an operand among those of its kind and width."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """looks: of each operand, what tells its slot; slots: by that."""

    looks: tuple[Callable[[Any], Any], ...]
    slots: tuple[Mapping[Any, int], ...]
    make: MakeStep


class ComputedForms:
    """The forms that one kernel's instructions have. registers: slots of declared registers by name, by width in bits;
    integers: slots of integers by value, by width. Both may still grow. first_constant: no register has this slot or a
    later one."""

    def __init__(self) -> None:
        self.first_constant = 0
        self.registers: dict[int, dict[str, int]] = {}
        self.integers: dict[int, dict[int, int]] = {}
        self._known: dict[tuple[str, tuple[str, ...], tuple[type[Operand], ...]], _Form] = {}
        self._rows: set[str] = set()

    def remember(self, instruction: Instruction, widths: tuple[int, ...], make: MakeStep) -> None:
        """Others that differ from an instruction in the registers alone are what `make` says. widths: in bits, of the
        registers, in the order of the operands."""
        kinds = tuple(map(type, instruction.operands))
        assert len(kinds) == len(widths), "every operand is a register or a number"
        if kinds[0] is Register and _LOOKS.keys() >= set(kinds):
            slots = [
                self.integers.setdefault(width, {}) if kind is Immediate else self.registers.setdefault(width, {})
                for kind, width in zip(kinds, widths, strict=True)
            ]
            looks = tuple([_LOOKS[kind] for kind in kinds])
            self._known[instruction.row, instruction.modifiers, kinds] = _Form(looks, tuple(slots), make)
            self._rows.add(instruction.row)

    def step(self, instruction: Instruction) -> Step | None:
        """The step of an instruction of a form that is remembered, if it fits that."""
        if instruction.row not in self._rows or instruction.guard is not None:
            return None
        operands = instruction.operands
        form = self._known.get((instruction.row, instruction.modifiers, tuple(map(type, operands))))
        if form is None:
            return None
        try:
            found = [each[look(operand)] for look, each, operand in zip(form.looks, form.slots, operands, strict=True)]
        except KeyError:
            return None
        target, sources = found[0], tuple(found[1:])
        constants = self.first_constant
        reads = frozenset([slot for slot in sources if slot < constants])
        body = form.make(target, sources)
        return Step(body, instruction.span, instruction.opcode, -1, False, reads, frozenset((target,)))
