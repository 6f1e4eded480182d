"""How the products of a slot become text where a tile's rows may end before the tile does.

A group's last tile is rarely full. Its blocks of 64 rows that begin past the group's end would be multiplied for
nothing, which costs time where the tensor cores bind, and power, which costs every multiprocessor time, where that
does. So a slot's products are written once for each number of blocks that may have rows, with a fence and a commit of
their own each, and a branch that all threads of the warpgroup take alike picks one. An assembler follows whole groups
of wgmma on either side of a branch; single ones with a predicate each it would run one after the other (ptxas 13.0).

What the blocks left out stand for in the accumulator nobody reads: a store of rows leaves out the same blocks.
Source: PTX ISA, wgmma.mma_async, wgmma.commit_group (all threads of a warp execute the same one).
Checked by: tests/lower/test_group_tiles.py, and `contract` on the text, whose small instance takes every branch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Operation

from tilewright.ir import ac
from tilewright.lower.emit import Text
from tilewright.lower.group_walk import GroupWalk
from tilewright.lower.lowering import Lowering

BLOCK_ROWS = 64
_FIRST_BARRIER = 1
"""Of the named barriers of units, as where results are staged, which those of groups are not."""
_THREADS = 128


def ends_with_group(op: Operation | None) -> bool:
    """Whether `op` issues products of the blocks that have rows alone; then the fence before it and the commit after it
    are in what is written for it."""
    return isinstance(op, ac.WgmmaIssueOp) and op.within_group is not None and op.within_group.data == 1


def issue_blocks(lowering: Lowering, op: ac.WgmmaIssueOp, blocks: int, multiply: Callable[[int], None]) -> None:
    """Issue and commit the products of as many blocks as have rows. multiply: writes those of so many, the first."""
    text, walk = lowering.text, _walk_around(lowering, op)
    shared = bool(op.a_instance_bytes.data)
    left = text.into("b32", "sub.s32", walk.current.end, walk.current.row)
    if shared:
        above = text.into("b32", "mul.lo.u32", lowering.index(op.unit), op.m.data)
        left = text.into("b32", "sub.s32", left, above)
    done = text.label("blocks_end")
    for count in range(blocks, 0, -1):
        # No tile is without rows, but a unit's part of one may be.
        last = count == 1 and not shared
        fewer = text.label("fewer_blocks")
        if not last:
            some = text.into("pred", "setp.gt.s32", left, BLOCK_ROWS * (count - 1))
            text.emit("bra", fewer, guard=f"!{some}")
        text.emit("wgmma.fence.sync.aligned")
        multiply(count)
        text.emit("wgmma.commit_group.sync.aligned")
        if not last:
            text.emit("bra", done)
            text.place(fewer)
    if shared:
        # One thread gives the slot back: not before every warp has waited for it, which a product would see to.
        text.emit("bar.sync", text.into("b32", "add.u32", lowering.index(op.unit), _FIRST_BARRIER), _THREADS)
    text.place(done)


@dataclass(frozen=True, slots=True)
class StoredBlocks:
    """Which blocks of a unit's rows a store goes through. left: register, rows from the unit's first to the group's
    end, or empty if all blocks are stored; end: the label behind the last one."""

    text: Text
    left: str
    end: str

    def open(self, block: int) -> None:
        """Before a block: go to the end if it has no row. The blocks after it have none either."""
        if self.left:
            some = self.text.into("pred", "setp.gt.s32", self.left, BLOCK_ROWS * block)
            self.text.emit("bra", self.end, guard=f"!{some}")

    def close(self) -> None:
        """After the last block."""
        if self.left:
            self.text.place(self.end)


def stored_blocks(lowering: Lowering, op: ac.RowsStoreOp) -> StoredBlocks:
    """The blocks that a store goes through: those that products were issued for."""
    text = lowering.text
    around = op.parent_op()
    if not isinstance(around, ac.GroupLoop) or not any(ends_with_group(each) for each in around.walk()):
        return StoredBlocks(text, "", "")
    left = text.into("b32", "sub.s32", lowering.index(op.row_end), lowering.index(op.row))
    return StoredBlocks(text, left, text.label("rows_end"))


def _walk_around(lowering: Lowering, op: Operation) -> GroupWalk:
    block = op.parent_block()
    while block is not None and block not in lowering.walks:
        parent = block.parent_op()
        block = parent.parent_block() if parent is not None else None
    assert block is not None
    return lowering.walks[block]
