"""How sums in slots of tensor memory are written in `nvvm`: allocation, products of one thread, commits, reads.

An address in tensor memory is `!llvm.ptr<6>`, made of an integer: the one that the allocation left in shared memory,
columns in its lower half and lanes in its upper one. It is loaded at the head of each role that uses it. Descriptors
are the ones that the PTX has (`legal.descriptor`). What units issue by themselves is the subject of `tensor_units`.

Not handled, and refused by the op's name: factors of blocks, the asserts of a debug build. Sources: upstream's NVVM
dialect page, tcgen05; PTX ISA as in `lower.ptx.products.tensor_slots`. Checked by: tests/lower/test_nvvm_blackwell.py.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import (
    TensorAllocOp,
    TensorDeallocOp,
    TensorFenceOp,
    TensorFillOp,
    TensorHandOverOp,
    TensorIssueOp,
    TensorIssueStoredOp,
    TensorMemoryOp,
    TensorReadOp,
    TensorReleaseOp,
    TensorRelinquishOp,
    TensorWaitOp,
)
from tilewright.legal.descriptor.tensor_core_descriptor import Layout, SharedDescriptor, encode_shared
from tilewright.lower.mlir.elements import vector_of
from tilewright.lower.mlir.protocol import barrier_address, moved_descriptor, operand_descriptor
from tilewright.lower.mlir.text import (
    SHARED,
    WORKGROUP,
    HeldFragment,
    HeldSlot,
    HeldTensorMemory,
    Nvgpu,
    cannot_write,
)
from tilewright.lower.ptx.lowering import integers
from tilewright.lower.ptx.products.tensor_memory import (
    LOAD_COLUMNS,
    LOAD_REGISTERS,
    PAIR_MASK,
    declare_memory,
    instruction,
    load_pieces,
)

SlotSetUp = TensorAllocOp | TensorRelinquishOp | TensorDeallocOp
Product = TensorFillOp | TensorIssueOp | TensorIssueStoredOp
SlotWork = TensorFenceOp | TensorFillOp | TensorReleaseOp | TensorHandOverOp | TensorReadOp
COLUMNS, SHARED_POINTER = "!llvm.ptr<6>", "!llvm.ptr<3>"
_UNIT_LANES, _LANE_SHIFT = 16 << 16, 21


def declare(state: Nvgpu, op: TensorMemoryOp) -> HeldTensorMemory:
    memory, text = declare_memory(op), state.text
    if memory.asserts:
        raise cannot_write(op)
    barrier, kind = "", ""
    if memory.barriers:
        words = f"memref<{memory.barriers}xi64, {WORKGROUP}>"
        kind = f"!nvgpu.mbarrier.group<memorySpace = {WORKGROUP}, num_barriers = {memory.barriers}>"
        view = text.into("done", f"memref.view {state.shared}[{text.constant(memory.address)}][] : {SHARED} to {words}")
        barrier = text.into("done", f"builtin.unrealized_conversion_cast {view} : {words} to {kind}")
    return HeldTensorMemory(memory, _group_of(pair=memory.pair), barrier, kind)


def _group_of(*, pair: bool) -> str:
    return f"#nvvm.cta_group<cta_{2 if pair else 1}>"


def memory_of(state: Nvgpu, value: SSAValue) -> HeldTensorMemory:
    memory = state.held[value]
    assert isinstance(memory, HeldTensorMemory)
    return memory


def waits_for_sums(op: ac.BarrierWaitOp) -> bool:
    """Whether what is waited for is a slot of tensor memory."""
    kind = op.ring.type
    assert isinstance(kind, ac.RingType)
    memories = (each for each in ac.kernel_of(op).body.block.ops if isinstance(each, TensorMemoryOp))
    return any(each.ring == kind.ring for each in memories)


# ---------------------------------------------------------------- outside of roles


def write_set_up(state: Nvgpu, op: SlotSetUp) -> None:
    """The first warp allocates, says that it will not again, and frees."""
    text, memory = state.text, memory_of(state, op.memory)
    group = f"{{group = {memory.group}}}"
    first = text.into("first_warp", f"arith.cmpi ult, {state.thread}, {text.constant(32)} : index")
    with text.block(f"scf.if {first} {{"):
        match op:
            case TensorAllocOp():
                count = text.constant(memory.place.columns, "i32")
                text.line(f"nvvm.tcgen05.alloc {_word(state, memory)}, {count} {group} : {SHARED_POINTER}, i32")
            case TensorRelinquishOp():
                text.line(f"nvvm.tcgen05.relinquish_alloc_permit {group}")
            case TensorDeallocOp():
                columns = pointer(state, _base(state, memory))
                count = text.constant(memory.place.columns, "i32")
                text.line(f"nvvm.tcgen05.dealloc {columns}, {count} {group} : {COLUMNS}, i32")


def enter_role(state: Nvgpu, role: ac.RoleOp) -> None:
    """Where slots and the unit's part begin, for a role that uses them: for what its threads read and write, in each
    warp's lanes."""
    used = [op for op in role.walk() if isinstance(op, TensorFillOp | TensorReadOp | TensorWaitOp)]
    state.sums = state.part_columns = state.own_columns = state.unit_parity = ""
    if not used:
        return
    text, memory = state.text, memory_of(state, used[0].memory)
    base = state.sums = _base(state, memory)
    if isinstance(used[0], TensorFillOp):
        return
    unit = state.index(role.body.block.args[0])
    lanes = text.multiply(text.binary("warp", "divui", state.warpgroup_thread, text.constant(32)), 1 << _LANE_SHIFT)
    if any(isinstance(op, TensorReadOp) for op in used):
        state.sums = _moved(state, base, text.add(lanes, text.multiply(unit, _UNIT_LANES)), "lanes")
    if any(isinstance(op, TensorWaitOp) for op in used):
        part = text.add(text.multiply(unit, memory.place.part_columns), memory.place.first_part)
        state.part_columns = _moved(state, base, part)
        state.own_columns = _moved(state, state.part_columns, lanes, "lanes")
        state.unit_parity = text.constant("false", "i1")


