"""Which loops, branches and guards decide about nothing but plain accesses to global memory?

Without a launch nothing is said of global memory but how its accesses are aligned. So it need not be seen how often a
loop iterates that does nothing else, as copies of arrays and elementwise kernels do, by strides of the grid: each
iteration makes the same accesses, elsewhere. What such a loop computes for itself, or for others of its kind, decides
nothing either. So the slice is taken once more, without these accesses: what it leaves out beside them is idle. The
data of all stores to other memory counts as needed, and of stores that several warps make; so does whatever names
registers of the tensor core.

A run leaves an idle loop after a few iterations. That the loop ends is an assumption where its text does not show it
(`protocol.ending_loops`); a loop that nothing in it ends is none. Where words of global memory decide something, or are
tensor maps that threads put together, what is stored there may change them, and nothing is idle.

Source: as `protocol.slice`. Not handled: loops that also copy to shared memory.
Checked by: tests/coverage_attacks/test_idle_loops.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.machine.protocol.loops.ending_loops import exits_of
from tilewright.machine.protocol.slicing.slice import Slice, Text, protocol_slice
from tilewright.machine.symbolic.memory_words import STRONG


@dataclass(frozen=True, slots=True)
class Idle:
    """What decides nothing. choices: branches, and accesses under a guard, by position; loops: by number, each with
    the position where all ways out of it meet; assumed: heads of those of which it is an assumption that they end."""

    choices: frozenset[int] = frozenset()
    loops: Mapping[int, int] = field(default_factory=dict[int, int])
    assumed: tuple[int, ...] = ()


def idle_loops(sliced: Slice) -> Idle:
    """What decides about nothing but accesses to global memory."""
    text, flow = sliced.text, sliced.text.flow
    tensor = tensor_registers(text)
    held = frozenset(at for at, facts in enumerate(text.facts) if not tensor.isdisjoint(facts.reads | facts.writes))
    held |= sliced.data
    accesses = frozenset(at for at in sliced.executed - held if accesses_global_memory(text, at))
    kept = frozenset(at for at, facts in enumerate(text.facts) if facts.kept) - accesses | held
    data = frozenset(
        at
        for at, facts in enumerate(text.facts)
        if at in sliced.data or (facts.kind in ("store", "atomic") and facts.space != "global")
    )
    needed = protocol_slice(text.kernel, text=text, data=data, kept=kept)
    maps = any("tensormap" in each.opcode and each.row != "prefetch.tensormap" for each in flow.instructions)
    if (_reads_words(needed) or maps) and any(text.facts[at].kind != "load" for at in accesses):
        return Idle()
    branches = frozenset(needed.skipped) - sliced.skipped.keys()
    acts = frozenset(
        at for at in needed.executed if (item := flow.instructions[at]).row != "bra" or item.guard is not None
    )
    loops: dict[int, int] = {}
    for number, loop in enumerate(flow.loops):
        exits = exits_of(flow, loop)
        closes = all(flow.instructions[edge].row == "bra" and edge + 1 != loop.head for edge in loop.back_edges)
        idle = acts.isdisjoint(flow.positions(loop.blocks)) and branches.issuperset(exits)
        meetings = {needed.skipped[at] for at in exits if at in branches}
        if exits and idle and closes and len(meetings) == 1:
            loops[number] = meetings.pop()
    assumed = tuple(at for at in needed.open_loops if at not in sliced.open_loops)
    return Idle(branches | accesses - needed.executed, loops, assumed)


def accesses_global_memory(text: Text, position: int) -> bool:
    """Whether an instruction accesses global memory without an order to anything else."""
    facts, instruction = text.facts[position], text.flow.instructions[position]
    plain = facts.kind in ("load", "store", "atomic") and facts.space == "global"
    return plain and STRONG.isdisjoint(instruction.modifiers)


def tensor_registers(text: Text) -> frozenset[str]:
    """Registers that operations of the tensor core name, which they may use for longer than they take to issue."""
    found = [each.reads | each.writes for each in text.facts if each.kind == "matrix"]
    return frozenset[str]().union(*found)


def _reads_words(sliced: Slice) -> bool:
    """Whether a slice needs what it loads from global memory."""
    facts = sliced.text.facts
    return any(
        facts[at].kind in ("load", "atomic")
        and facts[at].space in ("global", "generic")
        and not sliced.registers.isdisjoint(facts[at].writes)
        for at in sliced.executed
    )
