"""What has no launch shown yet, and how is it asked for? One value for all kinds of gaps in a coverage.

Checked by: tests/driver/explore/gaps/test_coverage.py, tests/driver/explore/gaps/test_missing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.base.plural import counted
from tilewright.base.span import Span
from tilewright.driver.explore.search.exploration import Exploration
from tilewright.driver.explore.search.overflow import reach_that_fits
from tilewright.driver.explore.search.path_search import decided
from tilewright.driver.explore.search.reachable import Impossible, Reached, Sought, Undecided, reach_any
from tilewright.machine.symbolic.tracker import Condition

_CUT = 160
_GROUP = 1
"""Decisions that one question is about."""
_PLACES_SAID = 12
"""Places of gaps that a verdict names."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A gap. position: of the instruction that decides it, or -1; reason: in words, without the place unless there is
    no position, or what makes them: few gaps of many are left in the end; key: two gaps with the same are the same
    question; ask: look for a launch that fills it."""

    position: int
    reason: str | Callable[[], str]
    key: tuple[object, ...]
    ask: Callable[[], Reached | Impossible | Undecided]

    @property
    def said(self) -> str:
        """Why it is a gap, in words."""
        return self.reason if isinstance(self.reason, str) else self.reason()


def asking(
    exploration: Exploration,
    position: int,
    reason: str,
    condition: Condition,
    before: tuple[Condition, ...],
    excluded: tuple[bytes, ...],
) -> Missing:
    """The gap that no launch decides a condition otherwise. excluded: how it came out; before: the conditions of its
    warp on the way."""
    needed = exploration.ways.needed(before, condition.position, condition)
    return asking_any(exploration, position, reason, (Sought(condition, needed, excluded),))


def asking_any(exploration: Exploration, position: int, reason: str, sought: tuple[Sought, ...]) -> Missing:
    """The gap that no launch does any of what is sought; what is needed on the way has been chosen."""

    def ask() -> Reached | Impossible | Undecided:
        if len(sought) == 1:
            return reach_that_fits(exploration, sought[0])
        return reach_any(exploration.table, exploration.dimensions, sought, tuple(exploration.barred))

    return Missing(position, reason, tuple(map(question, sought)), ask)


def question(sought: Sought) -> tuple[object, ...]:
    """What makes two questions the same: how the conditions before came out, too, and which lanes came, since another
    way may lead there."""
    condition = sought.condition
    lanes = 0 if condition.node.uniform else condition.mask
    return condition.node.number, lanes, sought.excluded, tuple(map(decided, sought.before))


def in_groups(sought: Sequence[Sought]) -> list[tuple[Sought, ...]]:
    """What one question asks for at a time. What can't be asked stands alone."""
    distinct = {question(each): each for each in sought}
    alone = [(each,) for each in distinct.values() if each.condition.node.opaque or not each.condition.node.uniform]
    rest = [each for each in distinct.values() if not each.condition.node.opaque and each.condition.node.uniform]
    return [*alone, *(tuple(rest[begin : begin + _GROUP]) for begin in range(0, len(rest), _GROUP))]


def said_by_place(left: Sequence[Missing], span: Callable[[int], Span]) -> list[str]:
    """One line for the gaps at each place: the first in words, and how many there are beside it. Of so many places that
    a reader stops, the rest is counted. Gaps without a place stand each alone."""
    places: dict[object, list[Missing]] = {}
    for each in left:
        places.setdefault(each.position if each.position >= 0 else each.key, []).append(each)
    shown = list(places.values())[:_PLACES_SAID]
    lines = [f"{_place(same[0], span)}{same[0].said}{_beside(len(same) - 1)}" for same in shown]
    beyond = len(places) - len(shown)
    return [*lines, f"{counted(beyond, 'more place')} where no launch tried took all ways"] if beyond else lines


def _place(gap: Missing, span: Callable[[int], Span]) -> str:
    return f"{span(gap.position)}: " if gap.position >= 0 else ""


def _beside(more: int) -> str:
    return f" (and {counted(more, 'more way')} at this place)" if more else ""


def cut(said: str) -> str:
    """An expression that is not longer than a line."""
    return said if len(said) <= _CUT else f"{said[:_CUT]}..."
