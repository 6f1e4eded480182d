"""How do wgmma operations proceed in a running CTA? Four warps issue each one; the tensor core executes them in order.

A warp issues without waiting for the others; an operation may execute once all four warps have issued it, at any later
time but after its predecessors, and reads shared memory only then. Its accumulator lives in the tensor core until a
`wait_group` that covers it writes it back to the registers. A chain of operations on one accumulator passes it on
without going through registers. Source: PTX ISA, Asynchronous Warpgroup Level Matrix Instructions.

Registers. Between issue and wait the accumulator and A registers belong to the operation (`Warp.in_flight`). A
`wgmma.fence` remembers the register file; since registers are never changed in place, an accumulator or A register
that is no longer the same vector at issue was written since the fence. What was read since is noted by `fenced_reads`.

Checked by: tests/machine/test_wgmma.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.machine import tensor_core
from tilewright.machine.engine_fault import EngineFault
from tilewright.machine.event import Access, Ranges, SharedMatrix, TensorCoreActor, WgmmaForm
from tilewright.machine.fault import MachineFault
from tilewright.machine.fragment import accumulator_coordinates, operand_coordinates
from tilewright.machine.lanes import Registers
from tilewright.machine.state import Cta, Strand, Warp
from tilewright.machine.step import Control

WARPS = 4
NO_RESULT: npt.NDArray[Any] = np.zeros((0, 0), np.float32)
"""The result of an operation in a run without mathematics."""
Inputs = tuple[list[Any] | None, list[Any]]
"""Vectors of the accumulator (None if it is passed on) and of A (none if it is in shared memory)."""
_PASSED_ON: Inputs = None, []
_NO_BITS: npt.NDArray[Any] = np.zeros(32, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class OperandBytes:
    """Shared bytes that an operation reads. parts: A's (if in shared memory) and B's; whole: the same in one; own_rows:
    for each of the four warps, those of its 16 rows of A, none if A is in registers. matrices: A, None if it is in
    registers, and B."""

    parts: tuple[Ranges, ...]
    whole: Ranges
    own_rows: tuple[Ranges, ...]
    matrices: tuple[SharedMatrix | None, SharedMatrix]


@dataclass(frozen=True, slots=True, eq=False)
class MatrixInstruction:
    """What the text of one wgmma fixes. Slots of registers; `a_registers` empty where A is in shared memory;
    footprints: what it reads, by the descriptors of A and B that it has met."""

    n: int
    k: int
    accumulator_type: str
    a_type: Any
    b_type: Any
    accumulator: tuple[int, ...]
    a_registers: tuple[int, ...]
    a_major: Any
    b_major: Any
    negate_a: bool
    negate_b: bool
    saturate: bool
    span: Span
    footprints: dict[tuple[int, int], OperandBytes] = field(default_factory=dict[tuple[int, int], "OperandBytes"])


@dataclass(slots=True, eq=False)
class Operation:
    """One wgmma in flight. actor: it, in events; inputs: per warp, accumulator vectors (None if chained) and A
    vectors."""

    number: int
    actor: TensorCoreActor
    instruction: MatrixInstruction
    scale: bool
    a_descriptor: int
    b_descriptor: int
    inputs: dict[int, Inputs] = field(default_factory=dict[int, "Inputs"])
    result: npt.NDArray[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Issuing(Control):
    """The step of a wgmma. operands: whether it adds to its accumulator, and its descriptors, in a warp; enter: it is
    issued on these, and all is done but for the event; form: what is told of it, by the warp's place in its group."""

    text: MatrixInstruction = field(kw_only=True)
    operands: Callable[[Warp, int], tuple[bool, int, int]] = field(kw_only=True)
    enter: Callable[[Warp, bool, int, int], Operation] = field(kw_only=True)
    form: Callable[[Operation, int], WgmmaForm] = field(kw_only=True)


