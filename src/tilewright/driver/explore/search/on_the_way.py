"""Which earlier decisions of a warp must come out as they did, whenever a warp comes to an instruction?

A run comes to an instruction on one way of many, and what it decided before is not what others decide that come there,
too. It is for a branch that every way to the instruction goes through, and from which one side alone leads on to it.
Only such decisions may be held against a launch that is said to be impossible. Of a loop, the decisions to stay in it
count since its last visit began, and for who is still in it: that it was left after so many iterations is not what
others decide, who iterate more or less often.

Where lanes part, those that go on to the instruction decided one way all the same. What this says of the predicate's
parts that all lanes share (neither of `a || b` holds, both of `a && b` do) holds for the warp.

Source: control dependence (Ferrante, Ottenstein and Warren, "The Program Dependence Graph and Its Use in
Optimization", TOPLAS 1987).
Not handled: a later pass of the same branch that depended on no input, and so was not noted.
Checked by: tests/driver/explore/search/test_on_the_way.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from tilewright.machine.protocol.slicing.slice_flow import Flow
from tilewright.machine.symbolic.expression import Applied, Node, Not
from tilewright.machine.symbolic.tracker import Condition

_CONNECTIVES = {"or": False, "and": True}
"""The outcome of a predicate's connective that each of its sources shares."""


