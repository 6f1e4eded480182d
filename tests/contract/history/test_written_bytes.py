"""Flags of written bytes agree with a set of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilewright.contract.history.granules import SEGMENT_BYTES
from tilewright.contract.history.written_bytes import WrittenBytes
from tilewright.machine.core.event import Ranges

BASE = 2 * SEGMENT_BYTES - 40


def _bytes(ranges: Ranges) -> set[int]:
    return {byte for begin, end in ranges for byte in range(begin, end)}


@st.composite
def some_ranges(draw: st.DrawFn) -> Ranges:
    edges = sorted(draw(st.sets(st.integers(0, 80), min_size=2, max_size=6)))
    return tuple((BASE + a, BASE + b) for a, b in zip(edges[::2], edges[1::2], strict=False))


@given(st.lists(some_ranges(), max_size=8), some_ranges())
def test_bytes_are_added_once(sequence: list[Ranges], asked: Ranges) -> None:
    memory, added = WrittenBytes(), set[int]()
    for ranges in sequence:
        new = added.isdisjoint(_bytes(ranges))
        assert memory.add(ranges, ()) == new
        if new:
            added |= _bytes(ranges)
        left = tuple(memory.without(asked))
        assert _bytes(left) == _bytes(asked) - added
        assert list(left) == sorted(left)


def test_nothing_is_added_where_not_wanted() -> None:
    memory = WrittenBytes()
    edge = 2 * SEGMENT_BYTES
    assert not memory.add(((edge - 8, edge + 8),), {2})
    assert tuple(memory.without(((edge - 8, edge + 8),))) == ((edge - 8, edge), (edge, edge + 8))


def test_stretches_of_several_segments() -> None:
    memory = WrittenBytes()
    assert memory.add(((5, 3 * SEGMENT_BYTES + 7),), ())
    assert tuple(memory.without(((0, 4 * SEGMENT_BYTES),))) == ((0, 5), (3 * SEGMENT_BYTES + 7, 4 * SEGMENT_BYTES))
