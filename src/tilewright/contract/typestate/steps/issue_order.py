"""Units of a role that issue their products in order: may they wait for one another in a circle, or lose count?

Unit u's barrier takes part in a use when unit u - 1 (the last, for unit 0) has arrived and unit u waits. All units run
one program, so they come to take number k at the same place of it.

- Circles. Take k of unit u waits for pass k of unit u - 1, or, of unit 0, for pass k - 1 of the last unit. Between a
  take and its pass a unit waits for nothing but slots of rings and its own wgmmas (checked). Think of the waits for
  slots there as made right before the take, so that what a unit signals with the turn comes after all of them
  (`wait_with_the_turn`), and let `liveness` exclude circles of that program. Then there are none with takes either. One
  among the waits of take k alone would go to lower units, and in one unit to earlier places, without end. Any other
  circle comes to these waits, or to the take, from an event that is behind them in that program. From there it may go
  straight to the wait at which it leaves them, or to those of take k - 1, which are earlier still: `liveness` sees it.
- Counts. The predecessor's pass k + 1 follows its take k + 1, which follows, around all units, pass k + 1 of unit u for
  u below it and pass k for u = the last; either follows take k of unit u. So no arrival counts in the use before. The
  last unit's first arrival is the start's; unit 0's end takes the arrival that is left. All units take as often: the
  loops around takes are no loops over tiles in turn or over parts (checked), whose trips are a unit's or a CTA's own.

Not handled: orders inside loops over tiles in turn or streamed parts; more than one order in a role.
Source: PTX ISA, bar{.cta}.sync, bar.arrive: a barrier counts the threads of both. Checked by:
tests/contract/typestate/steps/test_issue_order.py and test_ordered_walk.py; `token_machine` runs orders at boundary
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from xdsl.ir import Block, Operation, SSAValue

from tilewright.contract.typestate.summary import waited_also
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorStartOp, FragmentIssueOp, FragmentMapOp
from tilewright.ir.ac.issue_order import IssueOrderEndOp, IssueOrderStartOp, IssuePassOp, IssueTakeOp

LEAST_UNITS = 2
_WITH_THE_TURN = (
    ac.WgmmaFenceOp,
    ac.WgmmaIssueOp,
    ac.WgmmaCommitOp,
    ac.WgmmaWaitOp,
    ac.AffineOp,
    ac.AdvanceOp,
    ac.BarrierWaitOp,
    ac.ArriveOp,
    ac.YieldOp,
    AccumulatorStartOp,
    FragmentIssueOp,
    FragmentMapOp,
    ac.FragmentLoadOp,
    ac.GlobalPartOp,
    ac.IndexDivideOp,
)
"""What may stand between a take and its pass: nothing of it waits for another thread, but for slots."""
_AROUND = (ac.LoopOp, ac.TilesOp, ac.GroupTilesOp)
"""Loops whose trips are the same for all units of a role."""
_Turn = IssueTakeOp | IssuePassOp
_Sides = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class IssueTurns:
    """Of one unit's barrier, as `token_machine` runs it. given, taken: turns so far."""

    given: int = 0
    taken: int = 0

    def passes(self, number: int) -> bool:
        """Whether turn `number` has been given."""
        return self.given > number

    @property
    def is_early(self) -> bool:
        """Whether another turn would count in a use that is not over."""
        return self.given > self.taken


