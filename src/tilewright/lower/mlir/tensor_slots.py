"""How sums in slots of tensor memory are written in `nvvm`: allocation, products of one thread, commits, reads.

An address in tensor memory is `!llvm.ptr<6>`, made of an integer: the one that the allocation left in shared memory,
columns in its lower half and lanes in its upper one. It is loaded at the head of each role that uses it. Descriptors
are the ones that the PTX has (`legal.descriptor`).

Not handled, and refused by the op's name: columns that units issue into by themselves, pairs of CTAs, the asserts of a
debug build. Sources: upstream's NVVM dialect page, tcgen05; PTX ISA as in `lower.ptx.tensor_slots`. Checked by:
tests/lower/test_nvvm_blackwell.py.
"""

from __future__ import annotations

from typing import cast

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import (
    TensorAllocOp,
    TensorDeallocOp,
    TensorFenceOp,
    TensorFillOp,
    TensorHandOverOp,
    TensorMemoryOp,
    TensorReadOp,
    TensorReleaseOp,
    TensorRelinquishOp,
)
from tilewright.legal.descriptor.tensor_core_descriptor import Layout, SharedDescriptor, encode_shared
from tilewright.lower.mlir.elements import vector_of
from tilewright.lower.mlir.protocol import barrier_address, moved_descriptor, operand_descriptor
from tilewright.lower.mlir.text import HeldFragment, HeldSlot, HeldTensorMemory, Nvgpu, cannot_write
from tilewright.lower.ptx.lowering import integers
from tilewright.lower.ptx.tensor_memory import LOAD_COLUMNS, LOAD_REGISTERS, declare_memory, instruction, load_pieces

SlotSetUp = TensorAllocOp | TensorRelinquishOp | TensorDeallocOp
SlotWork = TensorFenceOp | TensorFillOp | TensorReleaseOp | TensorHandOverOp | TensorReadOp
_COLUMNS, _SHARED = "!llvm.ptr<6>", "!llvm.ptr<3>"
_UNIT_LANES, _LANE_SHIFT = 16 << 16, 21


def declare(op: TensorMemoryOp) -> HeldTensorMemory:
    memory = declare_memory(op)
    if memory.barriers or memory.cta_group != "cta_group::1" or memory.asserts:
        raise cannot_write(op)
    assert op.ring is not None, "columns of no unit are a ring's slots"
    return HeldTensorMemory(memory.word_address, memory.columns, memory.slot_columns, op.ring.data)


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
    first = text.into("first_warp", f"arith.cmpi ult, {state.thread}, {text.constant(32)} : index")
    with text.block(f"scf.if {first} {{"):
        match op:
            case TensorAllocOp():
                count = text.constant(memory.columns, "i32")
                text.line(f"nvvm.tcgen05.alloc {_word(state, memory)}, {count} : {_SHARED}, i32")
            case TensorRelinquishOp():
                text.line("nvvm.tcgen05.relinquish_alloc_permit")
            case TensorDeallocOp():
                columns = _pointer(state, _base(state, memory))
                count = text.constant(memory.columns, "i32")
                text.line(f"nvvm.tcgen05.dealloc {columns}, {count} : {_COLUMNS}, i32")


def enter_role(state: Nvgpu, role: ac.RoleOp) -> None:
    """Where the slots begin, for a role that fills or reads them: for who reads, in each warp's lanes."""
    used = [op for op in role.walk() if isinstance(op, TensorFillOp | TensorReadOp)]
    if not used:
        return
    text, base = state.text, _base(state, memory_of(state, used[0].memory))
    if isinstance(used[0], TensorReadOp):
        warp = text.binary("warp", "divui", state.warpgroup_thread, text.constant(32))
        lanes = text.multiply(warp, 1 << _LANE_SHIFT)
        lanes = text.add(lanes, text.multiply(state.index(role.body.block.args[0]), _UNIT_LANES))
        word = text.into("lanes", f"arith.index_cast {lanes} : index to i32")
        base = text.binary("lanes", "addi", base, word, "i32")
    state.sums = base


