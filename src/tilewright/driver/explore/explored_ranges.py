"""For which values of its parameters does a proof without a launch hold? Ranges in words, equal ones together.

Of what launches choose, these are the numbers among the parameters and the grid: what was excluded by an assumption has
narrowed their bounds. Pointers, words of memory and the place in the grid have no range that says anything.
Checked by: tests/driver/explore/test_explored_ranges.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.driver.explore.search.path_search import Dimension

_NUMBERED = re.compile(r"parameter (\d+)")
_PLAIN_MOST = 1 << 16
"""Numbers beyond this are written as powers of two where they are next to one."""


def explored_ranges(dimensions: Iterable[Dimension]) -> tuple[str, ...]:
    """The ranges, one for all parameters that have it: "parameters 2, 3 from 1 to 2^31 - 1, multiples of 4"."""
    alike: dict[str, list[str]] = {}
    grid: list[str] = []
    for each in dimensions:
        bounds = f"from {number_words(each.smallest)} to {number_words(each.largest)}"
        if each.input.kind == "number":
            multiples = f", multiples of {each.multiple}" if each.multiple > 1 else ""
            alike.setdefault(f"{bounds}{multiples}", []).append(each.name)
        elif each.input.kind == "grid":
            grid.append(f"{each.name} {bounds}")
    return (*(f"{names_together(names)} {bounds}" for bounds, names in alike.items()), *grid)


def names_together(names: list[str]) -> str:
    """Names in a list; `parameter 2` and `parameter 3` are "parameters 2, 3"."""
    numbers = [_NUMBERED.fullmatch(name) for name in names]
    if len(names) > 1 and all(numbers):
        return f"parameters {', '.join(found[1] for found in numbers if found is not None)}"
    return ", ".join(names)


def number_words(value: int) -> str:
    """A number: 77, 65,535, 2^31, 2^32 - 1."""
    if value < _PLAIN_MOST or (value & (value + 1) and value & (value - 1)):
        return f"{value:,}"
    return f"2^{value.bit_length()} - 1" if value & 1 else f"2^{value.bit_length() - 1}"
