"""How requests for other CTAs' work become PTX: one thread asks, every thread reads each answer.

An answer that grants nothing names no CTA, so that the tile is asked for only where one was granted. All threads of a
unit have read the slot, and fenced their reads towards the async proxy, by which the next answer comes, when the unit's
first thread releases it.

Source: PTX ISA, clusterlaunchcontrol.try_cancel, clusterlaunchcontrol.query_cancel. Checked by:
tests/end_to_end/test_blackwell_handed.py.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.ir.ac.handed import WorkAskOp, WorkTakeOp
from tilewright.lower.ptx.copies.rings import barrier_address
from tilewright.lower.ptx.lowering import Emitters, Lowering, slot_of
from tilewright.lower.ptx.places import BufferPlace, SlotPlace

_UNIT_THREADS = 128


def _ask(lowering: Lowering, op: WorkAskOp) -> None:
    slot = slot_of(lowering, op.tx)
    opcode = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
    answer = _answer(lowering, op.buffer, slot)
    lowering.text.emit(opcode, f"[{answer}]", f"[{barrier_address(lowering, slot, 0)}]")


def _take(lowering: Lowering, op: WorkTakeOp) -> None:
    text, slot = lowering.text, slot_of(lowering, op.phase)
    low, high = text.register("b64"), text.register("b64")
    text.emit("ld.shared.v2.b64", f"{{{low}, {high}}}", f"[{_answer(lowering, op.buffer, slot)}]")
    text.emit("fence.proxy.async.shared::cta")
    answer = text.into("b128", "mov.b128", f"{{{low}, {high}}}")
    granted = text.into("pred", "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", answer)
    following = text.into("b32", "mov.u32", 0)
    opcode = "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128"
    text.emit(opcode, following, answer, guard=granted)
    if op.first_barrier is not None:
        number = text.into("b32", "add.u32", lowering.index(op.unit), op.first_barrier.data)
        text.emit("bar.sync", number, _UNIT_THREADS)
    empty = barrier_address(lowering, slot, slot.ring.stages)
    text.emit("mbarrier.arrive.release.cta.shared::cta.b64", "_", f"[{empty}]", guard=lowering.is_first_thread)
    loop = op.parent_op()
    assert loop is not None
    lowering.granted[loop] = following, granted


def _answer(lowering: Lowering, buffer: SSAValue, slot: SlotPlace) -> str:
    place = lowering.place(buffer)
    assert isinstance(place, BufferPlace)
    base = lowering.text.into("b32", "add.u32", lowering.shared_base, place.address)
    return lowering.text.into("b32", "mad.lo.u32", slot.stage, place.slot_bytes, base)


EMITTERS: Emitters = {
    WorkAskOp: _ask,
    WorkTakeOp: _take,
}
