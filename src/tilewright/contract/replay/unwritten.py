"""Does a launch read bytes that nobody has written yet?

Shared memory holds nothing when a CTA begins, a workspace or an output nothing when the first launch of a plan begins
(but where a buffer begins as zeros). What is read there before it is written is whatever was left behind: a run on
other memory gives other values, so a proof of order says nothing of them. Each byte's history knows whether anybody has
written it (`shadow_memory`). A write that is not ordered with the read is a race and reported as such, whichever came
first in the run, and then nothing is said here; so a read that is neither refuted as a race nor here follows a write in
every interleaving.

What counts as written: whatever an access wrote, elements out of a tensor map's bounds and the rest of a short cp.async
included, which are filled with zeros. An atomic operation that modifies a byte reads it.

Not handled: bytes that hold the values of an earlier use (a slot's phase before): they are written; launches that are
made up, whose copies bring made-up bytes. A read that depends on data is a doubt. Tensor memory is judged elsewhere.
Source: PTX ISA 5.1.6 (.shared: no initial value), CUDA Driver API (cuMemAlloc: the memory is not cleared).
Checked by: tests/contract/replay/test_unwritten.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property

from tilewright.base.diagnostic import Level
from tilewright.base.plan import LaunchPlan
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.history.byte_ranges import without
from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge.run_state import name_of
from tilewright.contract.rules.interpretations import Interpretation
from tilewright.contract.rules.replay_codes import RunFindings
from tilewright.machine.core.event import Ranges
from tilewright.machine.core.memory import GlobalMemory, VirtualBuffer

_BEHIND_ALL = 1 << 64


@dataclass(frozen=True)
class FreshBytes:
    """Bytes of a buffer that hold nothing when a launch begins: machine addresses, and where the buffer begins."""

    buffer: str
    base: int
    ranges: Ranges

    @cached_property
    def _bounds(self) -> tuple[list[int], list[int]]:
        """Where the ranges begin, and one behind all, and where they end."""
        return [*(begin for begin, _ in self.ranges), _BEHIND_ALL], [end for _, end in self.ranges]

    def meet(self, ranges: Ranges) -> bool:
        """Is any byte of `ranges`, which are not empty, among these?"""
        begins, ends = self._bounds
        if ranges[0][0] >= ends[-1] or ranges[-1][1] <= begins[0]:
            return False
        for begin, end in ranges:  # noqa: SIM110 -- a generator would take twice as long
            if begins[bisect_right(ends, begin)] < end:
                return True
        return False


@dataclass(frozen=True)
class Contents:
    """What memory holds when a launch begins: shared memory nothing, global memory something but in `fresh`."""

    fresh: tuple[FreshBytes, ...] = ()

    def may_lack(self, ranges: Ranges) -> bool:
        """Did any byte of `ranges`, which are global and not empty, hold nothing when the launch began?"""
        return any(each.meet(ranges) for each in self.fresh)


@dataclass(slots=True)
class UnwrittenBuffers:
    """Bytes that the launches of a plan have not written so far, as offsets in each buffer that began with nothing."""

    ranges: dict[str, Ranges] = field(default_factory=dict[str, Ranges])

    def placed(self, sizes_bytes: Mapping[str, int]) -> Contents:
        """The same at the addresses that a run gives to buffers of these sizes, in this order."""
        memory = GlobalMemory()
        found: list[FreshBytes] = []
        for name, size in sizes_bytes.items():
            base = memory.place(name, VirtualBuffer(size)).base
            if self.ranges.get(name):
                found.append(
                    FreshBytes(name, base, tuple((begin + base, end + base) for begin, end in self.ranges[name]))
                )
        return Contents(tuple(found))

    def keep(self, left: tuple[FreshBytes, ...]) -> None:
        """A launch has ended and left these bytes unwritten."""
        self.ranges = {
            each.buffer: tuple((begin - each.base, end - each.base) for begin, end in each.ranges) for each in left
        }


def unwritten_buffers(plan: LaunchPlan) -> UnwrittenBuffers:
    """What nobody has written when the first launch of a plan begins: workspaces and outputs, unless zeroed."""
    return UnwrittenBuffers(
        {
            buffer.name: ((0, buffer.span_bytes),)
            for buffer in plan.buffers
            if buffer.role != "input" and not buffer.zeroed and buffer.span_bytes
        }
    )


def takes_value(record: Record) -> bool:
    """Does an access read what it finds?"""
    return not record.write or record.reads_value


@dataclass(slots=True)
class UnwrittenReads:
    """Reads of bytes that nobody had written, the first of each place, until it is known whether they are races."""

    contents: Contents | None
    found: dict[tuple[Span, str], tuple[Record, Ranges]] = field(
        default_factory=dict[tuple[Span, str], tuple[Record, Ranges]]
    )

    def note_shared(self, record: Record, unwritten: Ranges) -> None:
        """A read of shared memory, of which nobody has written `unwritten`."""
        if unwritten:
            self.found.setdefault((record.span, ""), (record, unwritten))

    def note_global(self, record: Record, unwritten: Ranges) -> None:
        """A read of global memory, of which this launch has not written `unwritten`."""
        for fresh in self.contents.fresh if self.contents is not None else ():
            both = without(unwritten, without(unwritten, fresh.ranges))
            if both:
                moved = tuple((begin - fresh.base, end - fresh.base) for begin, end in both)
                self.found.setdefault((record.span, fresh.buffer), (record, moved))

    def report(self, level: Interpretation, findings: RunFindings) -> None:
        """The launch has ended. level: of reads of shared memory."""
        refuted = {
            place
            for finding in findings.found.values()
            if finding.level is Level.ERROR
            for place in (finding.primary, finding.conflicts_with)
        }
        for (span, buffer), (record, ranges) in self.found.items():
            severity = Level.ERROR if buffer else level
            if span not in refuted and severity is not None:
                _report(record, ranges, buffer, severity, findings)


def left_unwritten(contents: Contents, never_written: Callable[[Ranges], Ranges]) -> tuple[FreshBytes, ...]:
    """What a launch that began with `contents` leaves so. never_written: what of some bytes it has not written."""
    left = (replace(each, ranges=never_written(each.ranges)) for each in contents.fresh)
    return tuple(each for each in left if each.ranges)


def _report(record: Record, ranges: Ranges, buffer: str, level: Level, findings: RunFindings) -> None:
    count = sum(end - begin for begin, end in ranges)
    begin, end = ranges[0]
    what = f"bytes [{begin}, {end}) of {buffer}" if buffer else f"shared bytes [{begin:#x}, {end:#x})"
    more = f" (of {count} bytes in {len(ranges)} pieces)" if len(ranges) > 1 else ""
    reader = name_of(record.actor, record.issuer)
    text = f"{reader} {record.operation} {what}{more}, which nobody has written"
    if record.uncertain:
        findings.doubt(f"{record.span}: {text}, if it does; that depends on data")
        return
    findings.report(
        "UM102" if buffer else "UM101",
        text,
        record.span,
        None,
        (
            f"{'the launch' if buffer else 'the CTA'} begins, and {what} hold what was left there",
            f"{reader} {record.operation} them ({record.span}); no write comes before, in any order",
        ),
        level,
    )