def _moved(state: Nvgpu, base: str, offset: str, stem: str = "column") -> str:
    """An address in tensor memory as i32, an index further on."""
    word = state.text.into(stem, f"arith.index_cast {offset} : index to i32")
    return state.text.binary(stem, "addi", base, word, "i32")


def _word(state: Nvgpu, memory: HeldTensorMemory) -> str:
    """Where in shared memory the allocation leaves its address."""
    address = state.text.add(state.shared_address, memory.place.word_address)
    word = state.text.into("word", f"arith.index_cast {address} : index to i32")
    return state.text.into("word", f"llvm.inttoptr {word} : i32 to {SHARED_POINTER}")


def _base(state: Nvgpu, memory: HeldTensorMemory) -> str:
    return state.text.into("columns", f"llvm.load {_word(state, memory)} : {SHARED_POINTER} -> i32")


def pointer(state: Nvgpu, address: str) -> str:
    return state.text.into("columns", f"llvm.inttoptr {address} : i32 to {COLUMNS}")


# ---------------------------------------------------------------- inside


def write_slots(state: Nvgpu, op: SlotWork) -> None:
    text = state.text
    match op:
        case TensorFenceOp():
            number = text.add(state.index(op.unit), op.first_barrier.data)
            word = text.into("barrier", f"arith.index_cast {number} : index to i32")
            text.line("nvvm.tcgen05.fence #nvvm.tcgen05_fence<before>")
            text.line(f"nvvm.barrier id = {word} number_of_threads = {text.constant(128, 'i32')}")
            write_fence_after(state)
        case TensorFillOp():
            _fill(state, op)
        case TensorReleaseOp():
            write_commit(state, barrier_address(state, state.slot(op.reading), "empty"), pair=is_set(op.pair))
        case TensorHandOverOp():
            write_commit(state, barrier_address(state, state.slot(op.filling), "full"), pair=is_set(op.pair))
        case TensorReadOp():
            state.held[op.result] = _read(state, op)
            state.held[op.held] = state.slot(op.phase)
        case _:
            raise cannot_write(op)


def write_fence_after(state: Nvgpu, *, waited: bool = False) -> None:
    """What is issued or read from here on comes after what came before the barrier that was waited for. waited: in
    loops of each thread, so that a unit's warp is to meet first."""
    if waited and state.own_columns:
        state.text.line(f"nvvm.bar.warp.sync {state.text.constant(-1, 'i32')} : i32")
    state.text.line("nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>")


@contextmanager
def first_thread(state: Nvgpu) -> Generator[None]:
    """What one thread issues: the first one of a unit, or all of a role that has one."""
    if not state.part_columns:
        yield
        return
    with state.text.block(f"scf.if {state.is_first_thread} {{"):
        yield


def write_commit(state: Nvgpu, address: str, *, pair: bool) -> None:
    """The tensor core arrives on a barrier once what the thread has issued is done; pair: on that of each CTA."""
    text = state.text
    with first_thread(state):
        barrier = text.into("barrier", f"llvm.inttoptr {address} : i32 to {SHARED_POINTER}")
        both = f", multicast_mask = {text.constant(PAIR_MASK, 'i16')}" if pair else ""
        kinds = f"{SHARED_POINTER}, i16" if pair else SHARED_POINTER
        text.line(f"nvvm.tcgen05.commit {barrier}{both} {{group = {_group_of(pair=pair)}}} : {kinds}")


