"""What do products in tensor memory do to a unit's state, and which of their operations break a rule on the spot?

A unit's first thread issues; its first warp may wait for a slot alone; all four warps read and write. So four facts are
followed, of a unit at one place of its program:

- synced: all its threads have met since any of them touched tensor memory, or waited for a product. Without that the
  first thread may issue a product, or a commit of the next phase, while a warp is still reading, or waiting.
- issued: a product may have been issued since the last commit, which that commit does not cover.
- committed: a commit is out for which the unit has not waited. The barrier's phases alternate: one commit, one wait of
  all threads, and then a meeting of them, before the next. So no thread waits for a phase that is two behind.
- held, busy: columns that hold an accumulator or an operand that somebody still needs, or that a product in flight
  reads. What is written next must not touch them.

The tensor core executes one thread's products in order, and a commit covers all of them (PTX ISA, tcgen05.commit), so
that a wait for the last commit is a wait for everything that was issued before it. A slot that is released by a commit
is released when its readers are done, whenever that is.

Set-up is in `contract.typestate.tensor_setup`, accumulators in slots of a ring in `steps.tensor_slots`, CTA pairs in
`pairs`. Source: PTX ISA, Tensor Memory; tcgen05: Memory Consistency Model;
tcgen05.mma: Matrix shape, kind::f16, kind::f8f6f4. Checked by: tests/contract/typestate/steps/test_tensor_memory.py.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.base.element import parse_element
from tilewright.contract.typestate.program import TensorMemory, integers, type_of
from tilewright.contract.typestate.steps.ring import release_slot
from tilewright.contract.typestate.steps.tensor_core import read_operand
from tilewright.contract.typestate.steps.unit_barriers import meet
from tilewright.contract.typestate.token import (
    Reading,
    Slot,
    TensorAccumulating,
    TensorFactors,
    TensorOperand,
    TensorSettled,
    Token,
    Values,
    describe,
)
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.tensor_memory import (
    TensorCommitOp,
    TensorFenceOp,
    TensorGoOnOp,
    TensorIssueOp,
    TensorIssueStoredOp,
    TensorLoadOp,
    TensorOp,
    TensorReleaseOp,
    TensorStoreOp,
    TensorWaitOp,
)
from tilewright.targets import Target

ELEMENTS = ("bf16", "f16", "f8e4m3", "f8e5m2")
"""Of slots. Either axis may be contiguous (PTX ISA, tcgen05: Instruction descriptor, transpose bits)."""
STORED_ELEMENTS = {"bf16": "mn", "f16": "mn", "f8e4m3": "mk", "f8e5m2": "mk"}
"""Of operands that threads write, and the axes of fragments that are written."""
_TRANSPOSED_ALIKE = ("bf16", "f16")
"""Of a B that is contiguous along either axis, whose columns come in the same steps."""
MAJORS = ("K", "MN")
COMMITS = "commits"
"""Counts a unit's commits on its own barrier."""
_STEP_BYTES, _STEP_COLUMNS = 32, 8
_CELL_BYTES = 4


