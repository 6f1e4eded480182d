"""How rings become mbarriers: cursors, waits, announced bytes, bulk copies, releases.

In a pair of CTAs, what the first one's thread waits for is signalled on its barriers, by both CTAs.

Sources: PTX ISA, mbarrier.try_wait, mbarrier.arrive, cp.async.bulk.tensor (.cta_group::2), mapa.
Checked by: tests/lower/test_ptx_text.py.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.lower.ptx.lowering import Lowering, slot_of
from tilewright.lower.ptx.places import BufferPlace, CursorPlace, ParameterPlace, RingPlace, SlotPlace

_WHOLE = "1.0"
"""Share of the bytes to which a cache policy applies."""


def ring_stages(cursor: SSAValue) -> int:
    """Stages of the ring that a cursor stands in."""
    owner = cursor.owner.parent_op() if isinstance(cursor.owner, Block) else cursor.owner
    assert owner is not None and isinstance(cursor.type, ac.CursorType)
    return next(
        ring.stages.data
        for ring in ac.kernel_of(owner).body.block.ops
        if isinstance(ring, ac.RingOp) and ring.sym_name.data == cursor.type.ring.data
    )


def lower_advance(lowering: Lowering, op: ac.AdvanceOp) -> CursorPlace:
    cursor = lowering.place(op.cursor)
    assert isinstance(cursor, CursorPlace)
    return _behind(lowering, cursor, ring_stages(op.cursor))


def _behind(lowering: Lowering, cursor: CursorPlace, stages: int) -> CursorPlace:
    """The next slot's place in a ring of so many."""
    text = lowering.text
    following = text.into("b32", "add.u32", cursor.stage, 1)
    wraps = text.into("pred", "setp.eq.u32", following, stages)
    stage = text.into("b32", "selp.b32", 0, following, wraps)
    flip = text.into("b32", "selp.b32", 1, 0, wraps)
    return CursorPlace(stage, text.into("b32", "xor.b32", cursor.parity, flip))


def barrier_address(lowering: Lowering, slot: SlotPlace, behind: int) -> str:
    """Address of full[stage] (behind 0) or empty[stage] (behind = stages)."""
    text = lowering.text
    offset = text.into("b32", "mad.lo.u32", slot.stage, 8, lowering.shared_base)
    constant = slot.ring.address + 8 * behind
    return text.into("b32", "add.u32", offset, constant) if constant else offset


def _of_leader(lowering: Lowering, address: str) -> str:
    """The barrier at the same place of the pair's first CTA. A pair is a cluster."""
    return lowering.text.into("b32", "mapa.shared::cluster.u32", address, 0)


def lower_wait(lowering: Lowering, op: ac.BarrierWaitOp, *, of_cluster: bool = False) -> SlotPlace:
    """of_cluster: whether threads of another CTA hand over what they have read or written."""
    text = lowering.text
    ring, cursor = lowering.place(op.ring), lowering.place(op.cursor)
    assert isinstance(ring, RingPlace) and isinstance(cursor, CursorPlace)
    slot = SlotPlace(ring, cursor.stage)
    address = barrier_address(lowering, slot, 0 if op.side.data == "full" else ring.stages)
    parity = cursor.parity
    if op.invert_parity.data:
        parity = text.into("b32", "xor.b32", parity, 1)
    # Nothing that a generic access wrote is handed over on either side: a slot's bytes come by copies, whatever CTA
    # issued them, and are read by wgmma alone. So the scope is the CTA's, on empty barriers too (see lower_arrive).
    _wait(lowering, address, parity, ".acquire.cluster" if of_cluster else "")
    return slot


def _wait(lowering: Lowering, address: str, parity: str, order: str = "") -> None:
    """Until a barrier has completed a phase of the parity. order: of the wait, where it is not the default."""
    text = lowering.text
    retry, done = text.label("wait"), text.label("wait_done")
    text.place(retry)
    passed = text.register("pred")
    text.emit(f"mbarrier.try_wait.parity{order}.shared::cta.b64", passed, f"[{address}]", parity)
    text.emit("bra", done, guard=passed)
    text.emit("bra", retry)
    text.place(done)