class WarpMatrixState:
    """A warp's view of its warpgroup's operations."""

    def __init__(self) -> None:
        self.issued = 0
        self.open: list[Operation] = []
        self.groups: list[list[Operation]] = []
        self.committed = 0
        self.in_flight: list[Operation] = []
        self.fenced: Registers | None = None
        self.fresh_fence = False
        self.reads: set[int] = set()  # of these operations' registers, since the last fence
        self.taken: set[int] = set()  # accumulators' registers that were read since the last operation on them
        self.waiters: list[tuple[Warp, Strand]] = []
        self.keeps: list[int] = []  # of each waiter, how many groups may be left

    def older_than(self, keep: int) -> list[Operation]:
        """The operations of all groups but the newest `keep`."""
        return [operation for group in self.groups[: max(len(self.groups) - keep, 0)] for operation in group]

    def may_go_on(self) -> bool:
        """Would one that waits for groups find them done? Asked of each anew, since groups come and go."""
        return any(all(each.result is not None for each in self.older_than(keep)) for keep in self.keeps)

    def is_taken(self, accumulator: tuple[int, ...]) -> bool:
        """Has one of the registers been read since this was asked of them last?"""
        if not self.taken or self.taken.isdisjoint(accumulator):
            return False
        self.taken.difference_update(accumulator)
        return True

    def operation_of(self, slot: int) -> int:
        """The number of the latest operation in flight that holds a register."""
        for operation in reversed(self.in_flight):
            if slot in operation.instruction.accumulator or slot in operation.instruction.a_registers:
                return operation.number
        raise KeyError(slot)

    def chained(self, accumulator: tuple[int, ...]) -> Operation | None:
        """The latest operation in flight on exactly this accumulator."""
        for operation in reversed(self.in_flight):
            mine = operation.instruction.accumulator
            if mine is accumulator or mine == accumulator:
                return operation
        return None


