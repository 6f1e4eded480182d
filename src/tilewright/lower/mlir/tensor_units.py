"""How products that a unit issues by itself are written in `nvvm`: its barrier, its part of the columns, what its
threads read and write there.

The first thread of a unit issues and commits, in an `scf.if`; the first warp alone waits for operands of which the
tensor core frees the slots. The parity of the unit's barrier is a value that loops carry (`Nvgpu.unit_parity`).
Descriptors, columns and lanes are those of the PTX.

Not handled, and refused by the op's name: operands of 8 bits. Sources: upstream's NVVM dialect page, tcgen05; PTX ISA
as in `lower.ptx.products.tensor_memory`. Checked by: tests/lower/test_nvvm_blackwell.py.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.tensor_memory import (
    TensorAccumulatorType,
    TensorCommitOp,
    TensorGoOnOp,
    TensorInitOp,
    TensorIssueOp,
    TensorIssueStoredOp,
    TensorLoadOp,
    TensorOperandType,
    TensorStoreOp,
    TensorWaitOp,
)
from tilewright.lower.mlir.elements import narrowed, vector_of
from tilewright.lower.mlir.protocol import WAIT_HINT_NANOSECONDS
from tilewright.lower.mlir.tensor_slots import (
    COLUMNS,
    column_of,
    first_thread,
    loaded,
    memory_of,
    operand,
    pointer,
    write_commit,
    write_fence_after,
    write_products,
)
from tilewright.lower.mlir.text import HeldFragment, HeldNothing, HeldTensorMemory, Nvgpu, cannot_write
from tilewright.lower.ptx.products.tensor_memory import STORE_COLUMNS, STORE_REGISTERS, step_columns, store_pieces

UnitWork = (
    TensorIssueOp | TensorIssueStoredOp | TensorCommitOp | TensorWaitOp | TensorGoOnOp | TensorLoadOp | TensorStoreOp
)


def write_init(state: Nvgpu, op: TensorInitOp, is_thread_zero: str) -> None:
    """Each unit's barrier, of one arrival."""
    text, memory = state.text, memory_of(state, op.memory)
    one = text.constant(1)
    for unit in range(memory.place.barriers):
        place = f"{memory.barrier}[{text.constant(unit)}]"
        text.line(f"nvgpu.mbarrier.init {place}, {one}, predicate = {is_thread_zero} : {memory.barrier_kind}")


def write_unit(state: Nvgpu, op: UnitWork) -> None:
    match op:
        case TensorIssueOp():
            _issue(state, op)
        case TensorIssueStoredOp():
            _issue_stored(state, op)
        case TensorCommitOp():
            memory, unit = memory_of(state, op.memory), state.index(op.unit)
            write_commit(state, _barrier_address(state, memory, unit), pair=False)
        case TensorWaitOp():
            _wait(state, op)
        case TensorGoOnOp():
            state.held[op.result] = HeldNothing()
        case TensorLoadOp():
            kind = op.accumulator.type
            assert isinstance(kind, TensorAccumulatorType)
            state.held[op.result] = loaded(state, state.own_columns, kind.column.data, kind.n.data)
        case TensorStoreOp():
            _store(state, op)


def _barrier_address(state: Nvgpu, memory: HeldTensorMemory, unit: str) -> str:
    """Shared-memory address of a unit's barrier, as i32."""
    text = state.text
    address = text.add(state.shared_address, text.add(text.multiply(unit, 8), memory.place.address))
    return text.into("barrier", f"arith.index_cast {address} : index to i32")


def _wait(state: Nvgpu, op: TensorWaitOp) -> None:
    text, memory = state.text, memory_of(state, op.memory)
    place, ticks = f"{memory.barrier}[{state.index(op.unit)}]", text.constant(WAIT_HINT_NANOSECONDS)
    text.line(f"nvgpu.mbarrier.try_wait.parity {place}, {state.unit_parity}, {ticks} : {memory.barrier_kind}")
    write_fence_after(state, waited=True)
    state.unit_parity = text.binary("parity", "xori", state.unit_parity, text.constant("true", "i1"), "i1")
    state.held[op.settled] = HeldNothing()
    for result, reading in zip(op.retired, op.readings, strict=True):
        state.held[result] = state.slot(reading)


def _issue(state: Nvgpu, op: TensorIssueOp) -> None:
    text, a_slot, b_slot = state.text, state.slot(op.a_phase), state.slot(op.phase)
    extra = text.multiply(state.index(op.unit), op.a_instance_bytes.data) if op.a_instance_bytes.data else ""
    with first_thread(state):
        a = operand(state, op.a, a_slot, op.a_leading_bytes.data, op.a_stride_bytes.data, op.a_step_bytes, extra)
        sums = pointer(state, column_of(state, state.part_columns, op.column.data))
        write_products(state, op, sums, [(each, "i64") for each in a], overwrites=op.accumulator is None)
    state.held[op.inflight] = HeldNothing()
    state.held[op.a_reading], state.held[op.reading] = a_slot, b_slot


def _issue_stored(state: Nvgpu, op: TensorIssueStoredOp) -> None:
    kind = op.a.type
    assert isinstance(kind, TensorOperandType)
    with first_thread(state):
        places = [kind.column.data + step_columns(state.facts) * step for step in range(op.steps.data)]
        a = [(pointer(state, column_of(state, state.part_columns, each)), COLUMNS) for each in places]
        sums = pointer(state, column_of(state, state.part_columns, op.column.data))
        write_products(state, op, sums, a, overwrites=op.accumulator is None)
    state.held[op.inflight], state.held[op.reading] = HeldNothing(), state.slot(op.phase)


def _store(state: Nvgpu, op: TensorStoreOp) -> None:
    """A fragment's values, rounded, two to a column."""
    text, fragment, kind = state.text, state.held[op.fragment], op.fragment.type
    assert isinstance(fragment, HeldFragment) and isinstance(kind, ac.FragmentType)
    if kind.axes.data != "mn":
        raise cannot_write(op)
    values, words = fragment.length, fragment.length // 2
    narrow = narrowed(text, fragment.name, vector_of(values, "f32"), fragment.element)
    packed = f"{vector_of(values, fragment.element)} to {vector_of(words, 'i32')}"
    whole = text.into("packed", f"vector.bitcast {narrow} : {packed}")
    for first, count in store_pieces(words // STORE_REGISTERS):
        offset, size = STORE_REGISTERS * first, STORE_REGISTERS * count
        part = text.into(
            "packed",
            f"vector.extract_strided_slice {whole} {{offsets = [{offset}], sizes = [{size}], strides = [1]}} : "
            f"{vector_of(words, 'i32')} to {vector_of(size, 'i32')}",
        )
        at = pointer(state, column_of(state, state.own_columns, op.column.data + STORE_COLUMNS * first))
        shape = "{shape = #nvvm.tcgen05_ldst_shape<shape_16x128b>}"
        text.line(f"nvvm.tcgen05.st {at}, {part} {shape} : {vector_of(size, 'i32')}")
    text.line("nvvm.tcgen05.wait <store>")
    state.held[op.result] = HeldNothing()