def issue_order_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it belongs to an order of issue."""
    match op:
        case IssueOrderStartOp():
            walk.require_unit(op, op.unit)
            _check_order(walk, op)
            for result in op.results:
                # Numbers of barriers, which nothing else may use.
                walk.give(op, result, None)
        case IssueTakeOp() | IssuePassOp():
            _start_of(walk, op, op.barrier)
        case IssueOrderEndOp():
            walk.require_unit(op, op.unit)
            _start_of(walk, op, op.barrier)
        case _:
            return False
    return True


def _start_of(walk: RoleWalk, op: Operation, barrier: SSAValue) -> None:
    walk.look(op, barrier)
    start = barrier.owner
    index = 1 if isinstance(op, IssuePassOp) else 0
    if not isinstance(start, IssueOrderStartOp) or start.results[index] is not barrier:
        walk.findings.doubt("takes something that is not its barrier of the order of issue", op)
    elif start.parent_op() is not walk.role.op:
        walk.findings.doubt("belongs to an order of issue that another role starts", op)


def _check_order(walk: RoleWalk, start: IssueOrderStartOp) -> None:
    role, doubt = walk.role, walk.findings.doubt
    body = role.op.body.block
    ordered = role.operations.of(IssueOrderStartOp, IssueTakeOp, IssuePassOp, IssueOrderEndOp)
    ends = [op for op in ordered if isinstance(op, IssueOrderEndOp)]
    if role.unit != "warpgroup128" or role.count < LEAST_UNITS:
        doubt(f"an order of issue among {role.count} units of {role.unit}", start)
    if sum(isinstance(op, IssueOrderStartOp) for op in ordered) > 1 or start.parent_block() is not body:
        doubt("an order of issue that is not started once, in the role's own body", start)
        return
    if len(ends) != 1 or ends[0].parent_block() is not body:
        doubt("an order of issue that is not ended once, in the role's own body", start)
        return
    places = {op: number for number, op in enumerate(body.ops)}
    first, last = places[start], places[ends[0]]
    for op in ordered:
        if not isinstance(op, _Turn):
            continue
        outermost = op
        while (around := outermost.parent_op()) is not None and around is not role.op:
            if not isinstance(around, _AROUND):
                doubt(f"an order of issue inside {around.name}", op)
            outermost = around
        if not first < places.get(outermost, -1) < last:
            doubt("outside the order of issue that it belongs to", op)
    if _has_turn_behind(walk, body, held=False):
        doubt("takes a turn of issue that is never passed on", start)
    _check_barriers(walk, start)


def _has_turn_behind(walk: RoleWalk, block: Block, *, held: bool) -> bool:
    """Whether a unit has the turn behind a block, at whose begin it has it or not: takes and passes alternate, and an
    iteration leaves the turn where it found it."""
    doubt = walk.findings.doubt
    for op in block.ops:
        match op:
            case IssueTakeOp():
                if held:
                    doubt("takes a turn of issue again before it was passed on", op)
                held = True
            case IssuePassOp():
                if not held:
                    doubt("passes on a turn of issue that was not taken", op)
                held = False
            case ac.LoopOp() | ac.TilesOp() | ac.GroupTilesOp():
                ordered = [each for each in op.walk() if isinstance(each, _Turn)]
                if held and not _hands_on(op, ordered):
                    doubt("between a turn of issue and its passing on", op)
                if ordered and _has_turn_behind(walk, op.body.block, held=held) is not held:
                    doubt("an iteration ends with a turn of issue otherwise than it begins", op)
            case _:
                if held and not isinstance(op, _WITH_THE_TURN):
                    doubt("between a turn of issue and its passing on", op)
    return held


def _hands_on(loop: Operation, ordered: Sequence[Operation]) -> bool:
    """Whether each iteration of a loop hands the turn to the next, with nothing between the loop and the pass behind
    it, and no signal between the take before it and the loop: that would come after what the first iteration waits for,
    too (`_later_waits` looks no further than its own block). ordered: the takes and passes inside; a loop without any
    would be gone through with the turn."""
    before = next((op for op in _others(loop, ahead=False) if isinstance(op, _Turn | ac.ArriveOp)), None)
    between = isinstance(before, IssueTakeOp) and isinstance(loop.next_op, IssuePassOp)
    inside = bool(ordered) and all(each.parent_op() is loop for each in ordered)
    return isinstance(loop, ac.LoopOp) and between and inside


def wait_with_the_turn(walk: RoleWalk) -> None:
    """Of a role that was walked: what a unit releases while it has the turn comes after all that it waits for then."""
    if not walk.role.operations.of(IssueTakeOp):
        return
    summary = walk.summary
    for number, event in enumerate(summary.events):
        if event.kind == "wait":
            continue
        here, following = _later_waits(walk, event.op)
        summary.events[number] = replace(event, waited=waited_also(event.waited, here), handed_on=following)


def _later_waits(walk: RoleWalk, signal: Operation) -> tuple[_Sides, _Sides]:
    """The rings and sides for which a unit waits between a signal and the pass of the turn that it has there: in the
    same iteration, and in the next one, where the turn is handed to that."""
    block = signal.parent_block()
    before = next((op for op in _others(signal, ahead=False) if isinstance(op, _Turn)), None)
    after = next((op for op in _others(signal, ahead=True) if isinstance(op, _Turn)), None)
    if block is None or not (isinstance(before, IssueTakeOp) or isinstance(after, IssuePassOp)):
        return (), ()
    following = _waits(walk, block.ops) if after is None else ()
    return _waits(walk, _others(signal, ahead=True)), following


def _waits(walk: RoleWalk, ops: Iterable[Operation]) -> _Sides:
    """Those for which operations wait up to the first pass."""
    waits = [op for op in takewhile(_keeps_turn, ops) if isinstance(op, ac.BarrierWaitOp)]
    rings = [(walk.ring_of(op, op.ring), op.side.data) for op in waits]
    return tuple((ring.name, side) for ring, side in rings if ring is not None)


def _keeps_turn(op: Operation) -> bool:
    return not isinstance(op, IssuePassOp)


def _others(op: Operation, *, ahead: bool) -> Iterator[Operation]:
    """The operations of the same block behind one, or those before it, the nearest first."""
    while (following := op.next_op if ahead else op.prev_op) is not None:
        yield following
        op = following


def _check_barriers(walk: RoleWalk, start: IssueOrderStartOp) -> None:
    first, count = start.first_barrier.data, walk.role.count
    if first < 1 or first + count > walk.kernel.facts.limit("cta.named_barriers"):
        walk.report("NB001", start, f"barriers {first} to {first + count - 1} for {count} units in order")
    if walk.recording:
        for unit in range(count):
            # As of a unit beside the others: a barrier that any of these uses by itself is found shared.
            walk.summary.named_barriers.setdefault(first + unit, {}).setdefault(count + unit, start)
