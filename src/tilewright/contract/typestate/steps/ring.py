"""What do waits, fills and releases do to a unit's state, and which of them break a rule on the spot?

A unit's waits on one side of a ring must be at positions 0, 1, 2, ... in order; the same for its fills and its
releases. Parity: full[s]'s phase r completes with fill r * stages + s, so a reader at that position waits for parity r
mod 2; the slot is empty again when phase r - 1 of empty[s] completes, so a filler waits for the other parity (PTX ISA
9.7.13.15). With those in order on both sides, no wait is ever two phases away from its barrier, hence parities never
alias.

Checked by: tests/contract/typestate/test_typestate_mutations.py.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.contract.typestate.pairs import PAIR_CTAS, signal_problem
from tilewright.contract.typestate.places.copy_starts import check_start
from tilewright.contract.typestate.places.footprint import box_extent_bytes, box_ranges, merged, overlap, size
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import SWIZZLE_PERIOD_BYTES, Buffer, Map
from tilewright.contract.typestate.summary import WAIT, FillSite
from tilewright.contract.typestate.token import Cursor, Filling, Slot, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import AsyncCopyWaitOp
from tilewright.ir.ac.format import is_set

PEER_RELEASES = "a wgmma that has been waited for reads nothing later: a slot's release to another CTA is no fence"
"""It is emitted at the scope of the CTA, as by vendor libraries: what it orders are reads by the tensor core alone."""


def ring_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns a ring."""
    match op:
        case ac.CursorStartOp():
            _start(walk, op)
        case ac.AdvanceOp():
            token = walk.take(op, op.cursor)
            if isinstance(token, Cursor):
                walk.give(op, op.result, Cursor(token.ring, token.side, token.position + 1))
            else:
                walk.wrong(op, token)
                walk.spoil(op)
        case ac.BarrierWaitOp():
            _wait(walk, op)
        case ac.DrainOp():
            _drain(walk, op)
        case ac.ArriveExpectOp():
            _announce(walk, op)
        case ac.CopyIssueOp():
            _issue(walk, op)
        case ac.TransactionCloseOp():
            _close(walk, op)
        case ac.ArriveOp():
            _release(walk, op)
        case _:
            return False
    return True


def _start(walk: RoleWalk, op: ac.CursorStartOp) -> None:
    ring = walk.ring_of(op, op.ring)
    if ring is None:
        walk.give(op, op.result, None)
        return
    if op.side.data not in ("empty", "full"):
        walk.findings.doubt(f"unknown side {op.side.data!r}", op)
    # A cursor stands at position 0 of its ring's life: a second one would wait for phases long past.
    walk.give(op, op.result, Cursor(ring.name, op.side.data, Polynomial()))


def _wait(walk: RoleWalk, op: ac.BarrierWaitOp) -> None:
    ring, cursor = walk.ring_of(op, op.ring), walk.take(op, op.cursor)
    if ring is None or not isinstance(cursor, Cursor):
        walk.wrong(op, cursor)
        walk.spoil(op)
        return
    side = op.side.data
    if side not in ("empty", "full"):
        walk.findings.doubt(f"unknown side {side!r}", op)
        walk.give(op, op.result, None)
        return
    if cursor.ring != ring.name:
        walk.report("MB007", op, f"waits on ring {ring.name} with {describe(cursor)}")
        walk.give(op, op.result, None)
        return
    if op.invert_parity.data not in (0, 1):
        walk.findings.doubt(f"invert_parity is {op.invert_parity.data}", op)
    inverted, needed = bool(op.invert_parity.data), side == "empty"
    if inverted != needed:
        walk.report("MB005", op, _parity_message(ring.name, side), steps=_parity_steps(ring.name, side))
    if cursor.side != side:
        walk.report(
            "MB005", op, f"waits on the {side} side of ring {ring.name} with a cursor started as {cursor.side!r}"
        )
    issuer = op.issuer is not None and op.issuer.data != 0
    if issuer and (op.issuer is None or op.issuer.data != 1 or walk.role.unit != "warpgroup128" or side != "full"):
        walk.findings.doubt("the first warp alone waits, of a unit or on a side where that is not understood", op)
    if walk.role.unit == "warp32":
        walk.findings.doubt("a ring used by a unit that is neither one thread nor a warpgroup", op)
    if side == "full" and walk.kernel.tensor_memory is not None and walk.role.unit != "thread1" and not issuer:
        # The unit's threads pass one by one: before they have met, no product may be issued whose end frees the slot,
        # or its barrier may pass the phase that a warp still waits for.
        walk.state.synced = False
    event = f"{WAIT}{ring.name}:{side}"
    waited = walk.state.count(event)
    if (ring.name, side) in walk.shared:
        # Roles may take slots alternately: `patterns` looks at all of them together.
        slot = Slot(ring.name, side, cursor.position, issuer=issuer)
        walk.ring_event("wait", op, slot, waited)
        walk.state.step(event)
        if walk.recording:
            walk.summary.waits.setdefault((ring.name, side), op)
        walk.give(op, op.result, slot)
        return
    if cursor.position != waited:
        walk.report(
            "MB006",
            op,
            f"wait number {waited} on the {side} side of ring {ring.name} is made at position {cursor.position}",
            steps=(
                f"the unit has waited {waited} times; the next slot in order is number {waited}",
                f"its cursor stands at number {cursor.position}",
                "the wait is for a phase that another slot's use completes, or that is long past",
            ),
        )
    # Recover at the position in order, so that one slip is reported once.
    slot = Slot(ring.name, side, waited, issuer=issuer)
    walk.ring_event("wait", op, slot, waited)
    walk.state.step(event)
    if walk.recording:
        walk.summary.waits.setdefault((ring.name, side), op)
    walk.give(op, op.result, slot)


