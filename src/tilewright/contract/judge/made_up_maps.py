"""Where addresses of global memory are made up: does a kernel write the tensor maps that its copies use, as it seems?

Nothing is said of global memory then, since two addresses that are equal may differ in another launch. A tensor map
that is written and used must be published between the two all the same, so writes and uses of the same bytes are
remembered, by blocks of what a map is aligned to; whoever asks judges whether they are in order, and doubts.
Not handled: clusters, which are apart. Checked by: tests/contract/judge/test_tensor_maps.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.contract.history.shadow_memory import Record

_ALIGNMENT_BYTES = 64


class MadeUpMaps:
    """By cluster and block of global memory, the last write and the last use as a tensor map."""

    def __init__(self) -> None:
        self._writes: dict[tuple[int, int], Record] = {}
        self._uses: dict[tuple[int, int], Record] = {}

    def write(self, cluster: int, record: Record) -> list[Record]:
        """Remember a write; returns the uses of its bytes."""
        found: list[Record] = []
        for key in _blocks(cluster, record):
            self._writes[key] = record
            if self._uses and key in self._uses:
                found.append(self._uses[key])
        return found

    def use(self, cluster: int, record: Record) -> list[Record]:
        """Remember the use of a map; returns the writes of its bytes."""
        found: list[Record] = []
        for key in _blocks(cluster, record):
            self._uses[key] = record
            if key in self._writes:
                found.append(self._writes[key])
        return found


def _blocks(cluster: int, record: Record) -> Iterator[tuple[int, int]]:
    for begin, end in record.ranges:
        for block in range(begin // _ALIGNMENT_BYTES, -(-end // _ALIGNMENT_BYTES)):
            yield cluster, block
