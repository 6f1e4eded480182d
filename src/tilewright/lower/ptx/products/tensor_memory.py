"""How products in tensor memory become PTX: allocation, one thread's tcgen05.mma, commits, reads and writes by lanes.

A CTA's first warp allocates; the address that it gets stands in shared memory, and each role that multiplies loads it
once. Whatever a unit's first thread issues is guarded by a predicate, so that no warp diverges; a wait of the issuing
warp alone is passed over by the others as whole warps. The parity of the unit's barrier is a register that every thread
flips at each wait. Slots of a ring in tensor memory are the subject of `tensor_slots`.

Source: PTX ISA, tcgen05.alloc, .mma, .commit, .ld, .st, .wait, .fence; Instruction descriptor; Shared memory
descriptor. Checked by: tests/end_to_end/test_blackwell.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, cast

from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import (
    TensorAccumulatorType,
    TensorAllocOp,
    TensorCommitOp,
    TensorDeallocOp,
    TensorFactorsType,
    TensorFenceOp,
    TensorFillOp,
    TensorGoOnOp,
    TensorInitOp,
    TensorIssueOp,
    TensorIssueStoredOp,
    TensorLoadOp,
    TensorMemoryOp,
    TensorOperandType,
    TensorReadOp,
    TensorReleaseOp,
    TensorRelinquishOp,
    TensorSetUp,
    TensorStoreOp,
    TensorWaitOp,
)
from tilewright.ir.block_factors import SHARED_BY
from tilewright.ir.cascade import CELL_FACTORS
from tilewright.legal.descriptor.tensor_core_descriptor import (
    InstructionDescriptor,
    Kind,
    Layout,
    OperandElement,
    ScaleElement,
    SharedDescriptor,
    encode_instruction,
    encode_shared,
)
from tilewright.lower.fragment.narrow_operand import exchanged
from tilewright.lower.ptx.copies.rings import barrier_address
from tilewright.lower.ptx.lowering import Emitters, Lowering, TensorRegisters, integers, placed, slot_of
from tilewright.lower.ptx.places import (
    OPERAND_AXES,
    BufferPlace,
    FactorsPlace,
    FragmentPlace,
    NoPlace,
    SlotPlace,
    TensorMemoryPlace,
)
from tilewright.lower.ptx.products.tensor_asserts import (
    assert_access,
    assert_allocated,
    assert_columns,
)
from tilewright.lower.ptx.products.tensor_core import offset_descriptor, scale_predicate
from tilewright.targets import Target

_WARP_THREADS, _UNIT_THREADS = 32, 128
_BARRIER_BYTES = 8
_KINDS: dict[str, tuple[Kind, OperandElement]] = {
    "bf16": ("f16", "bf16"),
    "f16": ("f16", "f16"),
    "f8e4m3": ("f8f6f4", "e4m3"),
    "f8e5m2": ("f8f6f4", "e5m2"),
}
"""By element: the kind, and what that calls it."""
_SCALED_KINDS: dict[tuple[str, str], tuple[Kind, OperandElement, ScaleElement]] = {
    ("f8e4m3", "ue8m0"): ("mxf8f6f4", "e4m3", "ue8m0"),
    ("f8e5m2", "ue8m0"): ("mxf8f6f4", "e5m2", "ue8m0"),
    ("f4e2m1x2", "ue8m0"): ("mxf4", "e2m1", "ue8m0"),
    ("f4e2m1x2", "ue4m3"): ("mxf4nvf4", "e2m1", "ue4m3"),
}
"""The same by elements and factors of blocks, with what the kind calls these."""
LOAD_COLUMNS, LOAD_REGISTERS, _LOAD_MOST = 8, 4, 16
"""Of tcgen05.ld.16x256b.x1, and how many at once: of 32, ptxas (12.9) finds registers only where a launch has 146."""
STORE_COLUMNS, STORE_REGISTERS, _STORE_MOST = 4, 2, 64
"""Of tcgen05.st.16x128b.x1, and its largest count."""
_LANE_SHIFT = 21
"""A warp's lanes begin at 32 times its number in the unit, in the upper half of an address."""
PAIR_MASK = 0b11
"""The CTAs of a pair, which is a cluster."""
_UNIT_LANES = 16
"""Of each warp's, that a unit has of a product of all units' rows."""