def tensor_memory_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns tensor memory."""
    if not isinstance(op, TensorOp):
        return False
    if walk.role.unit != "warpgroup128" and not (isinstance(op, TensorReleaseOp) and walk.role.unit == "thread1"):
        walk.report("TC002", op, f"{op.name} in a role of {walk.role.unit}")
    if any(isinstance(other, ac.TurnLoop) for other in walk.role.op.body.block.ops):
        walk.findings.doubt("in a role whose units take turns", op)
    match op:
        case TensorFenceOp():
            _fence(walk, op)
        case TensorIssueOp():
            _issue(walk, op)
        case TensorIssueStoredOp():
            _issue_stored(walk, op)
        case TensorStoreOp():
            _store(walk, op)
        case TensorReleaseOp():
            _release(walk, op)
        case TensorCommitOp():
            _commit(walk, op)
        case TensorWaitOp():
            _wait(walk, op)
        case TensorGoOnOp():
            _go_on(walk, op)
        case TensorLoadOp():
            _load(walk, op)
    return True


def memory_of(walk: RoleWalk, op: Operation, value: SSAValue) -> TensorMemory | None:
    """What an operation takes for tensor memory."""
    declared = walk.kernel.declared.get(value)
    if not isinstance(declared, TensorMemory):
        walk.findings.doubt("takes something that is no tensor memory", op)
        return None
    return declared


def columns_step(facts: Target, m: int, element: str, b_major: str) -> int:
    """Of what the columns of a tcgen05.mma are a multiple, and the least of them."""
    if m > facts.limit("product.rows"):
        return facts.limit("tcgen05.n_step_128_rows")
    if element not in _TRANSPOSED_ALIKE and b_major == "MN":
        return facts.limit("tcgen05.n_step_transposed_bytes")
    return facts.limit("product.columns_step")


def _bytes(element: str) -> int:
    known = parse_element(element)
    return _CELL_BYTES if known is None else known.bytes


def _cells(elements: int, element: str) -> int:
    """Columns of tensor memory that so many elements of a row take."""
    return elements * _bytes(element) // _CELL_BYTES


def _memory(walk: RoleWalk, op: TensorOp, value: SSAValue) -> TensorMemory | None:
    """Of a unit that issues and reads by itself: each has an equal part."""
    declared = memory_of(walk, op, value)
    if declared is None:
        return None
    if not declared.units_issue:
        walk.report("TC002", op, f"takes a part of columns that are slots of ring {declared.ring}")
        return None
    if declared.units != walk.role.count:
        walk.report("TC002", op, f"{walk.role.count} units share tensor memory that has parts for {declared.units}")
    return declared


# ---------------------------------------------------------------- columns


def _columns(walk: RoleWalk, op: TensorOp, memory: TensorMemory | None, column: int, count: int) -> tuple[int, int]:
    """Columns that are written anew, which must be the unit's and free."""
    end, state = column + count, walk.state
    if column % _STEP_COLUMNS:
        walk.findings.doubt(f"begins at column {column}, no multiple of {_STEP_COLUMNS}", op)
    if memory is not None and not 0 <= column < end <= memory.part_columns:
        walk.report("TC002", op, f"columns {column} to {end - 1} of a unit's {memory.part_columns}")
    for other, other_end in sorted(state.held | state.busy):
        if column < other_end and other < end:
            what = "a product in flight reads" if (other, other_end) in state.busy else "are still needed"
            walk.report(
                "TC002", op, f"writes columns {column} to {end - 1}, of which {other} to {other_end - 1} {what}"
            )
            break
    return column, end


def _require_synced(walk: RoleWalk, op: TensorOp, what: str) -> None:
    if not walk.state.synced:
        walk.report(
            "TC003",
            op,
            f"{what}, and the unit's threads have not met since they last read, wrote or waited",
            steps=(
                "one warp of the unit is delayed in tensor memory, or before its wait",
                f"the unit's first thread runs ahead: it {what}",
                "the tensor core writes what that warp still reads, or the barrier passes the phase it waits for",
            ),
        )


# ---------------------------------------------------------------- synchronization


def _fence(walk: RoleWalk, op: TensorFenceOp) -> None:
    walk.require_unit(op, op.unit)
    meet(walk, op, op.first_barrier.data)
    walk.state.synced = True


def _commit(walk: RoleWalk, op: TensorCommitOp) -> None:
    _memory(walk, op, op.memory)
    walk.require_unit(op, op.unit)
    state = walk.state
    _require_synced(walk, op, "commits")
    if state.committed is None:
        walk.findings.doubt("whether the unit has waited for the commit before depends on how often a loop runs", op)
    elif state.committed:
        walk.report("TC004", op, "commits again before the unit has waited for the commit before")
    state.step(COMMITS)
    state.issued, state.committed = False, True