@dataclass(slots=True, eq=False)
class Ways:
    """What the branches of a kernel decide for sure. Each branch is worked out when it is asked about."""

    flow: Flow
    _known: dict[int, tuple[frozenset[int], frozenset[int]]] = field(
        default_factory=dict[int, tuple[frozenset[int], frozenset[int]]]
    )
    _without: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])

    def needed(
        self, before: Sequence[Condition], position: int, decision: Condition | None = None
    ) -> tuple[Condition, ...]:
        """Those of a warp's decisions `before` that all who come to an instruction have made, in their order.
        decision: what the instruction decides; of a loop's branch, earlier iterations of the same visit count."""
        found: list[Condition] = []
        passed: set[int] = set()
        earlier = (decision.visit, decision.iteration - 1) if decision is not None else None
        for condition in reversed(before):
            again = (condition.visit, condition.iteration) == earlier and condition.position == position
            if again and self._in_each_iteration(condition):
                # The same branch, one iteration ago, wherever leaving the loop leads.
                found.append(condition)
                earlier = condition.visit, condition.iteration - 1
                continue
            if condition.kind != "branch" or condition.position in passed:
                continue
            if decision is not None and not condition.mask & decision.mask:
                continue  # other lanes, where lanes part
            if condition.outcome.size != 1:
                # An earlier pass says nothing of those that came by this one.
                found += self._shared(condition, position, decision)
                passed.add(condition.position)
                continue
            taken = bool(condition.outcome[0]) != condition.negated
            if self.flow.block_of[position] not in self._leads(condition.position)[taken]:
                # Somebody else's way: whatever this branch decided earlier says nothing either.
                passed.add(condition.position)
                continue
            if self._leaves_before(condition, position):
                passed.add(condition.position)
                continue
            found.append(condition)
            if condition.loop < 0 or not condition.iteration:
                passed.add(condition.position)
        return tuple(reversed(found))

    def stayed(self, before: Sequence[Condition], position: int, others: int) -> tuple[Condition, ...] | None:
        """By what a warp stayed in the loop around an instruction, where each iteration decides there by an expression
        of its own: then all who decide by this one are in this iteration. before: all that the warp decided; others: by
        how many other expressions it decided there; None in no loop or in several, where iterations pass by, and where
        the warp did not stay once, by a branch that each iteration comes to, between one decision and the next."""
        block = self.flow.block_of[position]
        around = [number for number, loop in enumerate(self.flow.loops) if block in loop.blocks]
        if len(around) != 1 or block not in self.flow.passed(self.flow.loops[around[0]]):
            return None
        stays = [each.loop == around[0] and each.kind == "branch" and not leaves(each) for each in before]
        events = [stay for each, stay in zip(before, stays, strict=True) if stay or each.position == position]
        in_turn = all(one != other for one, other in pairwise(events)) and all(events[-1:])
        found = tuple(each for each, stay in zip(before, stays, strict=True) if stay)
        alone = in_turn and events.count(False) == others and all(map(self._in_each_iteration, found))
        return found if alone else None

    def _shared(self, condition: Condition, position: int, decision: Condition | None) -> Iterator[Condition]:
        """What a branch at which lanes part says of all of them, where those that decide at a position came from it."""
        if decision is None or condition.loop >= 0 or decision.mask & ~condition.mask:
            return
        leads = self._leads(condition.position)
        for taken in (False, True):
            if self.flow.block_of[position] in leads[taken]:
                for part, holds in _implied(condition.node, taken != condition.negated):
                    yield replace(condition, node=part, outcome=np.array([holds]))

    def _leaves_before(self, condition: Condition, position: int) -> bool:
        """Whether a branch led out of a loop that an instruction is no part of: others leave it by what a later
        iteration decides."""
        if condition.loop < 0 or bool(condition.outcome[0]) == condition.stays:
            return False
        return self.flow.block_of[position] not in self.flow.loops[condition.loop].blocks

    def _in_each_iteration(self, condition: Condition) -> bool:
        """Whether a branch kept the warp in its loop, and nobody begins that anew without coming to the branch."""
        stayed = condition.outcome.size == 1 and bool(condition.outcome[0]) == condition.stays
        if condition.kind != "branch" or condition.loop < 0 or not stayed:
            return False
        known = self._without.get((condition.position, condition.loop))
        if known is None:
            flow, loop = self.flow, self.flow.loops[condition.loop]
            head, own = flow.block_of[loop.head], flow.block_of[condition.position]
            latches = {flow.block_of[edge] for edge in loop.back_edges} - {own}
            inside = self._reached(head, own) if head != own else frozenset[int]()
            known = self._without[condition.position, condition.loop] = not latches & (inside & frozenset(loop.blocks))
        return known

    def _leads(self, branch: int) -> tuple[frozenset[int], frozenset[int]]:
        """Blocks that are reached through a branch alone, and from there by not taking it alone, or by taking it."""
        found = self._known.get(branch)
        if found is None:
            found = self._known[branch] = self._sides(branch)
        return found

    def _sides(self, branch: int) -> tuple[frozenset[int], frozenset[int]]:
        flow = self.flow
        block = flow.block_of[branch]
        falls = flow.block_of[branch + 1]
        taken = [each for each in flow.blocks[block].successors if each != falls]
        if flow.instructions[branch].guard is None or len(taken) != 1:
            return frozenset(), frozenset()
        elsewhere = (self._reached(0, block) if block else frozenset[int]()) - {block}
        one, other = self._reached(falls, block), self._reached(taken[0], block)
        return one - other - elsewhere, other - one - elsewhere

    def _reached(self, start: int, stop: int) -> frozenset[int]:
        """Blocks on the ways from `start` that end at `stop`, both ends included."""
        found: set[int] = set()
        waiting = [start]
        while waiting:
            each = waiting.pop()
            if each in found:
                continue
            found.add(each)
            if each != stop:
                waiting += self.flow.blocks[each].successors
        return frozenset(found)


def leaves(condition: Condition) -> bool:
    """Whether a decision leads out of a loop."""
    return condition.loop >= 0 and condition.outcome.size == 1 and bool(condition.outcome[0]) != condition.stays


def _implied(predicate: Node, holds: bool) -> Iterator[tuple[Node, bool]]:
    """The parts of a predicate that all lanes share, with what they come to where it holds or fails in one lane."""
    operation = predicate.operation
    if isinstance(operation, Not):
        parts, value = predicate.sources, not holds
    elif isinstance(operation, Applied) and _CONNECTIVES.get(operation.instruction.row) is holds:
        parts, value = predicate.sources, holds
    elif predicate.uniform:
        yield predicate, holds
        return
    else:
        return
    for each in parts:
        if isinstance(each, Node):
            yield from _implied(each, value)
