"""Which decisions behind a loop depend on after how many iterations it was left, modulo its period?

A loop that repeats itself leaves another state after each number of iterations of a period: a stage, a phase. What it
leaves is no expression of inputs, though inputs say how often it iterated. A branch behind it that depends on such a
register has been seen for each number of iterations that stands for others, but not together with each other decision.
`coverage` asks for that, unless it comes out the same after any number (`behind_loops`). So from the loop's exits these
registers are followed, through what is computed from them, to the branches and guards that they decide.

Not handled: what goes through memory; operands of synchronizations. Checked by:
tests/coverage_attacks/test_left_by_loops.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tilewright.driver.explore.branch_traces import lasting_choices
from tilewright.machine.protocol.counter_values import Snapshot
from tilewright.machine.protocol.protocol_run import ProtocolReport
from tilewright.machine.protocol.steering import Steering

_STATES_MOST = 2000
"""Places behind a loop, with the registers that it left, that are looked at."""


def varying(snapshots: Sequence[Snapshot], names: Collection[str], period: int) -> frozenset[str]:
    """The registers that do not hold the same after each iteration of the last period."""
    last, recent = snapshots[-1], snapshots[-period - 1 :]
    return frozenset(
        name for name in names if any(not np.array_equal(np.asarray(each[name]), last[name]) for each in recent)
    )


def decided_behind(
    report: ProtocolReport, steers: Steering, number: int, names: frozenset[str]
) -> tuple[int, ...]:  # fmt: skip
    """The branches and guards behind loop `number` that leave a trace and depend on some registers of the loop, by
    their positions."""
    flow, text, sliced = report.sliced.text.flow, report.sliced.text, report.sliced
    inside = {flow.block_of[position] for position in report.loops[number].positions}
    exits = {each for block in inside for each in flow.blocks[block].successors if each not in inside}
    waiting = [(block, names) for block in sorted(exits)]
    seen: set[tuple[int, frozenset[str]]] = set()
    found: set[int] = set()
    while waiting:
        state = block, left = waiting.pop()
        if not left or block in inside or block >= len(flow.blocks) or state in seen:
            continue
        seen.add(state)
        if len(seen) > _STATES_MOST:
            return (flow.blocks[block].begin,)
        for at in range(flow.blocks[block].begin, flow.blocks[block].end):
            facts, guard = text.facts[at], flow.instructions[at].guard
            if at in sliced.executed and guard is not None and guard.register.name in left:
                found.add(at)
            reads = at in sliced.executed and facts.kind == "compute" and not left.isdisjoint(facts.reads)
            if reads:
                left |= facts.writes & steers.registers
            elif guard is None:
                left -= facts.writes
        waiting += [(each, left) for each in flow.blocks[block].successors]
    return tuple(sorted(lasting_choices(sliced, steers.registers, frozenset(found))))
