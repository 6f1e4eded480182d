"""What stands in the way of a proof where an exploration is stopped, since its time is over? In words, for the user.

First what a launch that was made leaves undecided, which more time does not change. Else the gaps that no launch and no
solver answered, and the one that was asked about; before gaps are looked for, the loops that do not repeat yet.
Checked by: tests/driver/explore/gaps/test_open_so_far.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright.base.plural import counted
from tilewright.base.span import Span
from tilewright.base.verdict import Unknown
from tilewright.driver.explore.gaps.missing import Missing, said_by_place
from tilewright.driver.explore.search.exploration import Exploration
from tilewright.driver.explore.search.reachable import Impossible, Undecided

Answers = Mapping[tuple[object, ...], Impossible | Undecided]
"""By what makes gaps the same question."""


def open_so_far(exploration: Exploration) -> tuple[str, ...]:
    """What is open after the launches that were made."""
    judged = [each.judged for each in exploration.tried if not each.judged.too_long]
    doubts = [reason for each in judged if isinstance(each.verdict, Unknown) for reason in each.verdict.reasons]
    after = f"open after {counted(len(exploration.tried), 'launch')}"
    return tuple(f"{after}: {each}" for each in dict.fromkeys(doubts or exploration.open()))


def open_gaps(missing: Sequence[Missing], answers: Answers, span: Callable[[int], Span]) -> list[str]:
    """Gaps that nothing filled, and the one that is asked about."""
    undecided = [each for each in missing if isinstance(answers.get(each.key), Undecided)]
    asked = [each for each in missing if each.key not in answers]
    return said_by_place([*undecided, *asked[:1]], span)


def open_loops(exploration: Exploration, loop_span: Callable[[int], Span]) -> list[str]:
    """Loops whose end inputs decide and that do not repeat themselves yet."""
    left = [loop for loop in exploration.deciding if not exploration.repeats(loop)]
    return [not_repeating(exploration, loop, loop_span) for loop in left]


def not_repeating(exploration: Exploration, loop: int, loop_span: Callable[[int], Span]) -> str:
    """Why a loop is not shown to repeat itself."""
    repeated = exploration.repetition(loop)
    if repeated is not None and repeated.reason is not None:
        return repeated.reason
    most = exploration.most(loop)
    return f"{loop_span(loop)}: the loop iterated {most} times at most, which does not show that it repeats itself"
