"""How rings, bulk copies and the tensor core are written in `nvgpu` and `nvvm`.

`nvgpu` speaks of barriers by group and index and of tiles as memrefs, so it writes waits, announced bytes and bulk
tensor copies. It has no pipelined form of wgmma (its `warpgroup.mma` waits for itself), so matrix products are
`nvvm.wgmma` with the descriptors as integers. Arrivals at other CTAs are `nvvm.mapa` and `nvvm.mbarrier.arrive` with
cluster scope; a wait that acquires at cluster scope exists in neither dialect and is inline PTX. Sources: upstream's
NVGPU and NVVM dialect pages; PTX ISA, wgmma matrix descriptor.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.lower.mlir.text import (
    SHARED,
    HeldAccumulator,
    HeldBuffer,
    HeldCursor,
    HeldMap,
    HeldRing,
    HeldSlot,
    Nvgpu,
    accumulator_alias,
    cannot_write,
)
from tilewright.lower.ptx.lowering import integers

WAIT_HINT_NANOSECONDS = 10_000_000
_CLUSTER_SCOPE = "{scope = #nvvm.mem_scope<cluster>}"
_DESCRIPTOR_SWIZZLE = {"none": 0, "128B": 1, "64B": 2, "32B": 3}


# ---------------------------------------------------------------- rings


def write_advance(state: Nvgpu, op: ac.AdvanceOp, stages: int) -> HeldCursor:
    cursor = state.held[op.cursor]
    assert isinstance(cursor, HeldCursor)
    return _behind(state, cursor, stages)


def _behind(state: Nvgpu, cursor: HeldCursor, stages: int) -> HeldCursor:
    """The next slot's place in a ring of so many."""
    text = state.text
    following = text.add(cursor.stage, 1, "following")
    wraps = text.into("wraps", f"arith.cmpi eq, {following}, {text.constant(stages)} : index")
    stage = text.into("stage", f"arith.select {wraps}, {text.constant(0)}, {following} : index")
    return HeldCursor(stage, text.binary("parity", "xori", cursor.parity, wraps, "i1"))


def write_wait(state: Nvgpu, op: ac.BarrierWaitOp) -> HeldSlot:
    ring, cursor = state.held[op.ring], state.held[op.cursor]
    assert isinstance(ring, HeldRing) and isinstance(cursor, HeldCursor)
    _write_wait_at(state, ring, cursor, op.side.data, inverted=bool(op.invert_parity.data))
    return HeldSlot(ring, cursor.stage)


def _write_wait_at(state: Nvgpu, ring: HeldRing, cursor: HeldCursor, side: str, *, inverted: bool) -> None:
    text, parity = state.text, cursor.parity
    if inverted:
        parity = text.binary("parity", "xori", parity, text.constant("true", "i1"), "i1")
    if state.cluster_size > 1:
        _write_cluster_wait(state, ring, cursor, side, parity)
    else:
        group = ring.full if side == "full" else ring.empty
        ticks = text.constant(WAIT_HINT_NANOSECONDS)
        text.line(f"nvgpu.mbarrier.try_wait.parity {group}[{cursor.stage}], {parity}, {ticks} : {ring.kind}")


def write_drain(state: Nvgpu, op: ac.DrainOp) -> None:
    """Each slot of the ring is waited for once more, as if it were to be filled."""
    ring, cursor = state.held[op.ring], state.held[op.cursor]
    assert isinstance(ring, HeldRing) and isinstance(cursor, HeldCursor)
    for number in range(ring.stages):
        cursor = _behind(state, cursor, ring.stages) if number else cursor
        _write_wait_at(state, ring, cursor, "empty", inverted=True)


