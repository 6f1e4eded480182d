"""What has no launch shown yet, and how is it asked for? One value for all kinds of gaps in a coverage.

Checked by: tests/driver/test_coverage.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.driver.exploration import Exploration
from tilewright.driver.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.symbolic.tracker import Condition

_CUT = 160


@dataclass(frozen=True, slots=True)
class Missing:
    """A gap. position: of the instruction that decides it, or -1; reason: in words, without the place unless there is
    no position; key: two gaps with the same are the same question; ask: look for a launch that fills it."""

    position: int
    reason: str
    key: tuple[object, ...]
    ask: Callable[[], Reached | Impossible | Undecided]


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
    key = (condition.position, condition.node.number, excluded, tuple(each.node.number for each in before[-24:]))
    return Missing(
        position, reason, key, lambda: reach(exploration.table, exploration.dimensions, condition, before, excluded)
    )


def cut(said: str) -> str:
    """An expression that is not longer than a line."""
    return said if len(said) <= _CUT else f"{said[:_CUT]}..."
