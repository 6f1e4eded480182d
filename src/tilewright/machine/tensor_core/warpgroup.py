"""How do wgmma operations proceed in a running CTA? Four warps issue each one; the tensor core executes them in order.

A warp issues without waiting for the others; an operation may execute once all four warps have issued it, at any later
time but after its predecessors, and reads shared memory only then. Its accumulator lives in the tensor core until a
`wait_group` that covers it writes it back to the registers. A chain of operations on one accumulator passes it on
without going through registers. Source: PTX ISA, Asynchronous Warpgroup Level Matrix Instructions.

Several that a warp issues one right after the other, nothing else between, may be issued as one (`RowForm`), as long as
all four warps do; else each is what it is by itself. What operations do with registers: `wgmma_registers`.

Checked by: tests/machine/tensor_core/test_wgmma.py, tests/machine/events_only/test_wgmma_rows.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Access, Ranges, SharedMatrix, TensorCoreActor, WgmmaForm
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import Registers
from tilewright.machine.core.state import Cta, Strand, Warp
from tilewright.machine.core.step import Control
from tilewright.machine.tensor_core import wgmma as tensor_core
from tilewright.machine.tensor_core.fragment import accumulator_coordinates, operand_coordinates

WARPS = 4
NO_RESULT: npt.NDArray[Any] = np.zeros((0, 0), np.float32)
"""The result of an operation in a run without mathematics."""
Inputs = tuple[list[Any] | None, list[Any]]
"""Vectors of the accumulator (None if it is passed on) and of A (none if it is in shared memory)."""
_PASSED_ON: Inputs = None, []


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
    vectors; row: the one that is done when it is."""

    actor: TensorCoreActor
    instruction: MatrixInstruction
    scale: bool
    a_descriptor: int
    b_descriptor: int
    inputs: dict[int, Inputs] = field(default_factory=dict[int, "Inputs"])
    result: npt.NDArray[Any] | None = None
    row: IssuedRow | None = None

    @property
    def actors(self) -> tuple[TensorCoreActor, ...]:
        """It alone (`IssuedRow.actors`)."""
        return (self.actor,)

    @property
    def ends(self) -> tuple[MatrixInstruction, ...]:
        """It alone (`RowForm.ends`)."""
        return (self.instruction,)

    def holder(self, slot: int) -> TensorCoreActor | None:
        """It, if it holds a register."""
        text = self.instruction
        return self.actor if slot in text.accumulator or slot in text.a_registers else None


@dataclass(frozen=True, slots=True, eq=False)
class RowForm:
    """wgmmas one right after the other, on certain operands: instruction, whether it adds, and descriptors of each. All
    operands are in shared memory. begun: each accumulator, by its identity, with its first wgmma's shape, in order;
    ends: the last wgmma on each accumulator; end_bytes: where the last byte ends that they read.
    """

    wgmmas: tuple[tuple[MatrixInstruction, bool, int, int], ...]
    begun: tuple[tuple[int, int], ...]
    ends: tuple[MatrixInstruction, ...]
    end_bytes: int


def row_form(wgmmas: Sequence[tuple[MatrixInstruction, bool, int, int]]) -> RowForm:
    """wgmmas one right after the other. Raises EngineFault for a descriptor that is none."""
    read = [footprint(text, a_descriptor, b_descriptor).whole for text, _, a_descriptor, b_descriptor in wgmmas]
    # By identity, of which there is one for each accumulator (`Decoder.interned`).
    begun = dict.fromkeys((id(text.accumulator), text.n) for text, *_ in wgmmas)
    ends = {id(text.accumulator): text for text, *_ in wgmmas}
    last = max((ranges[-1][1] for ranges in read if ranges), default=0)
    return RowForm(tuple(wgmmas), tuple(begun), tuple(ends.values()), last)