def _wait(walk: RoleWalk, op: TensorWaitOp) -> None:
    _memory(walk, op, op.memory)
    walk.require_unit(op, op.unit)
    state = walk.state
    if state.committed is None:
        walk.findings.doubt("whether a commit is out depends on how often a loop runs", op)
    elif not state.committed:
        walk.report("TC004", op, "waits, and no commit is out: the phase never completes")
    if state.issued:
        walk.report(
            "TC004",
            op,
            "a product was issued after the commit that is waited for",
            steps=(
                "the commit arrives when the products before it are done",
                "the unit's threads read an accumulator that the last product is still writing",
            ),
        )
    inflight = walk.take_as(op, op.inflight, TensorAccumulating)
    settled = None if inflight is None else TensorSettled(inflight.m, inflight.n, inflight.column)
    walk.give(op, op.settled, settled)
    if len(op.readings) != len(op.retired):
        walk.report("LV001", op, f"{len(op.readings)} slots were read, {len(op.retired)} are handed back")
    for value, result in zip(op.readings, op.retired, strict=False):
        reading = walk.take_as(op, value, Reading, "wait for")
        walk.give(op, result, None if reading is None else _retired(reading))
    state.committed, state.synced, state.busy = False, False, frozenset()


def _release(walk: RoleWalk, op: TensorReleaseOp) -> None:
    reading = walk.take(op, op.reading)
    if isinstance(reading, TensorFactors):
        reading = Reading(reading.ring, reading.position, walk.state.count(COMMITS))
    reading = walk.expect(op, reading, Reading)
    if reading is not None:
        # The arrival comes when the products have read the slot: for the ring it is the unit's one release of it.
        release_slot(walk, op, _retired(reading))


def _retired(reading: Reading) -> Slot:
    return Slot(reading.ring, "retired", reading.position, reading.fenced, reading.issuer)


# ---------------------------------------------------------------- products


def _shape(walk: RoleWalk, op: TensorIssueOp | TensorIssueStoredOp) -> bool:
    facts, m, n = walk.kernel.facts, op.m.data, op.n.data
    step, most = columns_step(facts, m, op.element.data, op.b_major.data), facts.limit("product.columns_max")
    advances = integers(op.b_step_bytes)
    if m != facts.limit("product.rows") or not step <= n <= most or n % step or op.element.data not in ELEMENTS:
        walk.report("TC002", op, f"no tcgen05.mma of one unit computes {m} x {n} of {op.element.data}")
    elif op.b_major.data not in MAJORS:
        walk.findings.doubt(f"major {op.b_major.data} of {op.element.data}", op)
    elif op.steps.data < 1 or len(advances) != op.steps.data:
        walk.findings.doubt(f"{op.steps.data} steps with {len(advances)} advances", op)
    else:
        return True
    return False


def _accumulate(walk: RoleWalk, op: TensorIssueOp | TensorIssueStoredOp) -> None:
    """The accumulator that a product goes on with, or the columns that it begins to fill."""
    m, n, column = op.m.data, op.n.data, op.column.data
    _require_synced(walk, op, "issues a product")
    memory = _memory(walk, op, op.memory)
    if op.accumulator is not None:
        accumulator = walk.take_as(op, op.accumulator, TensorAccumulating)
        if accumulator is not None and accumulator != TensorAccumulating(m, n, column):
            walk.report("TC002", op, f"accumulates {m} x {n} at column {column} into {describe(accumulator)}")
    else:
        walk.state.held |= {_columns(walk, op, memory, column, n)}
    walk.state.issued = True
    walk.give(op, op.inflight, TensorAccumulating(m, n, column))


def _issue(walk: RoleWalk, op: TensorIssueOp) -> None:
    a_slot, slot = walk.take(op, op.a_phase), walk.take(op, op.phase)
    walk.require_unit(op, op.unit)
    a = walk.buffer_of(op, op.a)
    steps = integers(op.a_step_bytes)
    if _shape(walk, op):
        if op.a_major.data not in MAJORS or len(steps) != op.steps.data:
            walk.findings.doubt(f"{len(steps)} advances of A, major {op.a_major.data}", op)
        else:
            rows = walk.kernel.facts.limit("product.rows")
            bases = [unit * op.a_instance_bytes.data for unit in range(walk.role.count)]
            if a is not None:
                shape = (op.a_major.data, rows, op.a_leading_bytes.data, op.a_stride_bytes.data)
                read_operand(walk, op, a_slot, a, shape, bases, steps)
            _read_b(walk, op, slot)
    _accumulate(walk, op)
    walk.give(op, op.a_reading, reading_of(walk, op, a_slot))
    walk.give(op, op.reading, reading_of(walk, op, slot))


