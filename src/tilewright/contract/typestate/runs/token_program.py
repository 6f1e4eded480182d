"""What do the roles' operations ask of rings and wgmma groups, read once for all the runs of a kernel?

`token_machine` runs a kernel's roles at many counts, and a loop's body many times in each run. Here each operation is
read once, into a value that holds what the run needs of it; what moves nothing on a ring is left out. Values of the
program go by number. What cannot be run (a loop without a yield, a ring that is none) is found when the run comes to
it, not before: a run that never gets there has something to say all the same.

Checked by: tests/contract/typestate/test_typestate_tokenmachine.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import Block, Operation, SSAValue

from tilewright.contract.typestate.program import Kernel, Map, Ring
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import AsyncCopyArriveOp, AsyncCopyFenceOp, AsyncCopyIssueOp
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.fragment import FragmentIssueOp, FragmentReadOp
from tilewright.ir.ac.handed import ANSWER_BYTES, WorkAskOp, WorkTakeOp
from tilewright.ir.ac.issue_order import IssueOrderEndOp, IssueOrderStartOp, IssuePassOp, IssueTakeOp
from tilewright.ir.ac.register_operand import ComputedIssueOp, OperandReadOp
from tilewright.ir.ac.remade import RoomStartOp, SlotRemakeOp
from tilewright.ir.ac.stream import STREAM_INDICES, StreamPartOp, TurnStreamPartOp
from tilewright.ir.ac.tensor_memory import (
    TensorCommitOp,
    TensorFactorsOp,
    TensorFillOp,
    TensorHandOverOp,
    TensorIssueOp,
    TensorIssueStoredOp,
    TensorReadOp,
    TensorReleaseOp,
    TensorWaitOp,
)


class Step:
    """What one operation asks."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Wait(Step):
    op: Operation
    ring: Ring | None
    cursor: int
    result: int
    full: bool
    invert: int


@dataclass(frozen=True, slots=True)
class Drain(Step):
    """Of all slots of a ring, from a cursor on."""

    op: Operation
    ring: Ring | None
    cursor: int


@dataclass(frozen=True, slots=True)
class Start(Step):
    """Of a cursor."""

    result: int


@dataclass(frozen=True, slots=True)
class Advance(Step):
    cursor: int
    result: int


@dataclass(frozen=True, slots=True)
class Announce(Step):
    op: Operation
    slot: int
    result: int
    bytes: int
    leader: bool = False


@dataclass(frozen=True, slots=True)
class Copy(Step):
    """By the copy engine. bytes: None of something that is no tensor map. leader: they count in the first CTA."""

    op: Operation
    slot: int
    result: int
    bytes: int | None
    everywhere: bool
    leader: bool = False


@dataclass(frozen=True, slots=True)
class CopyByThreads(Step):
    """arrives: their deferred arrivals, and no bytes. result: -1 where there is none."""

    op: Operation
    slot: int
    result: int
    arrives: bool


@dataclass(frozen=True, slots=True)
class Fence(Step):
    slot: int
    result: int


@dataclass(frozen=True, slots=True)
class Look(Step):
    """By the unit's threads. ends: whether they have read when it is over; made: the unit's own memory that they then
    have written, or -1."""

    op: Operation
    slot: int
    result: int
    ends: bool
    made: int = -1


@dataclass(frozen=True, slots=True)
class Own(Step):
    """Memory that is a unit's own, so that no barrier guards it."""

    result: int


@dataclass(frozen=True, slots=True)
class Multiply(Step):
    """a_slot, a_reading: of A, where it lies in a slot of its own; into, filling: the slot that is filled by it, where
    there is one; else -1. everywhere: by the slots of each CTA. passed: slots that are read already, and are handed
    on."""

    op: Operation
    slot: int
    reading: int
    a_slot: int = -1
    a_reading: int = -1
    into: int = -1
    filling: int = -1
    everywhere: bool = False
    passed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class HandOver(Step):
    """Of a slot, once the products issued so far are done. everywhere: in each CTA."""

    op: Operation
    slot: int
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Commit(Step):
    pass


@dataclass(frozen=True, slots=True)
class Retire(Step):
    """pairs: a slot that was read, and the same handed back."""

    pending: int
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Release(Step):
    """by_products: the tensor core arrives once the products issued so far are done. leader: in the first CTA alone."""

    op: Operation
    slot: int
    everywhere: bool
    by_products: bool = False
    leader: bool = False


