"""What do staging and bulk stores do to a unit's state, and which break a rule?

A staging slot goes round: written by all threads, fenced towards the async proxy by each, made ready by a barrier of
the unit, read by a bulk store of the first thread, and free again when that thread has waited for the store's group and
a barrier of the unit has followed. Which groups may still be reading is a may-set, kept twice: as the first thread
knows it, and as all threads know it since the last barrier.

Not handled: staging memory shared between roles. Checked by: tests/contract/typestate/test_typestate_mutations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from tilewright.base.element import parse_element
from tilewright.base.size import computed, divisor
from tilewright.contract.typestate.places.copy_starts import check_start
from tilewright.contract.typestate.places.footprint import box_extent_bytes
from tilewright.contract.typestate.places.staged_places import Chunk, check_places
from tilewright.contract.typestate.places.store_places import may_share
from tilewright.contract.typestate.program import Buffer
from tilewright.contract.typestate.run_time_sizes import ranges_at
from tilewright.contract.typestate.steps.team import finished_place
from tilewright.contract.typestate.summary import StorePlace
from tilewright.contract.typestate.token import Fragment, Staged, Values, after_wait, appended
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.ir.sizes import sizes_of


def _commit_bulk(walk: RoleWalk, op: ac.BulkCommitOp) -> None:
    walk.require_unit(op, op.unit)
    state = walk.state
    state.bulk_issuer = appended(state.bulk_issuer, state.open_stores)
    state.bulk_unit = appended(state.bulk_unit, state.open_stores)
    state.open_stores = frozenset()


def _wait_bulk(walk: RoleWalk, op: ac.BulkWaitOp) -> None:
    walk.require_unit(op, op.unit)
    if op.pending.data < 0 or op.read.data not in (0, 1):
        walk.findings.doubt(f"waits for {op.pending.data} groups with read {op.read.data}", op)
    walk.state.bulk_issuer = after_wait(walk.state.bulk_issuer, max(0, op.pending.data))


def finish_role(walk: RoleWalk) -> None:
    """What must be over when the role ends."""
    op, state = walk.role.op, walk.state
    if state.uncommitted:
        walk.report("WG001", op, f"{state.uncommitted} wgmma are never committed")
    if state.open_stores:
        walk.report("BG002", op, f"stores of {_slots(state.open_stores)} are never committed")
    reading = frozenset(slot for group in state.bulk_issuer for slot in group)
    if reading:
        walk.report(
            "BG003",
            op,
            f"stores of {_slots(reading)} may be in flight when the role ends",
            steps=(
                "the first thread issues a bulk store and ends without waiting for it",
                "the CTA ends and its shared memory is given to another",
                "the copy engine reads the other CTA's bytes",
            ),
        )


def _slots(slots: frozenset[tuple[str, int]]) -> str:
    return ", ".join(f"{buffer}[{slot}]" for buffer, slot in sorted(slots))


def take_fragment(walk: RoleWalk, op: Operation, value: SSAValue) -> Fragment | Values | None:
    """The fragment that `op` stores."""
    token = walk.take(op, value)
    if isinstance(token, Values):
        if "k" in token.axes:
            walk.findings.doubt("stores what is packed for a product", op)
        return token
    if isinstance(token, Fragment):
        # Elementwise work may be done here, so this is where the accumulator's registers are read.
        walk.state.fenced = False
        return token
    walk.wrong(op, token)
    return None


def _staging_buffer(walk: RoleWalk, op: ac.StageWriteOp | ac.CopyStoreOp) -> Buffer | None:
    buffer = walk.buffer_of(op, op.buffer)
    walk.require_unit(op, op.unit)
    if buffer is None:
        return None
    if buffer.ring:
        walk.report("BG004", op, f"buffer {buffer.name} belongs to ring {buffer.ring} and cannot stage an output")
    walk.require_instances(op, buffer)
    if not 0 <= op.slot.data < buffer.slots:
        walk.report("AL004", op, f"slot {op.slot.data} of {buffer.slots} in buffer {buffer.name}", against=buffer.op)
    if walk.recording:
        walk.summary.staging.setdefault(buffer.name, op)
    return buffer


def _write(walk: RoleWalk, op: ac.StageWriteOp) -> None:
    buffer, fragment = _staging_buffer(walk, op), take_fragment(walk, op, op.fragment)
    if buffer is None or fragment is None:
        walk.give(op, op.result, None)
        return
    state, slot = walk.state, (buffer.name, op.slot.data)
    begin, end = op.column_begin.data, op.column_end.data
    element = parse_element(fragment.element)
    if fragment.axes != "mn" or element is None or not 0 <= begin < end <= fragment.n:
        walk.findings.doubt(f"stages columns {begin} to {end} of {fragment.axes} x {fragment.n} {fragment.element}", op)
        walk.give(op, op.result, None)
        return
    if op.block is not None and (op.plan is None or not 0 <= op.block.data < fragment.m // BLOCK_ROWS):
        walk.findings.doubt(f"stages block {op.block.data} of {fragment.m} rows", op)
        walk.give(op, op.result, None)
        return
    rows = fragment.m if op.block is None else BLOCK_ROWS
    written = rows * (end - begin) * element.bytes
    if written > buffer.slot_bytes:
        walk.report(
            "BG004",
            op,
            f"stages {written} bytes in a slot of {buffer.slot_bytes} of buffer {buffer.name}",
            against=buffer.op,
        )
    chunk = Chunk(rows, end - begin, element.bytes, buffer.swizzle, transposed=op.block is not None)
    check_places(walk, op, buffer, chunk)
    _require_free(walk, op, slot)
    state.staged |= {slot}
    walk.give(op, op.result, Staged(buffer.name, op.slot.data, "written", written, fragment.element, chunk.line))


def _require_free(walk: RoleWalk, op: ac.StageWriteOp, slot: tuple[str, int]) -> None:
    """No bulk store may still read the slot, and all threads must know it."""
    state, name = walk.state, f"{slot[0]}[{slot[1]}]"
    if slot in state.staged:
        walk.report("BG001", op, f"overwrites {name}, whose bytes are not yet stored")
    elif slot in state.open_stores:
        walk.report("BG002", op, f"overwrites {name} while its store belongs to no committed group")
    elif any(slot in group for group in state.bulk_issuer):
        youngest = next(age for age, group in enumerate(reversed(state.bulk_issuer)) if slot in group)
        walk.report(
            "BG001",
            op,
            f"overwrites {name} while one of the newest {youngest + 1} bulk groups may read it",
            steps=(
                f"the first thread issues a bulk store of {name}; {youngest} groups are committed after its group",
                f"its last wait allows {youngest + 1} or more groups to be pending, or there is none",
                f"the threads overwrite {name}; the copy engine stores the new bytes in the old place",
            ),
        )
    elif any(slot in group for group in state.bulk_unit):
        walk.report(
            "BG001",
            op,
            f"overwrites {name} with no barrier after the first thread's wait",
            steps=(
                f"the first thread is delayed in its wait for the store of {name}",
                "another thread, which waits for nothing, goes on",
                f"it overwrites {name} while the copy engine reads it",
            ),
        )


def _fence(walk: RoleWalk, op: ac.FenceProxyOp) -> None:
    token = walk.take_as(op, op.staged, Staged)
    if token is None:
        walk.give(op, op.result, None)
        return
    state = "fenced" if token.state == "written" else token.state
    walk.give(op, op.result, replace(token, state=state))


def _synchronize(walk: RoleWalk, op: ac.NamedBarrierSyncOp) -> None:
    walk.require_unit(op, op.unit)
    first, count = op.first_barrier.data, walk.role.count
    if first < 1 or first + count > walk.kernel.facts.limit("cta.named_barriers"):
        walk.report("NB001", op, f"barriers {first} to {first + count - 1} for {count} units")
    unit_threads = walk.role.threads // max(1, count)
    if op.threads.data != unit_threads:
        fewer = op.threads.data > unit_threads
        walk.report(
            "NB002",
            op,
            f"counts {op.threads.data} threads; {unit_threads} take part",
            steps=(
                f"{unit_threads} threads arrive",
                "the barrier waits for threads that never come: hang"
                if fewer
                else "it lets the first of them go before the last have arrived",
            ),
        )
    if walk.recording:
        for unit in range(count):
            walk.summary.named_barriers.setdefault(first + unit, {}).setdefault(unit, op)
    walk.state.bulk_unit = walk.state.bulk_issuer
    if op.staged is None:
        if op.result is not None:
            walk.report("LV008", op, "makes bytes ready that it was not given")
            walk.give(op, op.result, None)
        return
    token = walk.take_as(op, op.staged, Staged)
    ready = None if token is None else replace(token, state="ready")
    if token is not None and token.state == "written":
        _unfenced(walk, op, token)
    if op.result is None:
        walk.report("LV001", op, "the staged bytes are not handed on")
    else:
        walk.give(op, op.result, ready)


def _unfenced(walk: RoleWalk, op: Operation, token: Staged) -> None:
    walk.report(
        "PX001",
        op,
        f"{token.buffer}[{token.slot}] is handed to the copy engine without fence.proxy.async",
        steps=(
            f"threads write {token.buffer}[{token.slot}] through the generic proxy",
            "no fence makes the writes visible to the async proxy",
            "the bulk store reads bytes from before the writes",
        ),
    )


def _stored_bytes(walk: RoleWalk, op: ac.CopyStoreOp, token: Staged) -> int:
    """Of what is staged, those that are stored: all, or the first lines. That the next tile has the others is for
    whoever counts what a launch writes."""
    element = parse_element(token.element)
    if op.lines is None or element is None:
        return token.bytes
    line = token.line * element.bytes
    if not 0 < op.lines.data * line <= token.bytes:
        walk.findings.doubt(f"stores {op.lines.data} lines of {token.bytes // line} that were staged", op)
    return op.lines.data * line


def _store_bulk(walk: RoleWalk, op: ac.CopyStoreOp) -> None:
    buffer, tensor_map, token = _staging_buffer(walk, op), walk.map_of(op, op.descriptor), walk.take(op, op.staged)
    coordinates = walk.indices(op, list(op.coordinates))
    token = walk.expect(op, token, Staged, "store")
    if token is None or buffer is None or tensor_map is None:
        return
    slot = (token.buffer, token.slot)
    walk.state.staged -= {slot}
    walk.state.open_stores |= {slot}
    walk.state.step(f"store:{buffer.name}")
    match token.state:
        case "written":
            _unfenced(walk, op, token)
        case "fenced":
            walk.report(
                "NB004",
                op,
                f"{buffer.name}[{token.slot}] is stored with no barrier after the fences of all threads",
                steps=(
                    "the first thread has written and fenced its bytes; another has not",
                    "the first thread issues the bulk store",
                    "the copy engine reads bytes that the other thread has yet to write",
                ),
            )
        case _:
            pass
    if slot != (buffer.name, op.slot.data):
        walk.report("BG004", op, f"stores {buffer.name}[{op.slot.data}]; the bytes are in {token.buffer}[{token.slot}]")
    if op.box_bytes.data != tensor_map.box_bytes:
        walk.report(
            "TX002",
            op,
            f"claims {op.box_bytes.data} bytes; the box of {tensor_map.name} has {tensor_map.box_bytes}",
            against=tensor_map.op,
        )
    stored = _stored_bytes(walk, op, token)
    if tensor_map.box_bytes != stored:
        kept = f"{stored} of {token.bytes} are to be stored" if op.lines is not None else f"{stored} were staged"
        walk.report("BG004", op, f"reads {tensor_map.box_bytes} bytes; {kept}", against=tensor_map.op)
    elif box_extent_bytes(tensor_map) > buffer.slot_bytes:
        walk.report("TX004", op, f"a box of {box_extent_bytes(tensor_map)} bytes in a slot of {buffer.slot_bytes}")
    elif tensor_map.box[0] != token.line:
        walk.findings.doubt(f"stores lines of {tensor_map.box[0]} elements where {token.line} lie together", op)
    if tensor_map.swizzle != buffer.swizzle:
        walk.report(
            "AL005", op, f"map {tensor_map.name} swizzles {tensor_map.swizzle}, buffer {buffer.name} {buffer.swizzle}"
        )
    check_start(walk, op, tensor_map, coordinates)
    if tensor_map.element != token.element:
        walk.findings.doubt(f"stores {tensor_map.element} where {token.element} were staged", op)
    apart, (inner, *dims) = sizes_of(tensor_map.op.strides_bytes), sizes_of(tensor_map.op.dims)
    row = computed("*", inner, tensor_map.element_bytes)
    if divisor(row, ranges_at(op)) % 16:
        # The engine writes the last 16 bytes of a row whole.
        row = -(-tensor_map.dims[0] * tensor_map.element_bytes // 16) * 16
    if may_share((*dims, row), (*apart, 1), op):
        walk.findings.doubt(f"two rows of {tensor_map.buffer} may share bytes", op)
    if walk.recording:
        walk.summary.stores.append((buffer.name, tensor_map.box_bytes))
        walk.summary.writes_global.setdefault(tensor_map.buffer, op)
        # Outermost first, as plain stores count.
        strides = (*apart[::-1], tensor_map.element_bytes)
        origin, around = finished_place(walk, op, coordinates[::-1], tensor_map.dims[::-1])
        walk.summary.places.append(StorePlace(op, tensor_map.buffer, origin, tensor_map.box[::-1], around, strides))


INTERPRETED: Mapping[type[Operation], Callable[[RoleWalk, Any], None]] = {
    ac.StageWriteOp: _write,
    ac.FenceProxyOp: _fence,
    ac.NamedBarrierSyncOp: _synchronize,
    ac.CopyStoreOp: _store_bulk,
    ac.BulkCommitOp: _commit_bulk,
    ac.BulkWaitOp: _wait_bulk,
}