def declare_memory(op: TensorMemoryOp) -> TensorMemoryPlace:
    kind, slot_columns = op.result.type, 0 if op.ring is None else op.slot_columns(_ring(op).stages.data)
    barriers = kind.units.data if op.units_issue else 0
    return TensorMemoryPlace(
        op.address.data, kind.columns.data, barriers, op.part_columns, slot_columns, op.first_part, is_set(op.pair),
        is_set(op.asserts), op.first_factor,
    )  # fmt: skip


def _ring(op: TensorMemoryOp) -> ac.RingOp:
    """The ring whose slots the columns are."""
    around = op.parent_block()
    assert around is not None and op.ring is not None
    return next(each for each in around.ops if isinstance(each, ac.RingOp) and each.sym_name == op.ring)


def memory_of(lowering: Lowering, value: SSAValue) -> TensorMemoryPlace:
    place = lowering.place(value)
    assert isinstance(place, TensorMemoryPlace)
    return place


# ---------------------------------------------------------------- outside of roles


def lower_set_up(lowering: Lowering, op: TensorSetUp) -> None:
    text, memory = lowering.text, memory_of(lowering, op.memory)
    word, group = f"[{lowering.shared_base}+{memory.word_address}]", memory.cta_group
    match op:
        case TensorInitOp():
            first = text.into("pred", "setp.eq.u32", lowering.thread, 0)
            for unit in range(memory.barriers):
                address = f"[{lowering.shared_base}+{memory.address + _BARRIER_BYTES * unit}]"
                text.emit("mbarrier.init.shared::cta.b64", address, 1, guard=first)
        case TensorAllocOp():
            opcode = f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32"
            text.emit(opcode, word, memory.columns, guard=_first_warp(lowering))
        case TensorRelinquishOp():
            opcode = f"tcgen05.relinquish_alloc_permit.{group}.sync.aligned"
            text.emit(opcode, guard=_first_warp(lowering))
        case TensorDeallocOp():
            base = text.into("b32", "ld.shared.b32", word)
            assert_allocated(lowering, memory, base)
            opcode = f"tcgen05.dealloc.{group}.sync.aligned.b32"
            text.emit(opcode, base, memory.columns, guard=_first_warp(lowering))


def _first_warp(lowering: Lowering) -> str:
    return lowering.text.into("pred", "setp.lt.u32", lowering.thread, _WARP_THREADS)


def enter_role(lowering: Lowering, role: ac.RoleOp) -> None:
    """Where the unit's part of tensor memory begins, and the first slot, for a role that has to do with them."""
    used = [op for op in role.walk() if isinstance(op, TensorWaitOp | TensorFillOp | TensorReadOp)]
    if not used:
        lowering.tensor = None
        return
    text, memory = lowering.text, memory_of(lowering, used[0].memory)
    unit = lowering.index(role.body.block.args[0])
    base = text.into("b32", "ld.shared.b32", f"[{lowering.shared_base}+{memory.word_address}]")
    assert_allocated(lowering, memory, base)
    if isinstance(used[0], TensorFillOp):
        lowering.tensor = TensorRegisters(base, base)
        return
    warp, slots = text.into("b32", "shr.u32", lowering.warpgroup_thread, 5), ""
    if any(isinstance(op, TensorReadOp) for op in used):
        lanes = text.into("b32", "mad.lo.u32", unit, _UNIT_LANES << 16, base)
        slots = text.into("b32", "mad.lo.u32", warp, 1 << _LANE_SHIFT, lanes)
    if not any(isinstance(op, TensorWaitOp) for op in used):
        lowering.tensor = TensorRegisters(base, base, slots, slots)
        return
    part = text.into("b32", "mad.lo.u32", unit, memory.part_columns, base)
    part = text.into("b32", "add.u32", part, memory.first_part) if memory.first_part else part
    own = text.into("b32", "add.u32", part, text.into("b32", "shl.b32", warp, _LANE_SHIFT))
    barrier = text.into("b32", "mad.lo.u32", unit, _BARRIER_BYTES, lowering.shared_base)
    barrier = text.into("b32", "add.u32", barrier, memory.address)
    parity = text.into("b32", "mov.u32", 0)
    # Broadcast, so that the assembler knows the branch to be uniform in each warp.
    number = text.into("b32", "shfl.sync.idx.b32", warp, 0, 31, -1)
    issues = text.into("pred", "setp.eq.u32", number, 0)
    lowering.tensor = TensorRegisters(base, part, own, slots, barrier, parity, issues)


