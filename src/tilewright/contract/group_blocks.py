"""May products of blocks of rows past a group's end be left out? Only if nobody reads what stands for them.

A product that says `within_group` leaves anything in the accumulator for blocks of 64 rows that begin at or past the
end of the group. So it must stand inside a loop over groups, and whatever becomes of its accumulator there must be
waiting, elementwise work, and at the end stores of rows: `ac.rows.store` writes no row at or past its `row_end`, and if
that is the loop's, and the fragment's first row is the row of the unit's first block, the rows written are those of
blocks that were multiplied. Elementwise work computes each element from its own, so it spreads nothing to other rows.

An accumulator that leaves the loop, is added to another CTA's, staged for a bulk store, or goes to any operation not
named here, is a doubt. That a unit without any row synchronizes its threads before it gives a slot back is not said
here; the proof of the text holds it.
Checked by: tests/contract/test_group_tiles.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from tilewright.contract.token import UNIT, Index
from tilewright.contract.walk import RoleWalk
from tilewright.ir import ac

_ROWS = 64
"""Of a block, and of one wgmma (PTX ISA, wgmma: Matrix shape)."""
_OF_PRODUCTS = ac.AccumulatorType | ac.InflightType | ac.FragmentType
_FOLLOWED = ac.WgmmaIssueOp | ac.WgmmaWaitOp | ac.LoopOp | ac.YieldOp | ac.MapOp | ac.RowsStoreOp


def is_within_group(op: Operation) -> bool:
    """Whether the product says that it may leave blocks out."""
    return isinstance(op, ac.WgmmaIssueOp) and op.within_group not in (None, IntAttr(0))


def check_blocks(walk: RoleWalk, op: ac.WgmmaIssueOp) -> None:
    """Doubt a product that leaves blocks out where somebody may read what stands for them."""
    if not is_within_group(op):
        return
    if op.within_group != IntAttr(1):
        walk.findings.doubt(f"leaves out blocks within_group {op.within_group}", op)
    loop = _group_loop(op)
    if loop is None:
        walk.findings.doubt("leaves out blocks past a group's end outside any loop over groups", op)
        return
    if any(isinstance(value.type, _OF_PRODUCTS) for value in loop.operands):
        walk.findings.doubt("leaves out blocks of an accumulator that goes from tile to tile", op)
    for other in loop.walk():
        if other is loop or isinstance(other, _FOLLOWED):
            continue
        if any(isinstance(value.type, _OF_PRODUCTS) for value in other.operands):
            walk.findings.doubt(f"leaves out blocks that {other.name} may read", op)


def check_stored_blocks(walk: RoleWalk, op: ac.RowsStoreOp, row: Index) -> None:
    """Doubt a store in the loop of such products whose first row is not their first block's. row: of the fragment."""
    loop = _group_loop(op)
    issues = [each for each in loop.walk() if is_within_group(each)] if loop is not None else []
    if loop is None or not issues:
        return
    if op.row_end is not loop.body.block.args[_END]:
        walk.findings.doubt("stores blocks up to another row than its group's end, beside products that leave out", op)
    atoms = walk.look(op, loop.body.block.args[0])
    for issue in issues:
        assert isinstance(issue, ac.WgmmaIssueOp)
        unit_rows = issue.m.data if issue.a_instance_bytes.data else 0
        terms = dict(atoms.terms) if isinstance(atoms, Index) else {}
        wanted = terms | ({UNIT: unit_rows} if unit_rows else {})
        if not terms or dict(row.terms) != wanted or row.constant or issue.m.data % _ROWS:
            walk.findings.doubt("stores rows that are not those of the products, which leave out blocks", op)


_END = 3
"""Which argument of a loop over groups is the row where the tile's group ends."""


def _group_loop(op: Operation) -> ac.GroupLoop | None:
    around = op.parent_op()
    while around is not None and not isinstance(around, ac.GroupLoop):
        around = around.parent_op()
    return around
