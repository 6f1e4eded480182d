"""Which part of a global array does a value stand for: all of it, or what lies at an index along some dimensions?

A part is an array with a dimension less, and may be taken of a part. Where it is stored to, each index counts as a
coordinate of the whole array, of a box one element wide there; so stores of different parts are told apart as stores at
different rows are.

Not handled: an index that may lie outside the array (only indices of loops over that many elements at most are taken,
and quotients of them, which `_require_inside` sees to). Checked by: tests/lower/test_batch.py and
tests/contract/typestate/test_array_parts.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tilewright.base.size import Size, ceil_div
from tilewright.contract.typestate.program import type_of
from tilewright.contract.typestate.run_time_sizes import reaches_no_further
from tilewright.contract.typestate.token import Index, Part
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import sizes_of


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array, or its part at the indices `picked` along dimensions of its own. rank: of what is seen."""

    op: ac.GlobalOp
    picked: tuple[tuple[int, Index], ...] = ()

    @property
    def rank(self) -> int:
        return len(self.op.shape) - len(self.picked)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Of the whole array, those that are seen."""
        taken = {dimension for dimension, _ in self.picked}
        return tuple(dimension for dimension in range(len(self.op.shape)) if dimension not in taken)

    def placed(self, coordinates: tuple[Index, ...]) -> tuple[Index, ...]:
        """Coordinates in what is seen, as ones in the whole array."""
        found = dict(zip(self.dimensions, coordinates, strict=True)) | dict(self.picked)
        return tuple(found[dimension] for dimension in sorted(found))

    def widened(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """A box in what is seen, as one in the whole array."""
        found = dict.fromkeys(range(len(self.op.shape)), 1) | dict(zip(self.dimensions, extents, strict=True))
        return tuple(found[dimension] for dimension in sorted(found))


def array_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it takes a part of an array, or divides an index."""
    if isinstance(op, ac.IndexDivideOp):
        (divided,) = walk.indices(op, [op.operand])
        if op.size.data < 1:
            walk.findings.doubt(f"divides an index by {op.size.data}", op)
        # A number of its own: but how large it may be, nothing is known of it, so that what is told apart by it alone
        # is in doubt.
        atom = walk.name_of(op)
        walk.summary.quotients[atom] = divided, max(1, op.size.data)
        walk.give(op, op.result, Index(((atom, 1),)))
        return True
    if not isinstance(op, ac.GlobalPartOp):
        return False
    array = array_of(walk, op, op.source)
    (index,) = walk.indices(op, [op.index])
    kind, dimension = type_of(op.result), op.dimension.data
    if array is None or not isinstance(kind, ac.GlobalType) or not 0 <= dimension < array.rank:
        walk.findings.doubt(f"takes a part along dimension {dimension}", op)
        walk.give(op, op.result, None)
        return True
    whole = array.op.result.type
    if (kind.element, kind.rank.data) != (whole.element, array.rank - 1):
        walk.findings.doubt(f"a part of {array.op.buffer.data} is declared {kind}", op)
    own = array.dimensions[dimension]
    _require_inside(walk, op, array.op, sizes_of(array.op.shape)[own])
    walk.give(op, op.result, Part(array.op, tuple(sorted((*array.picked, (own, index)), key=lambda each: each[0]))))
    return True


def _require_inside(walk: RoleWalk, op: ac.GlobalPartOp, array: ac.GlobalOp, extent: Size) -> None:
    """The index is below the number of parts that the array has."""
    most = _values_of(op.index, walk.kernel.symbols)
    if most is None or not reaches_no_further(most, extent, op):
        walk.findings.doubt(f"a part of {array.buffer.data} whose index may lie outside its {extent}", op)


def _values_of(index: SSAValue, symbols: Mapping[str, int]) -> Size | None:
    """How many values an index takes, from 0: that of a loop over matrices or groups, or of a walk, a number, or such a
    one divided; None where that is not known."""
    owner = index.owner
    if isinstance(owner, ac.AffineOp) and not owner.operands and owner.constant.data >= 0:
        return owner.constant.data + 1
    if isinstance(owner, ac.IndexDivideOp):
        most = _values_of(owner.operand, symbols)
        return None if most is None or owner.size.data < 1 else ceil_div(most, owner.size.data)
    loop = owner.parent_op() if not isinstance(owner, Operation) else None
    if isinstance(loop, ac.TilesOp | ac.TurnTilesOp):
        of_batch = loop.body.block.args[ac.TILE_INDICES : loop.indices]
        return next((many for many, each in zip(loop.batches, of_batch, strict=True) if each is index), None)
    if isinstance(loop, ac.GroupLoop) and index is loop.body.block.args[ac.GROUP_INDEX]:
        return loop.groups.data
    if isinstance(loop, ac.LoopOp) and index is loop.body.block.args[0]:
        # As many trips as it has in the kernel as it is, of which an array's extent is, too.
        return symbols.get(loop.symbol.data)
    return None


def array_of(walk: RoleWalk, op: Operation, value: SSAValue) -> ArrayView | None:
    """The array, or part of one, that `value` is; None with a doubt for anything else."""
    token = walk.env.get(value)
    if isinstance(token, Part):
        walk.look(op, value)
        assert isinstance(token.array, ac.GlobalOp)
        return ArrayView(token.array, token.picked)
    array = walk.global_of(op, value)
    return None if array is None else ArrayView(array)
