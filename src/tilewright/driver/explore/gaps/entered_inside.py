"""Was a loop seen to repeat itself in a launch that enters the loops inside it?

That a loop repeats itself is seen in a launch that iterates it often. Where that launch enters no loop inside it, what
is done there was not seen to repeat itself: a counter that goes on from tile to tile is compared in no tile. So each
loop inside that inputs bound, and that some launch enters, must have been entered in a launch in which the loop around
it was shown to repeat itself.

Such a launch is made of two: it leaves the outer loop in a later iteration than one that iterates it often, and the
inner loop as one that enters it. Not handled: how often the inner loop iterates then.
Checked by: tests/coverage_attacks/test_entered_inside.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tilewright.driver.explore.gaps.missing import Missing
from tilewright.driver.explore.search.exploration import HOLDS, Exploration, Tried
from tilewright.driver.explore.search.path_search import label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.symbolic.tracker import Condition

_PERIODS = 3
"""After so many of which a loop is seen to repeat itself."""
_TRIED_MOST = 3


def entered_inside(exploration: Exploration, chosen: Sequence[Tried], loops: Collection[int]) -> list[Missing]:
    """Loops inside of others that no launch entered while these repeated themselves. loops: those that do."""
    flow = exploration.ways.flow
    # What a run shows that was given up counts as well.
    every = [tried for tried in exploration.tried if tried.clean or tried.judged.too_long]
    bounded = {each.loop for tried in chosen for each in tried.judged.conditions if each.loop >= 0}
    found: list[Missing] = []
    for loop in loops:
        shown = [tried for tried in every if (seen := tried.judged.repeats.get(loop)) is not None and not seen.reason]
        for inner in sorted(bounded):
            inside = flow.loops[inner].blocks < flow.loops[loop].blocks
            if not inside or any(_enters(tried, inner) for tried in shown):
                continue
            if not any(_enters(tried, inner) for tried in every):
                continue
            at = flow.loops[inner].head
            said = "no launch tried enters this loop often enough for the one around it to be seen to repeat itself"
            found.append(Missing(at, said, ("entered", loop, inner), _made_of_two(exploration, every, loop, inner)))
    return found


def _enters(tried: Tried, loop: int) -> bool:
    """Whether a launch begins a loop anew."""
    return tried.judged.iterations.get(loop, 0) > 0


def _made_of_two(
    exploration: Exploration, chosen: Sequence[Tried], outer: int, inner: int
) -> Callable[[], Reached | Impossible | Undecided]:  # fmt: skip
    def ask() -> Reached | Impossible | Undecided:
        # What goes on from tile to tile comes back after no more tiles than the loop inside needs iterations for it.
        period = max(1 if seen is None else seen.period for seen in map(exploration.repetition, (outer, inner)))
        entering = [tried for tried in chosen if _enters(tried, inner)]
        stays = _stays(chosen, outer, 8 + _PERIODS * (period + 1))
        for one in sorted(entering, key=lambda tried: tried.judged.iterations[inner])[:_TRIED_MOST]:
            for before, last in stays[:_TRIED_MOST]:
                answer = reach(
                    exploration.table, exploration.dimensions, last, (*_first_visit(one, inner), before),
                    (label(last.outcome),), tuple(exploration.barred),
                )  # fmt: skip
                if isinstance(answer, Reached) and exploration.is_new(answer.values):
                    return answer
        return Undecided()

    return ask


def _stays(chosen: Sequence[Tried], loop: int, iteration: int) -> list[tuple[Condition, Condition]]:
    """By what launches stayed in a loop in an iteration, and in the next one: in the latest up to `iteration` in which
    any did."""
    found: dict[int, dict[int, tuple[Condition, Condition]]] = {}
    for tried in chosen:
        own = [each for each in tried.judged.conditions if each.loop == loop and each.outcome.size == 1]
        staying = {each.iteration: each for each in own if (label(each.outcome) == HOLDS) == each.stays}
        both = [each for each in staying if each <= iteration and each + 1 in staying]
        if both:
            last = staying[max(both) + 1]
            found.setdefault(max(both), {}).setdefault(last.node.number, (staying[max(both)], last))
    return list(found[max(found)].values()) if found else []


def _first_visit(tried: Tried, loop: int) -> list[Condition]:
    """By what a launch stayed in a loop, and left it for the first time."""
    found: list[Condition] = []
    for each in tried.judged.conditions:
        if each.loop == loop and each.outcome.size == 1:
            found.append(each)
            if (label(each.outcome) == HOLDS) != each.stays:
                break
    return found[-2:]
