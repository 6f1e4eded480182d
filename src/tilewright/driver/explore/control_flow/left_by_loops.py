"""Which decisions behind a loop depend on after how many iterations it was left, modulo its period?

A loop that repeats itself leaves another state after each number of iterations of a period: a stage, a phase. What it
leaves is no expression of inputs, though inputs say how often it iterated. A branch behind it that depends on such a
register has been seen for each number of iterations that stands for others, but not together with each other decision.
`coverage` asks for that, unless it comes out the same after any number (`behind_loops`). So from the loop's exits these
registers are followed, through what is computed from them, to the branches and guards that they decide.

Shared and local memory count as one register. Checked by: tests/coverage_attacks/test_left_by_loops.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tilewright.driver.explore.control_flow.branch_traces import lasting_choices
from tilewright.machine.protocol.loops.chosen_steps import MEMORY
from tilewright.machine.protocol.loops.counter_values import Snapshot
from tilewright.machine.protocol.protocol_run import ProtocolReport
from tilewright.machine.protocol.slicing.slice import CONTROL_ROLES, Slice
from tilewright.machine.protocol.slicing.steering import Steering

_STATES_MOST = 2000
"""Places behind a loop, with the registers that it left, that are looked at."""


def varying(snapshots: Sequence[Snapshot], names: Collection[str]) -> frozenset[str]:
    """The registers that do not hold the same after each iteration, be it one before the loop repeats itself."""
    last = snapshots[-1]
    return frozenset(
        name for name in names if any(not np.array_equal(np.asarray(each[name]), last[name]) for each in snapshots)
    )


def decided_behind(
    report: ProtocolReport, steers: Steering, number: int, names: frozenset[str], *, with_operands: bool = True
) -> tuple[int, ...]:  # fmt: skip
    """What behind loop `number` leaves a trace and depends on some registers of the loop, by position: branches and
    guards, and operands of the protocol. What the loop or something behind it stores of them may be loaded by
    anybody."""
    flow, text, sliced = report.sliced.text.flow, report.sliced.text, report.sliced
    inside = {flow.block_of[position] for position in report.loops[number].positions}
    exits = {each for block in inside for each in flow.blocks[block].successors if each not in inside}
    waiting = [(flow.blocks[block].begin, names - {MEMORY}) for block in sorted(exits)]
    seen: set[tuple[int, frozenset[str]]] = set()
    found: set[int] = set()
    operands: set[int] = set()
    remembered = False
    if MEMORY in names or any(_stores(sliced, steers, at, names) for at in flow.positions(frozenset(inside))):
        remembered, waiting = True, [*waiting, *_loads(sliced, steers, inside)]
    while waiting:
        state = begin, left = waiting.pop()
        if not left or begin >= len(flow.instructions) or flow.block_of[begin] in inside or state in seen:
            continue
        seen.add(state)
        if len(seen) > _STATES_MOST:
            return (begin,)
        block = flow.blocks[flow.block_of[begin]]
        for at in range(begin, block.end):
            facts, guard = text.facts[at], flow.instructions[at].guard
            if at not in sliced.executed:
                left -= facts.writes if guard is None else frozenset()
                continue
            if guard is not None and guard.register.name in left:
                found.add(at)
            if facts.kept and any(use.register in left and use.role in CONTROL_ROLES - {"guard"} for use in facts.uses):
                (found if facts.kind == "control" else operands).add(at)
            if not remembered and _stores(sliced, steers, at, left):
                remembered, waiting = True, [*waiting, *_loads(sliced, steers, inside)]
            if not left.isdisjoint(facts.reads) and facts.kind in ("compute", "collective", "load", "atomic"):
                left |= facts.writes & steers.registers
            elif guard is None:
                left -= facts.writes
        waiting += [(flow.blocks[each].begin, left) for each in block.successors]
    choices = lasting_choices(sliced, steers.registers, frozenset(found))
    return tuple(sorted({*choices, *operands} if with_operands else choices))


def _stores(sliced: Slice, steers: Steering, at: int, names: frozenset[str]) -> bool:
    """Whether an instruction stores some of these registers where what is loaded steers."""
    facts = sliced.text.facts[at]
    return (
        steers.memory
        and at in sliced.stores
        and facts.kind in ("store", "atomic")
        and facts.space != "global"
        and not names.isdisjoint(facts.reads)
    )


def _loads(sliced: Slice, steers: Steering, inside: Collection[int]) -> list[tuple[int, frozenset[str]]]:
    """The places behind loads of shared or local memory that steer, each with what it loads."""
    text = sliced.text
    return [
        (at + 1, facts.writes & steers.registers)
        for at, facts in enumerate(text.facts)
        if at in sliced.executed and facts.kind in ("load", "atomic") and facts.space in ("shared", "local", "generic")
        if text.flow.block_of[at] not in inside and not facts.writes.isdisjoint(steers.registers)
    ]
