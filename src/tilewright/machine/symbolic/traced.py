"""What of one instruction does it need to know, once, that carries expressions along?

Which registers hold its guard, its results and the operands that steer the protocol; what it is without its guard; how
wide the elements are that it moves. Nothing here changes as a kernel runs. Checked by:
tests/machine/symbolic/test_tracker.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Immediate, Instruction, Register
from tilewright.machine.core.decoder import type_name
from tilewright.machine.core.lanes import (
    SINK_SLOT,
    Registers,
)
from tilewright.machine.core.program import decode_one
from tilewright.machine.core.step import Plain, Step
from tilewright.machine.protocol.constant_words import LoadAddress, load_address
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_operands import Role, names_taken_work, reads_answer
from tilewright.machine.symbolic.expression import Node
from tilewright.machine.symbolic.heeded_bits import heeded_bits
from tilewright.machine.symbolic.kept_steps import changes_private_memory, is_protocol
from tilewright.machine.symbolic.tracker import Pieces

if TYPE_CHECKING:
    from tilewright.machine.symbolic.steps import Recording

_VALUES: tuple[Role, ...] = ("shared address", "generic address", "barrier", "sync", "descriptor")


class Traced:
    """One instruction of a run that is recorded."""

    def __init__(self, recording: Recording, position: int, plain: Step) -> None:
        self.recording = recording
        self.run_of = recording.run
        self.position = position
        sliced = recording.sliced
        facts = self.facts = sliced.text.facts[position]
        self.instruction: Instruction = sliced.text.flow.instructions[position]
        self.reads_answer = reads_answer(self.instruction)
        self.names_work = names_taken_work(self.instruction)
        self.counts = is_protocol(sliced, position)
        self.private = changes_private_memory(sliced, position)
        self.decides = facts.kept or self.private
        slots, closure = recording.slots, recording.closure
        guard = self.instruction.guard
        self.guard = slots.get(guard.register.name, -1) if guard is not None else -1
        self.negated = guard is not None and guard.negated
        decides = position not in recording.undecided
        self.guard_matters = guard is not None and guard.register.name in closure and decides
        self.writes = tuple(slots[name] for name in sorted(facts.writes & sliced.registers) if name in slots)
        self.sinks = tuple(
            dict.fromkeys(
                slots[use.register]
                for use in facts.uses
                if (
                    (facts.kept and use.role in _VALUES)
                    or (self.private and use.role == "other address")
                    # Which label of a table a branch leads to.
                    or (self.instruction.row == "brx.idx" and (guard is None or use.register != guard.register.name))
                )
                and use.register in closure
                and use.register in slots
                # What is written into a tensor map shows in the copies through it.
                and not (use.role == "sync" and "tensor" in self.instruction.row)
            )
        )
        heeded = heeded_bits(self.instruction)
        self.heeded = {} if heeded is None or heeded[0] not in slots else {slots[heeded[0]]: heeded[1]}
        self.generic = any(use.role == "generic address" for use in facts.uses)
        self.data = tuple(slots[use.register] for use in facts.uses if use.role == "data" and use.register in slots)
        self.loop, self.stays = _leaves(sliced, position)
        self.specials = recording.specials()
        self.address: LoadAddress | None = None
        if facts.kind == "load" and self.instruction.row == "ld":
            self.address = load_address(self.instruction, slots, recording.decoder.places.fixed)
        self.bare: Plain | None = None
        # Two instructions alike compute the same of the same: whatever they name is read or written. Which of the
        # operands are one register counts, and how wide they are.
        places: dict[str, int] = {}
        self.shape = tuple(
            each.value
            if isinstance(each, Immediate)
            else (places.setdefault(each.name, len(places)), self._width_bits(each.name))
            if isinstance(each, Register)
            else repr(each)
            for each in self.instruction.operands
        )
        if facts.kind == "compute":
            self.bare = self._bare(plain)

    def _width_bits(self, name: str) -> int:
        slot = self.recording.slots.get(name, SINK_SLOT)
        return 0 if slot == SINK_SLOT else self.recording.decoder.type_of(slot).width_bits

    def _bare(self, plain: Step) -> Plain | None:
        """The step without its guard, if it computes."""
        if self.instruction.guard is None:
            return plain.body if isinstance(plain.body, Plain) else None
        try:
            found = decode_one(self.recording.decoder, replace(self.instruction, guard=None)).body
        except TilewrightError:
            return None
        return found if isinstance(found, Plain) else None

    def read(self, r: Registers, held: dict[int, Pieces], mask: int) -> tuple[Node, ...]:
        slots = [self.recording.slots[name] for name in self.facts.reads if name in self.recording.slots]
        found = [self.run_of.node(held, r, slot, mask) for slot in slots]
        return tuple(node for node in found if node is not None)

    def signed(self) -> bool:
        """Whether a load fills a wider register by the sign."""
        return any(each in ("s8", "s16", "s32", "s64") for each in self.instruction.modifiers)

    def element_bytes(self) -> int:
        for modifier in reversed(self.instruction.modifiers):
            declared = type_name(modifier)
            if declared is not None:
                return declared.bytes
        return 4

    def targets(self) -> list[tuple[int | None, np.dtype[Any]]]:
        """The registers that a load writes, in order; None for the sink. Registers wider than the element are taken to
        be opaque by their leaf's width."""
        decoder, slots = self.recording.decoder, self.recording.slots
        found: list[tuple[int | None, np.dtype[Any]]] = []
        for item in decoder.vector(self.instruction.operands[0]):
            slot = slots.get(item.name) if isinstance(item, Register) else None
            element = self.element_bytes()
            if slot is None or slot == SINK_SLOT:
                found.append((None, np.dtype(f"u{min(element, 8)}")))
            else:
                found.append((slot, decoder.type_of(slot).raw))
        return found


def _leaves(sliced: Slice, position: int) -> tuple[int, bool]:
    """The innermost loop that one way of a branch leaves and the other does not, and whether taking it stays."""
    flow = sliced.text.flow
    instruction = flow.instructions[position]
    if instruction.guard is None or sliced.text.facts[position].kind != "control":
        return -1, False
    block = flow.block_of[position]
    if position + 1 >= len(flow.instructions):
        return -1, False
    falls = flow.block_of[position + 1]
    taken = [each for each in flow.blocks[block].successors if each != falls] or [falls]
    for number, loop in enumerate(flow.loops):
        if block in loop.blocks:
            inside = taken[0] in loop.blocks, falls in loop.blocks
            if inside[0] != inside[1]:
                return number, inside[0]
    return -1, False
