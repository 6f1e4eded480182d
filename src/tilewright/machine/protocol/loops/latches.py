"""What does a loop know of its counter, since it goes on only while the counter has not come to its bound?

Compilers close a counted loop by one block, its latch: it steps the counter, compares it with a bound that the loop
does not write, and leaves on one outcome. Where the loop goes on while the counter is less than the bound, it is less
in every iteration but perhaps the first, so that its quotient by the bound is 0.

Not handled: several latches, guarded steps and comparisons, a step that another block of the loop takes; loops that go
on while the counter differs from the bound.
Source: loop-closed counters, as in any compiler text. Checked by: tests/machine/protocol/loops/test_latches.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.frontends.ptx.ast import Instruction, Register, Symbol
from tilewright.machine.protocol.loops.ending_loops import MIRRORED, OPPOSITE
from tilewright.machine.protocol.slicing.slice_flow import Block, Flow, NaturalLoop
from tilewright.machine.protocol.slicing.slice_operands import facts_of

_BELOW = frozenset({"lt", "lo"})


@dataclass(frozen=True, slots=True)
class Latch:
    """A loop goes on while `counter` is less than `bound`. step, test: positions of the counter's step and of the
    comparison behind it; number_type: of the comparison."""

    counter: str
    bound: str
    step: int
    test: int
    number_type: str

    def is_below(self, flow: Flow, position: int) -> bool:
        """Whether an instruction of the loop divides the counter by the bound, where it is less (from the second
        iteration on)."""
        item = flow.instructions[position]
        return (
            item.row in ("div", "rem")
            and self.number_type in item.modifiers
            and item.operands[1:] == (Register(self.counter), Register(self.bound))
            and not self.step < position <= self.test
        )


def latch_of(flow: Flow, loop: NaturalLoop) -> Latch | None:
    """The latch of a loop; None where it has none of that form."""
    head = flow.block_of[loop.head]
    latches = [block for block in flow.blocks[head].predecessors if block in loop.blocks]
    if len(latches) != 1:
        return None
    block = flow.blocks[latches[0]]
    last = flow.instructions[block.end - 1]
    stays = _stays(flow, loop, block, last)
    if last.guard is None or stays is None:
        return None
    writers = _writers(flow, loop)
    (test,) = places if len(places := writers.get(last.guard.register.name, ())) == 1 else (-1,)
    compared = flow.instructions[test] if block.begin <= test < block.end else None
    if compared is None or compared.row != "setp" or compared.guard is not None or len(compared.operands) != 3:
        return None
    relation = compared.modifiers[0] if stays else OPPOSITE.get(compared.modifiers[0], "")
    _, one, other = compared.operands
    for counter, bound, holds in ((one, other, relation), (other, one, MIRRORED.get(relation, relation))):
        if not isinstance(counter, Register) or not isinstance(bound, Register) or bound.name in writers:
            continue
        steps = writers.get(counter.name, ())
        if len(steps) != 1 or not block.begin <= steps[0] < test or flow.instructions[steps[0]].guard is not None:
            continue
        if holds in _BELOW:
            return Latch(counter.name, bound.name, steps[0], test, compared.modifiers[-1])
    return None


def _stays(flow: Flow, loop: NaturalLoop, block: Block, last: Instruction) -> bool | None:
    """With which value of its guard's register the branch at a block's end goes on in the loop; None where it leads
    elsewhere as well."""
    head = flow.block_of[loop.head]
    leaving = [each for each in block.successors if each not in loop.blocks]
    if last.row != "bra" or last.guard is None or len(block.successors) != 2 or len(leaving) != 1:
        return None
    if head not in block.successors or not isinstance(last.operands[-1], Symbol):
        return None
    jumps_on = flow.block_of[block.end] != head
    return jumps_on != last.guard.negated


def _writers(flow: Flow, loop: NaturalLoop) -> dict[str, list[int]]:
    """Where the loop writes each register."""
    found: dict[str, list[int]] = {}
    for number in loop.blocks:
        block = flow.blocks[number]
        for position in range(block.begin, block.end):
            for name in facts_of(flow.instructions[position]).writes:
                found.setdefault(name, []).append(position)
    return found
