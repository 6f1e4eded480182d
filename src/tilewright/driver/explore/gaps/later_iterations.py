"""Was what a later iteration decides seen while all that goes on elsewhere goes on for long?

A loop that inputs bound and that repeats itself may decide in any of its iterations, by an expression that is another
one each time (`3 * i == n`): whether to arrive, whether to leave. The other outcome in a launch that is about to end
shows little: nobody waits any more for what is left out. So of each such place, of which launches go either way, a
launch must have had each outcome in an iteration after the first while every other loop goes on as often as in the
launch that came there most often; or no launch has.

Source: bounded unrolling. Not handled: what several later iterations decide together; iterations after the first few
(loops repeat themselves, so that the state in these is that of earlier ones).
Checked by: tests/hostile/test_later_iterations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from tilewright.driver.explore.gaps.missing import Missing, cut
from tilewright.driver.explore.search.exploration import HOLDS, Exploration, Place, Tried, distinct, place_of
from tilewright.driver.explore.search.path_search import decided, label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.symbolic.expression import CannotEvaluate, Evaluation, Input, rendered
from tilewright.machine.symbolic.tracker import Condition

_ASKED_MOST = 4
"""Iterations after the first that are asked about."""
_BEFORE = 200


def later_iterations(
    exploration: Exploration, chosen: Sequence[Tried], recurring: Collection[int], lasting: Collection[int],
    name: Callable[[Input], str],
) -> list[Missing]:  # fmt: skip
    """Outcomes that no launch of `chosen` had in a later iteration with all other loops going on. recurring: positions
    of loops that repeat themselves; lasting: decisions that leave a trace."""
    runs = [(tried, distinct(tried.judged.conditions)) for tried in chosen]
    outcomes: dict[Place, set[bytes]] = {}
    visits: dict[Place, list[tuple[Condition, ...]]] = {}
    several = _with_several_ends(runs)
    for index, (_, conditions) in enumerate(runs):
        for each in conditions:
            about = each.loop in several if each.loop >= 0 else each.position in lasting
            if each.kind == "value" or each.position not in recurring or not about or not _is_plain(each):
                continue
            place = place_of(each)
            outcomes.setdefault(place, set()).add(label(each.outcome))
            here = visits.setdefault(place, [()] * len(runs))
            here[index] = (*here[index], each)
    found: dict[tuple[object, ...], Missing] = {}
    for place, by_run in visits.items():
        if len(outcomes[place]) != 2:
            continue  # `coverage` asks for the other outcome
        longest = max(range(len(runs)), key=lambda index: len(by_run[index]))
        asked = by_run[longest][1 : 1 + _ASKED_MOST]
        rest = _going_on(runs[longest][1], place)
        for outcome in sorted(outcomes[place]):
            others = [each for each in asked if label(each.outcome) != outcome]
            if len(others) < len(asked) or not others:
                continue  # the longest launch itself had it
            key = ("joint", "later", outcome, *map(decided, (*others, *rest)))
            if key not in found and not any(_shows(exploration, tried, others, rest) for tried, _ in runs):
                found[key] = _missing(exploration, runs[longest][1], others, rest, key, name)
    return list(found.values())


def _is_plain(condition: Condition) -> bool:
    return condition.node.uniform and not condition.node.opaque and condition.outcome.size == 1


def _with_several_ends(runs: Sequence[tuple[Tried, Sequence[Condition]]]) -> frozenset[int]:
    """Loops that inputs end at more than one place."""
    ends: dict[int, set[int]] = {}
    for _, conditions in runs:
        for each in conditions:
            if each.loop >= 0:
                ends.setdefault(each.loop, set()).add(each.position)
    return frozenset(loop for loop, places in ends.items() if len(places) > 1)


def _going_on(conditions: Sequence[Condition], place: Place) -> tuple[Condition, ...]:
    """Of each loop's end, but for that at `place`, the last condition by which a warp went on in the loop."""
    last: dict[Place, Condition] = {}
    for each in conditions:
        goes_on = each.loop >= 0 and (label(each.outcome) == HOLDS) == each.stays
        if goes_on and _is_plain(each) and each.position != place[0]:
            last[place_of(each)] = each
    return tuple({decided(each): each for each in last.values()}.values())


def _shows(exploration: Exploration, tried: Tried, others: Sequence[Condition], rest: Sequence[Condition]) -> bool:
    """Whether a launch goes on as `rest` says, and decides one of `others` otherwise."""
    columns = {
        given: np.array([tried.values.get(given, dimension.first)], np.uint64)
        for given, dimension in exploration.dimensions.items()
    }
    evaluation = Evaluation(exploration.table, columns, 1)

    def holds(each: Condition) -> bool:
        return bool(evaluation.of(each.node)[0] == each.outcome[0])

    try:
        return all(map(holds, rest)) and not all(map(holds, others))
    except CannotEvaluate:
        return False


def _missing(
    exploration: Exploration, way: Sequence[Condition], others: Sequence[Condition], rest: tuple[Condition, ...],
    key: tuple[object, ...], name: Callable[[Input], str],
) -> Missing:  # fmt: skip
    def ask() -> Reached | Impossible | Undecided:
        left = False
        for each in others:
            own = [of for of in way[: way.index(each)] if (of.cta, of.warp) == (each.cta, each.warp)]
            needed = exploration.ways.needed(own[-_BEFORE:], each.position, each)
            answer = reach(
                exploration.table, exploration.dimensions, each, (*needed, *rest), (label(each.outcome),),
                tuple(exploration.barred),
            )  # fmt: skip
            if isinstance(answer, Reached):
                return answer
            left = left or isinstance(answer, Undecided)
        return Undecided() if left else Impossible()

    said = cut(rendered(others[0].node, name))
    said = said if label(others[0].outcome) != HOLDS else f"!{said}"
    return Missing(
        others[0].position, f"no launch tried decides so in a later iteration, with others to come: {said}", key, ask
    )
