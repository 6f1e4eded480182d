"""Units of a role that issue their products in order: may they wait for one another in a circle, or lose count?

Unit u's barrier takes part in a use when unit u - 1 (the last, for unit 0) has arrived and unit u waits. All units run
one program, so they come to take number k at the same place of it.

- Circles. Take k of unit u waits for pass k of unit u - 1, or, of unit 0, for pass k - 1 of the last unit; a pass
  stands right after its take, with nothing between that waits (checked). So such an edge goes to an earlier place of
  the program, or to the same place and a lower unit. A circle through waits on rings is then one of the role's own
  program, which `liveness` excludes; one of takes alone would go down in units for ever.
- Counts. The predecessor's pass k + 1 follows its take k + 1, which follows, around all units, pass k + 1 of unit u for
  u below it and pass k for u = the last; either follows take k of unit u. So no arrival counts in the use before. The
  last unit's first arrival is the start's; unit 0's end takes the arrival that is left. All units take as often: the
  loops around takes are no loops over tiles in turn or over parts (checked), whose trips are a unit's or a CTA's own.

Not handled: orders inside loops over tiles in turn or streamed parts; more than one order in a role.
Source: PTX ISA, bar{.cta}.sync, bar.arrive: a barrier counts the threads of both. Checked by:
tests/contract/typestate/steps/test_issue_order.py; `token_machine` runs orders at boundary counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp
from tilewright.ir.ac.issue_order import IssueOrderEndOp, IssueOrderStartOp, IssuePassOp, IssueTakeOp

LEAST_UNITS = 2
_ISSUES = (ac.WgmmaFenceOp, ac.WgmmaIssueOp, ac.WgmmaCommitOp, ac.AffineOp, FragmentIssueOp)
"""What may stand between a take and its pass: nothing of it waits for another thread."""
_AROUND = (ac.LoopOp, ac.TilesOp, ac.GroupTilesOp)
"""Loops whose trips are the same for all units of a role."""
_Ordered = IssueOrderStartOp | IssueTakeOp | IssuePassOp | IssueOrderEndOp


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
        if not isinstance(op, IssueTakeOp | IssuePassOp):
            continue
        outermost = op
        while (around := outermost.parent_op()) is not None and around is not role.op:
            if not isinstance(around, _AROUND):
                doubt(f"an order of issue inside {around.name}", op)
            outermost = around
        if not first < places.get(outermost, -1) < last:
            doubt("outside the order of issue that it belongs to", op)
    for block in dict.fromkeys(block for op in ordered if (block := op.parent_block()) is not None):
        _check_block(walk, block)
    _check_barriers(walk, start)


def _check_block(walk: RoleWalk, block: Block) -> None:
    """Takes and passes alternate, with no more than a product's issue between them."""
    taken: Operation | None = None
    for op in block.ops:
        match op:
            case IssueTakeOp():
                if taken is not None:
                    walk.findings.doubt("takes a turn of issue again before it was passed on", op)
                taken = op
            case IssuePassOp():
                if taken is None:
                    walk.findings.doubt("passes on a turn of issue that was not taken", op)
                taken = None
            case _:
                if taken is not None and not isinstance(op, _ISSUES):
                    walk.findings.doubt("between a turn of issue and its passing on", op)
    if taken is not None:
        walk.findings.doubt("takes a turn of issue that is never passed on", taken)


def _check_barriers(walk: RoleWalk, start: IssueOrderStartOp) -> None:
    first, count = start.first_barrier.data, walk.role.count
    if first < 1 or first + count > walk.kernel.facts.limit("cta.named_barriers"):
        walk.report("NB001", start, f"barriers {first} to {first + count - 1} for {count} units in order")
    if walk.recording:
        for unit in range(count):
            # As of a unit beside the others: a barrier that any of these uses by itself is found shared.
            walk.summary.named_barriers.setdefault(first + unit, {}).setdefault(count + unit, start)
