"""Does a loop decide by inputs, otherwise in some of its iterations than in others, about steps of the protocol?

A loop that repeats itself was seen to do so where it decides alike in each iteration, or where another one differs.
What several iterations decide otherwise, one behind the other or as the loop ends, leaves groups of copies that are not
committed, barriers that are not met, fences that are missing: state that is no register, so that no launch that was
made shows what they leave together. So what each iteration decides by another expression must follow how often the
loop, or one inside it, iterates: each comparison in it that is not the same in all iterations is one of a counter with
what bounds such a loop, or with a number more or less (`i + 2 < n`, where the loop ends at `max(n, 1)`). How that turns
out near the end was seen after each number of iterations that stands for others. Anything else is a reason for unknown:
a counter that meets another number, bits of a number, words of memory that each iteration reads anew. Decisions that
leave no trace (`branch_traces`) are none of these: where an element lies beyond an array, zero is stored in its place.

Not handled: loops inside that iterate by another bound in each iteration. Source: bounded unrolling. Checked by:
tests/coverage_attacks/test_successive_iterations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tilewright.base.span import Span
from tilewright.driver.explore.behind_loops import sum_of
from tilewright.driver.explore.counted_barriers import Decisions, parts_of
from tilewright.driver.explore.exploration import Exploration, Tried
from tilewright.driver.explore.missing import Missing, cut
from tilewright.driver.explore.reachable import Undecided
from tilewright.driver.explore.unequal_loops import bound_of
from tilewright.machine.symbolic.expression import Applied, Input, Node, rendered


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
        ends = {_number_in(each) for each in decisions.ends(loop)}
        for place, known in decisions.places.items():
            inside = flow.block_of[place[0]] in flow.loops[loop].blocks
            nodes = {each.node.number: each.node for each, _ in known.values() if each.kind != "value"}
            if len(nodes) < 2 or not inside or place[0] not in lasting or decisions.about(place).isdisjoint(about):
                continue
            parts = [set(parts_of(each)) for each in nodes.values()]
            always = set[Node].intersection(*parts)
            for part in set[Node].union(*parts) - always:
                bound = bound_of(part)
                if bound is None or _number_in(bound) not in ends:
                    said = f"what iterations decide by {cut(rendered(part, name))} and others was not tried together"
                    found.append(Missing(place[0], said, ("turns", loop, place), Undecided))
                    break
    return found


def _number_in(bound: Node) -> Node:
    """What a bound is computed from: without what is added to it, and without the least or the most that it may be."""
    while True:
        bound, _ = sum_of(bound)
        inner = [each for each in bound.sources if isinstance(each, Node)]
        limits = isinstance(bound.operation, Applied) and bound.operation.instruction.row in ("min", "max")
        if not limits or len(inner) != 1:
            return bound
        (bound,) = inner