@dataclass(frozen=True, slots=True)
class Reduce(Step):
    op: ac.ClusterReduceOp
    ring: Ring | None
    cursor: int
    following: int


@dataclass(frozen=True, slots=True)
class Loop(Step):
    """begin: its first index. arguments: of its body, without the indices. yielded: None where the loop cannot be run.
    turns: of a loop over what units take in turn, the ring of its barriers. slots: the symbol that counts those which
    each takes."""

    op: Operation
    body: Block
    symbol: str
    begin: int
    carried: tuple[int, ...]
    arguments: tuple[int, ...]
    yielded: tuple[int, ...] | None
    outputs: tuple[int, ...]
    turns: Ring | None = None
    slots: str = ""


@dataclass(frozen=True, slots=True)
class Turns(Loop):
    """A loop over what units take in turn."""


@dataclass(frozen=True, slots=True)
class PassTurn(Step):
    op: Operation
    turns: Ring | None


@dataclass(frozen=True, slots=True)
class BeginIssue(Step):
    op: Operation


@dataclass(frozen=True, slots=True)
class PassIssue(Step):
    op: Operation


@dataclass(frozen=True, slots=True)
class TakeIssue(Step):
    op: IssueTakeOp


@dataclass(frozen=True, slots=True)
class EndIssue(Step):
    op: IssueOrderEndOp