class Warpgroup:
    """Four warps of a CTA, and the operations that they have issued or begun to issue."""

    def __init__(self, cta: Cta, warps: list[Warp]) -> None:
        self.cta = cta
        self.warps = warps
        self.begun: dict[int, Operation] = {}
        self.queue: deque[Operation] = deque()
        self.accumulators: dict[tuple[int, ...], npt.NDArray[Any]] = {}

    def issue(
        self, warp: Warp, instruction: MatrixInstruction, scale: bool, a_descriptor: int, b_descriptor: int,
        accumulator: list[Any] | None, a_values: list[Any],
    ) -> Operation:  # fmt: skip
        """One warp issues its next operation; once all four have, the tensor core may execute it."""
        return self._issue(
            warp, warp.wgmma, instruction, scale, a_descriptor, b_descriptor, (accumulator, a_values)
        )  # fmt: skip

    def pass_on(
        self, warp: Warp, state: WarpMatrixState, instruction: MatrixInstruction, scale: bool, a_descriptor: int,
        b_descriptor: int,
    ) -> Operation:  # fmt: skip
        """The same for one whose accumulator the one before it passes on, and whose operands are in shared memory."""
        return self._issue(warp, state, instruction, scale, a_descriptor, b_descriptor, _PASSED_ON)

    def _issue(
        self, warp: Warp, state: WarpMatrixState, instruction: MatrixInstruction, scale: bool, a_descriptor: int,
        b_descriptor: int, inputs: Inputs,
    ) -> Operation:  # fmt: skip
        index = state.issued
        state.issued = index + 1
        operation = self.begun.get(index)
        if operation is None:
            counts = self.cta.cluster.counts
            number = counts.wgmmas
            operation = Operation(number, TensorCoreActor(number), instruction, scale, a_descriptor, b_descriptor)
            counts.wgmmas = number + 1
            self.begun[index] = operation
        elif (
            operation.instruction is not instruction
            or operation.scale != scale
            or operation.a_descriptor != a_descriptor
            or operation.b_descriptor != b_descriptor
        ):
            raise MachineFault(
                "MF005", "warpgroup-diverged",
                f"the warps of a warpgroup issue different wgmmas as their number {index}: the other one is at "
                f"{operation.instruction.span}, or its operands differ",
                instruction.span, "PTX ISA, wgmma.mma_async: .sync.aligned",
            )  # fmt: skip
        operation.inputs[warp.index % WARPS] = inputs
        if len(operation.inputs) == WARPS:
            del self.begun[index]
            self.queue.append(operation)
            if len(self.queue) == 1:
                self.cta.cluster.pending.append(self._execute_next)
        return operation

    def _execute_next(self) -> None:
        cluster = self.cta.cluster
        # Where events may be joined, all that may be executed is, at once: that is one of the orders there are.
        for _ in range(len(self.queue) if self._joins() else 1):
            operation = self.queue[0]
            try:
                self._execute(operation)
            except EngineFault as fault:
                raise MachineFault(fault.code, fault.name, fault.message, operation.instruction.span) from fault
            self.queue.popleft()
        if self.queue:
            cluster.pending.append(self._execute_next)
        for warp in self.warps:
            state: WarpMatrixState = warp.wgmma
            # Others are woken in vain at times, and find it so themselves.
            if state.waiters and (state.may_go_on() or not self._joins()):
                state.keeps.clear()
                cluster.wake(state.waiters)

    def _joins(self) -> bool:
        """May events be joined, and does nobody ask for values?"""
        decoder = self.cta.cluster.program.decoder
        return decoder.dropped is not None and decoder.dropped.joins and not decoder.mathematics

    def _execute(self, operation: Operation) -> None:
        text = operation.instruction
        if self.cta.cluster.program.decoder.mathematics:
            self._multiply(operation)
        else:
            operation.result = NO_RESULT
            whole, size = operand_bytes(operation).whole, self.cta.shared.size_bytes
            if self.cta.cluster.program.decoder.dropped is not None and whole and whole[-1][1] > size:
                raise tensor_core.out_of_shared(whole[0][0], whole[-1][1], size)
        observe = self.cta.cluster.observe
        # Of which bytes it reads the events of its issue have told, and it was issued by all four warps.
        if observe is not None and not self._joins():
            for ranges in operand_bytes(operation).parts:
                observe(Access(operation.actor, "shared", self.cta.linear, ranges, False, "async", text.span))

    def _multiply(self, operation: Operation) -> None:
        text = operation.instruction
        shared = self.cta.shared.data
        if text.a_registers:
            a = self._a_from_registers(operation)
        else:
            a = tensor_core.operand(shared, operation.a_descriptor, 64, text.k, text.a_type, text.a_major)
        b = tensor_core.operand(shared, operation.b_descriptor, text.n, text.k, text.b_type, text.b_major)
        old = self._accumulator(operation)
        match text.accumulator_type:
            case "f32":
                new = tensor_core.multiply_accumulate(a, b, old, operation.scale, text.negate_a, text.negate_b)
            case "f16":
                new = tensor_core.multiply_accumulate_half(a, b, old, operation.scale, text.negate_a, text.negate_b)
            case _:
                new = tensor_core.multiply_accumulate_integer(a, b, old, operation.scale, text.saturate)
        self.accumulators[text.accumulator] = new
        operation.result = new

    def _accumulator(self, operation: Operation) -> npt.NDArray[Any]:
        text = operation.instruction
        dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[text.accumulator_type]
        if not operation.scale:
            return _zeros(text.n, np.dtype(dtype))
        given = [inputs[0] for _, inputs in sorted(operation.inputs.items())]
        if all(vectors is None for vectors in given):
            return self.accumulators[text.accumulator]
        matrix = self.accumulators.get(text.accumulator)
        matrix = np.zeros((64, text.n), dtype) if matrix is None else matrix.copy()
        for index, vectors in enumerate(given):
            if vectors is None:
                continue
            rows, columns = fragment_of_warp(text.n, index)
            values = np.array(vectors)
            if text.accumulator_type == "f16":
                halves = values.view(np.float16).reshape(len(vectors), 32, 2)
                matrix[rows, columns] = halves.transpose(0, 2, 1).reshape(len(vectors) * 2, 32)
            else:
                matrix[rows, columns] = values.view(dtype)
        return matrix

    def _a_from_registers(self, operation: Operation) -> npt.NDArray[np.float32]:
        text = operation.instruction
        width = tensor_core.ELEMENT_BYTES[text.a_type]
        rows, depths = operand_coordinates(width)
        dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[width]
        bits = np.empty((64, text.k), dtype)
        for index in range(WARPS):
            values = np.array(operation.inputs[index][1]).T
            lanes = slice(32 * index, 32 * index + 32)
            bits[rows[lanes], depths[lanes]] = np.ascontiguousarray(values).view(dtype)
        return tensor_core.exact(bits, text.a_type)


