"""What do two-level accumulation's operations do to a unit's state, and which of them break a rule on the spot?

A total is registers that threads alone write, in place: the token is linear, so that nothing reads an old total. A
partial product must have settled before it is added, and its registers count as touched by the threads, so that the
next wgmma that writes them needs a fence. Scales are plain loads: they read global arrays, or parts of them, and
nothing else.

Checked by: tests/contract/typestate/steps/test_promotion.py.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.contract.typestate.places.array_parts import array_of
from tilewright.contract.typestate.program import integers, type_of
from tilewright.contract.typestate.scalar_region import check_region
from tilewright.contract.typestate.token import Index, Promoted, Scales, Settled, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac.promotion import (
    PromotedReadOp,
    PromotedStartOp,
    PromotedType,
    PromoteOp,
    ScalesLoadOp,
    ScalesType,
)


def promotion_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns totals or scales."""
    match op:
        case PromotedStartOp():
            kind = type_of(op.result)
            total = Promoted(kind.m.data, kind.n.data) if isinstance(kind, PromotedType) else None
            walk.give(op, op.result, total)
        case ScalesLoadOp():
            _load(walk, op)
        case PromoteOp():
            _promote(walk, op)
        case PromotedReadOp():
            total = walk.take_as(op, op.total, Promoted)
            walk.give(op, op.result, Settled(total.m, total.n) if total is not None else None)
        case _:
            return False
    if walk.role.unit != "warpgroup128":
        walk.findings.doubt(f"in a role of {walk.role.unit}", op)
    return True


def _load(walk: RoleWalk, op: ScalesLoadOp) -> None:
    source = array_of(walk, op, op.source)
    _, column, _ = walk.indices(op, [op.row, op.column, op.slice])
    kind, axes, blocks = type_of(op.result), op.axes.data, integers(op.blocks)
    if not isinstance(kind, ScalesType):
        walk.findings.doubt("its result is no scales", op)
        walk.give(op, op.result, None)
        return
    if len(set(axes)) != len(axes) or not set(axes) <= set("mnk") or len(blocks) != len(axes) or min(blocks) < 1:
        walk.findings.doubt(f"loads scales along {axes!r} in blocks of {blocks}", op)
    elif source is not None and source.rank != len(axes):
        walk.findings.doubt(f"loads scales along {axes!r} of an array that has other axes", op)
    _require_run(walk, op, column, kind.n.data, dict(zip(axes, blocks, strict=False)).get("n", 0))
    if op.depth.data < 1:
        walk.findings.doubt(f"slices of {op.depth.data} elements", op)
    if source is not None and walk.recording:
        walk.summary.reads_global.setdefault(source.op.buffer.data, op)
    walk.give(op, op.result, Scales(kind.m.data, kind.n.data))


def _require_run(walk: RoleWalk, op: ScalesLoadOp, column: Index, columns: int, block: int) -> None:
    """Columns that are said to share a number of the array do so wherever the fragment begins."""
    run = op.column_run.data
    multiples = [*(factor for _, factor in column.terms), column.constant, columns, block]
    if run < 1 or any(multiple % run for multiple in multiples):
        walk.findings.doubt(f"{run} neighbouring columns may lie in two blocks of {block}", op)


def _promote(walk: RoleWalk, op: PromoteOp) -> None:
    total, partial = walk.take_as(op, op.total, Promoted), walk.take(op, op.partial)
    if partial is not None and not isinstance(partial, Settled):
        walk.report("WG003", op, f"touches {describe(partial)}")
        partial = None
    walk.state.fenced = False
    sizes = {(token.m, token.n) for token in (total, partial) if token is not None}
    for value in op.scales:
        token = walk.look(op, value)
        if isinstance(token, Scales):
            sizes.add((token.m, token.n))
        elif token is not None:
            walk.findings.doubt(f"takes {describe(token)} where scales belong", op)
    if len(sizes) > 1:
        walk.findings.doubt("a total, a partial product and scales of different sizes", op)
    check_region(op.body.block, op, len(op.scales), walk.findings)
    walk.give(op, op.result, total)
