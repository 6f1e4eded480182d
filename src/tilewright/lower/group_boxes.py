"""Where does a box of rows begin that may lie past the end of its group?

Rows of a tile past its group's end are the next group's, and their products are not stored. Multiplied they are all the
same, since the tensor core takes 64 rows at a time; what they are is free, and zeros take the least power. So a tile's
rows come in several boxes, and one past the group's end is asked for past the array's last row, where the copy engine
fills a box with zeros: as many bytes for the barrier, and none from memory.
Source: PTX ISA, cp.async.bulk.tensor (what lies outside the tensor is zero). Checked by:
tests/lower/test_group_tiles.py.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.ir import ac
from tilewright.lower.group_walk import GroupWalk
from tilewright.lower.lowering import Lowering


def row_within_group(lowering: Lowering, op: ac.CopyIssueOp, row: str, outside: int) -> str:
    """`row`, or `outside` if it is at or past the end of the group of the tile that the loop around is about."""
    text, end = lowering.text, walk_around(lowering, op).current.end
    inside = text.into("pred", "setp.lt.s32", row, end)
    return text.into("b32", "selp.b32", row, text.into("b32", "mov.u32", outside), inside)


def walk_around(lowering: Lowering, op: Operation) -> GroupWalk:
    """The walk over groups that `op` stands in."""
    block = op.parent_block()
    while block is not None and block not in lowering.walks:
        parent = block.parent_op()
        block = parent.parent_block() if parent is not None else None
    assert block is not None
    return lowering.walks[block]
