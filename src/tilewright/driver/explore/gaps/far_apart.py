"""Was each of two loops seen to go on long after the other one has ended?

A producer that fills as many slots as one number says and a consumer that takes as many as another says agree as long
as the numbers are less apart than the ring has slots. Where the numbers of iterations have no fixed relation
(`unequal_loops`), launches whose numbers happen to be near each other say nothing of others. Both loops repeat
themselves after some iterations, the longer of the two periods: one that goes on for more than two of these after the
other has left, and is clean, needs nothing of it any more. So of two loops of different warps, each must have gone on
for so long after the other one had iterated and left, and after it had left without an iteration, or was passed by; or
a solver shows that it cannot; or a launch is made.

A loop is looked at as each warp walks it (`walked_loops`). Not handled: three loops together; later visits of loops
inside others. Source: bounded unrolling. Checked by: tests/coverage_attacks/test_far_apart.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import permutations

from tilewright.base.span import Span
from tilewright.driver.explore.gaps.missing import Missing, cut
from tilewright.driver.explore.gaps.unequal_loops import ended, is_related
from tilewright.driver.explore.gaps.walked_loops import Visit, Visits, Walk, classes_of, first_visits
from tilewright.driver.explore.search.exploration import Exploration, Tried, place_of
from tilewright.driver.explore.search.on_the_way import leaves
from tilewright.driver.explore.search.path_search import decided, label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.symbolic.expression import Input, rendered
from tilewright.machine.symbolic.tracker import Condition

_PERIODS = 2


def far_apart(
    exploration: Exploration, launches: Sequence[tuple[Tried, Visits]], chosen: Sequence[Visits],
    loops: Collection[int], name: Callable[[Input], str], loop_span: Callable[[int], Span],
) -> list[Missing]:  # fmt: skip
    """Pairs of loops of which one was not seen to go on long after the other. launches: all that were made; chosen: of
    those that count; loops: those that repeat themselves."""
    every = [(tried, first_visits(each)) for tried, each in launches]
    ends_of = [*map(ended, chosen)]
    shown = [visits for each, visits in every if each.clean or each.judged.too_long]
    classes = classes_of([each for _, each in launches])
    blocks = [each.blocks for each in exploration.ways.flow.loops]
    found: list[Missing] = []
    for goes_on, ends in permutations((walk for walk in classes if walk[0] in loops), 2):
        if goes_on[0] != ends[0] and not blocks[goes_on[0]].isdisjoint(blocks[ends[0]]):
            continue
        if len(classes[goes_on] | classes[ends]) == 1:
            continue  # one warp
        both = [visits for _, visits in every if goes_on in visits and ends in visits]
        apart = 1 + _PERIODS * max(_period(exploration, goes_on[0]), _period(exploration, ends[0]))
        found += _passed_by(exploration, every, goes_on, ends, apart, name, loop_span)
        if all(_are_alike(each[goes_on], each[ends]) for each in both) or is_related(ends_of, goes_on, ends):
            continue
        firsts = [visits for _, visits in every]
        if _is_tied(exploration, firsts, goes_on, ends) or _is_tied(exploration, firsts, ends, goes_on):
            continue
        for count in (0, 1):
            if any(_shows(each, goes_on, ends, apart, count) for each in shown):
                continue
            pairs = _pairs(both, goes_on, ends, apart, count)
            for one, other in {(one.bound, other.bound): (one, other) for one, other, *_ in pairs}.values():
                said = (
                    f"{loop_span(goes_on[0])}: no launch tried goes on here long after the loop at "
                    f"{loop_span(ends[0])} has ended{'' if count else ' without an iteration'}: how often is said by "
                    f"{cut(rendered(one.bound, name))} and {cut(rendered(other.bound, name))}"
                )
                key = "apart", goes_on, ends, apart, count, one.bound.number, other.bound.number
                found.append(Missing(-1, said, key, _asked(exploration, one, other, apart, count)))
    return found


def _passed_by(
    exploration: Exploration, every: Sequence[tuple[Tried, Mapping[Walk, Visit]]], goes_on: Walk, ends: Walk,
    apart: int, name: Callable[[Input], str], loop_span: Callable[[int], Span],
) -> list[Missing]:  # fmt: skip
    """The same of a loop that a launch passes by: for each decision on the way to it, the other outcome."""
    long = [(tried, visits) for tried, visits in every if goes_on in visits]
    longer = max((visits[goes_on] for _, visits in long), key=lambda visit: max(visit.stays, default=0))
    if max(longer.stays, default=0) < apart:
        return []  # it never goes on for so long
    needed = _on_the_way(exploration, longer, longer.position)
    own = {each.node.number for each in needed}
    found: dict[tuple[object, ...], Missing] = {}
    for visit in (visits[ends] for _, visits in every if ends in visits):
        way = _on_the_way(exploration, visit, visit.position)
        for place, each in enumerate(way):
            key = "apart", "passed", goes_on, ends, apart, *map(decided, way[: place + 1])
            if key in found or each.node.number in own or not each.node.uniform or each.outcome.size != 1:
                continue
            if any(_is_long(visits, goes_on, apart) and _differs(tried, each) for tried, visits in long):
                continue
            said = (
                f"{loop_span(goes_on[0])}: no launch tried goes on here for long where the loop at "
                f"{loop_span(ends[0])} is passed by: {cut(rendered(each.node, name))} decides"
            )
            before = (*needed, *way[:place], *_staying(longer, apart))
            found[key] = Missing(-1, said, key, _asked_otherwise(exploration, each, before))
    return list(found.values())


def _staying(visit: Visit, least: int) -> tuple[Condition, ...]:
    """By what a warp stays in a loop up to an iteration: of one that ends where numbers meet, the last says little."""
    last = min(each for each in visit.stays if each >= least)
    return tuple(each for at, each in visit.stays.items() if at <= last)


def _on_the_way(exploration: Exploration, visit: Visit, position: int) -> list[Condition]:
    """What all decide that come to a loop: outside of loops, and that they enter those around it."""
    flow = exploration.ways.flow
    around = {number for number, loop in enumerate(flow.loops) if flow.block_of[position] in loop.blocks}
    return [
        each
        for each in exploration.ways.needed(visit.before, position)
        if each.loop < 0 or (each.loop in around and not each.iteration and not leaves(each))
    ]


def _asked_otherwise(
    exploration: Exploration, condition: Condition, before: Sequence[Condition]
) -> Callable[[], Reached | Impossible | Undecided]:  # fmt: skip
    def ask() -> Reached | Impossible | Undecided:
        return reach(
            exploration.table, exploration.dimensions, condition, before, (label(condition.outcome),),
            tuple(exploration.barred),
        )  # fmt: skip

    return ask


def _is_long(visits: Mapping[Walk, Visit], walk: Walk, apart: int) -> bool:
    return max(visits[walk].stays, default=0) >= apart


def _differs(tried: Tried, condition: Condition) -> bool:
    """Whether a launch that counts, or was given up, decides otherwise at a place."""
    return (tried.clean or tried.judged.too_long) and any(
        each.node is condition.node
        and place_of(each) == place_of(condition)
        and label(each.outcome) != label(condition.outcome)
        for each in tried.judged.conditions
    )


def _is_tied(exploration: Exploration, every: Sequence[Mapping[Walk, Visit]], inner: Walk, other: Walk) -> bool:
    """Whether a loop around one of them always ends as the other does: of two loops of one warp, one inside the other,
    the order is fixed."""
    loops = exploration.ways.flow.loops
    around = [(number, *inner[1:]) for number, loop in enumerate(loops) if loops[inner[0]].blocks < loop.blocks]
    both = [[(each[walk], each[other]) for each in every if walk in each and other in each] for walk in around]
    return any(pairs and all(_are_alike(*pair) for pair in pairs) for pairs in both)


def _are_alike(one: Visit, other: Visit) -> bool:
    """Whether two visits end by the same, as far as they went."""
    return one.bound is other.bound and (one.step is None or other.step is None or one.step is other.step)


def _period(exploration: Exploration, loop: int) -> int:
    repeated = exploration.repetition(loop)
    return 1 if repeated is None else repeated.period


def _shows(visits: Mapping[Walk, Visit], goes_on: Walk, ends: Walk, apart: int, count: int) -> bool:
    """Whether a launch goes on in one loop for so long after it left the other. count: 0 if that did not iterate."""
    longer, shorter = visits.get(goes_on), visits.get(ends)
    if longer is None or shorter is None or shorter.leaves is None:
        return False
    left = shorter.leaves.iteration
    return (left > 0) == (count > 0) and max(longer.stays, default=0) >= left + apart


def _pairs(
    visits: Sequence[Mapping[Walk, Visit]], goes_on: Walk, ends: Walk, apart: int, count: int
) -> list[tuple[Visit, Visit]]:
    """Visits of both loops that say by what the one goes on for so long, and by what the other may end early."""
    longest = max((each[goes_on] for each in visits), key=lambda visit: max(visit.stays, default=0))
    if max(longest.stays, default=0) < count + apart:
        return []  # it never goes on for so long
    return [(longest, each[ends]) for each in visits if count in each[ends].stays]


def _asked(
    exploration: Exploration, longer: Visit, shorter: Visit, apart: int, count: int
) -> Callable[[], Reached | Impossible | Undecided]:
    def ask() -> Reached | Impossible | Undecided:
        ends = shorter.stays[count]
        goes_on = _staying(longer, count + apart)
        needed = [
            *_on_the_way(exploration, longer, longer.position),
            *_on_the_way(exploration, shorter, ends.position),
            *(each for at, each in shorter.stays.items() if at < count),
            *goes_on,
        ]
        return reach(
            exploration.table, exploration.dimensions, ends, needed, (label(ends.outcome),), tuple(exploration.barred)
        )

    return ask
