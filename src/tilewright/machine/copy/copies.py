"""How does a bulk copy proceed in a running cluster? Read, write and completion are separate actions of the engine.

A load reads global memory at some time after its issue, writes each destination at some later time, and then tells that
destination's mbarrier; a store reads shared memory, then writes global memory, and its thread's bulk groups see both
steps. Nothing orders one copy against another.
Source: PTX ISA, `cp.async.bulk`, `cp.async.bulk.tensor`, completion mechanisms. Checked by:
tests/machine/copy/test_copies.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tilewright.base.plan import TensorMap
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.barrier import signals
from tilewright.machine.copy import copy_engine
from tilewright.machine.copy.box import merged, shifted
from tilewright.machine.copy.copy_engine import CopyMode
from tilewright.machine.copy.unknown_copies import LEAST_BYTES, UnknownCopy, UnknownStore, share_of
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Access, BoxPlace, CopyActor, CopyIssue, MemoryOrder, Ranges
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.memory import POISON, Region, VirtualBuffer, out_of_bounds, virtual_region
from tilewright.machine.core.state import BulkCopyState, BulkGroups, Cluster, Cta, Warp
from tilewright.machine.events_only.dropped_values import hull_of

Combine = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]
"""What to make of old and new bytes."""

_ENDLESS = virtual_region("a tensor", 0, VirtualBuffer(sys.maxsize)).data


@dataclass(slots=True, eq=False)
class Issue:
    """Who issued a copy, where in the text. tensor_map: the map's address, if it lies in global memory; cluster: the
    warp's. Never changed, as `Destination`: see `event.value`."""

    warp: Warp
    lane: int
    copy: CopyActor
    span: Span
    tensor_map: int | None
    cluster: Cluster


def issue(warp: Warp, lane: int, span: Span, tensor_map: int | None = None) -> Issue:
    """Number a new copy."""
    cluster = warp.cta.cluster
    counts = cluster.counts
    counts.copies += 1
    return Issue(warp, lane, CopyActor(counts.copies - 1), span, tensor_map, cluster)


def _later(issued: Issue, action: Callable[[], None]) -> None:
    """Queue an action of the engine; what it refuses becomes a fault at the copy's place."""

    def run() -> None:
        try:
            action()
        except EngineFault as fault:
            raise MachineFault(fault.code, fault.name, fault.message, issued.span) from fault

    issued.cluster.pending.append(run)


def _access(
    issued: Issue, where: Region, ranges: Ranges, write: bool, *, atomic: bool = False, distance: int = 0
) -> None:  # fmt: skip
    """Tell of an access to `ranges` of a region, counted from `distance` bytes into it."""
    observe = issued.cluster.observe
    if observe is None or not ranges or where.space in ("const", "param"):
        return
    order: MemoryOrder = "relaxed" if atomic else "weak"
    scope = "gpu" if atomic else ""
    if where.cta >= 0:
        assert not distance, "a tensor lies in global memory"
        cta, span = where.cta, issued.span
        observe(Access(issued.copy, "shared", cta, ranges, write, "async", span, atomic, _ALL, order, scope))
        return
    ranges = shifted(ranges, distance + where.base)
    observe(Access(issued.copy, "global", -1, ranges, write, "async", issued.span, atomic, _ALL, order, scope))


_ALL = 0xFFFF_FFFF
"""Lanes of an access that an engine makes."""


def _issued(
    issued: Issue, load: bool, destinations: tuple[int, ...], ranges: Ranges, byte_count: int, barrier: int | None,
    barrier_ctas: tuple[int, ...] = (), box: BoxPlace | None = None, stored: bool = False, reduces: bool = False,
) -> None:  # fmt: skip
    observe = issued.cluster.observe
    if observe is not None:
        observe(
            CopyIssue(
                issued.warp.actor, issued.lane, issued.copy, "load" if load else "store", destinations, ranges,
                byte_count, barrier, issued.span, issued.tensor_map,
                () if barrier_ctas == destinations else barrier_ctas, box, stored, reduces,
            )
        )  # fmt: skip


def _check_shared(cta: Cta, ranges: Ranges, span: Span) -> None:
    if ranges and (ranges[-1][1] > cta.shared.size_bytes or ranges[0][0] < cta.shared.reserved_bytes):
        begin, end = ranges[0] if ranges[0][0] < cta.shared.reserved_bytes else ranges[-1]
        raise out_of_bounds(cta.shared, begin, begin, end - begin, span)


@dataclass(slots=True, eq=False)
class Destination:
    """One destination of a load: the CTA that is written, and the CTA and offset of the barrier that is told."""

    cta: Cta
    barrier_cta: Cta
    barrier: int


