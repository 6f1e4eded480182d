"""Ranges of bytes: union and difference against sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tilewright.contract.history.byte_ranges import union, without

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), max_size=6).map(
    lambda items: union([tuple((begin, begin + size) for begin, size in sorted(items))])
)


def bytes_of(ranges: tuple[tuple[int, int], ...]) -> set[int]:
    return {byte for begin, end in ranges for byte in range(begin, end)}


@given(RANGES, RANGES)
def test_union_and_difference(first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]) -> None:
    both = union([first, second])
    assert bytes_of(both) == bytes_of(first) | bytes_of(second)
    assert all(a[1] < b[0] for a, b in pairwise(both))
    left = without(first, second)
    assert bytes_of(left) == bytes_of(first) - bytes_of(second)
    assert all(begin < end for begin, end in left)
