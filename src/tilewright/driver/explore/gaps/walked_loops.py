"""How often did warps iterate a loop, each time that they came to it, and what says so?

Loops of several warps must go together, and so must one loop that several warps run with bounds of their own. So each
loop is looked at as a warp walks it: with each visit's bound. Warps that compare with the same expressions in each
visit of each launch walk alike, and one of them stands for all.

The bound is the side of the loop's comparison that depends on inputs; where both sides do (`m + i < n`), what lies
between them; of a predicate that is no such comparison, the predicate. Source: induction variables, as in any compiler
text. Not handled: a loop with several ways out, but for the first that a visit comes to. Checked by:
tests/coverage_attacks/test_bounds_of_warps.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.driver.explore.search.exploration import HOLDS, Tried, distinct
from tilewright.driver.explore.search.path_search import comparison_of, label
from tilewright.frontends.ptx.ast import Instruction, Register
from tilewright.machine.core.step import Registers
from tilewright.machine.symbolic.expression import Applied, Node, Table
from tilewright.machine.symbolic.tracker import Condition

Walk = tuple[int, int, int]
"""A loop, and who walks it: the rank of the CTA, the warp."""
_BETWEEN = "%between"
_BEFORE = 40
"""Conditions of a warp before a loop that are kept."""


@dataclass(slots=True)
class Visit:
    """One visit of a loop. bound: what says how often it iterates; position: of the comparison; before: the conditions
    of its warp on the way there; stays: by what it went on in each iteration; leaves: by what it ended; step: what
    bounds it in the second iteration, where inputs say by how much the loop's counter moves."""

    bound: Node
    position: int
    before: tuple[Condition, ...]
    stays: dict[int, Condition] = field(default_factory=dict[int, Condition])
    leaves: Condition | None = None

    step: Node | None = None

    @property
    def iterations(self) -> int:
        """How often it iterated, of a visit that ended."""
        assert self.leaves is not None, "asked of loops that were left"
        return self.leaves.iteration

    @property
    def entered(self) -> tuple[Condition, ...]:
        """By what it was entered, where the bound is a difference: that is negative where it is not."""
        applied = self.bound.operation
        between = isinstance(applied, Applied) and applied.target_name == _BETWEEN
        return (self.stays[0],) if between and 0 in self.stays else ()


Visits = Mapping[Walk, Mapping[int, Visit]]
"""Of each walk, the visits by number."""


def visits_of(table: Table, tried: Tried) -> dict[Walk, dict[int, Visit]]:
    """Every visit of a loop that inputs end, in one launch."""
    found: dict[Walk, dict[int, Visit]] = {}
    ways: dict[tuple[int, int], list[Condition]] = {}
    fresh = {id(each) for each in distinct(tried.judged.conditions)}
    for condition in tried.judged.conditions:
        warp = (condition.cta, condition.warp)
        way = ways.setdefault(warp, [])
        if condition.loop >= 0 and condition.outcome.size == 1:
            visits = found.setdefault((condition.loop, *warp), {})
            visit = visits.get(condition.visit)
            if visit is None:
                bound, before = _bound(table, condition.node), tuple(way[-_BEFORE:])
                visit = visits[condition.visit] = Visit(bound, condition.position, before)
            if condition.iteration == 1 and visit.step is None and bound_of(condition.node) is None:
                visit.step = _bound(table, condition.node)
            if visit.leaves is None:
                if (label(condition.outcome) == HOLDS) == condition.stays:
                    visit.stays.setdefault(condition.iteration, condition)
                else:
                    visit.leaves = condition
        if id(condition) in fresh:
            way.append(condition)
    return found


def classes_of(launches: Sequence[Visits]) -> dict[Walk, frozenset[tuple[int, int]]]:
    """The walks that stand for all others, each with the warps of those that walk alike."""
    found: dict[Walk, set[tuple[int, int]]] = {}
    known: dict[Walk, dict[int, dict[int, int]]] = {}
    for walk in sorted({walk for each in launches for walk in each}):
        own = {
            index: {number: visit.bound.number for number, visit in each[walk].items()}
            for index, each in enumerate(launches)
            if walk in each
        }
        alike = (
            other
            for other in found
            if other[0] == walk[0] and all(known[other].get(index) == bounds for index, bounds in own.items())
        )
        first = next(alike, None)
        if first is None:
            found[walk], known[walk] = {walk[1:]}, own
        else:
            found[first].add(walk[1:])
    return {walk: frozenset(warps) for walk, warps in found.items()}


def _bound(table: Table, node: Node) -> Node:
    comparison = comparison_of(node)
    if comparison is None:
        return node
    one = bound_of(node)
    return one or _between(table, comparison) or comparison


def bound_of(node: Node) -> Node | None:
    """The side of a comparison that depends on inputs, if one alone does."""
    comparison = comparison_of(node)
    if comparison is None:
        return None
    sides = [each for each in comparison.sources[:2] if isinstance(each, Node)]
    return sides[0] if len(sides) == 1 else None


def _between(table: Table, comparison: Node) -> Node | None:
    """The difference of a comparison's sides, of whole numbers that are the same in all lanes."""
    assert isinstance(comparison.operation, Applied), "a comparison is an instruction's result"
    item = comparison.operation.instruction
    kind, sides = item.modifiers[-1], [each for each in comparison.sources[:2] if isinstance(each, Node)]
    if kind[:1] not in "sub" or kind[1:] not in ("32", "64") or len(item.operands) < 3 or len(sides) != 2:
        return None
    if any(each.opaque or not each.uniform for each in sides):
        return None
    width = int(kind[1:])
    names = ("%one", "%other")
    operands = tuple(Register(each) for each in (_BETWEEN, *names))
    between = Instruction(f"sub.u{width}", "sub", (f"u{width}",), operands, None, item.span)
    return table.applied(
        ("between", width), Applied(between, _subtract, (0, 1), names, 2, _BETWEEN, width), tuple(sides)
    )


def _subtract(registers: Registers) -> None:
    registers[2] = registers[0] - registers[1]


def first_visits(launch: Visits) -> dict[Walk, Visit]:
    """The first visits, of each walk."""
    return {walk: visits[min(visits)] for walk, visits in launch.items() if visits}
