"""Was each of two loops seen to go on long after the other one has ended?

A producer that fills as many slots as one number says and a consumer that takes as many as another says agree as long
as the numbers are less apart than the ring has slots. Where the numbers of iterations have no fixed relation
(`unequal_loops`), launches whose numbers happen to be near each other say nothing of others. Both loops repeat
themselves after some iterations, the longer of the two periods: one that goes on for more than two of these after the
other has left, and is clean, needs nothing of it any more. So of two loops of different warps, each must have gone on
for so long after the other one had iterated and left; or a solver shows that it cannot; or a launch is made.

Not handled: loops whose first comparison has no side that depends on inputs alone; three loops together; later visits
of loops inside others. Source: bounded unrolling. Checked by: tests/coverage_attacks/test_far_apart.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from tilewright.base.span import Span
from tilewright.driver.explore.gaps.missing import Missing, cut
from tilewright.driver.explore.gaps.unequal_loops import bound_of, is_related
from tilewright.driver.explore.search.exploration import HOLDS, Exploration, Tried, distinct
from tilewright.driver.explore.search.path_search import label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.symbolic.expression import Input, Node, rendered
from tilewright.machine.symbolic.tracker import Condition

_PERIODS = 2
_FIRST = 1
"""The loop that ends early has iterated so often: launches in which one does nothing may be excused."""
_BEFORE = 40


@dataclass(slots=True)
class _Visit:
    """The first visit of a loop: by which warp, what bounds it, by what it stayed in each iteration and left."""

    warp: tuple[int, int]
    bound: Node
    before: tuple[Condition, ...]
    stays: dict[int, Condition] = field(default_factory=dict[int, Condition])
    leaves: Condition | None = None


def far_apart(
    exploration: Exploration, chosen: Sequence[Tried], loops: Collection[int], name: Callable[[Input], str],
    loop_span: Callable[[int], Span],
) -> list[Missing]:  # fmt: skip
    """Pairs of loops of which one was not seen to go on long after the other. loops: those that repeat themselves."""
    visits = [_visits(each) for each in exploration.tried if each.clean or each.judged.too_long]
    every = [_visits(each) for each in exploration.tried]
    blocks = [each.blocks for each in exploration.ways.flow.loops]
    found: list[Missing] = []
    for goes_on, ends in permutations(sorted(loops), 2):
        if not blocks[goes_on].isdisjoint(blocks[ends]):
            continue
        both = [each for each in every if goes_on in each and ends in each]
        if not any(each[goes_on].warp != each[ends].warp for each in both):
            continue
        if all(each[goes_on].bound == each[ends].bound for each in both) or is_related(chosen, goes_on, ends):
            continue
        apart = 1 + _PERIODS * max(_period(exploration, goes_on), _period(exploration, ends))
        if any(_shows(each, goes_on, ends, apart) for each in visits):
            continue
        pairs = _pairs(both, goes_on, ends, apart)
        for one, other in {(one.bound, other.bound): (one, other) for one, other, *_ in pairs}.values():
            said = (
                f"{loop_span(goes_on)}: no launch tried goes on here long after the loop at {loop_span(ends)} has "
                f"ended: how often is said by {cut(rendered(one.bound, name))} and {cut(rendered(other.bound, name))}"
            )
            key = "apart", goes_on, ends, apart, one.bound.number, other.bound.number
            found.append(Missing(-1, said, key, _asked(exploration, one, other, apart)))
    return found


def _visits(tried: Tried) -> dict[int, _Visit]:
    found: dict[int, _Visit] = {}
    ways: dict[tuple[int, int], list[Condition]] = {}
    for condition in distinct(tried.judged.conditions):
        warp = (condition.cta, condition.warp)
        way = ways.setdefault(warp, [])
        loop = condition.loop
        if loop >= 0 and condition.outcome.size == 1 and not condition.node.opaque and condition.node.uniform:
            bound = bound_of(condition.node)
            if loop not in found and bound is not None:
                found[loop] = _Visit(warp, bound, tuple(way[-_BEFORE:]))
            visit = found.get(loop)
            if visit is not None and visit.warp == warp and visit.leaves is None:
                if (label(condition.outcome) == HOLDS) == condition.stays:
                    visit.stays[condition.iteration] = condition
                else:
                    visit.leaves = condition
        way.append(condition)
    return found


def _period(exploration: Exploration, loop: int) -> int:
    repeated = exploration.repetition(loop)
    return 1 if repeated is None else repeated.period


def _shows(visits: dict[int, _Visit], goes_on: int, ends: int, apart: int) -> bool:
    """Whether a launch goes on in one loop for so long after it has left the other."""
    longer, shorter = visits.get(goes_on), visits.get(ends)
    if longer is None or shorter is None or shorter.leaves is None:
        return False
    left = shorter.leaves.iteration
    return left >= _FIRST and max(longer.stays, default=0) >= left + apart


def _pairs(visits: Sequence[dict[int, _Visit]], goes_on: int, ends: int, apart: int) -> list[tuple[_Visit, _Visit]]:
    """Visits of both loops that say by what the one goes on for so long, and by what the other may end early."""
    longest = max((each[goes_on] for each in visits), key=lambda visit: max(visit.stays, default=0))
    if max(longest.stays, default=0) < _FIRST + apart:
        return []  # it never goes on for so long
    return [(longest, each[ends]) for each in visits if _FIRST in each[ends].stays]


def _asked(
    exploration: Exploration, longer: _Visit, shorter: _Visit, apart: int
) -> Callable[[], Reached | Impossible | Undecided]:
    def ask() -> Reached | Impossible | Undecided:
        ends = shorter.stays[_FIRST]
        goes_on = longer.stays[min(each for each in longer.stays if each >= _FIRST + apart)]
        needed = [
            *(each for each in exploration.ways.needed(longer.before, goes_on.position) if each.loop < 0),
            *(each for each in exploration.ways.needed(shorter.before, ends.position) if each.loop < 0),
            *(each for at, each in shorter.stays.items() if at < _FIRST),
            goes_on,
        ]
        return reach(
            exploration.table, exploration.dimensions, ends, needed, (label(ends.outcome),), tuple(exploration.barred)
        )

    return ask
