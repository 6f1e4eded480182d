"""What do copies by a warpgroup's threads do to the slot being filled, and which of their operations break a rule?

A warpgroup fills a slot: its elected thread announces what the copy engine brings (0 bytes, where it brings nothing)
and arrives; every thread copies pieces with cp.async and defers an arrival of its own until they have landed. So a full
phase takes 1 + 128 arrivals, and when it completes all pieces are there. The filler's token remembers pieces that no
deferred arrival covers yet: closing the slot without one is a finding, since the phase could complete before they land.

Where pieces go: box rows of 128 bytes each, at logical offsets before the swizzle, as copies by the engine have them,
so that every byte that a wgmma reads is accounted for by `rings` in the same way. They are written through the generic
proxy. A wgmma of a slot whose bytes it reads must follow a proxy fence of the same slot by all its warps, after their
wait: the wait makes the copies known to the thread that fences (PTX ISA 8.9.5: a proxy fence along the causality path).
So must a tcgen05.cp, by the one thread that issues it.

Factors of blocks are rows of a piece for each four, which fill the slot in an order of their own.

Alignment: cp.async takes source and destination at multiples of the piece. Coefficients and constants of the coordinate
along the contiguous dimension, and the strides of all others, must be multiples; that the array itself begins at one is
an assumption, which the launch checks.

Not handled: roles of several units, boxes whose rows are not one span of swizzle 128B, negative coordinates, arrays
picked out of larger ones (doubts). Source: PTX ISA 9.7.9.25.3 (cp.async), 9.7.13.15.16 (cp.async.mbarrier.arrive).
Checked by: tests/contract/typestate/steps/test_async_copy_steps.py; by `token_machine`, and by the proof of the emitted
text.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.base.element import parse_element
from tilewright.contract.typestate.places.footprint import merged, overlap
from tilewright.contract.typestate.program import SWIZZLE_PERIOD_BYTES, SWIZZLE_SPAN_BYTES, Buffer, integers, type_of
from tilewright.contract.typestate.run_time_sizes import fixed
from tilewright.contract.typestate.token import Filling, Index, Slot, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import (
    COPYING_THREADS,
    AsyncCopyArriveOp,
    AsyncCopyFenceOp,
    AsyncCopyIssueOp,
    AsyncCopyWaitOp,
)
from tilewright.ir.ac.format import is_set

ALIGNED_SOURCE = "an array that threads copy in pieces begins at a multiple of the piece"
_SWIZZLE = "128B"


def async_copy_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns copies by threads."""
    match op:
        case AsyncCopyIssueOp():
            _issue(walk, op)
        case AsyncCopyArriveOp():
            _arrive(walk, op)
        case AsyncCopyWaitOp():
            pass  # waits for the thread's own copies, which ends
        case AsyncCopyFenceOp():
            _fence(walk, op)
            return True
        case _:
            return False
    if walk.role.unit != "warpgroup128" or walk.role.count != 1:
        walk.findings.doubt(f"in a role of {walk.role.count} {walk.role.unit}, not of one warpgroup", op)
    return True


def _issue(walk: RoleWalk, op: AsyncCopyIssueOp) -> None:
    filling = walk.take_as(op, op.tx, Filling)
    buffer, source = walk.buffer_of(op, op.buffer), walk.global_of(op, op.source)
    coordinates = walk.indices(op, list(op.coordinates))
    if filling is None or buffer is None or source is None:
        walk.give(op, op.result, None)
        return
    if buffer.ring != filling.ring:
        walk.report(
            "TX006", op, f"fills a slot of ring {filling.ring} in buffer {buffer.name} of {buffer.ring or 'no ring'}"
        )
    _check_source(walk, op, source, buffer, coordinates)
    if walk.recording:
        walk.summary.reads_global.setdefault(source.buffer.data, op)
        _place(walk, op, filling, buffer)
    walk.give(op, op.result, Filling(filling.ring, filling.position, filling.bytes_left, filling.site, by_threads=True))