def wait_for_slot(lowering: Lowering, ring: SSAValue, cursor: CursorPlace) -> SlotPlace:
    """Wait until the slot at a cursor is full."""
    place = lowering.place(ring)
    assert isinstance(place, RingPlace)
    slot = SlotPlace(place, cursor.stage)
    _wait(lowering, barrier_address(lowering, slot, 0), cursor.parity)
    return slot


def release_slot(lowering: Lowering, slot: SlotPlace) -> None:
    """The unit's first thread gives a slot back, of a CTA that fills its own."""
    address = barrier_address(lowering, slot, slot.ring.stages)
    opcode = "mbarrier.arrive.release.cta.shared::cta.b64"
    lowering.text.emit(opcode, "_", f"[{address}]", guard=lowering.is_first_thread)


def behind(lowering: Lowering, ring: SSAValue, cursor: CursorPlace) -> CursorPlace:
    """The next slot's place."""
    place = lowering.place(ring)
    assert isinstance(place, RingPlace)
    return _behind(lowering, cursor, place.stages)


def meet(lowering: Lowering, unit: SSAValue, first_barrier: int, threads: int) -> None:
    """The unit's threads wait for each other at a named barrier of their own."""
    number = lowering.text.into("b32", "add.u32", lowering.index(unit), first_barrier)
    lowering.text.emit("bar.sync", number, threads)


def lower_drain(lowering: Lowering, op: ac.DrainOp) -> None:
    """Each slot of the ring is waited for once more, as if it were to be filled."""
    ring, cursor = lowering.place(op.ring), lowering.place(op.cursor)
    assert isinstance(ring, RingPlace) and isinstance(cursor, CursorPlace)
    for number in range(ring.stages):
        cursor = _behind(lowering, cursor, ring.stages) if number else cursor
        address = barrier_address(lowering, SlotPlace(ring, cursor.stage), ring.stages)
        _wait(lowering, address, lowering.text.into("b32", "xor.b32", cursor.parity, 1))


def lower_arrive_expect(lowering: Lowering, op: ac.ArriveExpectOp) -> SlotPlace:
    """Announce the slot's bytes and arrive on its full barrier."""
    slot = slot_of(lowering, op.phase)
    address = barrier_address(lowering, slot, 0)
    guard, where = _elected(lowering, op), "cta"
    if is_set(op.leader):
        # Nothing is handed over by it: a scope of the cluster would order nothing more.
        address, where = _of_leader(lowering, address), "cluster"
    if op.bytes.data:
        opcode = f"mbarrier.arrive.expect_tx.release.cta.shared::{where}.b64"
        lowering.text.emit(opcode, "_", f"[{address}]", op.bytes.data, guard=guard)
    else:
        lowering.text.emit(f"mbarrier.arrive.release.cta.shared::{where}.b64", "_", f"[{address}]", guard=guard)
    return slot


def _elected(lowering: Lowering, op: ac.ArriveExpectOp | ac.CopyIssueOp) -> str:
    """The guard by which one thread of a warpgroup executes an operation; none in a role of one thread."""
    return lowering.is_first_thread if op.elected is not None and op.elected.data else ""