def _drain(walk: RoleWalk, op: ac.DrainOp) -> None:
    """It ends: nobody waits for what the role does behind it, and all slots that are filled are released (`rings`)."""
    ring, cursor = walk.ring_of(op, op.ring), walk.take(op, op.cursor)
    if ring is None or not isinstance(cursor, Cursor):
        walk.wrong(op, cursor)
        return
    side = (ring.name, "empty")
    if cursor.ring != ring.name:
        walk.report("MB007", op, f"drains ring {ring.name} with {describe(cursor)}")
        return
    if cursor.side != "empty" or side not in walk.summary.waits:
        walk.report("MB005", op, f"drains ring {ring.name}, of which it fills nothing")
        return
    if side in walk.shared:
        walk.findings.doubt(f"drains ring {ring.name}, which other roles fill as well", op)
    waited = walk.state.count(f"{WAIT}{ring.name}:empty")
    if cursor.position != waited:
        message = f"drains ring {ring.name} at position {cursor.position}, and has filled {waited}"
        walk.report("MB006", op, message)
    if op.parent_op() is not walk.role.op or not _ends_with_drains(op):
        walk.findings.doubt("drains a ring before the role's end", op)


def _ends_with_drains(op: Operation) -> bool:
    """Whether nothing follows in the role that others may wait for."""
    following = op.next_op
    while isinstance(following, ac.DrainOp | AsyncCopyWaitOp):
        following = following.next_op
    return following is None


def _parity_message(ring: str, side: str) -> str:
    if side == "empty":
        return f"a filler of ring {ring} waits for its cursor's parity, not for the other one"
    return f"a reader of ring {ring} waits for the other parity than its cursor's"


def _parity_steps(ring: str, side: str) -> tuple[str, ...]:
    if side == "empty":
        return (
            f"ring {ring} is initialised: every barrier is in phase 0",
            "the filler waits for parity 0 of empty[0], which completes only when readers release slot 0",
            "the readers wait for full[0], which nothing fills: hang",
        )
    return (
        f"ring {ring} is initialised: every barrier is in phase 0",
        "the reader waits for parity 1 of full[0], which passes at once",
        "it reads slot 0 before any byte of it has arrived",
    )


def _announce(walk: RoleWalk, op: ac.ArriveExpectOp) -> None:
    slot = walk.take_as(op, op.phase, Slot)
    if slot is None:
        walk.spoil(op)
        return
    if slot.side != "empty":
        walk.report("MB012", op, f"fills {describe(slot)}")
    _check_signal(walk, op, slot.ring, "full")
    if not _by_one_thread(walk, op):
        walk.report("TX007", op, f"{walk.role.unit} units announce and issue copies: every thread would")
    most = walk.kernel.facts.limit("mbarrier.transaction_bytes_max")
    if not 0 <= op.bytes.data <= most:
        walk.report("TX003", op, f"announces {op.bytes.data} bytes; a phase counts 0 to {most}")
    event = f"fill:{slot.ring}"
    filled = walk.state.count(event)
    if slot.position != filled and (slot.ring, "empty") not in walk.shared:
        walk.report("MB011", op, f"fills position {slot.position} of ring {slot.ring} as number {filled}")
    walk.ring_event("fill", op, slot, filled)
    walk.state.step(event)
    site = walk.name_of(op)
    if walk.recording:
        walk.summary.fills[site] = FillSite(op, slot.ring, op.bytes.data, ctas=PAIR_CTAS if is_set(op.leader) else 1)
    walk.give(op, op.result, Filling(slot.ring, slot.position, op.bytes.data, site))