# ---------------------------------------------------------------- what a unit does


def _fence(lowering: Lowering, op: TensorFenceOp) -> None:
    text = lowering.text
    number = text.into("b32", "add.u32", lowering.index(op.unit), op.first_barrier.data)
    text.emit("tcgen05.fence::before_thread_sync")
    text.emit("bar.sync", number, _UNIT_THREADS)
    text.emit("tcgen05.fence::after_thread_sync")


def _release(lowering: Lowering, op: TensorReleaseOp) -> None:
    read = lowering.place(op.reading)
    slot = read.slot if isinstance(read, FactorsPlace) else slot_of(lowering, op.reading)
    commit(lowering, barrier_address(lowering, slot, slot.ring.stages), pair=is_set(op.pair))


def _commit(lowering: Lowering, op: TensorCommitOp) -> None:
    commit(lowering, registers(lowering).barrier)


def _go_on(lowering: Lowering, op: TensorGoOnOp) -> NoPlace:
    return NoPlace()


def registers(lowering: Lowering) -> TensorRegisters:
    assert lowering.tensor is not None, "a role that multiplies waits for its products"
    return lowering.tensor


def commit(lowering: Lowering, address: str, *, pair: bool = False) -> None:
    """The tensor core arrives on a barrier once the products issued so far are done; pair: on that of each CTA."""
    text, guard = lowering.text, _first_thread(lowering)
    if not pair:
        text.emit("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64", f"[{address}]", guard=guard)
        return
    opcode = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    text.emit(opcode, f"[{address}]", text.into("b16", "mov.u16", PAIR_MASK), guard=guard)


def _first_thread(lowering: Lowering) -> str:
    """The guard by which one thread of the unit issues; none in a role of one thread."""
    return lowering.is_first_thread if registers(lowering).own else ""


def _wait(lowering: Lowering, op: TensorWaitOp) -> None:
    text, own = lowering.text, registers(lowering)
    retry, done = text.label("products"), text.label("products_done")
    text.place(retry)
    passed = text.register("pred")
    text.emit("mbarrier.try_wait.parity.shared::cta.b64", passed, f"[{own.barrier}]", own.parity)
    text.emit("bra", done, guard=passed)
    text.emit("bra", retry)
    text.place(done)
    text.emit("bar.warp.sync", -1)
    text.emit("tcgen05.fence::after_thread_sync")
    text.emit("xor.b32", own.parity, own.parity, 1)
    lowering.places[op.settled] = NoPlace()
    for result, reading in zip(op.retired, op.readings, strict=True):
        lowering.places[result] = slot_of(lowering, reading)


# ---------------------------------------------------------------- products


def shared_descriptor(lowering: Lowering, buffer: BufferPlace, leading: int, stride: int, slot: str, extra: str) -> str:
    """The 64-bit descriptor of a slot's operand."""
    text = lowering.text
    layout = cast("Layout", buffer.swizzle)
    constant = encode_shared(SharedDescriptor(0, leading, stride, layout=layout))
    address = text.into("b32", "add.u32", lowering.shared_base, buffer.address)
    address = text.into("b32", "mad.lo.u32", slot, buffer.slot_bytes, address)
    if extra:
        address = text.into("b32", "add.u32", address, extra)
    units = text.into("b32", "shr.u32", text.into("b32", "and.b32", address, 0x3FFFF), 4)
    wide = text.into("b64", "cvt.u64.u32", units)
    return text.into("b64", "or.b64", wide, constant - (1 << 64) if constant >> 63 else constant)


_Product = TensorIssueOp | TensorIssueStoredOp | TensorFillOp


def _depth(facts: Target, element: str) -> int:
    """How many numbers of the contracted axis one tcgen05.mma takes."""
    found = Element(element)
    return facts.limit("tcgen05.operand_row_bytes") // found.bytes * (2 if found.is_pair else 1)


def step_columns(facts: Target) -> int:
    """Of A in tensor memory, what one tcgen05.mma takes."""
    return facts.limit("tcgen05.operand_row_bytes") // facts.limit("tensor_memory.column_bytes")


