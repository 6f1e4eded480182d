"""What will count at mbarriers later: commits of the tensor core, `cp.async` arrivals and copies on their way.

What is on its way is a state that a loop carries, beside registers and barriers. The run lets engines work when nobody
else can go on, so that a loop which never waits for them leaves more and more to do: it has not repeated itself, and
phases that end later are not seen. Checked by: tests/coverage_attacks/test_counted_barriers.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.base.span import Span
from tilewright.machine.core.event import (
    AsyncCopyArrive,
    AsyncCopyArriveIssue,
    BarrierComplete,
    CommitArrive,
    CopyIssue,
    Event,
    TensorMemoryCommit,
)


@dataclass(slots=True)
class Flying:
    """How many arrivals, or bytes, are on their way to barriers, by the instruction that they come from."""

    by_place: Counter[Span] = field(default_factory=Counter[Span])

    def feed(self, event: Event) -> None:
        """Follow one event of a run."""
        match event:
            case TensorMemoryCommit():
                self.by_place[event.span] += len(event.barriers)
            case CommitArrive():
                self.by_place[event.span] -= 1
            case AsyncCopyArriveIssue():
                self.by_place[event.span] += event.lanes.bit_count()
            case AsyncCopyArrive():
                self.by_place[event.span] -= event.lanes.bit_count()
            case CopyIssue() if event.barrier_address is not None:
                self.by_place[event.span] += event.bytes * len(event.destinations)
            case BarrierComplete():
                self.by_place[event.span] -= event.bytes
            case _:
                pass


def more_and_more(held: Sequence[Mapping[Span, int]], period: int) -> str | None:
    """In words, of what more is on its way after each period of a loop. held: as of each iteration."""
    recent = held[len(held) // 2 :]
    if len(recent) <= period:
        return None
    for span in recent[-1]:
        values = [each.get(span, 0) for each in recent]
        if all(after > before for before, after in zip(values, values[period:], strict=False)):
            return f"arrivals or bytes that nobody waits for are on their way to mbarriers ({span})"
    return None