def column_of(state: Nvgpu, base: str, column: int) -> str:
    """A column behind an address, as an address."""
    return state.text.binary("column", "addi", base, state.text.constant(column, "i32"), "i32") if column else base


def _of_slot(state: Nvgpu, memory: HeldTensorMemory, slot: HeldSlot) -> str:
    """Address of the first column of a slot, as i32."""
    return _moved(state, state.sums, state.text.multiply(slot.stage, memory.place.slot_columns))


def _fill(state: Nvgpu, op: TensorFillOp) -> None:
    if op.factors:
        raise cannot_write(op)
    into, a_slot = state.slot(op.into), state.slot(op.a_phase)
    columns = _of_slot(state, memory_of(state, op.memory), into)
    sums = pointer(state, column_of(state, columns, op.column.data))
    a = operand(state, op.a, a_slot, op.a_leading_bytes.data, op.a_stride_bytes.data, op.a_step_bytes)
    write_products(state, op, sums, [(each, "i64") for each in a], overwrites=not op.accumulate.data)
    state.held[op.filling] = into
    state.held[op.a_reading], state.held[op.reading] = a_slot, state.slot(op.phase)


def operand(
    state: Nvgpu,
    buffer: SSAValue,
    slot: HeldSlot,
    leading: int,
    stride: int,
    steps: ArrayAttr[IntAttr],
    extra: str = "",
) -> list[str]:
    """Of a slot, the descriptors for each step. extra: bytes by which it begins later."""
    held = state.buffer(buffer)
    fixed = encode_shared(SharedDescriptor(0, leading, stride, layout=cast("Layout", held.swizzle)))
    first = operand_descriptor(state, held, fixed, slot.stage, extra)
    return [moved_descriptor(state, first, advance) for advance in integers(steps)]


def write_products(state: Nvgpu, op: Product, sums: str, a: Sequence[tuple[str, str]], *, overwrites: bool) -> None:
    """A step for each of A's operands, a descriptor or an address of tensor memory with its type."""
    text = state.text
    b = operand(state, op.b, state.slot(op.phase), op.b_leading_bytes.data, op.b_stride_bytes.data, op.b_step_bytes)
    major = "K" if isinstance(op, TensorIssueStoredOp) else op.a_major.data
    words = text.constant(instruction(state.facts, op, major), "i32")
    group = _group_of(pair=isinstance(op, TensorFillOp) and is_set(op.pair))
    for step, ((left, kind), right) in enumerate(zip(a, b, strict=True)):
        adds = text.constant("false" if overwrites and step == 0 else "true", "i1")
        text.line(
            f"nvvm.tcgen05.mma {sums}, {left}, {right}, {words}, {adds} {{kind = #nvvm.tcgen05_mma_kind<f16>, "
            f"ctaGroup = {group}}} : ({COLUMNS}, {kind}, i64, i32, i1)"
        )


def _read(state: Nvgpu, op: TensorReadOp) -> HeldFragment:
    kind = op.result.type
    assert isinstance(kind, ac.FragmentType)
    columns = _of_slot(state, memory_of(state, op.memory), state.slot(op.phase))
    return loaded(state, columns, op.column.data, kind.n.data)


def loaded(state: Nvgpu, base: str, column: int, columns: int) -> HeldFragment:
    """Columns from one on behind an address as a vector, value by value as wgmma would have left them."""
    text = state.text
    pieces: list[tuple[str, int]] = []
    for first, count in load_pieces(columns // LOAD_COLUMNS):
        at = pointer(state, column_of(state, base, column + LOAD_COLUMNS * first))
        length = LOAD_REGISTERS * count
        shape = "{shape = #nvvm.tcgen05_ldst_shape<shape_16x256b>}"
        pieces.append((text.into("loaded", f"nvvm.tcgen05.ld {at} {shape} : {vector_of(length, 'i32')}"), length))
    text.line("nvvm.tcgen05.wait <load>")
    words, length = pieces[0]
    for more, extra in pieces[1:]:
        both = ", ".join(map(str, range(length + extra)))
        kinds = f"{vector_of(length, 'i32')}, {vector_of(extra, 'i32')}"
        words, length = text.into("loaded", f"vector.shuffle {words}, {more} [{both}] : {kinds}"), length + extra
    values = text.into("sums", f"vector.bitcast {words} : {vector_of(length, 'i32')} to {vector_of(length, 'f32')}")
    return HeldFragment(values, 1, columns, "f32")
