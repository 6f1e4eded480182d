"""Which part of a global array does a value stand for: all of it, or what lies at one index along one dimension?

A part is an array with a dimension less. Where it is stored to, the index counts as a coordinate of the whole array,
of a box one element wide there; so stores of different parts are told apart as stores at different rows are.

Not handled: parts of parts; an index that may lie outside the array (only indices of loops over exactly that many
elements are taken, which `require_inside` sees to). Checked by: tests/lower/test_batch.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tilewright.contract.typestate.program import integers, type_of
from tilewright.contract.typestate.token import Index, Part
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir import ac


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array, or its part at `index` along `dimension`. rank: of what is seen."""

    op: ac.GlobalOp
    dimension: int | None
    index: Index

    @property
    def rank(self) -> int:
        return len(self.op.shape) - (self.dimension is not None)

    def placed(self, coordinates: tuple[Index, ...]) -> tuple[Index, ...]:
        """Coordinates in what is seen, as ones in the whole array."""
        if self.dimension is None:
            return coordinates
        return (*coordinates[: self.dimension], self.index, *coordinates[self.dimension :])

    def widened(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """A box in what is seen, as one in the whole array."""
        if self.dimension is None:
            return extents
        return (*extents[: self.dimension], 1, *extents[self.dimension :])


def array_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it takes a part of an array."""
    if not isinstance(op, ac.GlobalPartOp):
        return False
    array = walk.global_of(op, op.source)
    (index,) = walk.indices(op, [op.index])
    kind, dimension = type_of(op.result), op.dimension.data
    if array is None or not isinstance(kind, ac.GlobalType) or not 0 <= dimension < len(array.shape):
        walk.findings.doubt(f"takes a part along dimension {dimension}", op)
        walk.give(op, op.result, None)
        return True
    whole = array.result.type
    if (kind.element, kind.rank.data) != (whole.element, whole.rank.data - 1):
        walk.findings.doubt(f"a part of {array.buffer.data} is declared {kind}", op)
    _require_inside(walk, op, array, index)
    walk.give(op, op.result, Part(array, dimension, index))
    return True


def _require_inside(walk: RoleWalk, op: ac.GlobalPartOp, array: ac.GlobalOp, index: Index) -> None:
    """The index is that of a loop's tiles over as many matrices, or groups, as the array has parts."""
    extent = integers(array.shape)[op.dimension.data]
    owner = op.index.owner
    loop = owner.parent_op() if not isinstance(owner, Operation) else None
    if (
        isinstance(loop, ac.TilesOp | ac.TurnTilesOp)
        and loop.batch is not None
        and op.index is loop.body.block.args[ac.TILE_INDICES]
        and loop.batch.data <= extent
        and len(index.terms) == 1
    ):
        return
    if (
        isinstance(loop, ac.GroupLoop)
        and op.index is loop.body.block.args[ac.GROUP_INDEX]
        and loop.groups.data <= extent
        and len(index.terms) == 1
    ):
        return
    walk.findings.doubt(f"a part of {array.buffer.data} whose index may lie outside its {extent}", op)


def array_of(walk: RoleWalk, op: Operation, value: SSAValue) -> ArrayView | None:
    """The array, or part of one, that `value` is; None with a doubt for anything else."""
    token = walk.env.get(value)
    if isinstance(token, Part):
        walk.look(op, value)
        assert isinstance(token.array, ac.GlobalOp)
        return ArrayView(token.array, token.dimension, token.index)
    array = walk.global_of(op, value)
    return None if array is None else ArrayView(array, None, Index())