def _issue(walk: RoleWalk, op: ac.CopyIssueOp) -> None:
    filling = walk.take_as(op, op.tx, Filling)
    buffer, tensor_map = walk.buffer_of(op, op.buffer), walk.map_of(op, op.descriptor)
    coordinates = walk.indices(op, list(op.coordinates))
    if filling is None or buffer is None or tensor_map is None:
        walk.spoil(op)
        return
    _check_signal(walk, op, filling.ring, "full")
    if not _by_one_thread(walk, op):
        walk.report("TX007", op, f"every thread of a {walk.role.unit} unit would issue the copy")
    if buffer.ring != filling.ring:
        walk.report(
            "TX006", op, f"ring {filling.ring} pays for a copy into buffer {buffer.name} of {buffer.ring or 'no ring'}"
        )
    if op.box_bytes.data != tensor_map.box_bytes:
        walk.report(
            "TX002",
            op,
            f"claims {op.box_bytes.data} bytes; the box of {tensor_map.name} has {tensor_map.box_bytes}",
            against=tensor_map.op,
        )
    check_start(walk, op, tensor_map, coordinates)
    if tensor_map.swizzle != buffer.swizzle:
        walk.report(
            "AL005",
            op,
            f"map {tensor_map.name} swizzles {tensor_map.swizzle}, buffer {buffer.name} {buffer.swizzle}",
            against=tensor_map.op,
        )
    if tensor_map.element != buffer.element:
        walk.findings.doubt(f"copies {tensor_map.element} into a buffer of {buffer.element}", op)
    walk.ring_event("fill", op, filling)
    width = op.multicast.data
    if width != 1 and width != walk.kernel.cluster_ctas:
        walk.report("CL002", op, f"multicast to {width} CTAs in a cluster of {walk.kernel.cluster_ctas}")
    if width > 1 and walk.recording:
        walk.summary.multicasts.append((op, filling.ring))
    # What arrives is the map's box, whatever the operation claims.
    left = filling.bytes_left - tensor_map.box_bytes * max(width, 1)
    if left < 0:
        walk.report(
            "TX001",
            op,
            f"{-left} bytes more arrive in a phase of ring {filling.ring} than were announced",
            steps=_byte_steps(filling.ring, left),
        )
    if walk.recording:
        walk.summary.reads_global.setdefault(tensor_map.buffer, op)
        _place(walk, op, filling, buffer, tensor_map, max(width, 1))
    walk.give(op, op.result, Filling(filling.ring, filling.position, left, filling.site, filling.by_threads))


def _by_one_thread(walk: RoleWalk, op: ac.ArriveExpectOp | ac.CopyIssueOp) -> bool:
    """Whether one thread of the role executes it: the only one, or a warpgroup's first."""
    if op.elected is None or op.elected.data == 0:
        return walk.role.unit == "thread1"
    if op.elected.data != 1:
        walk.findings.doubt(f"elected is {op.elected.data}", op)
    return walk.role.unit == "warpgroup128" and walk.role.count == 1


def _place(walk: RoleWalk, op: ac.CopyIssueOp, filling: Filling, buffer: Buffer, tensor_map: Map, width: int) -> None:
    """Where the boxes of all issuing CTAs land in a slot."""
    offset, apart = op.offset_bytes.data, op.rank_offset_bytes.data
    # The engine's pattern is one of absolute addresses (PTX ISA 5.5.7), and slots begin where it does (`resources`): so
    # rows stand where readers of the slot look for them, wherever a box may begin.
    line = walk.kernel.facts.limit("tensor_map.shared_alignment_bytes")
    extent, line = box_extent_bytes(tensor_map), min(line, SWIZZLE_PERIOD_BYTES[tensor_map.swizzle])
    # A copy for this CTA alone is still offset by the CTA's rank.
    ranks = range(walk.kernel.cluster_ctas)
    for rank in ranks:
        begin = offset + rank * apart
        if begin < 0 or begin + extent > buffer.slot_bytes:
            walk.report(
                "TX004",
                op,
                f"a box of {extent} bytes at byte {begin} of a slot of {buffer.slot_bytes} in buffer {buffer.name}",
                against=buffer.op,
            )
            return
        if begin % line:
            walk.report(
                "AL002", op, f"a {tensor_map.swizzle} box at byte {begin} of its slot, no multiple of {line} bytes"
            )
            return
    if width == 1 and apart and len(ranks) > 1:
        walk.findings.doubt("a copy for one CTA whose place depends on the CTA's rank", op)
    boxes = [box_ranges(tensor_map, offset + rank * apart) for rank in (ranks if width > 1 else (0,))]
    together = merged(piece for box in boxes for piece in box)
    site = walk.summary.fills.get(filling.site)
    if site is None:
        return
    before = site.ranges.get(buffer.name, ())
    if size(together) != sum(size(box) for box in boxes) or overlap(before, together):
        walk.report("TX005", op, f"boxes overlap in the slots of buffer {buffer.name}", against=site.op)
    site.ranges[buffer.name] = merged((*before, *together))


