"""Numbers of a tile's columns that each warp keeps in shared memory: may they be read wherever they are used?

A warp puts a load's numbers into a part of the buffer that is its own, and orders its accesses (bar.warp.sync), so no
other warp need be thought of. What remains is that the part still has them where they are used: every use stands in the
load's own block, and before the next load through the same part there, so an iteration of a loop reads what it loaded
itself; and no other operation goes through the buffer.

Not handled (doubts): uses in blocks inside the load's own, other uses than maps of fragments in registers.
Checked by: tests/lower/cascade/test_shared_columns.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, Operation

from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentMapOp

_WARPS = 4
_NUMBER_BYTES, _PAIR_BYTES = 4, 8


def require_columns(walk: RoleWalk, op: ac.FragmentLoadOp, kind: ac.FragmentType) -> None:
    """What a load through shared memory asks of its buffer and of its uses."""
    if len(op.through) != 2 or not isinstance(op.part, IntAttr) or op.part.data < 0:
        walk.findings.doubt("goes through something other than a part of a buffer and a unit", op)
        return
    if kind.axes.data != "n" or op.blocks is not None or op.pairs is not None:
        walk.findings.doubt(f"takes a fragment along {kind.axes.data!r} through shared memory", op)
    buffer, part = walk.buffer_of(op, op.through[0]), op.part.data
    walk.require_unit(op, op.through[1])
    if buffer is None:
        return
    needed = _WARPS * (part + 1) * kind.n.data * _NUMBER_BYTES
    if buffer.ring or buffer.slots != 1 or buffer.slot_bytes < needed or buffer.slot_bytes % (_WARPS * _PAIR_BYTES):
        walk.report(
            "AL004",
            op,
            f"columns take {needed} bytes, and buffer {buffer.name} has {buffer.slots} slots of {buffer.slot_bytes}",
            against=buffer.op,
        )
    walk.require_instances(op, buffer)
    users = [use.operation for use in op.through[0].uses]
    if not all(isinstance(each, ac.FragmentLoadOp) and _parts_alike(each.result.type, kind) for each in users):
        walk.findings.doubt(f"buffer {buffer.name} is used for something else besides", op)
    _require_in_time(walk, op, [each for each in users if isinstance(each, ac.FragmentLoadOp) and each.part == op.part])


def _parts_alike(found: Attribute, kind: ac.FragmentType) -> bool:
    """Whether a load's part begins where one of `kind` would: a number takes the same bytes whatever its element."""
    return isinstance(found, ac.FragmentType) and (found.m, found.n, found.axes) == (kind.m, kind.n, kind.axes)


def _require_in_time(walk: RoleWalk, op: ac.FragmentLoadOp, alike: list[ac.FragmentLoadOp]) -> None:
    """Every use stands behind the load, and before what loads into the part again. alike: the loads of the part."""
    block = op.parent_block()
    order: dict[Operation, int] = {} if block is None else {each: at for at, each in enumerate(block.ops)}
    behind = [at for each in alike if (at := _place_in(order, each)) is not None and at > order[op]]
    until = min(behind, default=len(order))
    for use in op.result.uses:
        at = order.get(use.operation)
        if not isinstance(use.operation, FragmentMapOp) or at is None or not order[op] < at < until:
            walk.findings.doubt("is used where its numbers may not stand in shared memory", op)


def _place_in(order: dict[Operation, int], op: ac.FragmentLoadOp) -> int | None:
    """Where an operation of a block is that is this one, or has it inside; None of other blocks."""
    each: Operation | None = op
    while each is not None and each not in order:
        each = each.parent_op()
    return None if each is None else order[each]
