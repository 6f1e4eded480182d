"""Sets of bytes as sorted, disjoint ranges: union and difference.

Checked by: tests/contract/history/test_byte_ranges.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tilewright.machine.core.event import Ranges


def union(parts: Sequence[Ranges]) -> Ranges:
    """The bytes of any of `parts`."""
    return _union(tuple(parts))


@lru_cache(maxsize=1024)
def _union(parts: tuple[Ranges, ...]) -> Ranges:
    return joined(each for part in parts for each in part)


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same bytes, sorted, with ranges that touch or overlap as one."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(merged)


@lru_cache(maxsize=1024)
def without(ranges: Ranges, taken: Ranges) -> Ranges:
    """The bytes of `ranges` that are not in `taken`; both are sorted and disjoint."""
    left: list[tuple[int, int]] = []
    for start, stop in ranges:
        begin = start
        for low, high in taken:
            if high <= begin:
                continue
            if low >= stop:
                break
            if low > begin:
                left.append((begin, low))
            begin = high
        if begin < stop:
            left.append((begin, stop))
    return tuple(left)
