"""Is there a launch that comes to a condition and decides it otherwise? A solver's word, checked.

The expressions of a run become terms of fixed width (`solve.bit_vectors`): the conditions before hold as they did, the
one in question does not. What the solver finds is evaluated by the machine's own steps before it counts; that it finds
nothing is believed, of terms whose meaning tests compare with the machine. What has no term may be anything, and a
condition before that differs by lane is left out: that only allows more launches. Of a predicate that differs by lane,
one lane is asked about, any of those that came to it. Who asks for numbers that fit gets launches alone in which no
sum overflows that what is asked, or the conditions before it, are computed from.

Without the solver's package everything is undecided, and `Undecided` says which one is missing.
Checked by: tests/driver/explore/search/test_reachable.py, tests/test_core_alone.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tilewright.base.extra import MissingExtra
from tilewright.driver.explore.search.path_search import Dimension, label
from tilewright.driver.explore.terms.equalities import NONE, equalities
from tilewright.driver.explore.terms.symbolic_terms import NoTerm, Terms
from tilewright.machine.core.lanes import selector
from tilewright.machine.symbolic.expression import (
    CannotEvaluate,
    Evaluation,
    Input,
    Node,
    Table,
)
from tilewright.machine.symbolic.tracker import Condition
from tilewright.solve.bit_vectors import (
    Applied,
    Contradiction,
    Question,
    Term,
    Unanswered,
    Variable,
    Witness,
    ask,
    variables_of,
)

_RESOURCES = 12_000_000
_RESOURCES_FOR_SMALL = _RESOURCES // 16
"""For a launch with fewer large numbers than one that was found."""
_UNANSWERED_MOST = 2
"""Of these questions, after which no more are asked."""
_OF_THE_GRID = ("grid", "cluster")
_NEAR = 12
_CONDITIONS_MOST = 300
_SMALL = (1 << 4, 1 << 6, 1 << 9, 1 << 12)
"""Bounds of inputs that are tried, one after the other."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A launch that does."""

    values: dict[Input, int]


@dataclass(frozen=True, slots=True)
class Impossible:
    """There is none."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The solver does not say. missing: its package, where that is not installed."""

    missing: MissingExtra | None = None


def reach(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    condition: Condition,
    before: Sequence[Condition],
    excluded: Sequence[bytes],
    barred: Sequence[Sequence[Condition]] = (),
    *,
    fits: bool = False,
) -> Reached | Impossible | Undecided:
    """Find a launch in which the conditions `before` come out as they did, and `condition` as none of `excluded`.
    barred: ways, by their conditions, that no launch takes by an assumption; fits: no sum overflows on the way."""
    node = condition.node
    two = condition.outcome.dtype == np.bool_ and len(excluded) == 1
    if two and any(len(way) == 1 and way[0].node is node and label(way[0].outcome) not in excluded for way in barred):
        return Impossible()  # the other of two outcomes
    if node.opaque:
        return Undecided()
    if not node.uniform:
        return _reach_in_a_lane(table, dimensions, condition, before, excluded, barred)
    usable = _usable(before)
    fitting = (node, *(each.node for each in usable)) if fits else ()
    return _reach(
        table, dimensions, lambda terms: [terms.differs(node, outcome) for outcome in excluded], usable,
        lambda of: label(of.of(node)) not in excluded, barred, fitting=fitting,
    )  # fmt: skip


def _reach_in_a_lane(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    condition: Condition,
    before: Sequence[Condition],
    excluded: Sequence[bytes],
    barred: Sequence[Sequence[Condition]],
) -> Reached | Impossible | Undecided:
    """Find a launch in which a predicate that differs by lane comes out otherwise in some lane of those that came to
    it, which decided before as all lanes did."""
    node, lanes = condition.node, selector(condition.mask)
    if condition.outcome.dtype != np.bool_ or condition.outcome.size != 1:
        return Undecided()
    usable = [
        each
        for each in before
        if each.outcome.size == 1 and not each.node.opaque and (each.node.uniform or not condition.mask & ~each.mask)
    ]

    def holds(of: Evaluation) -> bool:
        some = of.lanes(node)[0] != condition.outcome[0]
        for each in usable:
            some &= of.lanes(each.node)[0] == each.outcome[0]
        return bool(some[lanes].any())

    def goal(terms: Terms) -> list[Term]:
        return [terms.differs(node, outcome) for outcome in excluded]

    return _reach(table, dimensions, goal, usable, holds, barred, condition.mask)


