"""Do all roles go through the same tiles where the hardware hands them out, each tile once?

A CTA's number of tiles is not known, and the proof holds for every number of them. What it rests on:

- Each role takes one answer in each iteration of its loop over tiles, in the ring's order (`rings`: of a ring that all
  roles read, each reads all slots). Whether the loop goes on, and with which tile, is what the answer says, so that the
  loops of all roles have as many iterations, and the same tiles.
- One role asks, once in each iteration. It has taken the answer of the iteration before, which granted one: nobody asks
  once it was refused, which the ISA leaves undefined.
- The grid has a CTA for each tile, and each CTA's work is done by itself or by one other that was given it.
- A slot's threads read it through the generic proxy, and the next answer comes through the async proxy: each thread
  fences, and the unit meets, before its first thread releases the slot. The operation is all of that.

Not handled (doubts): clusters, other loops over tiles in the kernel, tiles that only a launch knows.
Source: PTX ISA, clusterlaunchcontrol.try_cancel. Checked by: tests/contract/typestate/steps/test_handed.py.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation

from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import Buffer, Kernel
from tilewright.contract.typestate.run_time_sizes import most_each, most_of, most_places, ranges_at
from tilewright.contract.typestate.steps.ring import release_slot
from tilewright.contract.typestate.steps.unit_barriers import meet
from tilewright.contract.typestate.token import Filling, Slot
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.handed import ANSWER_BYTES, WorkAskOp, WorkTakeOp
from tilewright.ir.ac.stream import StreamPartOp, TurnStreamPartOp

_OTHER_LOOPS = (ac.TurnTilesOp, ac.GroupTilesOp, ac.TurnGroupTilesOp, StreamPartOp, TurnStreamPartOp)


def handed_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it asks for work, or takes an answer."""
    match op:
        case WorkAskOp():
            _ask(walk, op)
        case WorkTakeOp():
            _take(walk, op)
        case _:
            return False
    return True


def _ask(walk: RoleWalk, op: WorkAskOp) -> None:
    filling, buffer = walk.take_as(op, op.tx, Filling), walk.buffer_of(op, op.buffer)
    if filling is None or buffer is None:
        return
    _check_slot(walk, op, buffer, filling.ring)
    if walk.role.unit != "thread1" or walk.role.count != 1:
        walk.report("TX007", op, f"every thread of {walk.role.count} {walk.role.unit} units would ask")
    if filling.bytes_left != ANSWER_BYTES:
        walk.report("TX001", op, f"an answer has {ANSWER_BYTES} bytes, and {filling.bytes_left} are announced")
    walk.ring_event("fill", op, filling)
    site = walk.summary.fills.get(filling.site)
    if walk.recording and site is not None:
        site.ranges[buffer.name] = ((0, ANSWER_BYTES),)


def _take(walk: RoleWalk, op: WorkTakeOp) -> None:
    slot, buffer = walk.take_as(op, op.phase, Slot), walk.buffer_of(op, op.buffer)
    walk.require_unit(op, op.unit)
    if slot is None or buffer is None:
        return
    _check_slot(walk, op, buffer, slot.ring)
    if (op.first_barrier is None) != (walk.role.unit == "thread1"):
        walk.report("NB001", op, f"units of {walk.role.unit} meet on no barrier, or one thread does on one")
    elif op.first_barrier is not None:
        meet(walk, op, op.first_barrier.data)
    walk.require_all_waited(op, slot)
    release_slot(walk, op, slot)


def _check_slot(walk: RoleWalk, op: Operation, buffer: Buffer, ring: str) -> None:
    if buffer.ring != ring:
        walk.report("MB007", op, f"buffer {buffer.name} of {buffer.ring or 'no ring'} on a slot of ring {ring}")
    if buffer.slot_bytes < ANSWER_BYTES or (buffer.slot_bytes | buffer.address) % ANSWER_BYTES:
        walk.report("AL002", op, f"an answer in slots of {buffer.slot_bytes} bytes at {buffer.address}")


def work_ring(kernel: Kernel) -> str:
    """The ring of answers; "" where tiles are not handed out."""
    for op in kernel.operations.of(WorkAskOp, WorkTakeOp):
        buffer = kernel.declared.get(op.buffer)
        if isinstance(buffer, Buffer):
            return buffer.ring
    return ""


def tiles_handed(kernel: Kernel) -> int:
    """How many tiles the hardware hands out; 0 where it does not."""
    loop = next((op for op in kernel.operations.of(ac.TilesOp) if is_set(op.handed)), None)
    return 0 if loop is None else _tiles(loop)


def _tiles(loop: ac.TilesOp) -> int:
    """How many there are at most."""
    return most_of(loop.tiles_m, loop) * most_of(loop.tiles_n, loop) * prod(most_places(loop))


def check_handed(kernel: Kernel, findings: Findings) -> None:
    """Doubt loops over tiles of which the roles may not take the same answers."""
    operations = kernel.operations
    loops = operations.of(ac.TilesOp)
    handed, words = [op for op in loops if is_set(op.handed)], operations.of(WorkAskOp, WorkTakeOp)
    if not handed:
        for op in words:
            findings.doubt("asks for work, or takes an answer, where tiles are not handed out", op)
        return
    first = handed[0]
    others = [op for op in loops if not is_set(op.handed)]
    for op in (*others, *operations.of(*_OTHER_LOOPS)):
        findings.doubt("is another loop over tiles where some are handed out", op)
    if kernel.cluster_ctas != 1:
        findings.doubt("tiles are handed out to clusters", first)
    tiles = _tiles(first)
    if prod(most_each(kernel.op.grid, kernel.op)) != tiles or first.first or ranges_at(first):
        findings.doubt(f"a grid that has not a CTA for each of {tiles} tiles", first)
    for role in kernel.roles:
        own = [op for op in handed if op.parent_op() is role.op]
        if len(own) > 1 or len(own) != len(role.operations.of(ac.TilesOp)):
            findings.doubt("goes through tiles that are handed out in several loops, or inside another", role.op)
        taken = role.operations.of(WorkTakeOp)
        if [op.parent_op() for op in taken] != list(own):
            findings.doubt("takes not one answer in each iteration of its loop over tiles", role.op)
    asked = operations.of(WorkAskOp)
    if len(asked) != 1 or asked[0].parent_op() not in handed:
        findings.doubt(f"work is asked for at {len(asked)} places, not in each tile at one", first)
    names = {_ring_of(kernel, op) for op in words}
    if len(names) > 1:
        findings.doubt("answers in slots of several rings", first)


def _ring_of(kernel: Kernel, op: WorkAskOp | WorkTakeOp) -> str | None:
    buffer = kernel.declared.get(op.buffer)
    return buffer.ring if isinstance(buffer, Buffer) else None
