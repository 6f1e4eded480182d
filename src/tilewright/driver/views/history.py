"""What did each slot and each role do, in the order of one run of a kernel? What a report draws as a chart.

The run is the CPU machine's, of one CTA; the axis counts events of synchronization, so it shows order and overlap as
the protocol permits them, and no duration. Addresses come from the proof's claims; what happened, from the events.
Kernels without a ring have no history. Checked by: tests/driver/views/test_history.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Launch
from tilewright.contract.typestate.claims import ProtocolClaims, RingClaim, RoleClaim
from tilewright.frontends.ptx.ast import Module
from tilewright.machine.core.event import (
    Access,
    BarrierArrive,
    BarrierWait,
    BulkCommit,
    CopyIssue,
    Event,
    PhaseEnd,
    WarpActor,
    WgmmaIssue,
    WgmmaWait,
)
from tilewright.machine.core.run import run_launch

_WARP_THREADS = 32
_WARPGROUP_THREADS = 128


@dataclass(frozen=True, slots=True)
class Interval:
    """[begin, end) in events; state: such as "filling"; number: which fill or tile of the CTA, from 0."""

    begin: int
    end: int
    state: str
    number: int


@dataclass(frozen=True, slots=True)
class History:
    """slots: of each stage, the intervals "filling", "full" and "read"; producer: "issuing" loads; consumers: of each
    warpgroup's first warp, "multiplying" and "storing". events: how many the run had."""

    events: int
    slots: tuple[tuple[Interval, ...], ...]
    producer: tuple[Interval, ...]
    consumers: tuple[tuple[Interval, ...], ...]


@dataclass(slots=True)
class _Slot:
    """The state of one slot, which holds until the next."""

    done: list[Interval] = field(default_factory=list[Interval])
    state: str = ""
    begin: int = 0
    fill: int = -1

    def enter(self, state: str, now: int) -> None:
        """End what is open and begin `state`; "" begins nothing. Entering the state that is open changes nothing."""
        if state == self.state:
            return
        if self.state:
            self.done.append(Interval(self.begin, now, self.state, self.fill))
        self.state, self.begin = state, now


@dataclass(slots=True)
class _Role:
    """What a role was seen at, each interval from the first sight to the last. first_fills: by a tile's number among
    the role's own, the first fill that was read for it."""

    done: list[Interval] = field(default_factory=list[Interval])
    first_fills: dict[int, int] = field(default_factory=dict[int, int])

    def seen(self, state: str, now: int, number: int | None = None) -> None:
        """number: of the fill or tile; None counts the intervals of this state."""
        last = self.done[-1] if self.done else None
        if last is not None and last.state == state and number in (None, last.number):
            self.done[-1] = Interval(last.begin, max(now, last.begin) + 1, state, last.number)
            return
        counted = sum(interval.state == state for interval in self.done)
        begin = max(now, last.end) if last is not None else now
        self.done.append(Interval(begin, begin + 1, state, counted if number is None else number))


def ring_history(
    module: Module, launch: Launch, buffers: Mapping[str, NDArray[np.uint8]], claims: ProtocolClaims
) -> History | None:
    """Run `launch` once on `buffers` (changed in place) and note what CTA 0 did. None for a kernel without a ring.

    Raises what the machine raises for a kernel that faults or hangs.
    """
    if not claims.rings:
        return None
    recorder = _Recorder(claims.rings[0], claims.roles)
    run_launch(module, launch, buffers, observe=recorder.feed)
    return recorder.finish()


class _Recorder:
    def __init__(self, ring: RingClaim, roles: tuple[RoleClaim, ...]) -> None:
        self.ring = ring
        self.now = 0
        self.slots = [_Slot() for _ in range(ring.stages)]
        self.producer = _Role()
        # Of each warpgroup the first warp is followed: its others may be ahead of it or behind.
        self.consumers = {
            first // _WARP_THREADS: _Role()
            for role in roles
            if role.unit == "warpgroup128"
            for first in range(role.first_thread, role.first_thread + role.threads, _WARPGROUP_THREADS)
        }

    def feed(self, event: Event) -> None:
        match event:
            case BarrierArrive() | BarrierWait() | PhaseEnd() if event.cta == 0:
                self.now += 1
                self._barrier(event)
            case CopyIssue() | WgmmaIssue() | WgmmaWait() | BulkCommit() if event.actor.cta == 0:
                self.now += 1
                self._work(event)
            case Access(actor=WarpActor(cta, warp), write=True, proxy="generic") if cta == 0:
                # What a consumer writes by ordinary instructions is its result.
                if warp in self.consumers:
                    self.consumers[warp].seen("storing", self.now)
            case _:
                pass

    def _barrier(self, event: BarrierArrive | BarrierWait | PhaseEnd) -> None:
        ring = self.ring
        match event:
            case BarrierArrive(address=address, expect_bytes=expected) if expected and address in ring.full_addresses:
                stage = ring.full_addresses.index(address)
                slot = self.slots[stage]
                slot.fill = stage if slot.fill < 0 else slot.fill + ring.stages
                slot.enter("filling", self.now)
                self.producer.seen("issuing", self.now, slot.fill)
            case PhaseEnd(address=address) if address in ring.full_addresses:
                self.slots[ring.full_addresses.index(address)].enter("full", self.now)
            case PhaseEnd(address=address) if address in ring.empty_addresses:
                self.slots[ring.empty_addresses.index(address)].enter("", self.now)
            case _:
                pass

    def _work(self, event: CopyIssue | WgmmaIssue | WgmmaWait | BulkCommit) -> None:
        consumer = self.consumers.get(event.actor.warp)
        match event:
            case CopyIssue(direction="load") if self.producer.done:
                self.producer.seen("issuing", self.now, self.producer.done[-1].number)
            case WgmmaIssue(shared=shared):
                fills: list[int] = []
                for slot, ranges in zip(self.slots, self.ring.slot_ranges, strict=True):
                    if any(begin < last and first < end for begin, end in ranges for first, last in shared):
                        slot.enter("read", self.now)
                        fills.append(slot.fill)
                if consumer is not None:
                    consumer.seen("multiplying", self.now)
                    if fills:
                        consumer.first_fills.setdefault(consumer.done[-1].number, min(fills))
            case WgmmaWait() if consumer is not None:
                consumer.seen("multiplying", self.now)
            case BulkCommit() if consumer is not None:
                consumer.seen("storing", self.now)
            case _:
                pass

    def finish(self) -> History:
        end = self.now + 1
        for slot in self.slots:
            slot.enter("", end)
        return History(
            end,
            tuple(tuple(slot.done) for slot in self.slots),
            tuple(self.producer.done),
            self._tiles(),
        )

    def _tiles(self) -> tuple[tuple[Interval, ...], ...]:
        """What consumers did, with their tiles' numbers among the CTA's: consumers that share a tile read the same
        fills for it, and those that take tiles in turn read different ones."""
        roles = tuple(self.consumers.values())
        begins = sorted({fill for role in roles for fill in role.first_fills.values()})
        return tuple(
            tuple(
                replace(each, number=begins.index(role.first_fills[each.number]))
                if each.number in role.first_fills
                else each
                for each in role.done
            )
            for role in roles
        )
