"""Does a kernel use how often a loop iterated, once the loop has ended, other than by what a launch covers?

A loop that repeats itself stands for all numbers of iterations, but what counts them does not come back. Inside the
loop `machine.protocol.loops.induction` sees to that. Behind it, a counter may steer the kernel as well: a comparison of
it with a constant comes out otherwise at some number of iterations that no launch had, and no expression of an input
says so. So every way from the loop's exits to a reader of a counter is followed, and what is computed from counters, by
the same rules of gains: what gains nothing in a period is covered by the launches of one period, such as a counter less
what it is rounded to. A comparison with something that depends on inputs is a condition of its own.

Not handled: counters that a loop itself stores (`judge_launch` objects to these).
Checked by: tests/driver/explore/control_flow/test_loop_counters.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction, Register
from tilewright.machine.protocol.loops.counter_values import Gain, Snapshot, held
from tilewright.machine.protocol.loops.induction import gain_after, stay_as_apart
from tilewright.machine.protocol.protocol_run import ProtocolReport
from tilewright.machine.protocol.slicing.slice import CONTROL_ROLES
from tilewright.machine.protocol.slicing.steering import Steering
from tilewright.machine.symbolic.reached import reached_by_inputs

_STATES_MOST = 2000
"""Places behind a loop, with what counters gain there, that are looked at."""
_UNSEEN: tuple[Gain, None] = (0, None)
_VISITS_MOST = 6
"""Visits of one place, after which values are no longer followed."""

Counters = Mapping[str, tuple[Gain, npt.NDArray[np.int64] | None]]
"""What registers gain a period, and what each held in the run, where that is known."""


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
    loop, flow = report.loops[number], report.sliced.text.flow
    behind = _Behind(report, steers, reached_by_inputs(report.sliced, True, grid=True, data=True))
    inside = {flow.block_of[position] for position in loop.positions}
    exits = {each for block in inside for each in flow.blocks[block].successors if each not in inside}
    last: Snapshot = snapshots[-1] if snapshots else {}
    first: Counters = {name: (gain, held(last, name)) for name, gain in sorted(steps.items())}
    waiting: list[tuple[int, Counters]] = [(flow.blocks[block].begin, first) for block in sorted(exits)]
    seen: set[tuple[int, frozenset[tuple[str, Gain, bytes]]]] = set()
    visits: Counter[int] = Counter()
    while waiting:
        position, counters = waiting.pop()
        if not counters or position >= len(flow.instructions) or flow.block_of[position] in inside:
            continue
        visits[position] += 1
        if visits[position] > _VISITS_MOST:
            # What it left is near what steps behind it make of that; those were followed for so long.
            counters = {name: (gain, first.get(name, _UNSEEN)[1]) for name, (gain, _) in counters.items()}
        state = position, frozenset((name, gain, _bytes(value)) for name, (gain, value) in counters.items())
        if state in seen:
            continue
        seen.add(state)
        if len(seen) > _STATES_MOST:
            return UsedAfter(
                flow.instructions[position].span, "how often it iterated is used in too many ways after it"
            )
        following = flow.blocks[flow.block_of[position]]
        kept = dict(last) if following.begin == position and flow.block_of[position] in exits else {}
        for at in range(position, following.end):
            after = behind.step(at, counters, kept)
            for name in report.sliced.text.facts[at].writes & kept.keys():
                del kept[name]
            if isinstance(after, UsedAfter):
                return after
            if flow.instructions[at].guard is not None and after is not counters:
                waiting.append((at + 1, counters))
            counters = after
        waiting += [(flow.blocks[each].begin, counters) for each in following.successors]
    return None


def _bytes(value: npt.NDArray[np.int64] | None) -> bytes:
    return b"" if value is None else value.tobytes()


@dataclass(frozen=True, slots=True)
class _Behind:
    """The instructions behind a loop. followed: registers that may depend on what launches choose."""

    report: ProtocolReport
    steers: Steering
    followed: frozenset[str]

    def step(self, at: int, counters: Counters, kept: Snapshot) -> Counters | UsedAfter:
        """What an instruction makes of counters; the same object where it changes nothing. kept: what registers hold
        that nothing has written since the loop was left."""
        sliced = self.report.sliced
        facts, item = sliced.text.facts[at], sliced.text.flow.instructions[at]
        read = facts.reads & counters.keys()
        made: dict[str, tuple[Gain, npt.NDArray[np.int64] | None]] = {}
        if at in sliced.executed and read:
            stored = any(use.register in read and use.role == "data" for use in facts.uses)
            if stored and at in sliced.stores and self.steers.memory:
                return UsedAfter(item.span, "how often it iterated is stored, and what memory holds steers the kernel")
            if facts.kind == "collective" and not facts.writes.isdisjoint(self.steers.registers):
                return UsedAfter(item.span, f"no rule says what {item.opcode} of a counter gains")
            if facts.kept:
                if any(use.register in read and use.role in CONTROL_ROLES for use in facts.uses):
                    return UsedAfter(item.span, f"{item.opcode} depends on how often it iterated")
            elif not facts.writes.isdisjoint(self.steers.registers):
                if item.row in ("setp", "set"):
                    if not stay_as_apart(item, counters) and not self._with_inputs(item, counters):
                        return UsedAfter(item.span, "how often it iterated is compared after it")
                elif facts.kind == "compute":
                    found = gain_after(item, counters, kept)
                    if isinstance(found, str):
                        return UsedAfter(item.span, found)
                    if found[0]:
                        made = dict.fromkeys(sorted(facts.writes & self.steers.registers), found)
        if not made and facts.writes.isdisjoint(counters.keys()):
            return counters
        return {name: each for name, each in counters.items() if name not in facts.writes} | made

    def _with_inputs(self, item: Instruction, counters: Counters) -> bool:
        """Whether a side of a comparison is something else that depends on inputs, so that they decide of it after any
        number of iterations. A guard, and a predicate that the outcome is combined with, only say whether it counts."""
        compared = {each.name for each in item.operands[1:3] if isinstance(each, Register)}
        if any(isinstance(counters[name][0], Fraction) for name in compared & counters.keys()):
            return False  # stepped by what a launch chooses: inputs decide otherwise after each number of iterations
        sides = compared - counters.keys()
        return not sides.isdisjoint(self.followed)