def _write_cluster_wait(state: Nvgpu, ring: HeldRing, cursor: HeldCursor, side: str, parity: str) -> None:
    """Other CTAs arrive on this barrier: what they did before must be seen, so the scope is the cluster."""
    text = state.text
    address = barrier_address(state, HeldSlot(ring, cursor.stage), side)
    word = text.into("parity", f"arith.extui {parity} : i1 to i32")
    text.line("// neither nvgpu nor nvvm has a parity wait that acquires at cluster scope")
    with text.block("scf.while : () -> () {", "} do {"):
        wait = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 {$w0}, [{$r0}], {$r1};"
        passed = text.into("passed", f'nvvm.inline_ptx "{wait}" ro({address}, {word} : i32, i32) -> i1')
        again = text.binary("again", "xori", passed, text.constant("true", "i1"), "i1")
        text.line(f"scf.condition({again})")
    text.line("  scf.yield")
    text.line("}")


def barrier_address(state: Nvgpu, slot: HeldSlot, side: str) -> str:
    """Shared-memory address of one barrier, as i32."""
    text = state.text
    first = slot.ring.address + (8 * slot.ring.stages if side == "empty" else 0)
    offset = text.add(text.multiply(slot.stage, 8), first)
    address = text.binary("barrier", "addi", state.shared_address, offset)
    return text.into("barrier", f"arith.index_cast {address} : index to i32")


def _of_leader(state: Nvgpu, slot: HeldSlot, side: str) -> str:
    """The barrier at the same place of the pair's first CTA, as a pointer into the cluster's shared memory."""
    return _remote(state, slot, side, state.text.constant(0, "i32"))


def _remote(state: Nvgpu, slot: HeldSlot, side: str, rank: str) -> str:
    """A slot's barrier of the CTA of a rank (i32)."""
    text = state.text
    pointer = text.into("barrier", f"llvm.inttoptr {barrier_address(state, slot, side)} : i32 to !llvm.ptr<3>")
    return text.into("remote", f"nvvm.mapa {pointer}, {rank} : !llvm.ptr<3> -> !llvm.ptr<7>")


def write_arrive_expect(state: Nvgpu, op: ac.ArriveExpectOp) -> HeldSlot:
    text, slot = state.text, state.slot(op.phase)
    if is_set(op.leader):
        barrier, size = _of_leader(state, slot, "full"), text.constant(op.bytes.data, "i32")
        text.line(f"nvvm.mbarrier.arrive.expect_tx {barrier}, {size} {_CLUSTER_SCOPE} : !llvm.ptr<7>, i32")
        return slot
    count = text.constant(op.bytes.data)
    text.line(f"nvgpu.mbarrier.arrive.expect_tx {slot.ring.full}[{slot.stage}], {count} : {slot.ring.kind}")
    return slot


def write_arrive(state: Nvgpu, op: ac.ArriveOp) -> None:
    text, slot = state.text, state.slot(op.phase)
    if is_set(op.leader):
        with text.block(f"scf.if {state.is_first_thread} {{"):
            text.line(f"nvvm.mbarrier.arrive {_of_leader(state, slot, 'empty')} {_CLUSTER_SCOPE} : !llvm.ptr<7>")
        return
    if op.peers.data == 1:
        with text.block(f"scf.if {state.is_first_thread} {{"):
            token = text.name("token")
            kind = slot.ring.kind
            text.line(f"{token} = nvgpu.mbarrier.arrive {slot.ring.empty}[{slot.stage}] : {kind} -> "
                      "!nvgpu.mbarrier.token")  # fmt: skip
        return
    # Thread p of the unit tells CTA p of the cluster.
    peers = text.constant(op.peers.data)
    tells = text.into("tells", f"arith.cmpi ult, {state.warpgroup_thread}, {peers} : index")
    with text.block(f"scf.if {tells} {{"):
        peer = text.into("peer", f"arith.index_cast {state.warpgroup_thread} : index to i32")
        text.line(f"nvvm.mbarrier.arrive {_remote(state, slot, 'empty', peer)} {_CLUSTER_SCOPE} : !llvm.ptr<7>")


# ---------------------------------------------------------------- bulk copies


def _box(state: Nvgpu, descriptor: HeldMap, offset: str) -> str:
    """The memref of one box at a byte offset of dynamic shared memory."""
    return state.text.into("box", f"memref.view {state.shared}[{offset}][] : {SHARED} to {descriptor.box_type}")