def _load(
    issued: Issue, targets: list[Destination], ranges: Ranges, byte_count: int, read: Callable[[], Delivery | None],
    box: BoxPlace | None = None, stored: bool = False, reduces: bool = False,
) -> None:  # fmt: skip
    """Announce a load, queue its read, then its write to each target, then the completions. What is read is None where
    the run does without values. stored: by threads; reduces: it combines old and new bytes."""
    for target in targets:
        _check_shared(target.cta, ranges, issued.span)
    destinations = tuple([target.cta.linear for target in targets])
    signalled = tuple([target.barrier_cta.linear for target in targets])
    _issued(issued, True, destinations, ranges, byte_count, targets[0].barrier, signalled, box, stored, reduces)

    def act() -> None:
        delivery = read()
        for target in targets:
            _deliver(issued, target, delivery, ranges, byte_count)

    _later(issued, act)


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """Bytes, and where in shared memory they go. combine: what to make of old and new bytes (None: overwrite)."""

    at: npt.NDArray[np.int64] | slice
    values: npt.NDArray[np.uint8]
    combine: Combine | None = None


def load_tensor(
    issued: Issue, tensor_map: TensorMap, buffer: Region, coordinates: tuple[int, ...], targets: list[Destination],
    offset: int, mode: CopyMode = "tile", pixel_offsets: tuple[int, ...] = (),
) -> None:  # fmt: skip
    """A tensor copy, global to shared, of one box or column to the same offset in each target."""
    facts = issued.cluster.target
    ranges, byte_count = copy_engine.footprint(tensor_map, offset, facts, mode)

    def read() -> Delivery | None:
        base = tensor_map.offset_bytes
        if _moves_nothing(issued):
            size = _tensor_data(issued, buffer, base).size
            reached, origin = copy_engine.load_reach(tensor_map, coordinates, size, offset, facts, mode, pixel_offsets)
            _access(issued, buffer, reached, False, distance=base + origin)
            return None
        tensor = _tensor_data(issued, buffer, base)
        box = copy_engine.load_box(tensor_map, coordinates, tensor, offset, facts, mode, pixel_offsets)
        _access(issued, buffer, box.global_ranges, False, distance=base)
        return Delivery(box.shared_offsets, box.values)

    _load(issued, targets, ranges, byte_count, read, _place(tensor_map, buffer, coordinates, offset, mode))


def _tensor_data(issued: Issue, buffer: Region, base: int) -> npt.NDArray[np.uint8]:
    """A buffer from a tensor's base on. One whose size is made up, and which holds no bytes, is as large as any tensor:
    extents of made-up launches are what nothing limits."""
    memory = issued.cluster.memory
    return _ENDLESS if memory.forgiving and buffer.virtual else buffer.data[base:]


def _place(
    tensor_map: TensorMap, buffer: Region, coordinates: tuple[int, ...], offset: int, mode: CopyMode
) -> BoxPlace | None:
    """What is told of the box, where it is one and its values are moved as they are."""
    if mode != "tile" or tensor_map.im2col is not None or tensor_map.variant != "none":
        return None
    return BoxPlace(tensor_map, buffer.name, coordinates, offset)


def load_bytes(
    issued: Issue, source: Region, begin: int, byte_count: int, targets: list[Destination], offset: int,
    combine: Combine | None = None, ignored: tuple[int, int] = (0, 0),
) -> None:  # fmt: skip
    """A copy of consecutive bytes to shared memory, from global memory or from this CTA's shared memory.

    ignored: bytes on the left and on the right that are not read (what arrives in their place is undefined).
    """
    ranges = ((offset, offset + byte_count),)
    left, right = ignored

    def read() -> Delivery:
        values = np.full(byte_count, POISON, np.uint8)
        first, last = left, byte_count - right
        if first < last:
            values[first:last] = source.data[begin + first : begin + last].copy()
            _access(issued, source, ((begin + first, begin + last),), False)
        return Delivery(slice(offset, offset + byte_count), values, combine)

    _load(issued, targets, ranges, byte_count, read, reduces=combine is not None)


def load_values(
    issued: Issue, values: npt.NDArray[np.uint8], target: Destination, offsets: Sequence[int], ranges: Ranges,
    combine: Combine | None = None, *, stored: bool = True,
) -> None:  # fmt: skip
    """Bytes that the instruction itself carries (st.async, red.async, clusterlaunchcontrol) to shared memory. stored:
    they are a thread's.

    values: a row for each of `offsets`, which ascend, and lie apart by a row's bytes at the least; ranges: their bytes.
    """
    row_bytes = values.shape[1]
    at = np.add.outer(np.array(offsets, np.int64), np.arange(row_bytes, dtype=np.int64)).reshape(-1)
    reduces = combine is not None
    _load(
        issued, [target], ranges, values.size, lambda: Delivery(at, values.ravel(), combine), None, stored, reduces
    )  # fmt: skip


