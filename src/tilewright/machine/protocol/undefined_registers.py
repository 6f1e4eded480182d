"""Which registers of a kernel may be read before anything was written to them, and what does a protocol run do then?

Compilers leave registers undefined where no result depends on them: a loop's variable that its first iteration
replaces, half of a structure that nobody looks at. A run takes zeros for such a register and marks it unknown
(`taint.steps`), so that it is a doubt if the protocol depends on it and else for review. An instruction of the protocol
that reads one itself, as an address, an operand or a guard, is a fault (MF003).

Static part: forward, over the blocks of the slice: a register may be unwritten where some way from the start does not
write it. A write under a guard counts, as in `step.guarded`. Source: PTX ISA 5.1.1 (registers); definite assignment, as
in any compiler text. Not handled: lanes of which only some have written. Checked by:
tests/machine/protocol/test_undefined_registers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.program import Program
from tilewright.machine.core.state import Warp
from tilewright.machine.protocol.slicing.slice import SINK_ROLES, Slice
from tilewright.machine.taint.taint import Sources
from tilewright.machine.taint.tracker import Tracker


@dataclass(frozen=True, slots=True)
class UndefinedRead:
    """An instruction that reads a register which nobody wrote, and of which nothing of the protocol depends directly.
    who: the CTA and warp that did so first."""

    span: Span
    opcode: str
    register: str
    who: tuple[int, int]

    @property
    def review(self) -> Diagnostic:
        """The finding, for review: what the protocol does with such a value is a doubt of its own."""
        cta, warp = self.who
        message = f"{self.opcode} reads {self.register}, which CTA {cta} warp {warp} never wrote"
        return Diagnostic("MF003", "uninitialised-register", message, self.span, level=Level.REVIEW)


def may_be_unwritten(sliced: Slice) -> frozenset[str]:
    """Registers of the slice that some way through the text reads before it writes them."""
    text, flow = sliced.text, sliced.text.flow
    names = sorted(sliced.registers & text.declared)
    bits = {name: 1 << index for index, name in enumerate(names)}
    written, exposed = [0] * len(flow.blocks), [0] * len(flow.blocks)
    for position in sorted(sliced.executed):
        block, facts = flow.block_of[position], text.facts[position]
        for use in facts.uses:
            if use.role == "data" and use.register in facts.writes:
                continue  # an accumulator, or what a load of tensor memory fills
            exposed[block] |= bits.get(use.register, 0) & ~written[block]
        for name in facts.writes:
            written[block] |= bits.get(name, 0)
    unwritten = flow.unwritten(written, (1 << len(names)) - 1)
    found = 0
    for block in range(len(flow.blocks)):
        found |= exposed[block] & unwritten[block]
    return _with_moved(sliced, {name for name in names if bits[name] & found})


def _with_moved(sliced: Slice, names: set[str]) -> frozenset[str]:
    """The registers, and those that they are moved to: `mov` hands on that nothing was written."""
    text, waiting = sliced.text, bool(names)
    moves = [at for at in sliced.executed if text.flow.instructions[at].row == "mov"] if names else []
    while waiting:
        waiting = False
        for at in moves:
            facts = text.facts[at]
            fresh = facts.writes - names
            if fresh and not names.isdisjoint(facts.reads):
                names |= fresh
                waiting = True
    return frozenset(names)


@dataclass(slots=True, eq=False)
class UndefinedRegisters:
    """What a run does where a step reads registers that hold nothing. names: those that may be unwritten; found: reads
    so far, by place and register."""

    sliced: Slice
    names: frozenset[str]
    position_of: tuple[int, ...]
    tracker: Tracker
    sources: Sources
    zeros: Callable[[int], Any]
    found: dict[tuple[Span, str], UndefinedRead] = field(default_factory=dict[tuple[Span, str], UndefinedRead])

    def fill(self, warp: Warp, program: Program, pc: int, slots: list[int]) -> bool:
        """Give the slots zeros, marked unknown, so that the step at `pc` can be run. False if it is a fault."""
        position = self.position_of[pc]
        facts, instruction = self.sliced.text.facts[position], self.sliced.text.flow.instructions[position]
        names = {program.names[slot] for slot in slots}
        steers = {use.register for use in facts.uses if use.role in SINK_ROLES}
        if not names <= self.names or (facts.kept and steers & names):
            return False
        for slot in slots:
            name, span = program.names[slot], instruction.span
            warp.r[slot] = self.zeros(slot)
            self.tracker.of(warp).registers[slot] = self.sources.origin(span, f"register {name}, which nobody wrote,")
            read = UndefinedRead(span, instruction.opcode, name, (warp.cta.linear, warp.index))
            self.found.setdefault((span, name), read)
        return True
