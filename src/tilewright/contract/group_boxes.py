"""May a box of rows be moved past the last row of its array, where its rows would be past the end of their group?

A box past the array is filled with zeros and completes as many bytes, so the protocol is what it is without. Rows past
a group's end are in no result: `ac.rows.store` leaves them out, and which rows a result's elements are summed from the
run of the text shows. What is asked here is that the end is that of the group of the loop around, and that the place is
past the array's last row.
Source: PTX ISA, cp.async.bulk.tensor (what lies outside the tensor is zero). Checked by:
tests/contract/test_group_tiles.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from tilewright.contract.walk import RoleWalk
from tilewright.ir import ac

_RANK = 2
"""Of a map of rows."""


def check_row_box(walk: RoleWalk, op: ac.CopyIssueOp, dims: tuple[int, ...]) -> None:
    """Doubt a box that ends with a group where that is not what it says. dims: of the map, innermost first."""
    if op.within_group in (None, IntAttr(0)):
        return
    if not _in_group_loop(op):
        walk.findings.doubt("a box that ends with a group outside any loop over groups", op)
    elif len(dims) != _RANK or op.within_group.data < dims[1] or op.multicast.data > 1:
        walk.findings.doubt(f"a box past its group's end begins at row {op.within_group.data} of {dims}", op)


def _in_group_loop(op: Operation) -> bool:
    around = op.parent_op()
    while around is not None and not isinstance(around, ac.GroupLoop):
        around = around.parent_op()
    return around is not None