def _read_b(walk: RoleWalk, op: TensorIssueOp | TensorIssueStoredOp, slot: Token | None) -> None:
    buffer = walk.buffer_of(op, op.b)
    if buffer is not None:
        shape = (op.b_major.data, op.n.data, op.b_leading_bytes.data, op.b_stride_bytes.data)
        read_operand(walk, op, slot, buffer, shape, [0], integers(op.b_step_bytes))


def reading_of(walk: RoleWalk, op: Operation, slot: Token | None) -> Reading | None:
    """The slot that a product reads."""
    slot = walk.expect(op, slot, Slot, "read")
    if slot is None:
        return None
    if slot.side == "empty":
        walk.report("MB012", op, f"reads {describe(slot)}")
    return Reading(slot.ring, slot.position, walk.state.count(COMMITS), slot.fenced, slot.issuer)


def _store(walk: RoleWalk, op: TensorStoreOp) -> None:
    fragment = walk.take_as(op, op.fragment, Values, "write")
    walk.require_unit(op, op.unit)
    memory, column, rows = _memory(walk, op, op.memory), op.column.data, walk.kernel.facts.limit("product.rows")
    if fragment is None:
        walk.give(op, op.result, None)
        return
    if (
        fragment.m != rows
        or STORED_ELEMENTS.get(fragment.element) != fragment.axes
        or fragment.n * _bytes(fragment.element) % _STEP_BYTES
    ):
        walk.findings.doubt(f"writes {fragment.m} x {fragment.n} of {fragment.element} over {fragment.axes!r}", op)
    # Warps that run ahead write while others may still read an accumulator: its columns are held until all have read.
    walk.state.held |= {_columns(walk, op, memory, column, _cells(fragment.n, fragment.element))}
    walk.state.synced = False
    walk.give(op, op.result, TensorOperand(fragment.m, fragment.n, column, fragment.element))


def _issue_stored(walk: RoleWalk, op: TensorIssueStoredOp) -> None:
    operand, slot = walk.take_as(op, op.a, TensorOperand), walk.take(op, op.phase)
    walk.require_unit(op, op.unit)
    if _shape(walk, op):
        _read_b(walk, op, slot)
    if operand is not None:
        wanted = (op.m.data, _STEP_BYTES * op.steps.data // _bytes(operand.element), op.element.data)
        if (operand.m, operand.k, operand.element) != wanted:
            walk.findings.doubt(f"multiplies {wanted} of {describe(operand)}", op)
        columns = (operand.column, operand.column + _cells(operand.k, operand.element))
        walk.state.held -= {columns}
        walk.state.busy |= {columns}
    _accumulate(walk, op)
    walk.give(op, op.reading, reading_of(walk, op, slot))


def _load(walk: RoleWalk, op: TensorLoadOp) -> None:
    _memory(walk, op, op.memory)
    walk.require_unit(op, op.unit)
    settled, kind = walk.take_as(op, op.accumulator, TensorSettled), type_of(op.result)
    if settled is None or not isinstance(kind, ac.FragmentType):
        walk.give(op, op.result, None)
        return
    state = walk.state
    state.held -= {(settled.column, settled.column + settled.n)}
    state.synced = False
    walk.give(op, op.result, Values(settled.m, settled.n, "mn", "f32"))


def _go_on(walk: RoleWalk, op: TensorGoOnOp) -> None:
    """Its columns stay held: nothing else may be written there."""
    settled = walk.take_as(op, op.accumulator, TensorSettled)
    going_on = None if settled is None else TensorAccumulating(settled.m, settled.n, settled.column)
    walk.give(op, op.result, going_on)


def finish_tensor_memory(walk: RoleWalk) -> None:
    """At a role's end, where nothing may be in flight any more."""
    if walk.state.committed is not False:
        walk.report("TC004", walk.role.op, "ends with a commit for which no thread has waited")