def load_no_values(issued: Issue, byte_count: int, target: Destination, ranges: Ranges) -> None:
    """The same, stored by threads, in a run that does without their values."""
    _load(issued, [target], ranges, byte_count, _read_nothing, stored=True)


def _read_nothing() -> None:
    return None


def rows_at(offsets: Sequence[int], row_bytes: int) -> Ranges:
    """The bytes of rows that begin at `offsets`, which ascend."""
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = ranges[-1][0], offset + row_bytes
        else:
            ranges.append((offset, offset + row_bytes))
    return tuple(ranges)


def load_unknown(issued: Issue, targets: list[Destination], offset: int, box_bytes: int | None, origin: int) -> None:
    """A load through an unknown tensor map: `box_bytes` bytes of any value, or what its phase expects, of which the
    first few bytes are written in any case.

    origin: the generic address of the parameter that the map came from.
    """
    if box_bytes is not None:
        _load(
            issued, targets, ((offset, offset + box_bytes),), box_bytes,
            lambda: Delivery(slice(offset, offset), np.zeros(0, np.uint8)),
        )  # fmt: skip
        return
    destinations = tuple(target.cta.linear for target in targets)
    signalled = tuple(target.barrier_cta.linear for target in targets)
    least = ((offset, offset + LEAST_BYTES),)
    for target in targets:
        _check_shared(target.cta, least, issued.span)
    _issued(issued, True, destinations, least, 0, targets[0].barrier, signalled)
    share = share_of(issued.cluster, origin, offset, issued.span)
    for target in targets:
        shared = target.cta.shared
        issued.cluster.unknown_copies.append(
            UnknownCopy(
                issued.copy,
                target.barrier_cta,
                target.barrier,
                share,
                lambda shared=shared: _access(issued, shared, least, True),
            )
        )


def _moves_nothing(issued: Issue) -> bool:
    """Does the run do without the values of copies?"""
    decoder = issued.cluster.program.decoder
    return decoder.dropped is not None and not decoder.mathematics


def _note_dropped(issued: Issue, where: Region, ranges: Ranges) -> None:
    dropped = issued.cluster.program.decoder.dropped
    assert dropped is not None, "values are left out only where that is noted"
    dropped.drop(where, *hull_of(where, ranges))


def _write(issued: Issue, target: Destination, delivery: Delivery | None, ranges: Ranges) -> None:
    """Put what was read in its place."""
    shared = target.cta.shared
    if delivery is None:
        _note_dropped(issued, shared, ranges)
        return
    values = delivery.values
    if delivery.combine is not None:
        values = delivery.combine(shared.data[delivery.at], values)
    shared.data[delivery.at] = values


def _deliver(
    issued: Issue, target: Destination, delivery: Delivery | None, ranges: Ranges, byte_count: int
) -> None:  # fmt: skip
    """Queue the write to one destination, and after it the completion on its barrier."""

    def write() -> None:
        _write(issued, target, delivery, ranges)
        atomic = delivery is not None and delivery.combine is not None
        _access(issued, target.cta.shared, ranges, True, atomic=atomic)
        _later(
            issued,
            lambda: signals.complete(issued.copy, target.barrier_cta, target.barrier, byte_count, issued.span),
        )

    _later(issued, write)


def _join_group(issued: Issue) -> BulkCopyState:
    state = BulkCopyState(issued.copy.copy)
    issued.warp.bulk.setdefault(issued.lane, BulkGroups()).open.append(state)
    return state


def store_tensor(
    issued: Issue, tensor_map: TensorMap, buffer: Region, coordinates: tuple[int, ...], offset: int,
    combine: Combine | None = None, mode: CopyMode = "tile",
) -> None:  # fmt: skip
    """A tensor copy, shared to global, of one box. combine: what to make of old and new bytes (None: overwrite)."""
    cta = issued.warp.cta
    facts = issued.cluster.target
    ranges, byte_count = copy_engine.footprint(tensor_map, offset, facts, mode)

    def read_nothing() -> Callable[[], None]:
        shared_ranges, global_ranges, origin = copy_engine.store_reach(
            tensor_map, coordinates, cta.shared.size_bytes, offset, facts, mode
        )
        _access(issued, cta.shared, shared_ranges, False)

        def write_nothing() -> None:
            base = tensor_map.offset_bytes + origin
            if global_ranges and global_ranges[-1][1] > _tensor_data(issued, buffer, base).size:
                begin, end = global_ranges[-1]
                raise out_of_bounds(buffer, buffer.base + base + begin, base + begin, end - begin, issued.span)
            _note_dropped(issued, buffer, global_ranges)
            _access(issued, buffer, global_ranges, True, atomic=combine is not None, distance=base)

        return write_nothing

    def read() -> Callable[[], None]:
        if _moves_nothing(issued):
            return read_nothing()
        box = copy_engine.store_box(tensor_map, coordinates, cta.shared.data, offset, facts, mode)
        _access(issued, cta.shared, box.shared_ranges, False)

        def write() -> None:
            base = tensor_map.offset_bytes
            target = _tensor_data(issued, buffer, base)
            if box.global_ranges and box.global_ranges[-1][1] > target.size:
                begin, end = box.global_ranges[-1]
                raise out_of_bounds(buffer, buffer.base + base + begin, base + begin, end - begin, issued.span)
            values = box.values if combine is None else combine(target[box.global_offsets], box.values)
            target[box.global_offsets] = values
            _access(issued, buffer, box.global_ranges, True, atomic=combine is not None, distance=base)

        return write

    place = None if combine is not None else _place(tensor_map, buffer, coordinates, offset, mode)
    _store(issued, ranges, byte_count, read, place)


