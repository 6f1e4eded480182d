"""How are the reasons of an unknown verdict shown so that a reader sees what would decide it?

A run may give one reason at each of a hundred places. Reasons that differ in their place alone are one line, with the
first place and the number of others; beyond a few lines the rest is counted. JSON keeps every reason as it is.
Checked by: tests/report/test_reasons.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

REASONS_SHOWN = 4
_PLACE = re.compile(r"(.+?:\d+(?::\d+)?): (.+)", re.DOTALL)
"""A place, as `base.span` writes it, before what is said of it."""


def grouped_reasons(reasons: Sequence[str]) -> tuple[str, ...]:
    """One line for all reasons that say the same of different places, in the order of the first of each."""
    groups: dict[tuple[bool, str], list[str]] = {}
    for reason in reasons:
        found = _PLACE.fullmatch(reason)
        groups.setdefault((found is not None, found[2] if found else reason), []).append(reason)
    return tuple(f"{same[0]}{_others(len(same) - 1, placed)}" for (placed, _), same in groups.items())


def _others(count: int, placed: bool) -> str:
    if count == 0:
        return ""
    if not placed:
        return f" ({count + 1} times)"
    return f" (and at {count} more place{'' if count == 1 else 's'})"


def shown_reasons(reasons: Sequence[str], limit: int | None = REASONS_SHOWN) -> tuple[tuple[str, ...], int]:
    """The lines to show, and how many are left out. limit: of lines, None for every reason as it is."""
    if limit is None:
        return tuple(reasons), 0
    lines = grouped_reasons(reasons)
    # A line that only says "1 more" is no shorter than the reason.
    return (lines, 0) if len(lines) <= limit + 1 else (lines[:limit], len(lines) - limit)