def write_copy_issue(state: Nvgpu, op: ac.CopyIssueOp) -> HeldSlot:
    text, descriptor = state.text, state.held[op.descriptor]
    assert isinstance(descriptor, HeldMap)
    buffer, slot = state.buffer(op.buffer), state.slot(op.tx)
    offset = text.add(text.multiply(slot.stage, buffer.slot_bytes), buffer.address + op.offset_bytes.data)
    coordinates = [state.index(value) for value in op.coordinates]
    rank = ""
    if op.rank_offset_bytes.data or op.rank_elements is not None:
        word = text.into("rank", "nvvm.read.ptx.sreg.cluster.ctarank : i32")
        rank = text.into("rank", f"arith.index_castui {word} : i32 to index")
    if op.rank_offset_bytes.data:
        offset = text.add(offset, text.multiply(rank, op.rank_offset_bytes.data))
    if op.rank_elements is not None and op.rank_dimension is not None:
        shared = op.rank_dimension.data
        coordinates[shared] = text.add(coordinates[shared], text.multiply(rank, op.rank_elements.data))
    mask = ""
    if op.multicast.data > 1:
        mask = f" multicast_mask = {text.constant((1 << op.multicast.data) - 1, 'i16')}"
    if is_set(op.leader):
        _write_pair_copy(state, descriptor, offset, coordinates, _of_leader(state, slot, "full"), mask)
        return slot
    box = _box(state, descriptor, offset)
    barrier = f"{slot.ring.full}[{slot.stage}]"
    text.line(
        f"nvgpu.tma.async.load {descriptor.name}[{', '.join(coordinates)}], {barrier} to {box}{mask}"
        f" : {descriptor.kind}, {slot.ring.kind} -> {descriptor.box_type}"
    )
    return slot


def _write_pair_copy(
    state: Nvgpu, descriptor: HeldMap, offset: str, coordinates: list[str], barrier: str, mask: str
) -> None:
    """A copy into the CTA's own slot whose bytes count on the barrier of the pair's first CTA. nvvm takes the barrier's
    address as one of the CTA's shared memory, whose addresses are among the cluster's."""
    text = state.text
    word = text.into("remote", f"llvm.ptrtoint {barrier} : !llvm.ptr<7> to i32")
    barrier = text.into("remote", f"llvm.inttoptr {word} : i32 to !llvm.ptr<3>")
    place = text.into("box", f"arith.index_cast {text.add(state.shared_address, offset)} : index to i32")
    place = text.into("box", f"llvm.inttoptr {place} : i32 to !llvm.ptr<3>")
    place = text.into("box", f"llvm.addrspacecast {place} : !llvm.ptr<3> to !llvm.ptr<7>")
    words = ", ".join(text.into("at", f"arith.index_cast {each} : index to i32") for each in coordinates)
    source = text.into("map", f"builtin.unrealized_conversion_cast {descriptor.name} : {descriptor.kind} to !llvm.ptr")
    text.line(
        f"nvvm.cp.async.bulk.tensor.shared.cluster.global {place}, {source}, {barrier}, box[{words}]{mask} "
        "{group = #nvvm.cta_group<cta_2>} : !llvm.ptr<7>, !llvm.ptr"
    )


def write_copy_store(state: Nvgpu, op: ac.CopyStoreOp) -> None:
    text, descriptor = state.text, state.held[op.descriptor]
    assert isinstance(descriptor, HeldMap)
    buffer = state.buffer(op.buffer)
    box = _box(state, descriptor, staging_offset(state, buffer, op.slot.data, state.index(op.unit)))
    coordinates = ", ".join(state.index(value) for value in op.coordinates)
    text.line(
        f"nvgpu.tma.async.store {box} to {descriptor.name}[{coordinates}], predicate = {state.is_first_thread}"
        f" : {descriptor.box_type} -> {descriptor.kind}"
    )


def staging_offset(state: Nvgpu, buffer: HeldBuffer, slot: int, unit: str) -> str:
    """Byte offset in dynamic shared memory of a unit's staging slot."""
    text = state.text
    return text.add(text.multiply(unit, buffer.slots * buffer.slot_bytes), buffer.address + slot * buffer.slot_bytes)