def lower_copy_issue(lowering: Lowering, op: ac.CopyIssueOp) -> None:
    text = lowering.text
    descriptor, buffer = lowering.place(op.descriptor), lowering.place(op.buffer)
    assert isinstance(descriptor, ParameterPlace) and isinstance(buffer, BufferPlace)
    slot = slot_of(lowering, op.tx)
    base = text.into("b32", "add.u32", lowering.shared_base, buffer.address + op.offset_bytes.data)
    if op.rank_offset_bytes.data:
        rank = text.into("b32", "mov.u32", "%cluster_ctarank")
        base = text.into("b32", "mad.lo.u32", rank, op.rank_offset_bytes.data, base)
    destination = text.into("b32", "mad.lo.u32", slot.stage, buffer.slot_bytes, base)
    barrier = barrier_address(lowering, slot, 0)
    if is_set(op.leader):
        barrier = _of_leader(lowering, barrier)
    indices = [lowering.index(value) for value in op.coordinates]
    if op.rank_elements is not None and op.rank_dimension is not None:
        rank = text.into("b32", "mov.u32", "%cluster_ctarank")
        shared = op.rank_dimension.data
        indices[shared] = text.into("b32", "mad.lo.s32", rank, op.rank_elements.data, indices[shared])
    coordinates = ", ".join(indices)
    rank_words = f"{len(op.coordinates)}d"
    opcode = f"cp.async.bulk.tensor.{rank_words}.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    operands = [f"[{destination}]", f"[{descriptor.register}, {{{coordinates}}}]", f"[{barrier}]"]
    if op.multicast.data > 1:
        opcode += ".multicast::cluster"
        operands.append(text.into("b16", "mov.u16", (1 << op.multicast.data) - 1))
    if is_set(op.leader):
        opcode += ".cta_group::2"
    if op.evict_first is not None and op.evict_first.data:
        opcode += ".L2::cache_hint"
        # No instruction of its own: an assembler knows the policy of the whole, and puts it into a constant.
        operands.append(text.into("b64", "createpolicy.fractional.L2::evict_first.b64", _WHOLE))
    text.emit(opcode, *operands, guard=_elected(lowering, op))
    lowering.places[op.result] = slot


def lower_arrive(lowering: Lowering, op: ac.ArriveOp) -> None:
    text = lowering.text
    slot, peers = slot_of(lowering, op.phase), op.peers.data
    if peers == 1 and not is_set(op.leader):
        release_slot(lowering, slot)
        return
    address = barrier_address(lowering, slot, slot.ring.stages)
    if is_set(op.leader):
        # What the unit's threads have read comes before what the first CTA issues.
        remote = _of_leader(lowering, address)
        opcode = "mbarrier.arrive.release.cluster.shared::cluster.b64"
        text.emit(opcode, "_", f"[{remote}]", guard=lowering.is_first_thread)
        return
    # Thread p of the unit tells CTA p of the cluster. What must come before the arrival are the reads of the slot, and
    # those are wgmma's, done when wait_group has returned: a release of generic accesses at cluster scope would order
    # nothing of it, and costs a fence of the whole device's memory at every slot.
    tells = text.into("pred", "setp.lt.u32", lowering.warpgroup_thread, peers)
    remote = text.into("b32", "mapa.shared::cluster.u32", address, lowering.warpgroup_thread)
    text.emit("mbarrier.arrive.release.cta.shared::cluster.b64", "_", f"[{remote}]", guard=tells)


def keep_releases_first(lowering: Lowering, op: ac.ArriveOp) -> None:
    """Hold an epilogue's arithmetic behind the release of a tile's last slots.

    The assembler is free to move arithmetic before an arrival, and does, thousands of instructions of it: then the slot
    stays taken as long, the producer stops at it, and a consumer that multiplies the next tile starves. It moves
    nothing across `nanosleep` (ptxas 13.0, by its listings); of no time, and by the thread that arrived. That takes
    some 100 ns all the same (`python -m bench.probes.beginnings`): it is for kernels whose CTAs have further tiles.
    """
    if op.first is not None and op.first.data:
        lowering.text.emit("nanosleep.u32", 0, guard=lowering.is_first_thread)


def lower_copy_store(lowering: Lowering, op: ac.CopyStoreOp) -> None:
    text = lowering.text
    descriptor, buffer = lowering.place(op.descriptor), lowering.place(op.buffer)
    assert isinstance(descriptor, ParameterPlace) and isinstance(buffer, BufferPlace)
    base = text.into("b32", "add.u32", lowering.shared_base, buffer.address + op.slot.data * buffer.slot_bytes)
    source = text.into("b32", "mad.lo.u32", lowering.index(op.unit), buffer.slots * buffer.slot_bytes, base)
    coordinates = ", ".join(lowering.index(value) for value in op.coordinates)
    text.emit(
        f"cp.async.bulk.tensor.{len(op.coordinates)}d.global.shared::cta.tile.bulk_group",
        f"[{descriptor.register}, {{{coordinates}}}]",
        f"[{source}]",
        guard=lowering.is_first_thread,
    )