def instruction(facts: Target, op: _Product, a_major: str) -> int:
    kind, element = _KINDS[op.element.data]
    return encode_instruction(
        InstructionDescriptor(
            kind, op.m.data, op.n.data, _depth(facts, op.element.data), "f32", element, element,
            a_major=_major(a_major), b_major=_major(op.b_major.data),
        )
    )  # fmt: skip


def scaled_instructions(facts: Target, op: TensorFillOp) -> list[int]:
    """Of each step of a product with factors of blocks, which takes its own ones of each row's."""
    kind, element, scale = _scaled_kind(op)
    taken, a_major, b_major = factors_taken(facts, op), _major(op.a_major.data), _major(op.b_major.data)
    return [
        encode_instruction(
            InstructionDescriptor(
                kind, op.m.data, op.n.data, _depth(facts, op.element.data), "f32", element, element,
                a_major=a_major, b_major=b_major, scale=scale, scale_a_id=taken * step % CELL_FACTORS,
                scale_b_id=taken * step % CELL_FACTORS,
            )
        )
        for step in range(op.steps.data)
    ]  # fmt: skip


def _factor(op: TensorFillOp) -> str:
    factors = op.factors[0].type
    assert isinstance(factors, TensorFactorsType)
    return factors.element.data


def _scaled_kind(op: TensorFillOp) -> tuple[Kind, OperandElement, ScaleElement]:
    return _SCALED_KINDS[op.element.data, _factor(op)]


def factors_taken(facts: Target, op: TensorFillOp) -> int:
    """How many factors of a row one tcgen05.mma takes."""
    block = facts.limit(f"block_scales.{SHARED_BY[Element(op.element.data), Element(_factor(op))]}")
    return _depth(facts, op.element.data) // block


def _major(name: str) -> Literal["k", "mn"]:
    return "mn" if name == "MN" else "k"


def _issue(lowering: Lowering, op: TensorIssueOp) -> None:
    text, extra = lowering.text, ""
    if op.a_instance_bytes.data:
        extra = text.into("b32", "mul.lo.u32", lowering.index(op.unit), op.a_instance_bytes.data)
    operands = left_operands(lowering, op, extra)
    kinds = [instruction(lowering.facts, op, op.a_major.data)]
    multiply(lowering, op, operands, kinds, registers(lowering).part, op.accumulator is None)
    lowering.places[op.inflight] = NoPlace()


def left_operands(lowering: Lowering, op: TensorIssueOp | TensorFillOp, extra: str) -> list[str]:
    """A of each step, out of a slot. extra: bytes by which it begins later."""
    a, slot = lowering.place(op.a), slot_of(lowering, op.a_phase)
    assert isinstance(a, BufferPlace)
    base = shared_descriptor(lowering, a, op.a_leading_bytes.data, op.a_stride_bytes.data, slot.stage, extra)
    lowering.places[op.a_reading] = slot
    return [offset_descriptor(lowering.text, base, advance) for advance in integers(op.a_step_bytes)]


def _issue_stored(lowering: Lowering, op: TensorIssueStoredOp) -> None:
    text, kind = lowering.text, op.a.type
    assert isinstance(kind, TensorOperandType)
    part, first = registers(lowering).part, kind.column.data
    places = [first + step_columns(lowering.facts) * step for step in range(op.steps.data)]
    operands = [f"[{text.into('b32', 'add.u32', part, each)}]" for each in places]
    multiply(lowering, op, operands, [instruction(lowering.facts, op, "K")], part, op.accumulator is None)
    lowering.places[op.inflight] = NoPlace()