@dataclass(slots=True)
class TokenProgram:
    """A kernel's operations as steps, each block read when a run first comes to it."""

    kernel: Kernel
    blocks: dict[Block, tuple[Step, ...]] = field(default_factory=dict[Block, "tuple[Step, ...]"])
    numbers: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    ranged: frozenset[str] = frozenset()
    """Symbols of which each tile has its own number."""
    apart: tuple[str, str, str] = ("", "", "")
    """Symbols of iterations that units have apart: of the tile, of their own, and those that are left."""

    def __post_init__(self) -> None:
        self.ranged = frozenset(op.symbol.data for op in self.kernel.operations.of(ac.RangeOp))
        for op in self.kernel.operations.of(ac.UnitRangeOp):
            self.apart = op.symbol.data, op.own.data, op.rest.data

    def steps(self, block: Block) -> tuple[Step, ...]:
        found = self.blocks.get(block)
        if found is None:
            read = ((_READ.get(type(op)), op) for op in block.ops)
            found = self.blocks[block] = tuple(step(self, op) for step, op in read if step is not None)
        return found

    def number(self, value: SSAValue | None) -> int:
        """Of a value; -1 where there is none."""
        return -1 if value is None else self.numbers.setdefault(value, len(self.numbers))

    def ring(self, value: SSAValue) -> Ring | None:
        """The ring that a value is; None where it is none."""
        declared = self.kernel.declared.get(value)
        return declared if isinstance(declared, Ring) else None

    def _numbers(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        return tuple(self.number(value) for value in values)

    # ------------------------------------------------------------ one for each class of operations

    def wait(self, op: ac.BarrierWaitOp) -> Wait:
        cursor, result = self.number(op.cursor), self.number(op.result)
        return Wait(op, self.ring(op.ring), cursor, result, op.side.data == "full", op.invert_parity.data)

    def drain(self, op: ac.DrainOp) -> Drain:
        return Drain(op, self.ring(op.ring), self.number(op.cursor))

    def start(self, op: ac.CursorStartOp) -> Start:
        return Start(self.number(op.result))

    def advance(self, op: ac.AdvanceOp) -> Advance:
        return Advance(self.number(op.cursor), self.number(op.result))

    def announce(self, op: ac.ArriveExpectOp) -> Announce:
        return Announce(op, self.number(op.phase), self.number(op.result), op.bytes.data, is_set(op.leader))

    def copy(self, op: ac.CopyIssueOp) -> Copy:
        asked = self.kernel.declared.get(op.descriptor)
        box_bytes = asked.box_bytes if isinstance(asked, Map) else None
        return Copy(op, self.number(op.tx), self.number(op.result), box_bytes, op.multicast.data > 1, is_set(op.leader))

    def ask(self, op: WorkAskOp) -> Copy:
        return Copy(op, self.number(op.tx), -1, ANSWER_BYTES, everywhere=False)

    def take_answer(self, op: WorkTakeOp) -> Release:
        return Release(op, self.number(op.phase), everywhere=False)

    def copy_by_threads(self, op: AsyncCopyIssueOp) -> CopyByThreads:
        return CopyByThreads(op, self.number(op.tx), self.number(op.result), arrives=False)

    def copies_arrive(self, op: AsyncCopyArriveOp) -> CopyByThreads:
        return CopyByThreads(op, self.number(op.tx), -1, arrives=True)

    def fence(self, op: AsyncCopyFenceOp) -> Fence:
        return Fence(self.number(op.phase), self.number(op.result))

    def look(self, op: OperandReadOp) -> Look:
        return Look(op, self.number(op.phase), self.number(op.result), ends=False)

    def read_whole(self, op: FragmentReadOp | TensorReadOp) -> Look:
        return Look(op, self.number(op.phase), self.number(op.held), ends=True)

    def start_room(self, op: RoomStartOp) -> Own:
        return Own(self.number(op.result))

    def remake(self, op: SlotRemakeOp) -> Look:
        return Look(op, self.number(op.phase), self.number(op.held), ends=True, made=self.number(op.made))

    def multiply(self, op: ac.WgmmaIssueOp | TensorIssueOp) -> Multiply:
        slots = self.number(op.phase), self.number(op.reading)
        return Multiply(op, *slots, self.number(op.a_phase), self.number(op.a_reading))

    def multiply_held(self, op: FragmentIssueOp | TensorIssueStoredOp) -> Multiply:
        return Multiply(op, self.number(op.phase), self.number(op.reading))

    def multiply_computed(self, op: ComputedIssueOp) -> Multiply:
        return Multiply(op, self.number(op.computed), self.number(op.reading))

    def commit(self, op: ac.WgmmaCommitOp | TensorCommitOp) -> Commit:
        return Commit()

    def retire(self, op: ac.WgmmaWaitOp) -> Retire:
        retired, reading = op.retired, op.reading
        if retired is None or reading is None:
            return Retire(op.pending.data, ())
        return Retire(op.pending.data, ((self.number(reading), self.number(retired)),))

    def multiply_into(self, op: TensorFillOp) -> Multiply:
        slots = self.number(op.phase), self.number(op.reading), self.number(op.a_phase), self.number(op.a_reading)
        passed = zip(self._numbers(op.factors), self._numbers(op.kept), strict=False)
        return Multiply(op, *slots, self.number(op.into), self.number(op.filling), is_set(op.pair), tuple(passed))

    def copy_factors(self, op: TensorFactorsOp) -> Multiply:
        return Multiply(op, self.number(op.phase), self.number(op.result))

    def hand_over(self, op: TensorHandOverOp) -> HandOver:
        return HandOver(op, self.number(op.filling), is_set(op.pair))

    def await_products(self, op: TensorWaitOp) -> Retire:
        pairs = zip(self._numbers(op.readings), self._numbers(op.retired), strict=False)
        return Retire(0, tuple(pairs))

    def release_by_products(self, op: TensorReleaseOp) -> Release:
        return Release(op, self.number(op.reading), everywhere=is_set(op.pair), by_products=True)

    def release(self, op: ac.ArriveOp) -> Release:
        return Release(op, self.number(op.phase), op.peers.data > 1, leader=is_set(op.leader))

    def reduce(self, op: ac.ClusterReduceOp) -> Reduce:
        return Reduce(op, self.ring(op.ring), self.number(op.cursor), self.number(op.following))

    def loop(self, op: ac.LoopOp) -> Loop:
        return Loop(op, op.body.block, op.symbol.data, op.begin.data, *self._carried(op, 1))

    def tiles(self, op: ac.TilesOp) -> Loop:
        return Loop(op, op.body.block, op.symbol.data, 0, *self._carried(op, op.indices))

    def group_tiles(self, op: ac.GroupTilesOp) -> Loop:
        return Loop(op, op.body.block, op.symbol.data, 0, *self._carried(op, ac.GROUP_INDICES))

    def stream_part(self, op: StreamPartOp) -> Loop:
        return Loop(op, op.body.block, op.symbol.data, 0, *self._carried(op, STREAM_INDICES))

    def turn_stream_part(self, op: TurnStreamPartOp) -> Turns:
        return self._turns(op, STREAM_INDICES, op.slices.data)

    def turn_tiles(self, op: ac.TurnTilesOp) -> Turns:
        return self._turns(op, op.indices, op.skipped.data)

    def turn_group_tiles(self, op: ac.TurnGroupTilesOp) -> Turns:
        return self._turns(op, ac.GROUP_INDICES, op.skipped.data)

    def _turns(self, op: ac.TurnLoop | TurnStreamPartOp, indices: int, slots: str) -> Turns:
        carried = self._carried(op, indices)
        return Turns(op, op.body.block, op.symbol.data, 0, *carried, self.ring(op.turns), slots)

    def _carried(
        self,
        op: ac.LoopOp | ac.TilesOp | ac.GroupTilesOp | StreamPartOp | ac.TurnLoop | TurnStreamPartOp,
        indices: int,
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None, tuple[int, ...]]:
        """What a loop carries: entering, in its body, yielded, and leaving."""
        body, carried = op.body.block, self._numbers(op.carried)
        last, yielded = body.last_op, None
        if isinstance(last, ac.YieldOp) and len(last.values) == len(carried):
            yielded = self._numbers(last.values)
        return carried, self._numbers(body.args[indices:]), yielded, self._numbers(op.outputs)

    def pass_turn(self, op: ac.TurnPassOp) -> PassTurn:
        return PassTurn(op, self.ring(op.turns))

    def begin_issue(self, op: IssueOrderStartOp) -> BeginIssue:
        return BeginIssue(op)

    def pass_issue(self, op: IssuePassOp) -> PassIssue:
        return PassIssue(op)

    def take_issue(self, op: IssueTakeOp) -> TakeIssue:
        return TakeIssue(op)

    def end_issue(self, op: IssueOrderEndOp) -> EndIssue:
        return EndIssue(op)


# By class: telling that an operation is of none of so many classes takes long.
_READ = cast(
    "dict[type[Operation], Callable[[TokenProgram, Operation], Step]]",
    {
        ac.BarrierWaitOp: TokenProgram.wait,
        ac.DrainOp: TokenProgram.drain,
        ac.CursorStartOp: TokenProgram.start,
        ac.AdvanceOp: TokenProgram.advance,
        ac.ArriveExpectOp: TokenProgram.announce,
        ac.CopyIssueOp: TokenProgram.copy,
        AsyncCopyIssueOp: TokenProgram.copy_by_threads,
        AsyncCopyArriveOp: TokenProgram.copies_arrive,
        AsyncCopyFenceOp: TokenProgram.fence,
        OperandReadOp: TokenProgram.look,
        FragmentReadOp: TokenProgram.read_whole,
        RoomStartOp: TokenProgram.start_room,
        SlotRemakeOp: TokenProgram.remake,
        FragmentIssueOp: TokenProgram.multiply_held,
        ac.WgmmaIssueOp: TokenProgram.multiply,
        ComputedIssueOp: TokenProgram.multiply_computed,
        ac.WgmmaCommitOp: TokenProgram.commit,
        ac.WgmmaWaitOp: TokenProgram.retire,
        ac.ArriveOp: TokenProgram.release,
        TensorIssueOp: TokenProgram.multiply,
        TensorIssueStoredOp: TokenProgram.multiply_held,
        TensorFactorsOp: TokenProgram.copy_factors,
        TensorFillOp: TokenProgram.multiply_into,
        TensorHandOverOp: TokenProgram.hand_over,
        TensorReadOp: TokenProgram.read_whole,
        TensorCommitOp: TokenProgram.commit,
        TensorWaitOp: TokenProgram.await_products,
        TensorReleaseOp: TokenProgram.release_by_products,
        WorkAskOp: TokenProgram.ask,
        WorkTakeOp: TokenProgram.take_answer,
        ac.ClusterReduceOp: TokenProgram.reduce,
        ac.LoopOp: TokenProgram.loop,
        ac.TilesOp: TokenProgram.tiles,
        ac.GroupTilesOp: TokenProgram.group_tiles,
        StreamPartOp: TokenProgram.stream_part,
        TurnStreamPartOp: TokenProgram.turn_stream_part,
        ac.TurnTilesOp: TokenProgram.turn_tiles,
        ac.TurnGroupTilesOp: TokenProgram.turn_group_tiles,
        ac.TurnPassOp: TokenProgram.pass_turn,
        IssueOrderStartOp: TokenProgram.begin_issue,
        IssuePassOp: TokenProgram.pass_issue,
        IssueTakeOp: TokenProgram.take_issue,
        IssueOrderEndOp: TokenProgram.end_issue,
    },
)
