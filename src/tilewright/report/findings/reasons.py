"""How are the reasons of an unknown verdict shown so that a reader sees what would decide it?

A run may give one reason at each of a hundred places, and for each pair of warps there. Reasons that differ in their
place, or in the numbers of CTAs, warps and lanes, are one line: the first of them, and how many there are. Beyond a few
lines the rest is counted. JSON keeps every reason as it is; of gaps in what launches covered, the checker itself names
one at each place, and few places (`driver.explore.gaps.missing`).
Checked by: tests/report/findings/test_reasons.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.base.plural import counted

REASONS_SHOWN = 4
REASONS_ON_A_PAGE = 20
"""Lines where there is room: on a page, in a log that tools read."""
_PLACE = re.compile(r"(.+?:\d+(?::\d+)?): (.+)", re.DOTALL)
"""A place, as `base.span` writes it, before what is said of it."""
_AGENT = re.compile(r"\b(CTA|warp|warpgroup|lane|cluster) \d+")
"""Who does something, by a number that says nothing to a reader."""


def grouped_reasons(reasons: Sequence[str]) -> tuple[str, ...]:
    """One line for all reasons that say the same of different places or agents, in the order of the first of each."""
    groups: dict[tuple[bool, str], list[tuple[str, str]]] = {}
    for reason in reasons:
        found = _PLACE.fullmatch(reason)
        place, said = (found[1], found[2]) if found is not None else ("", reason)
        groups.setdefault((found is not None, _AGENT.sub(r"\1", said)), []).append((place, reason))
    return tuple(f"{same[0][1]}{_others(same)}" for same in groups.values())


def _others(same: Sequence[tuple[str, str]]) -> str:
    """How many reasons there are beside the first."""
    count, places = len(same), len({place for place, _ in same})
    if count == 1:
        return ""
    if places == 1:
        return f" ({count} times)"
    if places == count:
        return f" (and at {counted(count - 1, 'more place')})"
    return f" ({count} times, at {places} places)"


def shown_reasons(reasons: Sequence[str], limit: int | None = REASONS_SHOWN) -> tuple[tuple[str, ...], int]:
    """The lines to show, and how many are left out. limit: of lines, None for every reason as it is."""
    if limit is None:
        return tuple(reasons), 0
    lines = grouped_reasons(reasons)
    # A line that only says "1 more" is no shorter than the reason.
    return (lines, 0) if len(lines) <= limit + 1 else (lines[:limit], len(lines) - limit)
