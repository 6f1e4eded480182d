"""How does a bulk copy proceed in a running cluster? Read, write and completion are separate actions of the engine.

A load reads global memory at some time after its issue, writes each destination at some later time, and then tells that
destination's mbarrier; a store reads shared memory, then writes global memory, and its thread's bulk groups see both
steps. Nothing orders one copy against another. Source: PTX ISA, `cp.async.bulk`, `cp.async.bulk.tensor`, completion
mechanisms. Checked by: tests/machine/test_copies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.plan import TensorMapParam
from tilewright.base.span import Span
from tilewright.machine import copy_engine, signals
from tilewright.machine.box import shared_ranges
from tilewright.machine.engine_fault import EngineFault
from tilewright.machine.event import Access, CopyActor, CopyIssue, Ranges
from tilewright.machine.fault import MachineFault
from tilewright.machine.memory import Region, out_of_bounds
from tilewright.machine.state import BulkCopyState, BulkGroups, Cluster, Cta, Warp


@dataclass(frozen=True, slots=True, eq=False)
class Issue:
    """Who issued a copy, where in the text."""

    warp: Warp
    lane: int
    copy: CopyActor
    span: Span

    @property
    def cluster(self) -> Cluster:
        return self.warp.cta.cluster


def issue(warp: Warp, lane: int, span: Span) -> Issue:
    """Number a new copy."""
    counts = warp.cta.cluster.counts
    counts.copies += 1
    return Issue(warp, lane, CopyActor(counts.copies - 1), span)


def _later(issued: Issue, action: Callable[[], None]) -> None:
    """Queue an action of the engine; what it refuses becomes a fault at the copy's place."""

    def run() -> None:
        try:
            action()
        except EngineFault as fault:
            raise MachineFault(fault.code, fault.name, fault.message, issued.span) from fault

    issued.cluster.pending.append(run)


def _access(issued: Issue, where: Region, ranges: Ranges, write: bool) -> None:
    observe = issued.cluster.observe
    if observe is None or not ranges:
        return
    if where.cta >= 0:
        observe(Access(issued.copy, "shared", where.cta, ranges, write, "async", issued.span))
    else:
        shifted = tuple((begin + where.base, end + where.base) for begin, end in ranges)
        observe(Access(issued.copy, "global", -1, shifted, write, "async", issued.span))


def _issued(
    issued: Issue, load: bool, destinations: tuple[int, ...], ranges: Ranges, byte_count: int, barrier: int | None
) -> None:
    observe = issued.cluster.observe
    if observe is not None:
        observe(
            CopyIssue(
                issued.warp.actor, issued.lane, issued.copy, "load" if load else "store", destinations, ranges,
                byte_count, barrier, issued.span,
            )
        )  # fmt: skip


def _check_shared(cta: Cta, ranges: Ranges, span: Span) -> None:
    if ranges and (ranges[-1][1] > cta.shared.size_bytes or ranges[0][0] < 0):
        begin, end = ranges[-1]
        raise out_of_bounds(cta.shared, begin, begin, end - begin, span)


def load_tensor(
    issued: Issue, parameter: TensorMapParam, buffer: Region, coordinates: tuple[int, ...],
    destinations: list[Cta], offset: int, barrier: int,
) -> None:  # fmt: skip
    """A tensor copy, global to shared, of one box to the same offset in each of `destinations`."""
    tensor_map = parameter.map
    ranges = shared_ranges(tensor_map, offset)
    for cta in destinations:
        _check_shared(cta, ranges, issued.span)
    byte_count = copy_engine.transaction_bytes(tensor_map)
    _issued(issued, True, tuple(cta.linear for cta in destinations), ranges, byte_count, barrier)

    def read() -> None:
        box = copy_engine.load_box(tensor_map, coordinates, buffer.data[tensor_map.offset_bytes :], offset)
        base = tensor_map.offset_bytes
        _access(issued, buffer, tuple((begin + base, end + base) for begin, end in box.global_ranges), False)
        for cta in destinations:
            _deliver(issued, cta, box.shared_offsets, box.values, ranges, barrier, byte_count)

    _later(issued, read)


def load_bytes(
    issued: Issue, source: Region, begin: int, byte_count: int, destinations: list[Cta], offset: int, barrier: int
) -> None:
    """A copy of consecutive bytes to shared memory, from global memory or from this CTA's shared memory."""
    ranges = ((offset, offset + byte_count),)
    for cta in destinations:
        _check_shared(cta, ranges, issued.span)
    _issued(issued, True, tuple(cta.linear for cta in destinations), ranges, byte_count, barrier)

    def read() -> None:
        values = source.data[begin : begin + byte_count].copy()
        _access(issued, source, ((begin, begin + byte_count),), False)
        for cta in destinations:
            _deliver(issued, cta, slice(offset, offset + byte_count), values, ranges, barrier, byte_count)

    _later(issued, read)