@dataclass(slots=True, eq=False)
class IssuedRow:
    """A row that some warps have issued, those at `places` in their warpgroup: in flight as one. actors: its
    operations, in events; result: of all, once they are done. Should others issue them one by one, it stays one for
    those that did not."""

    form: RowForm
    actors: tuple[TensorCoreActor, ...]
    places: list[int] = field(default_factory=list[int])
    result: npt.NDArray[Any] | None = None

    @property
    def ends(self) -> tuple[MatrixInstruction, ...]:
        """The last wgmma on each accumulator."""
        return self.form.ends

    def alone(self) -> list[Operation]:
        """Each of its operations, as far as it has been issued."""
        found = [
            Operation(actor, *wgmma, inputs=dict.fromkeys(self.places, _PASSED_ON))
            for actor, wgmma in zip(self.actors, self.form.wgmmas, strict=True)
        ]
        found[-1].row = self
        return found

    def passes_on(self, older: Issued) -> bool:
        """Is it on the same accumulators as an older row, so that none of these is to be written back?"""
        return isinstance(older, IssuedRow) and (older.form is self.form or older.form.begun == self.form.begun)

    def holder(self, slot: int) -> TensorCoreActor | None:
        """The last one that holds a register."""
        for actor, (text, *_) in zip(reversed(self.actors), reversed(self.form.wgmmas), strict=True):
            if slot in text.accumulator:
                return actor
        return None


Issued = Operation | IssuedRow


