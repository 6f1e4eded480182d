"""Does a loop decide by inputs, otherwise in some of its iterations than in others, about steps of the protocol?

A loop that repeats itself was seen to do so where it decides alike in each iteration, or where another one differs.
What several iterations decide otherwise, one behind the other or as the loop ends, leaves groups of copies that are not
committed, barriers that are not met, fences that are missing: state that is no register, so that no launch that was
made shows what they leave together. So what each iteration decides by another expression must follow how often the
loop, or one inside it, iterates: each comparison in it that is not the same in all iterations is one of a counter with
what bounds such a loop, or with a number more or less (`i + 2 < n`, where the loop ends at `max(n, 1)`). How that turns
out near the end was seen after each number of iterations that stands for others. What is decided alike in all of them
beside that (`flag && i + 2 < n`) must have been seen either way while the loop goes on. Anything else is open:
a counter that meets another number, bits of a number, words of memory that each iteration reads anew. Decisions that
leave no trace (`branch_traces`) are none of these: where an element lies beyond an array, zero is stored in its place.

Not handled: loops inside that iterate by another bound in each iteration. Source: bounded unrolling. Checked by:
tests/coverage_attacks/test_successive_iterations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from tilewright.base.span import Span
from tilewright.driver.explore.gaps.behind_loops import sum_of
from tilewright.driver.explore.gaps.counted_barriers import Decisions, parts_of, stays_long
from tilewright.driver.explore.gaps.missing import Missing, cut
from tilewright.driver.explore.gaps.unequal_loops import bound_of
from tilewright.driver.explore.search.exploration import Exploration, Place, Tried
from tilewright.driver.explore.search.path_search import label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.symbolic.expression import Applied, CannotEvaluate, Evaluation, Input, Node, inputs_of, rendered


def decided_in_turns(
    exploration: Exploration, chosen: Sequence[Tried], loops: Sequence[int], positions: Collection[int],
    lasting: Collection[int], name: Callable[[Input], str],
) -> list[Missing]:  # fmt: skip
    """Decisions of several iterations that may come together in loops that repeat themselves. positions: the
    instructions of the protocol; lasting: decisions that leave a trace."""
    flow = exploration.ways.flow
    decisions = Decisions(flow, chosen)
    # Of what no launch executes, it is asked elsewhere whether one may.
    executed = frozenset[int]().union(*(tried.judged.covered for tried in chosen)).intersection(positions)
    about = frozenset[Span](flow.instructions[at].span for at in executed)
    found: list[Missing] = []
    for loop in loops:
        most = exploration.classes(loop)
        ends = {_number_in(each, most) for each in decisions.ends(loop)}
        for place, known in decisions.places.items():
            inside = flow.block_of[place[0]] in flow.loops[loop].blocks
            nodes = {each.node.number: each.node for each, _ in known.values() if each.kind != "value"}
            if len(nodes) < 2 or not inside or place[0] not in lasting or decisions.about(place).isdisjoint(about):
                continue
            parts = [set(parts_of(each)) for each in nodes.values()]
            always = set[Node].intersection(*parts)
            found += _once_for_all(exploration, chosen, loop, place, always, name)
            for part in set[Node].union(*parts) - always:
                bound = bound_of(part)
                if bound is None or _number_in(bound, most) not in ends:
                    said = f"what iterations decide by {cut(rendered(part, name))} and others was not tried together"
                    found.append(Missing(place[0], said, ("turns", loop, place), Undecided))
                    break
    return found


def _once_for_all(
    exploration: Exploration, chosen: Sequence[Tried], loop: int, place: Place, always: Collection[Node],
    name: Callable[[Input], str],
) -> list[Missing]:  # fmt: skip
    """What a launch decides alike in all iterations, beside what follows how often they are: the loop must have been
    seen to repeat itself under each of its outcomes. always: the parts of a decision that all iterations have."""
    found: list[Missing] = []
    for part in sorted((each for each in always if each.uniform and inputs_of((each,))), key=lambda each: each.number):
        try:
            columns = {
                given: np.array([each.values.get(given, dimension.first) for each in chosen], np.uint64)
                for given, dimension in exploration.dimensions.items()
            }
            outcomes = Evaluation(exploration.table, columns, len(chosen)).of(part).astype(bool).tolist()
        except CannotEvaluate:
            outcomes = [False, True]
        shown = {
            outcome
            for tried, outcome in zip(chosen, outcomes, strict=False)
            if (repeated := tried.judged.repeats.get(loop)) is not None and repeated.reason is None
        }
        for outcome in sorted({*outcomes} - shown):
            said = cut(rendered(part, name))
            reason = "no launch tried iterates a loop often enough to show that it repeats itself where "
            key = ("turns", "under", loop, part.number, outcome)
            ask = _under(exploration, chosen, loop, part, outcome)
            found.append(Missing(place[0], reason + (said if outcome else f"!{said}"), key, ask))
    return found


def _under(
    exploration: Exploration, chosen: Sequence[Tried], loop: int, part: Node, outcome: bool
) -> Callable[[], Reached | Impossible | Undecided]:  # fmt: skip
    def ask() -> Reached | Impossible | Undecided:
        stays = stays_long(chosen, loop)
        if stays is None:
            return Undecided()
        about = replace(stays, node=part, outcome=np.array([not outcome]), loop=-1)
        return reach(
            exploration.table, exploration.dimensions, about, (stays,), (label(about.outcome),),
            tuple(exploration.barred),
        )  # fmt: skip

    return ask


def _number_in(bound: Node, most: int) -> Node:
    """What a bound is computed from: without what is added to it, and without the least or the most that it may be, if
    that is less than `most`, up to which each number of iterations was seen."""
    while True:
        bound, _ = sum_of(bound)
        inner = [each for each in bound.sources if isinstance(each, Node)]
        limits = isinstance(bound.operation, Applied) and bound.operation.instruction.row in ("min", "max")
        numbers = [int(each[0]) for each in bound.sources if not isinstance(each, Node) and each.size == 1]
        if not limits or len(inner) != 1 or len(numbers) != 1 or not 0 <= numbers[0] < most:
            return bound
        (bound,) = inner