def _deliver(
    issued: Issue, cta: Cta, at: npt.NDArray[np.int64] | slice, values: npt.NDArray[np.uint8], ranges: Ranges,
    barrier: int, byte_count: int,
) -> None:  # fmt: skip
    """Queue the write to one destination, and after it the completion on its barrier."""

    def write() -> None:
        cta.shared.data[at] = values
        _access(issued, cta.shared, ranges, True)
        _later(issued, lambda: signals.complete(issued.copy, cta, barrier, byte_count, issued.span))

    _later(issued, write)


def _join_group(issued: Issue) -> BulkCopyState:
    state = BulkCopyState(issued.copy.copy)
    issued.warp.bulk.setdefault(issued.lane, BulkGroups()).open.append(state)
    return state


def store_tensor(
    issued: Issue, parameter: TensorMapParam, buffer: Region, coordinates: tuple[int, ...], offset: int,
    combine: Callable[[Any, Any], Any] | None = None,
) -> None:  # fmt: skip
    """A tensor copy, shared to global, of one box. combine: what to make of old and new bytes (None: overwrite)."""
    tensor_map, cta = parameter.map, issued.warp.cta
    ranges = shared_ranges(tensor_map, offset)
    _check_shared(cta, ranges, issued.span)
    _issued(issued, False, (cta.linear,), ranges, copy_engine.transaction_bytes(tensor_map), None)
    state = _join_group(issued)

    def read() -> None:
        box = copy_engine.store_box(tensor_map, coordinates, cta.shared.data, offset)
        _access(issued, cta.shared, box.shared_ranges, False)
        _read_done(issued, state)

        def write() -> None:
            base = tensor_map.offset_bytes
            target = buffer.data[base:]
            if box.global_ranges and box.global_ranges[-1][1] > target.size:
                begin, end = box.global_ranges[-1]
                raise out_of_bounds(buffer, buffer.base + base + begin, base + begin, end - begin, issued.span)
            values = box.values if combine is None else combine(target[box.global_offsets], box.values)
            target[box.global_offsets] = values
            _access(issued, buffer, tuple((begin + base, end + base) for begin, end in box.global_ranges), True)
            _done(issued, state)

        _later(issued, write)

    _later(issued, read)


def store_bytes(
    issued: Issue, target: Region, begin: int, byte_count: int, offset: int,
    combine: Callable[[Any, Any], Any] | None = None,
) -> None:  # fmt: skip
    """A copy of consecutive bytes, shared to global."""
    cta = issued.warp.cta
    ranges = ((offset, offset + byte_count),)
    _check_shared(cta, ranges, issued.span)
    _issued(issued, False, (cta.linear,), ranges, byte_count, None)
    state = _join_group(issued)

    def read() -> None:
        values = cta.shared.data[offset : offset + byte_count].copy()
        _access(issued, cta.shared, ranges, False)
        _read_done(issued, state)

        def write() -> None:
            old = target.data[begin : begin + byte_count]
            target.data[begin : begin + byte_count] = values if combine is None else combine(old, values)
            _access(issued, target, ((begin, begin + byte_count),), True)
            _done(issued, state)

        _later(issued, write)

    _later(issued, read)


def _read_done(issued: Issue, state: BulkCopyState) -> None:
    state.read_done = True
    issued.cluster.wake(issued.warp.bulk_waiters)


def _done(issued: Issue, state: BulkCopyState) -> None:
    state.done = True
    issued.cluster.wake(issued.warp.bulk_waiters)


def commit(warp: Warp, lane: int) -> tuple[int, tuple[CopyActor, ...]]:
    """`cp.async.bulk.commit_group` by one thread: number and copies of the new group."""
    groups = warp.bulk.setdefault(lane, BulkGroups())
    copies, groups.open = groups.open, []
    groups.groups.append(copies)
    groups.committed += 1
    return groups.committed - 1, tuple(CopyActor(state.copy) for state in copies)


def waited(warp: Warp, lane: int, pending: int, read: bool) -> bool:
    """Have all but the `pending` most recent groups of a thread completed (with `read`, been read)?"""
    groups = warp.bulk.get(lane)
    if groups is None:
        return True
    keep = len(groups.groups) - pending
    if not all(state.done or (read and state.read_done) for group in groups.groups[: max(keep, 0)] for state in group):
        return False
    while groups.groups and all(state.done for state in groups.groups[0]):
        groups.groups.pop(0)
    return True
