"""Which loops did a warp pass by without an iteration, since inputs say so?

Compilers write such a loop in two ways. A loop that is tested where it begins is left there, before anything of the
protocol in it. A loop that is tested where it ends has a guard before it: a branch of which one way leads to the loop,
and the other past it. A guard counts where it skips loops and nothing else of the protocol, but iterations that were
taken out of them: these consist of instructions that a loop behind the guard has as well, at the same barrier where
both name it. What decides the guard has
to decide the loop's end, too (`counted_loops`): a guard that asks for something else (`if (mode == 2) for (...)`)
chooses what a kernel does, not how often.

Not handled: guards of which both ways do something; loops that are not written behind their guard.
Checked by: tests/driver/explore/control_flow/test_skipped_loops.py, tests/coverage_attacks/test_empty_loops.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

from tilewright.base.value import dataclass
from tilewright.driver.explore.search.exploration import distinct
from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.protocol.slicing.slice_flow import Flow
from tilewright.machine.protocol.slicing.slice_operands import registers_of
from tilewright.machine.symbolic.expression import TAKEN, Input, inputs_of
from tilewright.machine.symbolic.tracker import Condition

Visit = tuple[int, int, int]
"""The position of a decision, and the CTA's rank and the warp that come to it."""

Guards = Mapping[int, tuple[int, bool]]
"""Of the position of a guard: the number of the first loop behind it, and whether taking the branch skips it."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A loop's number, and the inputs that say that it does not iterate."""

    loop: int
    inputs: tuple[Input, ...]


def guards_of(flow: Flow, positions: Collection[int]) -> dict[int, tuple[int, bool]]:
    """The guards of a kernel's loops. positions: of the instructions of the protocol."""
    found: dict[int, tuple[int, bool]] = {}
    heads = sorted(loop.head for loop in flow.loops)
    for number, block in enumerate(flow.blocks):
        last, meet = block.end - 1, flow.postdominator[number]
        if len(block.successors) != 2 or meet not in block.successors or flow.instructions[last].row != "bra":
            continue
        at = bisect_left(heads, block.end)
        if at == len(heads) or heads[at] >= flow.blocks[meet].begin:
            continue
        region = flow.region(last)
        loops = [each for each, loop in enumerate(flow.loops) if loop.blocks <= region]
        if loops and _nothing_else(flow, positions, region, loops):
            first = min(loops, key=lambda each: flow.loops[each].head)
            found[last] = (first, flow.block_of[last + 1] != meet)
    return found


def _nothing_else(flow: Flow, positions: Collection[int], region: frozenset[int], loops: Iterable[int]) -> bool:
    """Whether some blocks have nothing of the protocol but in loops, or what was taken out of loops."""
    inside = frozenset[int]().union(*(flow.loops[each].blocks for each in loops))
    repeated = [flow.instructions[each] for each in flow.positions(inside) if each in positions]
    apart = [flow.instructions[each] for each in flow.positions(region - inside) if each in positions]
    return bool(repeated) and all(any(_may_be_one(each, other) for other in repeated) for each in apart)


def _may_be_one(one: Instruction, other: Instruction) -> bool:
    """Whether an instruction may be another one in an earlier iteration: of the same kind, and at the same place as far
    as both name one without a register."""
    alike = one.row == other.row and one.modifiers == other.modifiers and len(one.operands) == len(other.operands)
    return alike and all(
        first == second or bool(registers_of(first)) or bool(registers_of(second))
        for first, second in zip(one.operands, other.operands, strict=True)
    )


def skipped_loop(flow: Flow, positions: Collection[int], guards: Guards, condition: Condition) -> int:
    """The loop that a decision passes by without an iteration, or -1. A loop that is left behind its first iteration,
    or within it, has had one."""
    if condition.outcome.size != 1:
        return -1
    holds = bool(condition.outcome[0])
    if condition.loop < 0:
        loop, skips = guards.get(condition.position, (-1, False))
        return loop if (holds != condition.negated) == skips else -1
    if condition.iteration or holds == condition.stays:
        return -1
    head = flow.loops[condition.loop].head
    first = flow.block_of[head] == flow.block_of[condition.position]
    if first and all(each not in positions for each in range(head, condition.position)):
        return condition.loop
    return -1


def skipped_loops(
    flow: Flow, positions: Collection[int], guards: Guards, conditions: Sequence[Condition]
) -> dict[Visit, Skipped]:
    """The loops that warps passed by."""
    found: dict[Visit, Skipped] = {}
    for condition in distinct(conditions):
        loop, deciding = skipped_loop(flow, positions, guards, condition), _deciding(condition)
        # That there is no work to take over is nothing degenerate.
        if loop >= 0 and TAKEN not in deciding:
            found.setdefault((condition.position, condition.cta, condition.warp), Skipped(loop, deciding))
    return found


def counted_loops(conditions: Iterable[Condition]) -> dict[int, frozenset[Input]]:
    """Of the loops that warps came to: the inputs that decide about another iteration."""
    found: dict[int, frozenset[Input]] = {}
    for condition in conditions:
        if condition.loop >= 0 and condition.outcome.size == 1:
            found[condition.loop] = found.get(condition.loop, frozenset()) | {*_deciding(condition)}
    return found


def _deciding(condition: Condition) -> tuple[Input, ...]:
    return tuple(each for each in inputs_of((condition.node,)) if each.kind != "cluster")
