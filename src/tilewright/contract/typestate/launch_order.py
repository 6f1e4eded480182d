"""Does a kernel that begins early touch global memory only once the launches before it have ended?

griddepcontrol.wait returns when the grids before have ended and what they wrote is visible to all of this grid, so one
thread may wait for others; what remains is that the others do nothing with global memory before they know of it. They
know it

- where every thread waits before any role begins, from the start;
- where a role of one thread waits, that role from there on, and another role from its first wait for a full slot of a
  ring that the waiting role alone fills, since each such slot is announced after that role's wait;
- where all threads of another role wait, too, that role from there on.

Roles are read in the order of their text: what is known where a loop begins is known in each of its turns; what a
loop's body learns is forgotten behind it, since a loop may have no turn, unless its symbol's minimum says that it has
one. Operations that are not named here as ones that leave global memory alone count as touching it, but for a load of a
number at which nothing begins but boxes that are asked for ahead: whatever it reads, it decides nothing. Letting the
next grid begin counts too: that is done no sooner than the wait, so that no more than two grids are there at once.

Not handled: waits of several roles of one thread, and of warpgroups alone (doubts). The proof of the text looks at the
same once more by who knows of whose wait (`grid_dependency`).
Source: PTX ISA 9.7.13.13 (griddepcontrol). Checked by: tests/contract/typestate/test_launch_order.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Block, Operation

from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import Kernel
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import (
    AccumulatorPartsOp,
    AccumulatorStartOp,
    FragmentFoldOp,
    FragmentFullOp,
    FragmentIssueOp,
    FragmentMapOp,
    FragmentReadOp,
)
from tilewright.ir.ac.handed import OPERATIONS as HANDED_OPERATIONS
from tilewright.ir.ac.issue_order import IssueOrderEndOp, IssueOrderStartOp, IssuePassOp, IssueTakeOp
from tilewright.ir.ac.promotion import PromotedReadOp, PromotedStartOp, PromoteOp
from tilewright.ir.ac.remade import OPERATIONS as REMADE_OPERATIONS
from tilewright.ir.ac.split import SplitPartOp
from tilewright.ir.ac.stream import StreamPartOp, TurnStreamPartOp
from tilewright.ir.ac.team import TeamAfterOp
from tilewright.ir.ac.tensor_memory import SLOT_OPERATIONS, UNIT_OPERATIONS

_LEAVE_GLOBAL_ALONE = (
    ac.AffineOp, ac.IndexDivideOp, ac.RangeOp, ac.UnitRangeOp, ac.UnitPassOp, ac.SplitIndexOp, SplitPartOp,
    ac.CursorStartOp, ac.AdvanceOp, ac.BarrierWaitOp, ac.DrainOp, ac.BoxPrefetchOp,
    ac.ArriveOp, ac.TransactionCloseOp, ac.WgmmaFenceOp, ac.WgmmaIssueOp, ac.WgmmaCommitOp, ac.WgmmaWaitOp,
    ac.ClusterReduceOp, ac.StageWriteOp, ac.FenceProxyOp, ac.NamedBarrierSyncOp, ac.BulkCommitOp,
    ac.BulkWaitOp, ac.TurnPassOp, ac.YieldOp, IssueOrderStartOp, IssueTakeOp, IssuePassOp, IssueOrderEndOp,
    TeamAfterOp, FragmentFullOp, FragmentMapOp, FragmentFoldOp, FragmentReadOp, AccumulatorStartOp, FragmentIssueOp,
    AccumulatorPartsOp, PromotedStartOp, PromoteOp, PromotedReadOp, *UNIT_OPERATIONS, *SLOT_OPERATIONS,
    *REMADE_OPERATIONS, *HANDED_OPERATIONS,
)  # fmt: skip
_LOOPS = (ac.TilesOp, ac.TurnTilesOp, ac.LoopOp, StreamPartOp, TurnStreamPartOp)
"""Whose own steps read nothing of global memory."""


def launch_order_step(walk: object, op: Operation) -> bool:
    """Whether `op` is one of those that `check_launch_order` judges; to a role's walk they are nothing."""
    return isinstance(op, ac.GridWaitOp | ac.GridReleaseOp)


def check_launch_order(kernel: Kernel, findings: Findings) -> None:
    """Doubts where a role may touch global memory before it is known that the launches before have ended."""
    waits = kernel.operations.of(ac.GridWaitOp)
    top = [op for op in waits if op.parent_op() is kernel.op]
    inside = [op for op in waits if op.parent_op() is not kernel.op]
    if not inside:
        for op in kernel.operations.of(ac.GridReleaseOp):
            if op.parent_op() is not kernel.op:
                findings.doubt("lets the next grid begin in a role, and waits for those before in none", op)
        return
    if top:
        findings.doubt("waits for the grids before in several places", inside[0])
        return
    roles = [op for op in kernel.op.body.block.ops if isinstance(op, ac.RoleOp)]
    alone = [role for role in dict.fromkeys(map(_role_of, inside)) if role is not None and _is_of_one_thread(role)]
    if len(alone) != 1:
        findings.doubt("waits for the grids before in no role of one thread, or in several", inside[0])
        return
    showing = _rings_filled_by(alone[0], roles)
    for role in roles:
        _read(role.body.block, False, showing, kernel.minima, findings)


def _role_of(op: Operation) -> ac.RoleOp | None:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ac.RoleOp):
        parent = parent.parent_op()
    return parent


def _is_of_one_thread(role: ac.RoleOp) -> bool:
    return role.execution.unit.data == "thread1" and role.execution.count.data == 1


def _rings_filled_by(waiting: ac.RoleOp, roles: list[ac.RoleOp]) -> set[str]:
    """Names of rings of whose empty side no other role waits, so that no other fills them."""

    def filled(role: ac.RoleOp) -> set[str]:
        return {_ring(op) for op in role.walk() if isinstance(op, ac.BarrierWaitOp) and op.side.data == "empty"}

    others = {name for role in roles if role is not waiting for name in filled(role)}
    return filled(waiting) - others


def _ring(op: ac.BarrierWaitOp) -> str:
    kind = op.ring.type
    return kind.ring.data if isinstance(kind, ac.RingType) else ""


def _shows(op: Operation, showing: set[str]) -> bool:
    return isinstance(op, ac.BarrierWaitOp) and op.side.data == "full" and _ring(op) in showing


def _read(block: Block, known: bool, showing: set[str], minima: Mapping[str, int], findings: Findings) -> bool:
    """Whether it is known behind `block` that the launches before have ended. known: before it; showing: rings whose
    full slots show it; minima: the least values of symbols."""
    for op in block.ops:
        if isinstance(op, ac.GridWaitOp) or _shows(op, showing):
            known = True
        elif isinstance(op, _LOOPS):
            learned = _read(op.body.block, known, showing, minima, findings)
            if isinstance(op, ac.LoopOp) and minima.get(op.symbol.data, 0) > op.begin.data:
                known = learned
        elif not known and not isinstance(op, _LEAVE_GLOBAL_ALONE) and not only_asks(op):
            findings.doubt("may touch global memory before it is known that the grids before have ended", op)
    return known


def only_asks(op: Operation) -> bool:
    """Whether what an operation loads only says for which boxes the kernel asks ahead."""
    uses = op.result.uses if isinstance(op, ac.IndexLoadOp) else ()
    return isinstance(op, ac.IndexLoadOp) and all(isinstance(use.operation, ac.BoxPrefetchOp) for use in uses)
