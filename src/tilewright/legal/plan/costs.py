"""What does a repair cost, and which of two repairs is cheaper?

Every part of a cost is a count that can be checked: bytes that stand in memory only to pad, bytes copied beforehand,
copies that a box takes beyond the first, bytes fetched that nobody asked for, instructions that threads issue, ways of
bank conflicts. To compare two repairs they are summed in one unit: the bytes of global traffic that would take as long,
for a tensor that is fetched once from end to end.

What the sum leaves out: how often the tensor is fetched (a copy beforehand pays off where that is more than once), and
whether the copies hide behind computation. So it ranks repairs and promises no time. Checked by
tests/legal/plan/test_costs.py.
"""

from __future__ import annotations

from dataclasses import dataclass

_ISSUE_BYTES = 128
"""One more bulk copy a box: about 8 cycles of a multiprocessor that fetches 16 bytes of DRAM a cycle. A parameter of
this ranking, no property of the hardware; so are the next three."""
_THREAD_COPY_BYTES = 24
"""One copy of up to 16 bytes by a thread, with its address."""
_CONFLICT_SHARE = 8
"""One more way of a bank conflict costs an eighth of the box's bytes: shared memory is read that much faster."""
_PADDING_SHARE = 4
"""Padding is read with the rows in part only, and takes room."""


@dataclass(frozen=True, slots=True)
class Cost:
    """padded_bytes: in global memory, without data; copied_bytes: of the tensor, beforehand; extra_copies: bulk copies
    that one box takes beyond the first; bank_conflict_ways: wavefronts that eight rows of 16 bytes take where one would
    do; smem_bytes: of shared memory that one box takes; overfetched_bytes: a box brings besides what is wanted;
    thread_copies: copies that threads issue for one box; boxes: of the whole tensor; box_bytes: wanted of each;
    transposed_bytes: of those copied, that are read across their rows.
    """

    padded_bytes: int = 0
    copied_bytes: int = 0
    extra_copies: int = 0
    bank_conflict_ways: int = 1
    smem_bytes: int = 0
    overfetched_bytes: int = 0
    thread_copies: int = 0
    boxes: int = 1
    box_bytes: int = 0
    transposed_bytes: int = 0

    @property
    def rank(self) -> tuple[int, ...]:
        """A total order, the cheapest repair first: the sum in bytes of traffic, then the parts."""
        a_box = self.extra_copies * _ISSUE_BYTES + self.overfetched_bytes + self.thread_copies * _THREAD_COPY_BYTES
        a_box += (self.bank_conflict_ways - 1) * self.box_bytes // _CONFLICT_SHARE
        # A copy reads the tensor and writes it; one that transposes takes half as long again.
        total = 2 * self.copied_bytes + self.transposed_bytes + self.padded_bytes // _PADDING_SHARE + self.boxes * a_box
        return (
            total,
            self.copied_bytes,
            self.padded_bytes,
            self.extra_copies,
            self.overfetched_bytes,
            self.thread_copies,
            self.bank_conflict_ways,
            self.smem_bytes,
        )

    @property
    def line(self) -> str:
        """The cost in one line; parts that are nothing are left out."""
        parts = [
            (self.padded_bytes, f"{self.padded_bytes} bytes of padding"),
            (self.copied_bytes, f"{self.copied_bytes} bytes copied beforehand"),
            (self.transposed_bytes, "transposed"),
            (self.extra_copies, f"{_copies(self.extra_copies)} more for each box"),
            (self.overfetched_bytes, f"{self.overfetched_bytes} bytes fetched beyond each box"),
            (self.thread_copies, f"{_copies(self.thread_copies)} by threads for each box"),
            (self.bank_conflict_ways - 1, f"{self.bank_conflict_ways}-way bank conflicts"),
        ]
        return ", ".join(words for count, words in parts if count) or "nothing"


def _copies(count: int) -> str:
    return f"{count} {'copy' if count == 1 else 'copies'}"
