"""Which bytes have been written, by writes of bytes that nobody had touched? A flag for every byte.

A result is mostly written once, by rows that begin anywhere: no granule of some size holds whole pieces of them. A flag
a byte is asked and set by what is quickest in Python, a search in and a copy to a bytearray, and takes less memory than
the number of a history for every other byte.

Not handled: who wrote a byte, and reads, which are for `shadow_memory`.
Checked by: tests/contract/history/test_shadow_memory.py, tests/contract/history/test_written_bytes.py.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from tilewright.contract.history.granules import SEGMENT_BYTES, split
from tilewright.machine.core.event import Ranges

_WRITTEN = 1
_ALL = bytes([_WRITTEN]) * SEGMENT_BYTES


class WrittenBytes:
    """Flags of the bytes that were added, by segments, as granules are."""

    __slots__ = ("_flags",)

    def __init__(self) -> None:
        self._flags: dict[int, bytearray] = {}

    def holds_any(self, index: int) -> bool:
        """Was a byte of this segment added?"""
        return index in self._flags

    def add(self, ranges: Ranges, but_for: Container[int]) -> bool:
        """Add `ranges`, if none of their bytes was added before, nor lies in a segment of `but_for`: else add none, and
        say so."""
        parts: list[tuple[bytearray, int, Ranges]] = []
        for index, part in split(ranges):
            if index in but_for:
                return False
            flags, base = self._flags.get(index), index * SEGMENT_BYTES
            if flags is None:
                flags = self._flags[index] = bytearray(SEGMENT_BYTES)
            else:
                for begin, end in part:
                    if flags.find(_WRITTEN, begin - base, end - base) >= 0:
                        return False
            parts.append((flags, base, part))
        for flags, base, part in parts:
            for begin, end in part:
                flags[begin - base : end - base] = _ALL[: end - begin]
        return True

    def without(self, ranges: Ranges) -> Iterator[tuple[int, int]]:
        """The pieces of `ranges` that were not added, ascending, each within one segment."""
        for index, part in split(ranges):
            flags, base = self._flags.get(index), index * SEGMENT_BYTES
            if flags is None:
                yield from part
                continue
            for begin, end in part:
                for at, edge in _unset(flags, begin - base, end - base):
                    yield base + at, base + edge


def _unset(flags: bytearray, at: int, stop: int) -> Iterator[tuple[int, int]]:
    """The stretches of [at, stop) that are not set, ascending."""
    while True:
        at = flags.find(0, at, stop)
        if at < 0:
            return
        edge = flags.find(_WRITTEN, at, stop)
        if edge < 0:
            yield at, stop
            return
        yield at, edge
        at = edge
