"""Was each decision in a loop seen in a launch in which the loop repeats itself?

A loop is shown to repeat itself in one launch, and what its instructions do with counters is followed. But what inputs
decide in it is a condition of its own in each iteration (`i == m`), and asked about where a launch comes to it. Behind
another decision (`flag`) only some launches come to it. If these iterate the loop once or twice, all they decide may be
impossible otherwise, and still happen in a later iteration. So of each such decision, the loop must have been seen to
repeat itself in a launch that comes to it; then what it decides in many iterations is at hand for the other questions.

Operands of the protocol are decisions, too. Not handled: several such decisions that come together. Source: bounded
unrolling. Checked by: tests/coverage_attacks/test_bounds_made_in_loops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from tilewright.driver.explore.gaps.counted_barriers import stays_long
from tilewright.driver.explore.gaps.missing import Missing, cut
from tilewright.driver.explore.search.exploration import Exploration, Place, Tried, place_of
from tilewright.driver.explore.search.path_search import label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.symbolic.expression import Input, rendered
from tilewright.machine.symbolic.tracker import Condition

_BEFORE = 200


def seen_repeating(
    exploration: Exploration, chosen: Sequence[Tried], loops: Collection[int], lasting: Collection[int],
    name: Callable[[Input], str],
) -> list[Missing]:  # fmt: skip
    """Decisions in loops that were seen in short launches alone. loops: those that repeat themselves; lasting:
    decisions that leave a trace."""
    flow = exploration.ways.flow
    around: dict[int, tuple[int, ...]] = {}
    shown: set[tuple[int, Place]] = set()
    short: dict[tuple[int, Place], tuple[Condition, Sequence[Condition]]] = {}
    # A launch that was given up, since it takes too long, shows what repeats itself as well.
    given_up = [each for each in exploration.tried if each.judged.too_long]
    for tried in (*chosen, *given_up):
        repeats = tried.judged.repeats
        for index, each in enumerate(tried.judged.conditions):
            if each.kind != "value" and each.loop < 0 and each.position not in lasting:
                continue
            if each.position not in around:
                block = flow.block_of[each.position]
                around[each.position] = tuple(loop for loop in loops if block in flow.loops[loop].blocks)
            for loop in around[each.position]:
                key = loop, place_of(each)
                if loop in repeats and repeats[loop].reason is None:
                    shown.add(key)
                elif key not in short and not tried.judged.too_long:
                    short[key] = each, tried.judged.conditions[max(0, index - _BEFORE) : index]
    return [
        _missing(exploration, chosen, loop, decision, before, name)
        for (loop, place), (decision, before) in short.items()
        if (loop, place) not in shown
    ]


def _missing(
    exploration: Exploration, chosen: Sequence[Tried], loop: int, decision: Condition, before: Sequence[Condition],
    name: Callable[[Input], str],
) -> Missing:  # fmt: skip
    stays = stays_long(chosen, loop)

    def ask() -> Reached | Impossible | Undecided:
        if stays is None:
            return Undecided()
        own = [each for each in before if (each.cta, each.warp) == (decision.cta, decision.warp)]
        needed = [each for each in exploration.ways.needed(own, decision.position, decision) if each.loop < 0]
        excluded = (label(np.logical_not(stays.outcome)),)
        return reach(
            exploration.table, exploration.dimensions, stays, tuple(needed), excluded, tuple(exploration.barred)
        )

    what = cut(rendered(decision.node, name))
    said = f"no launch tried iterates the loop often and comes here, where it decides {what}"
    key = "repeating", loop, place_of(decision), None if stays is None else stays.iteration
    return Missing(decision.position, said, key, ask)
