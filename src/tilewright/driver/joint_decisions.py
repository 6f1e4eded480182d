"""Which decisions of a kernel did no launch take in each of their ways together?

A branch that the launch decides may leave a trace (`branch_traces`): registers that steer what comes after it, or
something of the protocol. What comes after two such branches depends on both, though no condition says so: a register
that each sets to a constant holds no expression. So all ways of few decisions, and each two of many, are a goal. It is
met by a launch or a solver shows that it cannot be. Where lanes part by more than predicates and leave a trace, the
ways are too many: the verdict stays open.

Where nothing but numbers at which a sum overflows leads there, an assumption excludes these.

Not handled: three of many decisions that matter only together, decisions with loops' numbers of iterations.
Source: pairwise testing (Cohen, Dalal, Fredman and Patton, "The AETG System", 1997).
Checked by: tests/coverage_attacks/test_joint_decisions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import comb

import numpy as np

from tilewright.driver.exploration import FAILS, HOLDS, Exploration, Tried, distinct
from tilewright.driver.missing import Missing, cut
from tilewright.driver.overflow import SUMS, overflow_limit, overflows
from tilewright.driver.path_search import label
from tilewright.driver.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.symbolic.expression import (
    CannotEvaluate,
    Evaluation,
    Input,
    Node,
    Not,
    frontier,
    inputs_of,
    rendered,
)
from tilewright.machine.symbolic.tracker import Condition

_BEFORE = 200
_COMBINATIONS_MOST = 64
"""Goals of decisions taken together, unless two of them are more."""
_Example = tuple[Condition, tuple[Condition, ...]]


def joint_decisions(
    exploration: Exploration, chosen: Sequence[Tried], lasting: Collection[int], name: Callable[[Input], str]
) -> list[Missing]:
    """Pairs of ways that no launch of `chosen` took together. lasting: decisions that leave a trace."""
    examples: dict[int, dict[bytes, _Example]] = {}
    launches: list[dict[int, frozenset[bytes]]] = []
    parting: dict[int, Missing] = {}
    for tried in chosen:
        ways: dict[tuple[int, int], list[Condition]] = {}
        here: dict[int, frozenset[bytes]] = {}
        for condition in distinct(tried.judged.conditions):
            way = ways.setdefault((condition.cta, condition.warp), [])
            if condition.position in lasting and condition.loop < 0 and condition.kind != "value":
                outcome = label(condition.outcome)
                if outcome == b"split" and not _parts_by_predicates(exploration, condition.node):
                    said = f"lanes part by {cut(rendered(condition.node, name))}, which launches may do in other ways"
                    parting[condition.position] = Missing(
                        condition.position, said, ("parting", condition.position), Undecided
                    )
                here[condition.position] = here.get(condition.position, frozenset()) | {outcome}
                if condition.node.uniform and not condition.node.opaque:
                    examples.setdefault(condition.position, {}).setdefault(outcome, (condition, tuple(way[-_BEFORE:])))
            way.append(condition)
        launches.append(here)
    _evaluate_absent(exploration, chosen, launches, examples)
    places = sorted(examples)
    size = _at_once(len(places))
    found: list[Missing] = []
    for some in combinations(places, size) if size > 1 else ():
        if any(_same(_any(examples[one]).node, _any(examples[other]).node) for one, other in combinations(some, 2)):
            some = tuple(
                each
                for index, each in enumerate(some)
                if not any(_same(_any(examples[each]).node, _any(examples[one]).node) for one in some[:index])
            )
        seen = {way for each in launches for way in product(*(each[place] for place in some))}
        for wanted in product((HOLDS, FAILS), repeat=len(some)):
            key = ("joint", some, wanted)
            if wanted in seen or len(some) < 2:
                continue
            said = " and ".join(
                f"{'' if way == HOLDS else '!'}{cut(rendered(_any(examples[place]).node, name))}"
                for place, way in zip(some, wanted, strict=True)
            )
            reason = f"no launch tried decides {len(some)} branches so at once: {said}"
            found.append(Missing(some[-1], reason, key, _ask(exploration, [examples[each] for each in some], wanted)))
    return [*found, *parting.values()]


def _at_once(count: int) -> int:
    """How many of so many decisions are taken together: all of few, two of many."""
    for size in range(count, 2, -1):
        if comb(count, size) << size <= _COMBINATIONS_MOST:
            return size
    return min(count, 2)


def _evaluate_absent(
    exploration: Exploration, chosen: Sequence[Tried], launches: Sequence[dict[int, frozenset[bytes]]],
    examples: Mapping[int, Mapping[bytes, _Example]],
) -> None:  # fmt: skip
    """How decisions that a launch did not come to would have come out in it: it took the way of these, too."""
    columns = {
        given: np.array([each.values.get(given, dimension.first) for each in chosen], np.uint64)
        for given, dimension in exploration.dimensions.items()
    }
    evaluation = Evaluation(exploration.table, columns, len(chosen))
    for place, ways in examples.items():
        try:
            values = evaluation.of(_any(ways).node)
        except CannotEvaluate:
            values = np.zeros(0, np.bool_)
        for index, each in enumerate(launches):
            if place not in each:
                each[place] = frozenset((label(values[index : index + 1]),) if values.size else (HOLDS, FAILS))


def _parts_by_predicates(exploration: Exploration, node: Node) -> bool:
    """Whether inputs decide by predicates alone whether lanes part: then they do so in the ways that were seen."""
    evaluation = Evaluation(exploration.table, {}, 1)
    try:
        return not node.opaque and all(evaluation.of(each).dtype == np.bool_ for each in frontier(node))
    except CannotEvaluate:
        return False


def _any(examples: Mapping[bytes, _Example]) -> Condition:
    return next(iter(examples.values()))[0]


def _same(one: Node, other: Node) -> bool:
    """Whether two predicates are the same, or one is the other's negation."""

    def bare(node: Node) -> Node:
        inner = node.sources[0] if isinstance(node.operation, Not) else node
        return inner if isinstance(inner, Node) else node

    return bare(one) is bare(other)