@dataclass(frozen=True, slots=True, eq=False)
class Issuing(Control):
    """The step of a wgmma. operands: whether it adds to its accumulator, and its descriptors, in a warp; enter: it is
    issued on these, and all is done but for the event; form: what is told of it on these, by the warp's place in its
    group."""

    text: MatrixInstruction = field(kw_only=True)
    operands: Callable[[Warp, int], tuple[bool, int, int]] = field(kw_only=True)
    enter: Callable[[Warp, bool, int, int], Operation] = field(kw_only=True)
    form: Callable[[bool, int, int, int], WgmmaForm] = field(kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Fencing(Control):
    """The step of a wgmma.fence. fence: all but its event; tell: that."""

    fence: Callable[[Warp], None] = field(kw_only=True)
    tell: Callable[[Warp], None] = field(kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Committing(Control):
    """The step of a wgmma.commit_group."""


class WarpMatrixState:
    """A warp's view of its warpgroup's operations."""

    def __init__(self) -> None:
        self.issued = 0
        self.open: list[Issued] = []
        self.groups: list[list[Issued]] = []
        self.committed = 0
        self.in_flight: list[Issued] = []
        self.fenced: Registers | None = None
        self.fresh_fence = False
        self.reads: set[int] = set()  # of these operations' registers, since the last fence
        self.given = 0  # so many times were registers given vectors that stand for bits which nobody asks for
        self.taken: set[int] = set()  # accumulators' registers that were read since the last operation on them
        self.waiters: list[tuple[Warp, Strand]] = []
        self.keeps: list[int] = []  # of each waiter, how many groups may be left

    def commit(self, members: list[Issued]) -> None:
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

    def retire(self, keep: int) -> list[Issued]:
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

    def may_go_on(self) -> bool:
        """Would one that waits for groups find them done? Asked of each anew, since groups come and go."""
        return any(map(self.are_done, self.keeps))

    def is_taken(self, accumulator: tuple[int, ...]) -> bool:
        """Has one of the registers been read since this was asked of them last?"""
        if not self.taken or self.taken.isdisjoint(accumulator):
            return False
        self.taken.difference_update(accumulator)
        return True

    def operation_of(self, slot: int) -> int:
        """The number of the latest operation in flight that holds a register."""
        for issued in reversed(self.in_flight):
            holder = issued.holder(slot)
            if holder is not None:
                return holder.operation
        raise KeyError(slot)

    def chained(self, accumulator: tuple[int, ...]) -> MatrixInstruction | None:
        """The latest wgmma in flight on exactly this accumulator."""
        for issued in reversed(self.in_flight):
            for text in issued.ends:
                mine = text.accumulator
                if mine is accumulator or mine == accumulator:
                    return text
        return None


class Warpgroup:
    """Four warps of a CTA, and the operations that they have issued or begun to issue."""

    def __init__(self, cta: Cta, warps: list[Warp]) -> None:
        self.cta = cta
        self.warps = warps
        # What some of the four have issued, by the number of its first operation among those of a warp.
        self.begun: dict[int, Operation] = {}
        self.rows: dict[int, IssuedRow] = {}
        self.queue: deque[Issued] = deque()
        self.accumulators: dict[tuple[int, ...], npt.NDArray[Any]] = {}

    def issue(
        self, warp: Warp, instruction: MatrixInstruction, scale: bool, a_descriptor: int, b_descriptor: int,
        accumulator: list[Any] | None, a_values: list[Any],
    ) -> Operation:  # fmt: skip
        """One warp issues its next operation; once all four have, the tensor core may execute it."""
        state: WarpMatrixState = warp.wgmma
        index = state.issued
        state.issued = index + 1
        if self.rows:
            self._split_row(index)
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

    def issue_row(self, warp: Warp, form: RowForm) -> IssuedRow | None:
        """One warp issues its next operations, as one. None, and nothing is done, where another one has issued them one
        by one, or others: each then has to be held against that."""
        state: WarpMatrixState = warp.wgmma
        index = state.issued
        row = self.rows.get(index)
        if row is None:
            # Who comes to the first one before others do comes to the rest before them.
            if index in self.begun:
                return None
            counts = self.cta.cluster.counts
            first, counts.wgmmas = counts.wgmmas, counts.wgmmas + len(form.wgmmas)
            row = IssuedRow(form, tuple(map(TensorCoreActor, range(first, counts.wgmmas))))
            self.rows[index] = row
        elif row.form is not form:
            return None
        state.issued = index + len(row.actors)
        row.places.append(warp.index % WARPS)
        if len(row.places) == WARPS:
            del self.rows[index]
            self._enqueue(row)
        return row

    def _split_row(self, index: int) -> None:
        """A warp issues this operation by itself: if others have issued it in a row, each is one from now on."""
        for first, row in self.rows.items():
            if first <= index < first + len(row.actors):
                self.begun.update(enumerate(row.alone(), first))
                del self.rows[first]
                return

    def _enqueue(self, issued: Issued) -> None:
        """All four warps have issued it."""
        if not self.queue:
            self.cta.cluster.pending.append(self._execute_next)
        self.queue.append(issued)

    def _execute_next(self) -> None:
        cluster, joins = self.cta.cluster, self._joins()
        if joins:
            # All that may be executed is, at once: that is one of the orders there are. Of which bytes it reads the
            # events of its issue have told, and it was issued by all four warps.
            for issued in self.queue:
                issued.result = NO_RESULT
                if isinstance(issued, Operation):
                    _at_its_place(self._read_nothing, issued)
                elif issued.form.end_bytes > self.cta.shared.size_bytes:
                    for operation in issued.alone():
                        _at_its_place(self._read_nothing, operation)
            self.queue.clear()
        else:
            operation = self.queue[0]
            assert isinstance(operation, Operation), "there are rows only where what may be executed is so at once"
            _at_its_place(self._execute, operation)
            self.queue.popleft()
        if self.queue:
            cluster.pending.append(self._execute_next)
        for warp in self.warps:
            state: WarpMatrixState = warp.wgmma
            # Others are woken in vain at times, and find it so themselves.
            if state.waiters and (not joins or state.may_go_on()):
                state.keeps.clear()
                cluster.wake(state.waiters)

    def _joins(self) -> bool:
        """May events be joined, and does nobody ask for values?"""
        decoder = self.cta.cluster.program.decoder
        return decoder.dropped is not None and decoder.dropped.joins and not decoder.mathematics

    def _read_nothing(self, operation: Operation) -> None:
        """It is executed where nobody asks for values. Raises EngineFault if what it reads is not there."""
        operation.result = NO_RESULT
        if operation.row is not None:
            operation.row.result = NO_RESULT
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


def _at_its_place(act: Callable[[Operation], None], operation: Operation) -> None:
    try:
        act(operation)
    except EngineFault as fault:
        raise MachineFault(fault.code, fault.name, fault.message, operation.instruction.span) from fault


def operand_bytes(operation: Operation) -> OperandBytes:
    """What an operation reads of shared memory. Raises EngineFault for a descriptor that is none."""
    return footprint(operation.instruction, operation.a_descriptor, operation.b_descriptor)


def footprint(text: MatrixInstruction, a_descriptor: int, b_descriptor: int) -> OperandBytes:
    """What it reads on these descriptors. Raises EngineFault for one that is none."""
    key = a_descriptor, b_descriptor
    found = text.footprints.get(key)
    if found is None:
        found = text.footprints[key] = _operand_bytes(
            None if text.a_registers else a_descriptor, b_descriptor, text.n, text.k, text.a_type, text.b_type,
            text.a_major, text.b_major,
        )  # fmt: skip
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