@dataclass(frozen=True, slots=True)
class Sought:
    """A condition that is to come out as none of `excluded`, where those `before` come out as they did."""

    condition: Condition
    before: tuple[Condition, ...]
    excluded: tuple[bytes, ...]


def reach_any(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    sought: Sequence[Sought],
    barred: Sequence[Sequence[Condition]] = (),
) -> Reached | Impossible | Undecided:
    """Find a launch for any of what is sought, in one question."""
    if len(sought) == 1:
        (only,) = sought
        return reach(table, dimensions, only.condition, only.before, only.excluded, barred)
    if any(each.condition.node.opaque or not each.condition.node.uniform for each in sought):
        return Undecided()

    def goal(terms: Terms) -> list[Term]:
        found = _all(_sought_terms(terms, sought[0]))
        for each in sought[1:]:
            found = Applied("or", (found, _all(_sought_terms(terms, each))), 1)
        return [found]

    def holds(of: Evaluation) -> bool:
        return any(
            label(of.of(each.condition.node)) not in each.excluded
            and all(label(of.of(before.node)) == label(before.outcome) for before in _usable(each.before))
            for each in sought
        )

    return _reach(table, dimensions, goal, (), holds, barred)


def _sought_terms(terms: Terms, sought: Sought) -> list[Term]:
    found = [terms.differs(sought.condition.node, outcome) for outcome in sought.excluded]
    for each in _usable(sought.before):
        try:
            found.append(terms.equals(each.node, label(each.outcome)))
        except NoTerm:
            continue
    return found


def _usable(before: Sequence[Condition]) -> list[Condition]:
    return [each for each in before if each.node.uniform and each.outcome.size == 1 and not each.node.opaque]


def _all(terms: Sequence[Term]) -> Term:
    found = terms[0]
    for each in terms[1:]:
        found = Applied("and", (found, each), 1)
    return found


def reach_apart(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    parts: Sequence[tuple[int, Sequence[Node]]],
    usual: int,
    before: Sequence[Condition],
    barred: Sequence[Sequence[Condition]] = (),
) -> Reached | Impossible | Undecided:
    """Find a launch in which a sum of products of whole numbers, each times a factor, is something else than `usual`,
    modulo their width."""
    if any(not node.uniform or node.opaque for _, nodes in parts for node in nodes):
        return Undecided()

    def apart(of: Evaluation) -> bool:
        total = sum(factor * prod(int(of.of(node)[0]) for node in nodes) for factor, nodes in parts)
        kind = of.of(parts[0][1][0]).dtype
        return (total - usual) % (1 << 8 * kind.itemsize) != 0

    def goal(terms: Terms) -> list[Term]:
        return [terms.apart(parts, usual)]

    return _reach(table, dimensions, goal, _usable(before), apart, barred)


def _reach(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    goal: Callable[[Terms], list[Term]],
    near: Sequence[Condition],
    holds: Callable[[Evaluation], bool],
    barred: Sequence[Sequence[Condition]],
    lanes: int | None = None,
    fitting: Sequence[Node] = (),
) -> Reached | Impossible | Undecided:
    """near: the conditions before; lanes: those of which one is asked about; fitting: no sum in these overflows."""
    # What decides a condition is mostly said by few expressions: those far back are asked for only where it matters.
    for loose in (False, True):
        terms = Terms(dimensions, loose=loose, lanes=lanes, equal=equalities(near) if lanes is None else NONE)
        try:
            wanted = [*goal(terms), *terms.fitting(fitting)]
        except NoTerm:
            return Undecided()
        found = _found(table, dimensions, terms, wanted, near, holds, barred)
        # That nothing is found counts if it is so whichever words the places of memory lead to.
        if not isinstance(found, Impossible) or loose or not terms.moving:
            return Undecided() if loose and isinstance(found, Reached) else found
    return Undecided()