def _word(state: Nvgpu, memory: HeldTensorMemory) -> str:
    """Where in shared memory the allocation leaves its address."""
    address = state.text.add(state.shared_address, memory.word_address)
    word = state.text.into("word", f"arith.index_cast {address} : index to i32")
    return state.text.into("word", f"llvm.inttoptr {word} : i32 to {_SHARED}")


def _base(state: Nvgpu, memory: HeldTensorMemory) -> str:
    return state.text.into("columns", f"llvm.load {_word(state, memory)} : {_SHARED} -> i32")


def _pointer(state: Nvgpu, address: str) -> str:
    return state.text.into("columns", f"llvm.inttoptr {address} : i32 to {_COLUMNS}")


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
        case TensorReleaseOp() if not is_set(op.pair):
            _commit(state, state.slot(op.reading), "empty")
        case TensorHandOverOp() if not is_set(op.pair):
            _commit(state, state.slot(op.filling), "full")
        case TensorReadOp():
            state.held[op.result] = _read(state, op)
            state.held[op.held] = state.slot(op.phase)
        case _:
            raise cannot_write(op)


def write_fence_after(state: Nvgpu) -> None:
    """What is issued or read from here on comes after what came before the barrier that was waited for."""
    state.text.line("nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>")


def _commit(state: Nvgpu, slot: HeldSlot, side: str) -> None:
    """The tensor core arrives on the slot's barrier once what the thread has issued is done."""
    barrier = state.text.into("barrier", f"llvm.inttoptr {barrier_address(state, slot, side)} : i32 to {_SHARED}")
    state.text.line(f"nvvm.tcgen05.commit {barrier} : {_SHARED}")


def _columns(state: Nvgpu, memory: HeldTensorMemory, slot: HeldSlot, column: int) -> str:
    """Address of a column of a slot, as an integer."""
    text = state.text
    offset = text.add(text.multiply(slot.stage, memory.slot_columns), column)
    word = text.into("column", f"arith.index_cast {offset} : index to i32")
    return text.binary("column", "addi", state.sums, word, "i32")


def _fill(state: Nvgpu, op: TensorFillOp) -> None:
    text, into = state.text, state.slot(op.into)
    sums = _pointer(state, _columns(state, memory_of(state, op.memory), into, op.column.data))

    def operand(buffer: SSAValue, phase: SSAValue, leading: int, stride: int) -> str:
        held = state.buffer(buffer)
        fixed = encode_shared(SharedDescriptor(0, leading, stride, layout=cast("Layout", held.swizzle)))
        return operand_descriptor(state, held, fixed, state.slot(phase).stage, "")

    a = operand(op.a, op.a_phase, op.a_leading_bytes.data, op.a_stride_bytes.data)
    b = operand(op.b, op.phase, op.b_leading_bytes.data, op.b_stride_bytes.data)
    words = text.constant(instruction(op, op.a_major.data), "i32")
    advances = zip(integers(op.a_step_bytes), integers(op.b_step_bytes), strict=True)
    for step, (advance_a, advance_b) in enumerate(advances):
        adds = text.constant("true" if step or op.accumulate.data else "false", "i1")
        operands = f"{sums}, {moved_descriptor(state, a, advance_a)}, {moved_descriptor(state, b, advance_b)}"
        text.line(
            f"nvvm.tcgen05.mma {operands}, {words}, {adds} {{kind = #nvvm.tcgen05_mma_kind<f16>, "
            f"ctaGroup = #nvvm.cta_group<cta_1>}} : ({_COLUMNS}, i64, i64, i32, i1)"
        )
    state.held[op.filling] = into
    state.held[op.a_reading], state.held[op.reading] = state.slot(op.a_phase), state.slot(op.phase)


def _read(state: Nvgpu, op: TensorReadOp) -> HeldFragment:
    """Columns of a slot as a vector, value by value as wgmma would have left them."""
    text, kind = state.text, op.result.type
    assert isinstance(kind, ac.FragmentType)
    columns, memory, slot = kind.n.data, memory_of(state, op.memory), state.slot(op.phase)
    pieces: list[tuple[str, int]] = []
    for first, count in load_pieces(columns // LOAD_COLUMNS):
        at = _pointer(state, _columns(state, memory, slot, op.column.data + LOAD_COLUMNS * first))
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