def store_bytes(
    issued: Issue, target: Region, begin: int, byte_count: int, offset: int, combine: Combine | None = None,
    byte_mask: int = 0xFFFF,
) -> None:  # fmt: skip
    """A copy of consecutive bytes, shared to global. byte_mask: which bytes of every 16 are written."""
    cta = issued.warp.cta
    ranges = ((offset, offset + byte_count),)

    def read() -> Callable[[], None]:
        values = cta.shared.data[offset : offset + byte_count].copy()
        _access(issued, cta.shared, ranges, False)

        def write() -> None:
            if byte_mask != 0xFFFF:
                chosen = np.array([byte_mask >> bit & 1 for bit in range(16)], np.bool_)
                at = np.flatnonzero(np.resize(chosen, byte_count)) + begin
                target.data[at] = values[at - begin]
                _access(issued, target, merged(at), True)
                return
            old = target.data[begin : begin + byte_count]
            target.data[begin : begin + byte_count] = values if combine is None else combine(old.copy(), values)
            _access(issued, target, ((begin, begin + byte_count),), True, atomic=combine is not None)

        return write

    _store(issued, ranges, byte_count, read)


def store_unknown(issued: Issue, offset: int, box_bytes: int | None, origin: int) -> None:
    """A store through an unknown tensor map: reads `box_bytes` bytes (None: the least that a box has; it is recorded).

    origin: the generic address that the map came from.
    """
    cta = issued.warp.cta
    if box_bytes is None:
        share = share_of(issued.cluster, origin, offset, issued.span)
        issued.cluster.unknown_stores.append(UnknownStore(cta.linear, share))
    ranges = ((offset, offset + (box_bytes or LEAST_BYTES)),)

    def read() -> Callable[[], None]:
        _access(issued, cta.shared, ranges, False)
        return lambda: None

    _store(issued, ranges, box_bytes or 0, read)


def _store(
    issued: Issue, ranges: Ranges, byte_count: int, read: Callable[[], Callable[[], None]], box: BoxPlace | None = None
) -> None:
    """Announce a store in its thread's bulk group, queue its read of shared memory, then the write that it returns."""
    cta = issued.warp.cta
    _check_shared(cta, ranges, issued.span)
    _issued(issued, False, (cta.linear,), ranges, byte_count, None, box=box)
    state = _join_group(issued)

    def first() -> None:
        write = read()
        _read_done(issued, state)

        def then() -> None:
            write()
            _done(issued, state)

        _later(issued, then)

    _later(issued, first)


def _read_done(issued: Issue, state: BulkCopyState) -> None:
    state.read_done = True
    issued.cluster.wake(issued.warp.bulk_waiters)


def _done(issued: Issue, state: BulkCopyState) -> None:
    state.done = True
    issued.cluster.wake(issued.warp.bulk_waiters)


def commit(warp: Warp, lane: int) -> tuple[int, tuple[CopyActor, ...]]:
    """`cp.async.bulk.commit_group` by one thread: number and copies of the new group."""
    groups = warp.bulk.get(lane)
    if groups is None:
        groups = warp.bulk[lane] = BulkGroups()
    groups.committed += 1
    if not groups.open and not groups.groups:  # of nothing, before which nothing is waited for: most threads' are such
        return groups.committed - 1, ()
    copies, groups.open = groups.open, []
    groups.groups.append(copies)
    return groups.committed - 1, tuple(CopyActor(state.copy) for state in copies)


def waited(warp: Warp, lane: int, pending: int, read: bool) -> bool:
    """Have all but the `pending` most recent groups of a thread completed (with `read`, been read)?"""
    groups = warp.bulk.get(lane)
    if groups is None or not groups.groups:
        return True
    keep = len(groups.groups) - pending
    if not all(state.done or (read and state.read_done) for group in groups.groups[: max(keep, 0)] for state in group):
        return False
    while groups.groups and all(state.done for state in groups.groups[0]):
        groups.groups.pop(0)
    return True
