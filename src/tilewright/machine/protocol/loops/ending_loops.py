"""Does a loop end that a slice leaves out, since nothing in it concerns the protocol?

A warp that never leaves such a loop never comes to what follows, and whoever waits for it hangs. There are three cases,
by the conditions on which a loop goes round:

- it ends, as it stands: a condition that each round comes to compares a register that goes by steps towards what does
  not change in the loop (or halves it until it is zero). The steps are constants, or multiples of the grid's or the
  block's size that are computed before;
- it is stuck: nothing that its conditions are computed from changes in it, memory least of all. Whether it is left is
  then decided before it is entered, and a run must decide it: its branches may not be left out;
- it is open: that it ends is an assumption, which a proof prints.

Counters whose bound or step is a register are taken not to overflow. Not handled (open): other steps, conditions on
memory, cycles that are entered at several places. Checked by:
tests/machine/protocol/loops/test_ending_loops.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Immediate, Instruction, Negated, Operand, Register
from tilewright.machine.protocol.slicing.slice_flow import Flow, NaturalLoop
from tilewright.machine.protocol.slicing.slice_operands import Facts

Ending = Literal["ends", "stuck", "open"]

_TOWARDS = {"lt": 1, "le": 1, "lo": 1, "ls": 1, "gt": -1, "ge": -1, "hi": -1, "hs": -1}
"""Of a comparison on which a loop goes round: the sign of the steps of its left side with which it fails in the end."""
OPPOSITE = {
    "lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "lo": "hs", "hs": "lo", "ls": "hi", "hi": "ls", "eq": "ne",
    "ne": "eq",
}  # fmt: skip
MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "lo": "hi", "hi": "lo", "ls": "hs", "hs": "ls"}
_EXTENTS = ("%nctaid.", "%ntid.", "%nclusterid.", "%cluster_nctaid.")
"""Special registers that are never zero, but for what follows the dot."""
_DEEPEST = 8
"""Conditions within conditions, and moves between registers, that are followed."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop of a text. definitions: of each register, the positions in the loop that write it; everywhere: in the
    whole text."""

    flow: Flow
    facts: Sequence[Facts]
    loop: NaturalLoop
    definitions: dict[str, list[int]]
    everywhere: Mapping[str, Sequence[int]]

    def instruction(self, position: int) -> Instruction:
        return self.flow.instructions[position]

    def only(self, register: str) -> int | None:
        """The one place in the loop that writes a register, if it does so once in each round, whatever its lanes do."""
        places = self.definitions.get(register, [])
        if len(places) != 1 or self.instruction(places[0]).guard is not None:
            return None
        block = self.flow.block_of[places[0]]
        inner = any(block in each.blocks and each.blocks < self.loop.blocks for each in self.flow.loops)
        return places[0] if not inner and self.each_round(block) else None

    def each_round(self, block: int) -> bool:
        """Does each round come through a block of the loop?"""
        flow, head = self.flow, self.flow.block_of[self.loop.head]
        latches = {flow.block_of[edge] for edge in self.loop.back_edges}
        if block == head:
            return True
        seen, waiting = {head}, [head]
        while waiting:
            at = waiting.pop()
            if at in latches:
                return False
            for each in flow.blocks[at].successors:
                if each in self.loop.blocks and each != block and each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return True


def exits_of(flow: Flow, loop: NaturalLoop) -> list[int]:
    """The branches of a loop by which it may be left, by position."""
    found: list[int] = []
    for number in sorted(loop.blocks):
        block = flow.blocks[number]
        if any(each not in loop.blocks for each in block.successors):
            found.append(block.end - 1)
    return found


def ending_of(
    flow: Flow, facts: Sequence[Facts], definitions: Mapping[str, Sequence[int]], loop: NaturalLoop
) -> Ending:
    """Whether a loop ends, as far as its text shows. facts: of each instruction; definitions: of each register, the
    positions that write it."""
    inside = frozenset(flow.positions(loop.blocks))
    mine = {name: [at for at in places if at in inside] for name, places in definitions.items()}
    this = _Loop(flow, facts, loop, {name: places for name, places in mine.items() if places}, definitions)
    exits = exits_of(flow, loop)
    if any(_fails_in_the_end(this, at) for at in exits):
        return "ends"
    return "stuck" if all(_is_fixed(this, at) for at in exits) else "open"


def _is_fixed(this: _Loop, exit_: int) -> bool:
    """Does nothing change in the loop that a branch is decided by?"""
    instruction = this.instruction(exit_)
    if instruction.row not in ("bra", "exit", "ret") or instruction.guard is None:
        return False
    waiting, seen = [instruction.guard.register.name], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for position in this.definitions.get(name, ()):
            facts = this.facts[position]
            if facts.kind != "compute" or facts.writes & facts.reads or this.instruction(position).guard is not None:
                return False
            waiting += facts.reads
    # What is computed in the loop from what is not is the same in each round, unless it is computed from itself.
    return not _is_circular(this, seen)


def _is_circular(this: _Loop, names: Collection[str]) -> bool:
    """Does any of these registers depend on its own value of the round before? By order of the text: whoever reads a
    register that is only written further down has the value of the round before."""
    for name in names:
        for position in this.definitions.get(name, ()):
            for read in this.facts[position].reads:
                if any(at >= position for at in this.definitions.get(read, ())):
                    return True
    return False


def _fails_in_the_end(this: _Loop, exit_: int) -> bool:
    """Does a branch lead out of the loop in some round?"""
    instruction, block = this.instruction(exit_), this.flow.block_of[exit_]
    if instruction.row not in ("bra", "exit", "ret") or instruction.guard is None or not this.each_round(block):
        return False
    falls = this.flow.block_of[exit_ + 1]
    # The loop goes on if the guard holds, or if it does not.
    goes_on = falls not in this.loop.blocks
    if instruction.row != "bra":
        goes_on = False
    return _becomes(this, instruction.guard.register.name, goes_on != instruction.guard.negated, _DEEPEST)


def _becomes(this: _Loop, predicate: str, now: bool, depth: int) -> bool:
    """Does a predicate, on which the loop goes round while it is `now`, become the opposite in some round?"""
    position = this.only(predicate)
    if position is None or not depth:
        return False
    instruction = this.instruction(position)
    operands = instruction.operands
    match instruction.row, operands:
        case "setp", (Register(), left, right) if instruction.modifiers:
            word = instruction.modifiers[0]
            kind = instruction.modifiers[-1]
            return _comparison_fails(this, word if now else OPPOSITE.get(word, ""), left, right, kind)
        case "not", (Register(), Register(name)):
            return _becomes(this, name, not now, depth - 1)
        case "mov", (Register(), Register(name)):
            return _becomes(this, name, now, depth - 1)
        case (("and" | "or"), (Register(), one, other)):
            # A conjunction fails with either side, a disjunction holds with either.
            either = now == (instruction.row == "and")
            sides = [_side_becomes(this, each, now, depth - 1) for each in (one, other)]
            return any(sides) if either else False
        case _:
            return False


def _side_becomes(this: _Loop, operand: Operand, now: bool, depth: int) -> bool:
    match operand:
        case Negated(Register(name)):
            return _becomes(this, name, not now, depth)
        case Register(name):
            return _becomes(this, name, now, depth)
        case _:
            return False


def _comparison_fails(this: _Loop, word: str, left: Operand, right: Operand, kind: str) -> bool:
    """Does a comparison that holds while the loop goes round fail in the end? kind: the type of what it compares."""
    for comparison, moving, fixed in ((word, left, right), (MIRRORED.get(word, word), right, left)):
        if not isinstance(moving, Register) or not _stays(this, fixed):
            continue
        step = _step(this, moving.name)
        if step is None:
            continue
        if step == "halves":
            if comparison in ("ne", "gt", "hi") and isinstance(fixed, Immediate) and fixed.value == 0:
                return True
        elif step == "grows":
            if _TOWARDS.get(comparison) == 1 and not _passes_the_end(comparison, fixed, 1, kind):
                return True
        elif comparison in _TOWARDS:
            if step * _TOWARDS[comparison] > 0 and not _passes_the_end(comparison, fixed, step, kind):
                return True
        elif (comparison == "ne" and abs(step) == 1) or (comparison == "eq" and step):
            return True
    return False


def _passes_the_end(comparison: str, fixed: Operand, step: int, kind: str) -> bool:
    """Would the next step from where the comparison holds last be beyond the integers of a type, whose bound the text
    gives? Such a loop may have no end."""
    if not isinstance(fixed, Immediate):
        return False  # taken not to overflow
    bits, signed = int(kind[1:]) if kind[1:].isdigit() else 32, kind.startswith("s")
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    bound = fixed.value if signed or fixed.value >= 0 else fixed.value + (1 << bits)
    last = bound if comparison in ("le", "ls", "ge", "hs") else bound - _TOWARDS[comparison]
    return not least <= last + step <= most


def _stays(this: _Loop, operand: Operand) -> bool:
    match operand:
        case Immediate():
            return True
        case Register(name):
            return name not in this.definitions
        case _:
            return False


def _step(this: _Loop, register: str) -> int | Literal["halves", "grows"] | None:
    """By how much a register has grown when the loop has gone round once; None if that is neither one constant nor
    sure to be more than nothing."""
    total, halves, grows, name = 0, False, False, register
    for _ in range(_DEEPEST):
        position = this.only(name)
        if position is None:
            return None
        instruction = this.instruction(position)
        if not all(each[:1] in "busf" and each[1:].isdigit() for each in instruction.modifiers):
            return None  # sums that saturate, or of halves, come to a stop
        match instruction.row, instruction.operands:
            case "mov", (Register(), Register(source)):
                name = source
            case "add", (Register(), Register(source), Immediate(value)):
                total, name = total + value, source
            case "add", (Register(), Immediate(value), Register(source)):
                total, name = total + value, source
            case "sub", (Register(), Register(source), Immediate(value)):
                total, name = total - value, source
            case "add", (Register(), Register(one), Register(other)):
                sources = [by for by, step in ((one, other), (other, one)) if _is_extent(this, step, _DEEPEST)]
                if len(sources) != 1:
                    return None
                grows, name = True, sources[0]
            case "shr", (Register(), Register(source), Immediate(value)) if value > 0 and _is_unsigned(instruction):
                halves, name = True, source
            case _:
                return None
        if name == register:
            if halves:
                return "halves" if not total and not grows else None
            if grows:
                return "grows" if total >= 0 else None
            return _signed(total) or None
    return None


def _is_extent(this: _Loop, register: str, depth: int) -> bool:
    """Is a register a product of the grid's or the block's size, which the loop does not change?"""
    if register.startswith(_EXTENTS):
        return True
    places = this.everywhere.get(register, ())
    if len(places) != 1 or register in this.definitions or not depth:
        return False
    item = this.instruction(places[0])
    words = [each for each in item.modifiers if each not in ("lo", "wide")]
    if item.guard is not None or len(words) != 1 or not words[0][1:].isdigit() or words[0][:1] not in "bus":
        return False

    def is_one(operand: Operand) -> bool:
        match operand:
            case Immediate(value):
                return value > 0
            case Register(name):
                return _is_extent(this, name, depth - 1)
            case _:
                return False

    match item.row, item.operands:
        case "mov", (_, Register(source)):
            return _is_extent(this, source, depth - 1)
        case "mul", (_, one, other):
            return is_one(one) and is_one(other)
        case "shl", (_, one, Immediate()):
            return is_one(one)
        case _:
            return False


def _is_unsigned(instruction: Instruction) -> bool:
    return not any(each.startswith("s") for each in instruction.modifiers)


def _signed(value: int) -> int:
    """A step as it is meant: 0xFFFF_FFFF is one down."""
    for bits in (32, 64):
        if 1 << (bits - 1) <= value < 1 << bits:
            return value - (1 << bits)
    return value