def _ask(
    exploration: Exploration, examples: Sequence[Mapping[bytes, _Example]], wanted: Sequence[bytes]
) -> Callable[[], Reached | Impossible | Undecided]:
    """Whether a launch decides all of them so; where possible one that comes to them as an earlier one did."""

    def ask() -> Reached | Impossible | Undecided:
        opposite = HOLDS if wanted[-1] == FAILS else FAILS
        conditions = [
            replace(_any(each), outcome=np.array([way == HOLDS])) for each, way in zip(examples, wanted, strict=True)
        ]
        others, last = tuple(conditions[:-1]), conditions[-1]
        table, dimensions = exploration.table, exploration.dimensions
        barred = tuple(exploration.barred)
        anyhow = reach(table, dimensions, last, others, (opposite,), barred)
        if not isinstance(anyhow, Reached):
            return anyhow
        nodes = [each.node for each in conditions]
        if overflows(exploration, anyhow.values, nodes, SUMS):
            numbers = [
                given
                for given in inputs_of(nodes)
                if given.kind == "number" and given.size_bytes in (4, 8) and given in dimensions
            ]
            narrowed = {
                **dimensions,
                **{
                    each: replace(dimensions[each], largest=min(dimensions[each].largest, overflow_limit(each) - 1))
                    for each in numbers
                },
            }
            within = reach(table, narrowed, last, others, (opposite,), barred)
            if isinstance(within, Impossible):
                names = " and ".join(dimensions[each].name for each in numbers)
                bits = max(overflow_limit(each) for each in numbers).bit_length() - 1
                said = f"{names} {'are' if len(numbers) > 1 else 'is'} at least 0 and below 2^{bits}"
                exploration.assumed[f"{said} (else a sum overflows, and ways were not tried)"] = None
                return within
            anyhow = within if isinstance(within, Reached) else anyhow
        places = {each.position for each in others}
        for _, before in examples[-1].values():
            way = tuple(each for each in before if each.position not in places)
            same = reach(table, dimensions, last, (*way, *others), (opposite,), barred)
            if isinstance(same, Reached) and exploration.is_new(same.values):
                return same
        return anyhow

    return ask
