"""What does a run leave undone that does without values which decide nothing, and who then needs what it lacks?

What went into memory undone is remembered by region. Whoever loads a value that decides from such a region ends the run
with `ValueNeeded`, and the caller runs it again with all values. Which values decide: `value_slice`. Such runs are made
to prove something, so it is noted, too, where what decides comes of the run's own places alone (`overlapping`).
Checked by: tests/machine/events_only/test_value_slice.py.
"""

from __future__ import annotations

import sys
from dataclasses import field
from typing import TYPE_CHECKING

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.lanes import UNINITIALISED, Registers
from tilewright.machine.core.memory import Region

if TYPE_CHECKING:
    from tilewright.machine.core.event import Ranges
    from tilewright.machine.events_only.joined_accesses import WaitingAccess


class ValueNeeded(Exception):
    """A value that the run has dropped would decide something."""


@dataclass(slots=True, eq=False)
class DroppedValues:
    """regions: names of the regions of memory that do not hold what the kernel stored there, somewhere in the bytes
    that `reach` has for them. joins: whether stretches
    of loads and stores may be told as one (`joined_accesses`); joined: whether some were told as one. overlapping:
    instructions that put fields together by `or` where both had a bit set, so that the result would be another one if
    shared memory began elsewhere. kept: whether a run had to keep all values, so that what arrays hold may have decided
    something in it."""

    regions: set[str] = field(default_factory=set[str])
    reach: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    joins: bool = False
    joined: bool = False
    overlapping: dict[Span, None] = field(default_factory=dict[Span, None])
    kept: bool = False

    def drop(self, where: Region, begin: int = 0, end: int = sys.maxsize) -> None:
        """Bytes of `where` were to be written, somewhere from begin to end, and are not."""
        self.regions.add(where.name)
        first, last = self.reach.get(where.name, (begin, end))
        self.reach[where.name] = min(first, begin), max(last, end)

    def need(self, where: Region, begin: int = 0, end: int = sys.maxsize) -> None:
        """What `where` holds from begin to end is about to be read. Raises ValueNeeded if it may not be what the kernel
        stored."""
        if where.name in self.regions:
            first, last = self.reach.get(where.name, (0, sys.maxsize))
            if begin < last and first < end:
                raise ValueNeeded(where.name)


def hull_of(where: Region, ranges: Ranges) -> tuple[int, int]:
    """The least bytes of a CTA's shared memory that have all of some ranges; of other memory, and of none, all there
    are."""
    if where.cta < 0 or not ranges:
        return 0, sys.maxsize
    return min(begin for begin, _ in ranges), max(end for _, end in ranges)


@dataclass(slots=True, eq=False)
class MovedValues:
    """A load or store that may do without values. moved: registers (slots) that are stored, or that a load writes;
    address: slot; strong: its values count in any case. keeps: whether it moves values, as `drop_values` says, or a run
    of the protocol, in which nobody asks for the others: they are zeros; dropped: what is known of it, else. access: if
    its event may be given with others; waits: whether it is."""

    moved: tuple[int, ...]
    address: int
    loads: bool
    strong: bool
    dropped: DroppedValues | None
    keeps: bool = True
    access: WaitingAccess | None = None
    waits: bool = False

    def load(self, where: Region, begin: int = 0, end: int = sys.maxsize) -> None:
        """Values of `where` are about to be loaded. Raises ValueNeeded if they are not what was stored."""
        if self.dropped is not None:
            self.dropped.need(where, begin, end)

    def skip_store(self, r: Registers, where: Region, begin: int, end: int) -> None:
        """A store is left undone, somewhere from begin to end. Raises TypeError for a register that was never written,
        as the store would."""
        assert self.dropped is not None, "stores are left undone only where that is noted"
        self.require_written(r)
        self.dropped.drop(where, begin, end)

    def require_written(self, r: Registers) -> None:
        """Raises TypeError for a moved register that was never written."""
        for slot in self.moved:
            if r[slot] is UNINITIALISED:
                raise TypeError("uninitialised register")
