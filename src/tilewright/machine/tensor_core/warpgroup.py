"""How do wgmma operations proceed in a running CTA? Four warps issue each one; the tensor core executes them in order.

A warp issues without waiting for the others; an operation may execute once all four warps have issued it, at any later
time but after its predecessors, and reads shared memory only then. Its accumulator lives in the tensor core until a
`wait_group` that covers it writes it back to the registers. A chain of operations on one accumulator passes it on
without going through registers. Source: PTX ISA, Asynchronous Warpgroup Level Matrix Instructions.
What operations do with registers: `wgmma_registers`. Checked by: tests/machine/tensor_core/test_wgmma.py.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Access, Ranges, SharedMatrix, TensorCoreActor
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.state import Cta, Strand, Warp
from tilewright.machine.tensor_core import wgmma as tensor_core
from tilewright.machine.tensor_core.fragment import accumulator_coordinates, operand_coordinates

WARPS = 4
NO_RESULT: npt.NDArray[Any] = np.zeros((0, 0), np.float32)
"""The result of an operation in a run without mathematics."""
Inputs = tuple[list[Any] | None, list[Any]]
"""Vectors of the accumulator (None if it is passed on) and of A (none if it is in shared memory)."""


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
    """What the text of one wgmma fixes. Slots of registers; `a_registers` empty where A is in shared memory. a_depth:
    elements of a row of A that are stored: K, half of it of a sparse product."""

    n: int
    k: int
    a_depth: int
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


@dataclass(slots=True, eq=False)
class Operation:
    """One wgmma in flight. actor: it, in events; inputs: per warp, accumulator vectors (None if chained) and A
    vectors."""

    actor: TensorCoreActor
    instruction: MatrixInstruction
    scale: bool
    a_descriptor: int
    b_descriptor: int
    inputs: dict[int, Inputs] = field(default_factory=dict[int, "Inputs"])
    result: npt.NDArray[Any] | None = None


class WarpMatrixState:
    """A warp's view of its warpgroup's operations."""

    def __init__(self) -> None:
        self.issued = 0
        self.open: list[Operation] = []
        self.groups: list[list[Operation]] = []
        self.committed = 0
        self.in_flight: list[Operation] = []
        self.fenced = False  # a wgmma.fence has been met
        self.fresh_fence = False
        self.writes: set[int] = set()  # of these operations' registers, since the last fence
        self.reads: set[int] = set()
        self.taken: set[int] = set()  # accumulators' registers that were read since the last operation on them
        self.waiters: list[tuple[Warp, Strand]] = []

    def commit(self, members: list[Operation]) -> None:
        """They are a group."""
        self.groups.append(members)
        self.committed += 1

    def are_done(self, keep: int) -> bool:
        """Are the operations of all groups but the newest `keep`? They are executed in the order of their issue."""
        groups = self.groups
        for at in range(len(groups) - keep - 1, -1, -1):
            if groups[at]:
                return groups[at][-1].result is not None
        return True

    def retire(self, keep: int) -> list[Operation]:
        """The groups but the newest `keep` are no longer in flight: their operations, the oldest of those that are."""
        count = len(self.groups) - keep
        if count <= 0:
            return []
        finished = self.groups[0]
        if count > 1:
            finished = [each for group in self.groups[:count] for each in group]
        del self.groups[:count]
        del self.in_flight[: len(finished)]
        return finished

    def is_taken(self, accumulator: tuple[int, ...]) -> bool:
        """Has one of the registers been read since this was asked of them last?"""
        if not self.taken or self.taken.isdisjoint(accumulator):
            return False
        self.taken.difference_update(accumulator)
        return True

    def operation_of(self, slot: int) -> int:
        """The number of the latest operation in flight that holds a register."""
        for operation in reversed(self.in_flight):
            text = operation.instruction
            if slot in text.accumulator or slot in text.a_registers:
                return operation.actor.operation
        raise KeyError(slot)

    def chained(self, accumulator: tuple[int, ...]) -> MatrixInstruction | None:
        """The latest wgmma in flight on exactly this accumulator."""
        for operation in reversed(self.in_flight):
            if operation.instruction.accumulator == accumulator:
                return operation.instruction
        return None


class Warpgroup:
    """Four warps of a CTA, and the operations that they have issued or begun to issue."""

    def __init__(self, cta: Cta, warps: list[Warp]) -> None:
        self.cta = cta
        self.warps = warps
        # What some of the four have issued, by the number of its first operation among those of a warp.
        self.begun: dict[int, Operation] = {}
        self.queue: deque[Operation] = deque()
        self.accumulators: dict[tuple[int, ...], npt.NDArray[Any]] = {}

    def issue(
        self, warp: Warp, instruction: MatrixInstruction, scale: bool, a_descriptor: int, b_descriptor: int,
        accumulator: list[Any] | None, a_values: list[Any],
    ) -> Operation:  # fmt: skip
        """One warp issues its next operation; once all four have, the tensor core may execute it."""
        state: WarpMatrixState = warp.wgmma
        index = state.issued
        state.issued = index + 1
        operation = self.begun.get(index)
        if operation is None:
            counts = self.cta.cluster.counts
            operation = Operation(TensorCoreActor(counts.wgmmas), instruction, scale, a_descriptor, b_descriptor)
            counts.wgmmas += 1
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
        operation.inputs[warp.index % WARPS] = accumulator, a_values
        if len(operation.inputs) == WARPS:
            del self.begun[index]
            self._enqueue(operation)
        return operation

    def _enqueue(self, operation: Operation) -> None:
        """All four warps have issued it."""
        if not self.queue:
            self.cta.cluster.pending.append(self._execute_next)
        self.queue.append(operation)

    def _execute_next(self) -> None:
        cluster, operation = self.cta.cluster, self.queue[0]
        try:
            self._execute(operation)
        except EngineFault as fault:
            raise MachineFault(fault.code, fault.name, fault.message, operation.instruction.span) from fault
        self.queue.popleft()
        if self.queue:
            cluster.pending.append(self._execute_next)
        for warp in self.warps:
            state: WarpMatrixState = warp.wgmma
            if state.waiters:  # some are woken in vain, and find it so themselves
                cluster.wake(state.waiters)

    def _read_nothing(self, operation: Operation) -> None:
        """It is executed where nobody asks for values. Raises EngineFault if what it reads is not there."""
        operation.result = NO_RESULT
        whole, size = operand_bytes(operation).whole, self.cta.shared.size_bytes
        if whole and whole[-1][1] > size:
            raise tensor_core.out_of_shared(whole[0][0], whole[-1][1], size)

    def _execute(self, operation: Operation) -> None:
        if self.cta.cluster.program.decoder.mathematics:
            self._multiply(operation)
        else:
            self._read_nothing(operation)
        observe = self.cta.cluster.observe
        if observe is not None:
            span = operation.instruction.span
            for ranges in operand_bytes(operation).parts:
                observe(Access(operation.actor, "shared", self.cta.linear, ranges, False, "async", span))

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
    text = operation.instruction
    return _operand_bytes(
        None if text.a_registers else operation.a_descriptor, operation.b_descriptor, text.n, text.k, text.a_depth,
        text.a_type, text.b_type, text.a_major, text.b_major,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _operand_bytes(
    a_descriptor: int | None, b_descriptor: int, n: int, k: int, a_depth: int, a_type: Any, b_type: Any, a_major: Any,
    b_major: Any,
) -> OperandBytes:  # fmt: skip
    """The same for two descriptors, of A None where it is in registers: alike for all instructions of one kind."""
    parts: list[Ranges] = []
    own: list[Ranges] = [(), (), (), ()]
    a: SharedMatrix | None = None
    if a_descriptor is not None:
        width, rows = tensor_core.ELEMENT_BYTES[a_type], 64 // WARPS
        parts.append(tensor_core.operand_ranges(a_descriptor, 64, a_depth, width, a_major))
        for begin in range(0, 64, rows):
            own[begin // rows] = tensor_core.row_ranges(a_descriptor, 64, a_depth, width, a_major, begin, begin + rows)
        a = SharedMatrix(a_descriptor, 64, a_depth, width, a_major)
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