def _check_source(
    walk: RoleWalk, op: AsyncCopyIssueOp, source: ac.GlobalOp, buffer: Buffer, coordinates: tuple[Index, ...]
) -> None:
    """Pieces must be such as cp.async copies, from where it may copy them."""
    kind, piece = type_of(source.result), op.piece_bytes.data
    element = parse_element(kind.element.data) if isinstance(kind, ac.GlobalType) else None
    if element is None or element.value != buffer.element:
        walk.findings.doubt(f"copies elements of {source.sym_name.data} into a buffer of {buffer.element}", op)
        return
    if piece not in walk.kernel.facts.limits("cp_async.piece_bytes") or piece % element.bytes:
        walk.report("CA001", op, f"copies pieces of {piece} bytes")
        return
    strides, dimensions = fixed(source.strides, op, walk.findings), integers(op.dimensions)
    if sorted(dimensions) != list(range(len(strides))) or len(coordinates) != len(strides):
        walk.report("TX008", op, f"{len(coordinates)} coordinates for an array of {len(strides)} dimensions")
        return
    inner, *others = dimensions
    if strides[inner] != 1:
        walk.report("CA002", op, f"elements {strides[inner]} apart are no pieces: dimension {inner} is not contiguous")
    moves = [coefficient * element.bytes for _, coefficient in coordinates[0].terms]
    apart = [strides[dimension] * element.bytes for dimension in others]
    crooked = [move for move in (coordinates[0].constant * element.bytes, *moves, *apart) if move % piece]
    if crooked:
        walk.report("CA002", op, f"pieces of {piece} bytes whose sources lie {crooked[0]} bytes apart")
    walk.findings.assume(ALIGNED_SOURCE)
    for number, index in enumerate(coordinates):
        if index.constant < 0 or any(coefficient < 0 for _, coefficient in index.terms):
            walk.findings.doubt(f"coordinate {number} may be negative", op)


def _place(walk: RoleWalk, op: AsyncCopyIssueOp, filling: Filling, buffer: Buffer) -> None:
    """Where the box lands in a slot: whole swizzled rows."""
    element = parse_element(buffer.element)
    inner, rows = integers(op.box)
    span, period = SWIZZLE_SPAN_BYTES[_SWIZZLE], SWIZZLE_PERIOD_BYTES[_SWIZZLE]
    if is_set(op.factors):
        span, period, unit = inner, 1, walk.kernel.facts.limit("block_scales.copied_rows")
        four, pieces = walk.kernel.facts.limit("block_scales.column_factors"), op.piece_bytes.data
        known = element is not None and element.is_factor and buffer.swizzle == "none"
        if not known or inner < four or inner % four or pieces != four or rows % unit:
            walk.findings.doubt(f"{rows} rows of {inner} factors of {buffer.element} in pieces of {pieces} bytes", op)
            return
    elif buffer.swizzle != _SWIZZLE or element is None or inner * element.bytes != span or rows < 1:
        walk.findings.doubt(f"{rows} rows of {inner} elements under swizzle {buffer.swizzle}", op)
        return
    begin, end = op.offset_bytes.data, op.offset_bytes.data + rows * span
    if begin < 0 or end > buffer.slot_bytes:
        walk.report(
            "TX004",
            op,
            f"copies to bytes {begin} to {end} of a slot of {buffer.slot_bytes} in buffer {buffer.name}",
            against=buffer.op,
        )
        return
    if begin % period:
        walk.report("AL002", op, f"rows at byte {begin} of their slot, off the {period}-byte period")
        return
    site = walk.summary.fills.get(filling.site)
    if site is None:
        return
    before, ranges = site.ranges.get(buffer.name, ()), ((begin, end),)
    if overlap(before, ranges):
        walk.report("TX005", op, f"copies overlap in the slots of buffer {buffer.name}", against=site.op)
    site.ranges[buffer.name] = merged((*before, *ranges))
    site.by_threads[buffer.name] = merged((*site.by_threads.get(buffer.name, ()), *ranges))


def _arrive(walk: RoleWalk, op: AsyncCopyArriveOp) -> None:
    filling = walk.take_as(op, op.tx, Filling)
    if filling is None:
        return
    if filling.bytes_left > 0:
        walk.report("TX001", op, f"{filling.bytes_left} announced bytes of ring {filling.ring} are never issued")
    walk.ring_event("fill", op, filling)
    site = walk.summary.fills.get(filling.site)
    if walk.recording and site is not None:
        site.arrivals += COPYING_THREADS


def _fence(walk: RoleWalk, op: AsyncCopyFenceOp) -> None:
    slot = walk.take_as(op, op.phase, Slot)
    if slot is None:
        walk.give(op, op.result, None)
        return
    if slot.side != "full":
        walk.report("MB012", op, f"fences {describe(slot)}")
    if walk.role.unit not in ("warpgroup128", "thread1"):
        walk.findings.doubt(f"fences for a unit of {walk.role.unit}, which multiplies nothing", op)
    walk.give(op, op.result, Slot(slot.ring, slot.side, slot.position, fenced=True))
