"""Do two loops that iterated equally often in every launch always do so?

A producer that counts its tiles by one expression and a consumer that counts them by another agree in the launches that
were made; whether they agree in all is a question about the two expressions. Where the difference of two loops'
iterations was the same in all launches, though the numbers themselves were not, the difference of what bounds them must
be the same for all inputs: they are one expression, or a solver shows it, or a launch is made in which they differ. Of
two counters of which one counts down, it is the sum.

Not handled: loops whose first comparison has no side that depends on inputs alone. Checked by:
tests/driver/explore/test_unequal_loops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tilewright.base.span import Span
from tilewright.driver.explore.exploration import Exploration, Tried, distinct
from tilewright.driver.explore.missing import Missing, cut
from tilewright.driver.explore.path_search import comparison_of, label
from tilewright.driver.explore.reachable import Undecided, reach_difference
from tilewright.machine.symbolic.expression import CannotEvaluate, Evaluation, Input, Node, rendered
from tilewright.machine.symbolic.tracker import Condition


@dataclass(frozen=True, slots=True)
class _Bound:
    """How often a loop iterated in its first visit, what bounds it, where, and the conditions on the way there."""

    iterations: int
    node: Node
    position: int
    before: tuple[Condition, ...]


def unequal_loops(
    exploration: Exploration, chosen: Sequence[Tried], name: Callable[[Input], str], loop_span: Callable[[int], Span]
) -> list[Missing]:
    """Pairs of loops that are not shown to keep the difference that they always had."""
    bounds = [_bounds(each) for each in chosen]
    loops = sorted({loop for each in bounds for loop in each})
    found: list[Missing] = []
    for one, other in combinations(loops, 2):
        both = [(index, each[one], each[other]) for index, each in enumerate(bounds) if one in each and other in each]
        apart = {first.iterations - second.iterations for _, first, second in both}
        if len(apart) != 1 or len({first.iterations for _, first, _ in both}) < 2:
            continue
        pairs: set[tuple[int, int]] = set()
        for index, first, second in sorted(both, key=lambda each: -each[1].iterations):
            pair = first.node.number, second.node.number
            if first.node is second.node or pair in pairs:
                continue
            pairs.add(pair)
            alike = [chosen[at] for at, *nodes in both if [each.node for each in nodes] == [first.node, second.node]]
            relation = _relation(exploration, [chosen[index], *alike], first.node, second.node)
            expressions = f"{cut(rendered(first.node, name))} and {cut(rendered(second.node, name))}"
            said = (
                f"{loop_span(one)}: the loop iterated as often as the one at {loop_span(other)} in every launch tried, "
                f"and it is not shown that {expressions} always go together"
            )
            ask = Undecided if relation is None else _asked(exploration, first, second, *relation)
            found.append(Missing(-1, said, ("unequal", *pair), ask))
    return found


def _asked(exploration: Exploration, first: _Bound, second: _Bound, usual: int, opposite: bool):
    before = (
        *exploration.ways.needed(first.before, first.position),
        *exploration.ways.needed(second.before, second.position),
    )
    return lambda: reach_difference(
        exploration.table, exploration.dimensions, first.node, second.node, usual, before, tuple(exploration.barred),
        opposite=opposite,
    )  # fmt: skip


def _bounds(tried: Tried) -> dict[int, _Bound]:
    """The loops that a launch left, by number."""
    entered: dict[int, tuple[tuple[int, int], Node, int, tuple[Condition, ...]]] = {}
    left: dict[int, int] = {}
    ways: dict[tuple[int, int], list[Condition]] = {}
    for condition in distinct(tried.judged.conditions):
        warp = (condition.cta, condition.warp)
        way = ways.setdefault(warp, [])
        loop = condition.loop
        if loop >= 0 and condition.outcome.size == 1 and loop not in left:
            if loop not in entered:
                node = _side(condition.node)
                if node is not None:
                    entered[loop] = (warp, node, condition.position, tuple(way[-40:]))
            if (
                loop in entered
                and entered[loop][0] == warp
                and (label(condition.outcome) == b"\x01") != condition.stays
            ):
                left[loop] = condition.iteration
        way.append(condition)
    return {
        loop: _Bound(left[loop], node, position, before)
        for loop, (_, node, position, before) in entered.items()
        if loop in left
    }


def _side(node: Node) -> Node | None:
    """The side of a comparison that depends on inputs, if one does."""
    comparison = comparison_of(node)
    if comparison is None:
        return None
    sides = [each for each in comparison.sources[:2] if isinstance(each, Node)]
    return sides[0] if len(sides) == 1 else None


def _relation(exploration: Exploration, launches: Sequence[Tried], one: Node, other: Node) -> tuple[int, bool] | None:
    """By how much two expressions differ in the first launch, and False; or their sum, and True, if that is the same
    in all launches and the difference is not."""
    columns = {
        given: np.array([each.values.get(given, dimension.first) for each in launches], np.uint64)
        for given, dimension in exploration.dimensions.items()
    }
    try:
        evaluation = Evaluation(exploration.table, columns, len(launches))
        first, second = evaluation.of(one), evaluation.of(other)
    except CannotEvaluate:
        return None
    if first.dtype != second.dtype or first.dtype.kind != "u":
        return None
    difference, total = first - second, first + second
    opposite = bool((difference != difference[0]).any() and (total == total[0]).all())
    return int((total if opposite else difference)[0]), opposite
