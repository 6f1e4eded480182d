"""How consumers issue products in order: where turns are taken and passed on, and their barriers.

See `ir.ac.issue_order`. A turn is a use of a named barrier by two warpgroups: bar.sync of the one whose turn it
becomes, bar.arrive of the one before. Sources: PTX ISA, bar. Checked by:
tests/lower/distribution/test_issue_order.py, and `contract` on the text.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.issue_order import IssueOrderEndOp, IssueOrderStartOp, IssuePassOp, IssueTakeOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.lower.build import INDEX, Build
from tilewright.lower.ptx.lowering import Emitters, Lowering
from tilewright.lower.ptx.places import IndexPlace

IssueOrder = tuple[SSAValue, SSAValue]
"""The unit's own barrier and the next unit's."""
_THREADS = 256
"""Of two warpgroups."""


def _first_barrier(d: CascadeDecisions) -> int:
    """After barrier 0, the CTA's, and those of the consumers, from 1 on."""
    return 1 + d.consumers


def start_issue_order(build: Build, d: CascadeDecisions, unit: SSAValue) -> IssueOrder | None:
    """Before a role's loops, where its units issue in order."""
    if not d.ordered:
        return None
    op = IssueOrderStartOp.create(
        operands=[unit], properties={"first_barrier": IntAttr(_first_barrier(d))}, result_types=[INDEX, INDEX]
    )
    build.add(op)
    return op.own, op.following


def take_issue(build: Build, order: IssueOrder | None) -> None:
    """Before products are issued."""
    if order is not None:
        build.add(IssueTakeOp.create(operands=[order[0]]))


def pass_issue(build: Build, order: IssueOrder | None) -> None:
    """As soon as they are committed."""
    if order is not None:
        build.add(IssuePassOp.create(operands=[order[1]]))


def end_issue_order(build: Build, order: IssueOrder | None, unit: SSAValue) -> None:
    """After a role's loops."""
    if order is not None:
        build.add(IssueOrderEndOp.create(operands=[order[0], unit]))


def _start(lowering: Lowering, op: IssueOrderStartOp) -> None:
    text, role = lowering.text, op.parent_op()
    assert isinstance(role, ac.RoleOp)
    unit, first = lowering.index(op.unit), op.first_barrier.data
    own = text.into("b32", "add.u32", unit, first)
    is_last = text.into("pred", "setp.eq.u32", unit, role.execution.count.data - 1)
    above = text.into("b32", "add.u32", unit, first + 1)
    following = text.into("b32", "selp.b32", first, above, is_last)
    text.emit("bar.arrive", following, _THREADS, guard=is_last)
    lowering.places[op.own] = IndexPlace(own)
    lowering.places[op.following] = IndexPlace(following)


def _take(lowering: Lowering, op: IssueTakeOp) -> None:
    lowering.text.emit("bar.sync", lowering.index(op.barrier), _THREADS)


def _pass(lowering: Lowering, op: IssuePassOp) -> None:
    lowering.text.emit("bar.arrive", lowering.index(op.barrier), _THREADS)


def _end(lowering: Lowering, op: IssueOrderEndOp) -> None:
    is_first = lowering.text.into("pred", "setp.eq.u32", lowering.index(op.unit), 0)
    lowering.text.emit("bar.sync", lowering.index(op.barrier), _THREADS, guard=is_first)


EMITTERS: Emitters = {
    IssueOrderStartOp: _start,
    IssueTakeOp: _take,
    IssuePassOp: _pass,
    IssueOrderEndOp: _end,
}