def _byte_steps(ring: str, left: int) -> tuple[str, ...]:
    if left > 0:
        return (
            f"the filler announces the bytes of a slot of ring {ring}",
            f"all its copies complete; {left} bytes are still expected",
            "the phase never completes: the readers hang",
        )
    return (
        f"the filler announces the bytes of a slot of ring {ring}",
        "the announced count of bytes has completed: the phase ends",
        f"{-left} more bytes complete in the next phase, whose readers see a slot that is not yet filled",
    )


def _close(walk: RoleWalk, op: ac.TransactionCloseOp) -> None:
    filling = walk.take_as(op, op.tx, Filling)
    if filling is None:
        return
    if filling.bytes_left > 0:
        walk.report(
            "TX001",
            op,
            f"{filling.bytes_left} announced bytes of ring {filling.ring} are never issued",
            steps=_byte_steps(filling.ring, filling.bytes_left),
        )
    if filling.by_threads:
        walk.report(
            "CA003",
            op,
            f"no arrival on ring {filling.ring} waits for what threads copy into the slot",
            steps=(
                "threads issue copies into a slot, which land at some later time",
                "the phase of its full barrier completes without them",
                "a reader reads the slot before the copies have landed",
            ),
        )


def _release(walk: RoleWalk, op: ac.ArriveOp) -> None:
    slot = walk.take_as(op, op.phase, Slot)
    if slot is None:
        return
    if op.peers.data not in (1, walk.kernel.cluster_ctas):
        walk.report("CL003", op, f"releases to {op.peers.data} CTAs of a cluster of {walk.kernel.cluster_ctas}")
    if op.peers.data > 1:
        walk.findings.assume(PEER_RELEASES)
    _check_signal(walk, op, slot.ring, "empty")
    if _in_tensor_memory(walk, slot.ring) and walk.role.unit != "thread1" and not walk.state.synced:
        walk.report(
            "TC003",
            op,
            f"releases {describe(slot)}, and the unit's threads have not met since they last read or waited",
            steps=(
                "one warp of the unit is delayed in tensor memory, or before its wait",
                "the unit's first thread runs ahead, and releases the slot",
                "the tensor core writes what that warp still reads, or the barrier passes the phase it waits for",
            ),
        )
    release_slot(walk, op, slot, PAIR_CTAS if is_set(op.leader) else op.peers.data)


def _check_signal(walk: RoleWalk, op: ac.ArriveExpectOp | ac.CopyIssueOp | ac.ArriveOp, ring: str, side: str) -> None:
    """That a signal goes to the CTA of a pair that waits for it."""
    problem = signal_problem(walk.kernel, ring, side, op.leader)
    if problem:
        walk.report("TC006", op, problem)


def _in_tensor_memory(walk: RoleWalk, ring: str) -> bool:
    """Whether a ring's slots are columns of tensor memory."""
    memory = walk.kernel.tensor_memory
    return memory is not None and memory.ring == ring


def release_slot(walk: RoleWalk, op: Operation, slot: Slot, peers: int = 1) -> None:
    """The unit's one arrival on the slot's empty barrier, in so many CTAs, or by the units of so many on one."""
    if slot.side == "empty":
        walk.report("MB012", op, f"releases {describe(slot)}")
    if slot.ring not in walk.kernel.rings:
        walk.report("MB007", op, f"releases {slot.ring}, which is no ring")
        return
    event = f"release:{slot.ring}"
    released = walk.state.count(event)
    if slot.position != released and (slot.ring, "full") not in walk.shared:
        walk.report("MB011", op, f"releases position {slot.position} of ring {slot.ring} as number {released}")
    walk.ring_event("release", op, slot, released)
    walk.state.step(event)
    if walk.recording:
        walk.summary.releases.setdefault(slot.ring, {})[op] = peers