def operand_bytes(operation: Operation) -> OperandBytes:
    """What an operation reads of shared memory. Raises EngineFault for a descriptor that is none."""
    text, key = operation.instruction, (operation.a_descriptor, operation.b_descriptor)
    found = text.footprints.get(key)
    if found is None:
        a_descriptor = None if text.a_registers else operation.a_descriptor
        found = text.footprints[key] = _operand_bytes(
            a_descriptor, operation.b_descriptor, text.n, text.k, text.a_type, text.b_type, text.a_major, text.b_major
        )
    return found


@lru_cache(maxsize=4096)
def _operand_bytes(
    a_descriptor: int | None, b_descriptor: int, n: int, k: int, a_type: Any, b_type: Any, a_major: Any, b_major: Any
) -> OperandBytes:
    """The same for two descriptors, of A None where it is in registers: alike for all instructions of one kind."""
    parts: list[Ranges] = []
    own: list[Ranges] = [(), (), (), ()]
    a: SharedMatrix | None = None
    if a_descriptor is not None:
        width, rows = tensor_core.ELEMENT_BYTES[a_type], 64 // WARPS
        parts.append(tensor_core.operand_ranges(a_descriptor, 64, k, width, a_major))
        for begin in range(0, 64, rows):
            own[begin // rows] = tensor_core.row_ranges(a_descriptor, 64, k, width, a_major, begin, begin + rows)
        a = SharedMatrix(a_descriptor, 64, k, width, a_major)
    width = tensor_core.ELEMENT_BYTES[b_type]
    parts.append(tensor_core.operand_ranges(b_descriptor, n, k, width, b_major))
    b = SharedMatrix(b_descriptor, n, k, width, b_major)
    return OperandBytes(tuple(parts), _joined(parts), tuple(own), (a, b))


def _joined(footprints: list[Ranges]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for begin, end in sorted({each for ranges in footprints for each in ranges}):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return tuple(joined)


@lru_cache(maxsize=64)
def _zeros(n: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.zeros((64, n), dtype)


@lru_cache(maxsize=256)
def fragment_of_warp(n: int, index: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of D held by warp `index` of the warpgroup: [value, lane]."""
    rows, columns = accumulator_coordinates(n)
    lanes = slice(32 * index, 32 * index + 32)
    return np.ascontiguousarray(rows[lanes].T), np.ascontiguousarray(columns[lanes].T)


def write_back(warp: Warp, operation: Operation) -> None:
    """Put a finished operation's accumulator into the warp's registers."""
    text = operation.instruction
    assert operation.result is not None, "only a finished operation is written back"
    fenced = warp.wgmma.fenced
    if operation.result is NO_RESULT:
        for slot in text.accumulator:
            # A vector of its own, so that a write between wgmma.fence and the next wgmma is seen.
            warp.r[slot] = vector = _NO_BITS[:]
            if fenced is not None:
                fenced[slot] = vector
        return
    rows, columns = fragment_of_warp(text.n, warp.index % WARPS)
    values = operation.result[rows, columns]
    if text.accumulator_type == "f16":
        pairs = values.reshape(len(text.accumulator), 2, 32).transpose(0, 2, 1)
        vectors = np.ascontiguousarray(pairs).view(np.uint32)[:, :, 0]
    else:
        vectors = values.view(np.uint32)
    for slot, vector in zip(text.accumulator, vectors, strict=True):
        warp.r[slot] = vector
        if fenced is not None:
            fenced[slot] = vector


def settle(warp: Warp) -> None:
    """Recompute which registers are in flight."""
    state: WarpMatrixState = warp.wgmma
    # Each instruction's once: there are few, and many operations.
    texts = {id(operation.instruction): operation.instruction for operation in state.in_flight}
    parts: dict[int, tuple[int, ...]] = {}
    for text in texts.values():
        parts[id(text.accumulator)] = text.accumulator
        parts[id(text.a_registers)] = text.a_registers
    warp.in_flight = _registers_of(tuple(parts.values()))


@lru_cache(maxsize=256)
def _registers_of(parts: tuple[tuple[int, ...], ...]) -> frozenset[int]:
    return frozenset(slot for part in parts for slot in part)