def _found(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    terms: Terms,
    goal: Sequence[Term],
    near: Sequence[Condition],
    holds: Callable[[Evaluation], bool],
    barred: Sequence[Sequence[Condition]],
) -> Reached | Impossible | Undecided:
    barring = [term for each in barred if (term := _not_all(terms, each)) is not None]
    against = [*barring, *terms.within_the_grid()]
    for some in (near[-_NEAR:], near[-_CONDITIONS_MOST:]):
        constraints: list[Term] = []
        for each in some:
            try:
                constraints.append(terms.equals(each.node, label(each.outcome)))
            except NoTerm:
                continue
        asked = (*constraints, *goal, *against, *terms.sides)
        variables = _others_as_first(terms, dimensions, (*constraints, *goal, *barring, *terms.sides))
        # What is anything where a divisor is 0 may lead to a launch that does otherwise: then it is asked without.
        for wanted in (asked, (*asked, *terms.exact)) if terms.exact else (asked,):
            match ask(Question(tuple(variables), wanted), _RESOURCES):
                case Contradiction():
                    if wanted is asked:
                        return Impossible()
                case Witness(values):
                    smaller = _smaller(terms, variables, wanted, values)
                    for each in (values,) if smaller is values else (smaller, values):
                        found = {given: each.get(index, 0) for index, given in enumerate(terms.inputs)}
                        for launch in (_without_nulls(found), found):
                            if _holds(table, dimensions, launch, near, holds):
                                return Reached(launch)
                case Unanswered(missing):
                    return Undecided(missing)
        if len(near) <= _NEAR:
            break
    return Undecided()


def _without_nulls(values: Mapping[Input, int]) -> dict[Input, int]:
    """The same launch with pointers that lead somewhere: memory is read through most of them."""
    return {given: 1 if given.kind == "pointer" else value for given, value in values.items()}


def _others_as_first(
    terms: Terms, dimensions: Mapping[Input, Dimension], asked: Sequence[Term]
) -> list[Variable]:  # fmt: skip
    """The variables, those of inputs that no condition speaks of with their first value alone: it is as good as any."""
    spoken = {each for each in variables_of(asked) if each < len(terms.inputs)}
    axes = {given.place for index, given in enumerate(terms.inputs) if index in spoken and given.kind in _OF_THE_GRID}
    variables = list(terms.variables)
    for index, given in enumerate(terms.inputs):
        if index not in spoken and not (given.kind in _OF_THE_GRID and given.place in axes):
            first = dimensions[given].first
            variables[index] = replace(variables[index], smallest=first, largest=first, multiple=1)
    return variables


def _smaller(
    terms: Terms, before: Sequence[Variable], asked: tuple[Term, ...], values: Mapping[int, int]
) -> Mapping[int, int]:  # fmt: skip
    """Values of the variables with inputs as small as may be: all of them, or else one after the other, those of the
    grid together. Such launches are short, and easier to read, and a large number that has to be is then the only
    one."""
    count = len(terms.inputs)
    variables = list(before)

    unanswered = 0

    def found(bound: int, some: Sequence[int], resources: int) -> Mapping[int, int] | None:
        """With some inputs bounded, which stay so if that can be."""
        nonlocal unanswered
        former = list(variables)
        for index in some:
            each = variables[index]
            variables[index] = replace(each, largest=min(each.largest, max(bound, each.smallest)))
        if all(values.get(index, 0) <= variables[index].largest for index in some):
            return values
        answer = ask(Question(tuple(variables), asked), resources)
        if isinstance(answer, Witness):
            return answer.values
        variables[:] = former
        unanswered += isinstance(answer, Unanswered)
        return None

    of_grid = [index for index, each in enumerate(terms.inputs) if each.kind in _OF_THE_GRID]
    others = [[index] for index in range(count) if index not in of_grid]
    for some in (range(count), of_grid, *others):
        for bound in _SMALL if unanswered < _UNANSWERED_MOST else ():
            smaller = found(bound, some, _RESOURCES if len(some) == count else _RESOURCES_FOR_SMALL)
            if smaller is not None:
                values = smaller
                break
    return values


def _not_all(terms: Terms, way: Sequence[Condition]) -> Term | None:
    """That the conditions do not all come out as they did; None where one of them has no term."""
    if not way or any(each.node.opaque or not each.node.uniform or each.outcome.size != 1 for each in way):
        return None
    try:
        return Applied("not", (_all([terms.equals(each.node, label(each.outcome)) for each in way]),), 1)
    except NoTerm:
        return None


def _holds(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    values: Mapping[Input, int],
    before: Sequence[Condition],
    holds: Callable[[Evaluation], bool],
) -> bool:
    """Evaluate a launch by the machine's own steps."""
    columns = {each: np.array([values.get(each, dimension.first)], np.uint64) for each, dimension in dimensions.items()}
    evaluation = Evaluation(table, columns, 1)
    try:
        even = [each for each in before if each.node.uniform]
        return holds(evaluation) and all(label(evaluation.of(each.node)) == label(each.outcome) for each in even)
    except CannotEvaluate:
        return False
