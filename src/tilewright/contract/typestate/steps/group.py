"""What do loops over groups of rows, whose sizes are found in memory, and stores that end with a group, ask for?

The number of tiles of a CTA, and where each of them lies, is a function of the array of limits, of the CTA's number and
of the operation's properties. Roles whose loops agree in all of these, and read an array that nothing in the kernel
writes, go through the same tiles: their trip counts are one symbol, which the proof covers from its minimum on. That
nobody outside the kernel writes the array meanwhile is an assumption, and said to be one.

Whether stores of different tiles meet is `group_places`'s to say.

Not handled: groups of columns, loops over groups inside other loops.
Checked by: tests/contract/typestate/steps/test_group_tiles.py.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.base.element import Element, parse_element
from tilewright.base.size import bounds, computed
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import Kernel, integers
from tilewright.contract.typestate.run_time_sizes import fixed, ranges_at, reaches_no_further
from tilewright.contract.typestate.steps.epilogue import require_own_places, require_rows, rows_of_warp
from tilewright.contract.typestate.steps.staging import take_fragment
from tilewright.contract.typestate.summary import GroupLoop, StorePlace
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_of, sizes_of

VECTOR_BYTES = 16
"""What one thread stores at once at most (PTX ISA, st: vectors of 128 bits)."""
ASSUMPTION = "the array that says where groups end is not written while the kernel runs"


def group_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it is a store that ends with a group, or says where the next tile is found."""
    if isinstance(op, ac.NextGroupTileOp):
        block = op.parent_block()
        if block is None or not isinstance(block.parent_op(), ac.GroupLoop):
            walk.findings.doubt("outside the body of a loop over groups", op)
        elif sum(isinstance(other, ac.NextGroupTileOp) for other in block.ops) != 1:
            walk.findings.doubt("finds the next tile more than once", op)
        return True
    if not isinstance(op, ac.RowsStoreOp):
        return False
    _store_rows(walk, op)
    if walk.role.unit != "warpgroup128":
        walk.findings.doubt(f"in a role of {walk.role.unit}", op)
    return True


def enter_group_loop(walk: RoleWalk, op: ac.GroupLoop, atoms: tuple[str, ...]) -> None:
    """Check what a loop over groups reads, and remember what its indices mean. atoms: names of its four indices."""
    limits = walk.global_of(op, op.limits)
    walk.findings.assume(ASSUMPTION)
    if walk.around[: -ac.GROUP_INDICES]:
        walk.findings.doubt("a loop over groups inside another loop", op)
    if limits is not None:
        kind = limits.result.type
        shape = fixed(limits.shape, op, walk.findings)
        if kind.element.data != Element.S32.value or len(shape) != 1 or shape[0] < op.groups.data:
            walk.findings.doubt(f"{op.groups.data} groups by an array of {kind.element.data} of shape {shape}", op)
        if sizes_of(limits.strides) != (1,):
            walk.findings.doubt("an array of limits whose elements do not lie together", op)
        if walk.recording:
            walk.summary.reads_global.setdefault(limits.buffer.data, op)
    row, column, group, end = atoms
    rows = computed("+", size_of(op.rows), (op.groups.data - 1) * op.pitch.data)
    walk.summary.group_loops[row] = GroupLoop(row, column, group, end, op.tile_rows.data, rows)
    _, most_rows = bounds(rows, ranges_at(op))
    counts = (most_rows, op.tiles_n.data, op.groups.data, most_rows + 1)
    walk.summary.trips.update(zip(atoms, counts, strict=True))


def check_group_orders(kernel: Kernel, findings: Findings) -> None:
    """All roles must go through the tiles of groups in one order, which one array decides."""
    orders: dict[str, tuple[object, ...]] = {}
    if not kernel.operations.of(ac.GroupTilesOp, ac.TurnGroupTilesOp):
        return
    for tiles in kernel.operations.of(ac.GroupTilesOp, ac.TurnGroupTilesOp, ac.TilesOp, ac.TurnTilesOp):
        if not isinstance(tiles, ac.GroupLoop):
            findings.doubt("goes through tiles of a matrix where another loop goes through tiles of groups", tiles)
            continue
        least, most = bounds(size_of(tiles.rows), ranges_at(tiles))
        numbers = (tiles.groups.data, least, tiles.tile_rows.data, tiles.tiles_n.data)
        if min(*numbers, tiles.raster_group.data) < 1 or tiles.pitch.data < 0:
            findings.doubt(f"{numbers[0]} groups of {numbers[1]} rows in tiles of {numbers[2]} by {numbers[3]}", tiles)
        if tiles.pitch.data and tiles.pitch.data < most:
            findings.doubt(f"groups of {most} rows, {tiles.pitch.data} apart, share rows", tiles)
        order = (*numbers, size_of(tiles.rows), tiles.raster_group.data, tiles.pitch.data, tiles.limits)
        if orders.setdefault(tiles.symbol.data, order) != order:
            findings.doubt("goes through the tiles in another order than another role", tiles)
    if any(extent != 1 for extent in integers(kernel.op.cluster)):
        findings.doubt("loops over groups deal tiles out to CTAs, not to clusters", kernel.op)


def _store_rows(walk: RoleWalk, op: ac.RowsStoreOp) -> None:
    fragment, destination = take_fragment(walk, op, op.fragment), walk.global_of(op, op.destination)
    row, column, end = walk.indices(op, [op.row, op.column, op.row_end])
    require_rows(walk, op, (op.buffer, op.unit))
    if destination is None:
        return
    require_own_places(walk, op, destination)
    element = parse_element(destination.result.type.element.data)
    strides = fixed(destination.strides, op, walk.findings)
    if destination.result.type.rank.data != 2 or element is None or strides[1] != 1:
        walk.findings.doubt("stores rows to something that is no matrix of rows", op)
        return
    rows, columns = sizes_of(destination.shape)
    for loop in walk.summary.group_loops.values():
        if not reaches_no_further(loop.most_rows, rows, op):
            walk.findings.doubt(f"groups of up to {loop.most_rows} rows in an array of {rows}", op)
    if not isinstance(columns, int):
        walk.findings.doubt(f"stores rows of {columns} columns", op)
        return
    whole = (columns, *(stride for stride in strides if stride != 1))
    if op.vectors.data not in (0, 1):
        walk.findings.doubt(f"stores vectors {op.vectors.data}", op)
    elif op.vectors.data and any(size * element.bytes % VECTOR_BYTES for size in whole):
        walk.findings.doubt(f"rows of {destination.buffer.data} are no whole vectors of {VECTOR_BYTES} bytes", op)
    if fragment is not None and fragment.axes != "mn":
        walk.findings.doubt(f"stores rows of a fragment over {fragment.axes!r}", op)
    if fragment is not None and fragment.element != element.value:
        walk.findings.doubt(f"stores {fragment.element} to an array of {element.value}", op)
    if walk.recording:
        walk.summary.writes_global.setdefault(destination.buffer.data, op)
        if fragment is not None:
            strides_bytes = tuple(stride * element.bytes for stride in strides)
            row, rows = rows_of_warp(walk, row, fragment.m)
            extents = (rows, fragment.n)
            walk.summary.places.append(
                StorePlace(op, destination.buffer.data, (row, column), extents, walk.around, strides_bytes, end)
            )
