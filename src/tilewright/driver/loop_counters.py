"""Does a kernel use how often a loop iterated, once the loop has ended, other than by what a launch covers?

A loop that repeats itself stands for all numbers of iterations, but what counts them does not come back. Inside the
loop `machine.induction` sees to that. Behind it, a counter may steer the kernel as well: a comparison of it with a
constant comes out otherwise at some number of iterations that no launch had, and no expression of an input says so. So
every way from the loop's exits to a reader of a counter is followed, and what is computed from counters, by the same
rules of gains: what gains nothing in a period is covered by the launches of one period. A comparison with something
that depends on inputs is a condition of its own.

Not handled: counters that pass through memory. Checked by: tests/driver/test_loop_counters.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.base.span import Span
from tilewright.machine.induction import Gain, Snapshot, gain_after
from tilewright.machine.protocol_run import ProtocolReport
from tilewright.machine.slice import CONTROL_ROLES
from tilewright.machine.steering import Steering
from tilewright.machine.symbolic.steps import reached_by_inputs


@dataclass(frozen=True, slots=True)
class UsedAfter:
    """A use of a counter behind its loop, and why the launches do not cover it."""

    span: Span
    reason: str


def counter_used_after(
    report: ProtocolReport, steers: Steering, number: int, steps: Mapping[str, int], snapshots: Sequence[Snapshot]
) -> UsedAfter | None:
    """The first use of a counter behind loop `number` that its repetition does not cover. steps: what each counter
    gains a period."""
    loop, text = report.loops[number], report.sliced.text
    flow = text.flow
    followed = reached_by_inputs(report.sliced, True, grid=True, data=True)
    inside = {flow.block_of[position] for position in loop.positions}
    exits = {each for block in inside for each in flow.blocks[block].successors if each not in inside}
    waiting: list[tuple[str, Gain, int]] = [
        (name, gain, flow.blocks[block].begin) for name, gain in sorted(steps.items()) for block in sorted(exits)
    ]
    seen: set[tuple[str, Gain, int]] = set()
    while waiting:
        name, gain, position = each = waiting.pop()
        if each in seen or position >= len(flow.instructions):
            continue
        seen.add(each)
        block = flow.blocks[flow.block_of[position]]
        for at in range(position, block.end):
            if flow.block_of[at] in inside:
                break
            facts, item = text.facts[at], flow.instructions[at]
            if at in report.sliced.executed and name in facts.reads:
                if facts.kept:
                    if any(use.register == name and use.role in CONTROL_ROLES for use in facts.uses):
                        return UsedAfter(item.span, f"{item.opcode} depends on how often it iterated")
                elif not facts.writes.isdisjoint(steers.registers):
                    others = facts.reads - {name}
                    if item.row in ("setp", "set"):
                        if others.isdisjoint(followed):
                            return UsedAfter(item.span, "how often it iterated is compared after it")
                    elif facts.kind == "compute":
                        result = gain_after(item, {name: gain}, snapshots)
                        if isinstance(result, str):
                            return UsedAfter(item.span, result)
                        if result:
                            waiting += [(each, result, at + 1) for each in sorted(facts.writes & steers.registers)]
            if name in facts.writes and item.guard is None:
                break
        else:
            waiting += [(name, gain, flow.blocks[following].begin) for following in block.successors]
    return None
