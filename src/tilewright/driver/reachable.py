"""Is there a launch that comes to a condition and decides it otherwise? A solver's word, checked.

The expressions of a run become terms of fixed width (`solve.bit_vectors`): the conditions before hold as they did, the
one in question does not. What the solver finds is evaluated by the machine's own steps before it counts; that it finds
nothing is believed, of terms whose meaning tests compare with the machine. What has no term may be anything, and a
condition before that differs by lane is left out: that only allows more launches.

Without the solver's package everything is undecided. Checked by: tests/driver/test_reachable.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.driver.path_search import Dimension, label
from tilewright.driver.symbolic_terms import NoTerm, Terms
from tilewright.machine.symbolic.expression import (
    CannotEvaluate,
    Evaluation,
    Input,
    Node,
    Table,
)
from tilewright.machine.symbolic.tracker import Condition
from tilewright.solve.bit_vectors import Contradiction, Question, Term, Variable, Witness, ask

_RESOURCES = 3_000_000
_NEAR = 12
_CONDITIONS_MOST = 300
_SMALL = 1 << 12


@dataclass(frozen=True, slots=True)
class Reached:
    """A launch that does."""

    values: dict[Input, int]


@dataclass(frozen=True, slots=True)
class Impossible:
    """There is none."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The solver does not say."""


def reach(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    condition: Condition,
    before: Sequence[Condition],
    excluded: Sequence[bytes],
) -> Reached | Impossible | Undecided:
    """Find a launch in which the conditions `before` come out as they did, and `condition` as none of `excluded`."""
    node = condition.node
    if not node.uniform or node.opaque:
        return Undecided()
    terms = Terms(dimensions)
    try:
        goal = [terms.differs(node, outcome) for outcome in excluded]
    except NoTerm:
        return Undecided()
    return _reach(table, dimensions, terms, goal, before, lambda of: label(of.of(node)) not in excluded)


def reach_difference(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    one: Node,
    other: Node,
    usual: int,
    before: Sequence[Condition],
) -> Reached | Impossible | Undecided:
    """Find a launch in which two whole numbers differ by something else than `usual`, modulo their width."""
    terms = Terms(dimensions)
    if not (one.uniform and other.uniform) or one.opaque or other.opaque:
        return Undecided()
    try:
        goal = [terms.apart(one, other, usual)]
    except NoTerm:
        return Undecided()

    def apart(of: Evaluation) -> bool:
        first, second = of.of(one), of.of(other)
        return bool((first - second)[0] != np.array([usual]).astype(first.dtype)[0])

    return _reach(table, dimensions, terms, goal, before, apart)


def _reach(
    table: Table,
    dimensions: Mapping[Input, Dimension],
    terms: Terms,
    goal: Sequence[Term],
    before: Sequence[Condition],
    holds: Callable[[Evaluation], bool],
) -> Reached | Impossible | Undecided:
    # What decides a condition is mostly said by few expressions: those far back are asked for only where it matters.
    near = [each for each in before if each.node.uniform and each.outcome.size == 1 and not each.node.opaque]
    for some in (near[-_NEAR:], near[-_CONDITIONS_MOST:]):
        constraints: list[Term] = []
        for each in some:
            try:
                constraints.append(terms.equals(each.node, label(each.outcome)))
            except NoTerm:
                continue
        asked = (*constraints, *goal, *terms.sides)
        match ask(Question(tuple(terms.variables), asked), _RESOURCES):
            case Contradiction():
                return Impossible()
            case Witness(values):
                small = ask(Question(_small(terms), asked), _RESOURCES) if _is_large(terms, values) else None
                for each in (small.values, values) if isinstance(small, Witness) else (values,):
                    found = {given: each.get(index, 0) for index, given in enumerate(terms.inputs)}
                    if _holds(table, dimensions, found, near, holds):
                        return Reached(found)
            case None:
                return Undecided()
        if len(near) <= _NEAR:
            break
    return Undecided()


def _is_large(terms: Terms, values: Mapping[int, int]) -> bool:
    return any(values.get(index, 0) > _SMALL for index in range(len(terms.inputs)))


def _small(terms: Terms) -> tuple[Variable, ...]:
    """The variables, the inputs among them small: such launches are short, and easier to read."""
    count = len(terms.inputs)
    return tuple(
        replace(each, largest=min(each.largest, max(_SMALL, each.smallest))) if index < count else each
        for index, each in enumerate(terms.variables)
    )


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
        return holds(evaluation) and all(label(evaluation.of(each.node)) == label(each.outcome) for each in before)
    except CannotEvaluate:
        return False