# ---------------------------------------------------------------- tensor core


def _descriptor(state: Nvgpu, buffer: HeldBuffer, leading: int, stride: int, slot: str, extra: str) -> str:
    """wgmma's matrix descriptor of a slot's operand: leading offset in bits 29:16, stride offset in 45:32, swizzle in
    63:62."""
    fixed = ((leading >> 4) & 0x3FFF) << 16 | ((stride >> 4) & 0x3FFF) << 32 | _DESCRIPTOR_SWIZZLE[buffer.swizzle] << 62
    return operand_descriptor(state, buffer, fixed, slot, extra)


def operand_descriptor(state: Nvgpu, buffer: HeldBuffer, fixed: int, slot: str, extra: str) -> str:
    """The 64-bit descriptor of a slot's operand: start address in 16-byte units in bits 13:0. fixed: all other bits;
    extra: bytes by which it begins later."""
    text = state.text
    offset = text.add(text.multiply(slot, buffer.slot_bytes), buffer.address)
    if extra:
        offset = text.add(offset, extra)
    address = text.add(state.shared_address, offset, "address")
    word = text.into("address", f"arith.index_cast {address} : index to i64")
    masked = text.binary("address", "andi", word, text.constant(0x3FFFF, "i64"), "i64")
    units = text.binary("units", "shrui", masked, text.constant(4, "i64"), "i64")
    signed = fixed - (1 << 64) if fixed >> 63 else fixed
    return text.binary("descriptor", "ori", units, text.constant(signed, "i64"), "i64")


def moved_descriptor(state: Nvgpu, descriptor: str, offset_bytes: int) -> str:
    if not offset_bytes:
        return descriptor
    return state.text.binary("descriptor", "addi", descriptor, state.text.constant(offset_bytes >> 4, "i64"), "i64")


def write_wgmma_issue(state: Nvgpu, op: ac.WgmmaIssueOp) -> tuple[HeldAccumulator, HeldSlot]:
    """The accumulator in flight and the slot being read."""
    if op.a_phase is not None:
        raise cannot_write(op)
    text, slot = state.text, state.slot(op.phase)
    m, n, element = op.m.data, op.n.data, op.element.data
    kind = accumulator_alias(n)
    overwrites = op.accumulator is None
    if op.accumulator is not None:
        running = state.held[op.accumulator]
        assert isinstance(running, HeldAccumulator)
        blocks = list(running.blocks)
    else:
        blocks = [text.into("accumulator", f"llvm.mlir.poison : {kind}") for _ in range(m // 64)]
    extra = ""
    if op.a_instance_bytes.data:
        extra = text.multiply(state.index(op.unit), op.a_instance_bytes.data)
    a_base = _descriptor(state, state.buffer(op.a), op.a_leading_bytes.data, op.a_stride_bytes.data, slot.stage, extra)
    b_base = _descriptor(state, state.buffer(op.b), op.b_leading_bytes.data, op.b_stride_bytes.data, slot.stage, "")
    a_layout = "row" if op.a_major.data == "K" else "col"
    b_layout = "col" if op.b_major.data == "K" else "row"
    a_steps, b_steps = integers(op.a_step_bytes), integers(op.b_step_bytes)
    for step in range(op.steps.data):
        b = moved_descriptor(state, b_base, b_steps[step])
        scale = "zero" if overwrites and step == 0 else "one"
        for number in range(m // 64):
            a = moved_descriptor(state, a_base, a_steps[step] + number * op.a_block_bytes.data)
            blocks[number] = text.into(
                "accumulator",
                f"nvvm.wgmma.mma_async {a}, {b}, {blocks[number]}, #nvvm.shape<m = 64, n = {n}, k = 16>, "
                f"D [<f32>, <{scale}>], A [<{element}>, <one>, <{a_layout}>], B [<{element}>, <one>, <{b_layout}>]"
                f" : {kind} -> {kind}",
            )
    return HeldAccumulator(tuple(blocks), n), slot
