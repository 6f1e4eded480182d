"""How slots of a ring in tensor memory become PTX: waits for them, products that fill them, commits, reads by lanes.

A role of one thread fills, without a predicate; a commit on the slot's full barrier hands it over. Behind a wait for a
slot of tensor memory stands tcgen05.fence::after_thread_sync: what the thread issues or reads then comes after what
those have done that arrived on the barrier, in both CTAs of a pair. A unit reads 16 lanes of each warp's quarter.

Source: PTX ISA, tcgen05.commit, tcgen05.fence, tcgen05.ld; Data path layout organization, layouts D and F. Checked by:
tests/end_to_end/test_blackwell.py.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import (
    TensorFactorsOp,
    TensorFillOp,
    TensorHandOverOp,
    TensorMemoryOp,
    TensorReadOp,
)
from tilewright.lower.ptx.copies.rings import barrier_address, lower_wait
from tilewright.lower.ptx.lowering import Emitters, Lowering, slot_of
from tilewright.lower.ptx.places import SlotPlace
from tilewright.lower.ptx.products.tensor_factors import copy_factors, take_factors
from tilewright.lower.ptx.products.tensor_memory import (
    commit,
    instruction,
    left_operands,
    loaded,
    memory_of,
    multiply,
    registers,
    scaled_instructions,
)


def lower_barrier_wait(lowering: Lowering, op: ac.BarrierWaitOp) -> SlotPlace:
    """A wait for a slot: by each thread of the role, or by the issuing warp alone, which the others pass over."""
    text = lowering.text
    alone = op.issuer is not None and bool(op.issuer.data)
    others = text.label("others") if alone else ""
    if alone:
        text.emit("bra", others, guard=f"!{registers(lowering).issues}")
    of_sums = is_slot_wait(op)
    slot = lower_wait(lowering, op, of_cluster=of_sums and lowering.leads)
    if alone or of_sums:
        if registers(lowering).own:
            text.emit("bar.warp.sync", -1)
        text.emit("tcgen05.fence::after_thread_sync")
    if alone:
        text.place(others)
    return slot


def is_slot_wait(op: ac.BarrierWaitOp) -> bool:
    """Whether what is waited for is a slot of tensor memory."""
    kind = op.ring.type
    assert isinstance(kind, ac.RingType)
    memories = (each for each in ac.kernel_of(op).body.block.ops if isinstance(each, TensorMemoryOp))
    return any(each.ring == kind.ring for each in memories)


def _fill(lowering: Lowering, op: TensorFillOp) -> None:
    slot, facts = slot_of(lowering, op.into), lowering.facts
    columns = _of_slot(lowering, op.memory, slot, registers(lowering).part)
    operands = left_operands(lowering, op, "")
    factors = take_factors(lowering, op)
    kinds = scaled_instructions(facts, op) if factors else [instruction(facts, op, op.a_major.data)]
    multiply(lowering, op, operands, kinds, columns, not op.accumulate.data, factors)
    lowering.places[op.filling] = slot


def _hand_over(lowering: Lowering, op: TensorHandOverOp) -> None:
    commit(lowering, barrier_address(lowering, slot_of(lowering, op.filling), 0), pair=is_set(op.pair))


def _read(lowering: Lowering, op: TensorReadOp) -> None:
    kind, slot = op.result.type, slot_of(lowering, op.phase)
    assert isinstance(kind, ac.FragmentType)
    own = _of_slot(lowering, op.memory, slot, registers(lowering).slots)
    lowering.places[op.result] = loaded(lowering, memory_of(lowering, op.memory), own, op.column.data, kind.n.data)
    lowering.places[op.held] = slot


def _of_slot(lowering: Lowering, memory: SSAValue, slot: SlotPlace, first: str) -> str:
    """The address of a slot's columns. first: of the first slot's."""
    return lowering.text.into("b32", "mad.lo.u32", slot.stage, memory_of(lowering, memory).slot_columns, first)


EMITTERS: Emitters = {
    TensorFactorsOp: copy_factors,
    TensorFillOp: _fill,
    TensorHandOverOp: _hand_over,
    TensorReadOp: _read,
}
