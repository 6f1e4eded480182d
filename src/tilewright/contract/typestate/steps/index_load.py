"""May an index that an array holds be what it is used for?

Of such a number nothing is known: it is any that 32 bits have. So it may only be where every number will do: a
coordinate of a tensor copy into shared memory, or of a box that is asked for ahead, of any dimension but the innermost,
whose starts must be multiples of 16 bytes. The engine brings a whole box whatever the coordinates are, zeros for what
lies outside of the array, so that the bytes which complete a phase do not depend on them (PTX ISA,
cp.async.bulk.tensor; measured). Any other use is a doubt: places of stores, parts of arrays and trips of loops are
bounded by what others know of their indices.

The array itself is reached inside its bounds, by the operation's definition; that nobody stores to it meanwhile is
asked of the kernel's roles together. Checked by: tests/contract/typestate/steps/test_index_load.py.
"""

from __future__ import annotations

from xdsl.ir import Operation, Use

from tilewright.base.element import Element
from tilewright.contract.typestate.places.array_parts import array_of
from tilewright.contract.typestate.token import Index
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac


def index_load_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it loads an index."""
    if not isinstance(op, ac.IndexLoadOp):
        return False
    array = array_of(walk, op, op.source)
    walk.indices(op, list(op.indices))
    if array is not None:
        require_integers(walk, op, array.op, array.rank)
        if walk.recording:
            walk.summary.reads_global.setdefault(array.op.buffer.data, op)
    for use in op.result.uses:
        if not _is_outer_coordinate(use):
            walk.findings.doubt("an index that memory holds is more than an outer coordinate of a load", use.operation)
    walk.give(op, op.result, Index(((walk.name_of(op), 1),)))
    return True


def require_integers(walk: RoleWalk, op: ac.IndexLoadOp, array: ac.GlobalOp, rank: int) -> None:
    """Doubt an index that is loaded from something else than an array of 32-bit integers of as many dimensions."""
    if array.result.type.element.data != Element.S32.value or rank != len(op.indices):
        walk.findings.doubt(f"loads an index at {len(op.indices)} indices of {array.result.type}", op)


def _is_outer_coordinate(use: Use) -> bool:
    op = use.operation
    is_box = isinstance(op, ac.CopyIssueOp | ac.BoxPrefetchOp)
    return is_box and use.index > len(op.operands) - len(op.coordinates)
