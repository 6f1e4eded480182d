"""What do operands that threads make anew do to a unit's state, and which of their operations break a rule on the spot?

A unit's room is seen as a slot of a ring that nobody else has: full when it is made, retired when the products that
read it are done. Its phase is used once, so that it is written only while nobody reads it, and there is one such phase
for each unit: one operation starts it, and who starts again has ended the one before, since a phase that is never used
is found (LV001). What has to be seen of a remaking is what `steps.register_operand` says of threads that read a slot:
they fence, and meet; the fence orders what they wrote towards the tensor core as well, and the meeting makes one
thread's product come after all writes. That the room's last product is done each thread knows by its own wait.

Not handled (doubts): rooms in roles whose units take turns, or that release slots to other CTAs; rooms that anything
else uses. Source: PTX ISA, Async proxy, fence.proxy.async; wgmma.wait_group. Checked by:
tests/contract/typestate/steps/test_remade.py.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.base.element import parse_element
from tilewright.contract.typestate.places.footprint import DEPTH_BYTES
from tilewright.contract.typestate.places.rooms import WIDENED, room_ranges, slot_ranges
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Buffer
from tilewright.contract.typestate.steps.register_operand import in_known_role
from tilewright.contract.typestate.steps.unit_barriers import meet
from tilewright.contract.typestate.summary import ReadSite
from tilewright.contract.typestate.token import Slot, Token, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp
from tilewright.ir.ac.remade import OPERATIONS, WIDENED_ROWS, RoomEndOp, RoomStartOp, SlotRemakeOp
from tilewright.ir.ac.tensor_memory import TensorIssueOp, TensorIssueStoredOp

_PRODUCTS = (ac.WgmmaIssueOp, FragmentIssueOp, TensorIssueOp, TensorIssueStoredOp)
_WARPS = 4
_SWIZZLE = "128B"


def remade_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns a room."""
    match op:
        case RoomStartOp():
            _start(walk, op)
        case SlotRemakeOp():
            _remake(walk, op)
        case RoomEndOp():
            _retired(walk, op, walk.take(op, op.phase))
        case _:
            return False
    if walk.role.unit != "warpgroup128":
        walk.report("WG009", op, f"{op.name} in a role of {walk.role.unit}")
    in_known_role(walk, op, releases=True)
    return True


def _start(walk: RoleWalk, op: RoomStartOp) -> None:
    room = walk.buffer_of(op, op.room)
    walk.require_unit(op, op.unit)
    if room is None:
        walk.give(op, op.result, None)
        return
    if room.ring or room.instances != 1 or room.slots != walk.role.count or room.swizzle != _SWIZZLE:
        walk.findings.doubt(f"takes buffer {room.name} for a room of each of {walk.role.count} units", op)
    for use in op.room.uses:
        other = use.operation
        known = isinstance(other, OPERATIONS) or (isinstance(other, _PRODUCTS) and other.b is op.room)
        if not known or (isinstance(other, RoomStartOp) and other is not op):
            walk.findings.doubt(f"{other.name} uses buffer {room.name}, which is a room", op)
    # As a slot of a ring of the buffer's name, which has this one alone.
    walk.give(op, op.result, Slot(room.name, "retired", Polynomial(), fenced=True))


def _retired(walk: RoleWalk, op: Operation, token: Token | None) -> str:
    """The name of the room that a phase stands for, which nobody reads; "" for anything else."""
    if isinstance(token, Slot) and token.ring not in walk.kernel.rings and token.side == "retired":
        return token.ring
    walk.wrong(op, token)
    return ""


def _remake(walk: RoleWalk, op: SlotRemakeOp) -> None:
    slot, free = walk.take(op, op.phase), _retired(walk, op, walk.take(op, op.free))
    source, room = walk.buffer_of(op, op.source), walk.buffer_of(op, op.room)
    walk.require_unit(op, op.unit)
    meet(walk, op, op.first_barrier.data)
    slot = walk.expect(op, slot, Slot, "read")
    if slot is not None and (slot.side == "empty" or slot.ring not in walk.kernel.rings):
        walk.report("MB012", op, f"reads {describe(slot)}")
    elif slot is not None:
        walk.require_all_waited(op, slot)
    if source is not None and room is not None:
        if free and room.name != free:
            walk.report("MB007", op, f"writes room {room.name} with the phase of {free}")
        if slot is not None and source.ring != slot.ring:
            walk.report("MB007", op, f"reads buffer {source.name} on a slot of ring {slot.ring}")
        _footprint(walk, op, source, room, slot)
    walk.give(op, op.held, slot)
    made = Slot(room.name, "full", Polynomial(), fenced=True) if room is not None else None
    walk.give(op, op.made, made)


def _footprint(walk: RoleWalk, op: SlotRemakeOp, source: Buffer, room: Buffer, slot: Slot | None) -> None:
    rows, chunks = op.rows.data, op.chunks.data
    narrow, wide = parse_element(source.element), parse_element(room.element)
    step = {"turned": DEPTH_BYTES, "widened": WIDENED_ROWS}.get(op.kind.data, 0)
    elements = narrow is not None and narrow.is_float8 and wide is not None and wide.is_float
    elements = elements and (wide is narrow if op.remaking == "turned" else wide is not None and wide.bytes == WIDENED)
    if not step or not elements or rows < step or rows % step or chunks < _WARPS or chunks % _WARPS:
        walk.findings.doubt(f"makes {room.element} of {rows} x {chunks} chunks of {source.element}: {op.kind.data}", op)
        return
    if source.swizzle != _SWIZZLE or room.swizzle != _SWIZZLE:
        walk.findings.doubt(f"remakes a slot of swizzle {source.swizzle} for a room of {room.swizzle}", op)
        return
    for buffer, ranges in ((source, slot_ranges(op)), (room, room_ranges(op))):
        if ranges[-1][1] > buffer.slot_bytes:
            walk.report(
                "WG006",
                op,
                f"reaches byte {ranges[-1][1]} of a slot of {buffer.slot_bytes} in buffer {buffer.name}",
                against=buffer.op,
            )
    if walk.recording and slot is not None:
        walk.summary.reads.append(ReadSite(op, slot.ring, source.name, slot_ranges(op)))