def multiply(
    lowering: Lowering,
    op: _Product,
    operands: list[str],
    instructions: Sequence[int],
    columns: str,
    overwrites: bool,
    factors: Sequence[Sequence[str]] = (),
) -> None:
    """operands: A of each step, a descriptor or an address; instructions: descriptors of each step, or of all; columns:
    address of those among which the accumulator is; factors: of blocks, addresses for each step."""
    text, b = lowering.text, lowering.place(op.b)
    assert isinstance(b, BufferPlace)
    slot: SlotPlace = slot_of(lowering, op.phase)
    base = shared_descriptor(lowering, b, op.b_leading_bytes.data, op.b_stride_bytes.data, slot.stage, "")
    sums = text.into("b32", "add.u32", columns, op.column.data)
    assert_columns(lowering, memory_of(lowering, op.memory), sums, op.n.data)
    kinds = [text.into("b32", "mov.b32", each) for each in instructions] * (len(operands) // len(instructions))
    group = 2 if isinstance(op, TensorFillOp) and is_set(op.pair) else 1
    if factors and isinstance(op, TensorFillOp):
        name = f"{_scaled_kind(op)[0]}.block_scale.scale_vec::{factors_taken(lowering.facts, op)}X"
    else:
        name = _KINDS[op.element.data][0]
    advances = integers(op.b_step_bytes)
    for step, operand in enumerate(operands):
        descriptor = offset_descriptor(text, base, advances[step])
        scale = scale_predicate(text, overwrite=overwrites and step == 0)
        opcode = f"tcgen05.mma.cta_group::{group}.kind::{name}"
        given = [f"[{sums}]", operand, descriptor, kinds[step], *(factors[step] if factors else ()), scale]
        text.emit(opcode, *given, guard=_first_thread(lowering))
    lowering.places[op.reading] = slot


# ---------------------------------------------------------------- registers


def _pieces(count: int, most: int) -> Iterator[tuple[int, int]]:
    """A number of repetitions as powers of two: (first, how many), of at most so many."""
    first = 0
    while first < count:
        size = most
        while size > count - first:
            size //= 2
        yield first, size
        first += size


def load_pieces(count: int) -> Iterator[tuple[int, int]]:
    """Of so many times eight columns, what each load takes: (first, how many)."""
    return _pieces(count, _LOAD_MOST)


def store_pieces(count: int) -> Iterator[tuple[int, int]]:
    """Of so many times four columns, what each store takes."""
    return _pieces(count, _STORE_MOST)


def _load(lowering: Lowering, op: TensorLoadOp) -> None:
    kind = op.accumulator.type
    assert isinstance(kind, TensorAccumulatorType)
    own = registers(lowering).own
    memory = memory_of(lowering, op.memory)
    lowering.places[op.result] = loaded(lowering, memory, own, kind.column.data, kind.n.data)


def loaded(lowering: Lowering, memory: TensorMemoryPlace, own: str, column: int, columns: int) -> FragmentPlace:
    """Columns from one on, as a fragment. own: address of the first of all in the warp's lanes."""
    text = lowering.text
    values = [text.register("f32") for _ in range(columns // 2)]
    for first, count in load_pieces(columns // LOAD_COLUMNS):
        address = text.into("b32", "add.u32", own, column + LOAD_COLUMNS * first)
        assert_access(lowering, memory, address, LOAD_COLUMNS * count)
        names = values[LOAD_REGISTERS * first : LOAD_REGISTERS * (first + count)]
        text.emit(f"tcgen05.ld.sync.aligned.16x256b.x{count}.b32", _vector(names), f"[{address}]")
    text.emit("tcgen05.wait::ld.sync.aligned")
    return FragmentPlace((tuple(values),), columns, "mn", "f32")


def _store(lowering: Lowering, op: TensorStoreOp) -> None:
    fragment, text = lowering.place(op.fragment), lowering.text
    assert isinstance(fragment, FragmentPlace) and fragment.is_packed
    (words,) = fragment.blocks
    if fragment.axes == OPERAND_AXES:
        (words,) = exchanged(text, lowering.warpgroup_thread, fragment.blocks)
    for first, count in store_pieces(len(words) // STORE_REGISTERS):
        address = text.into("b32", "add.u32", registers(lowering).own, op.column.data + STORE_COLUMNS * first)
        assert_access(lowering, memory_of(lowering, op.memory), address, STORE_COLUMNS * count)
        names = words[STORE_REGISTERS * first : STORE_REGISTERS * (first + count)]
        text.emit(f"tcgen05.st.sync.aligned.16x128b.x{count}.b32", f"[{address}]", _vector(names))
    text.emit("tcgen05.wait::st.sync.aligned")
    lowering.places[op.result] = NoPlace()


def _vector(names: Sequence[str]) -> str:
    return "{" + ", ".join(names) + "}"


EMITTERS: Emitters = {
    TensorFenceOp: _fence,
    TensorIssueOp: _issue,
    TensorIssueStoredOp: _issue_stored,
    TensorStoreOp: _store,
    TensorReleaseOp: _release,
    TensorCommitOp: _commit,
    TensorWaitOp: _wait,
    TensorGoOnOp: placed(_go_on),
    TensorLoadOp: _load,
}
