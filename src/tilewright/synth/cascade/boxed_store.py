"""Which results of a walk leave in boxes, by the copy engine?

Of programs that only sum products, those over rows and columns that are stored once for each tile, lie contiguous along
the columns and have a legal map: their rows begin and end at multiples of 16 bytes, since the engine clips in such
units. The others are stored by threads (`lower.cascade.results`).

Where threads compute between products, boxes do not pay in general: with them attention of head size 128 takes 0.6 to
2.4 % longer, though a sliding window of 128 keys takes 3 % less (H200); why is not known.

Those of a walk's iterations are decided by `walked_store`. Not handled: of those that lie contiguous along the rows,
matrices of a batch. Checked by: tests/synth/cascade/sums/test_sum_tile.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.cascade_facts import CascadeAxes
from tilewright.ir.copy_decisions import MapDecision, StoreDecision
from tilewright.ir.decisions import RUN_BYTES
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name, stores
from tilewright.ir.tile.types import tensor_type
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.synth.operand.operands import Site
from tilewright.synth.store.staged_store import planned
from tilewright.synth.store.store_chunks import StagedRow
from tilewright.synth.store.turned_store import turned_boxes, turned_store
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


def turned_results(
    program: tile.ProgramOp, axes: CascadeAxes, columns: int, target: Target, wanted: Wanted
) -> tuple[StoreDecision, ...]:
    """Those that lie contiguous along the rows, by boxes of 64 rows of a tile of so many columns."""
    boxes = () if axes.batch else turned_boxes(program, axes.row, columns)
    if not boxes:
        return ()
    site = Site(program, target, wanted.misaligned, [])
    found = (turned_store(site, op, (axes.row, axes.column), boxes) for op in stores(program))
    return tuple(planned(each, target) for each in found if each is not None)


def boxed_results(
    program: tile.ProgramOp, axes: CascadeAxes, unit_rows: int, row: StagedRow | None, target: Target, wanted: Wanted
) -> tuple[StoreDecision, ...]:
    """unit_rows: that a consumer stores of a tile; row: of a chunk in staging, None where a tile's columns are no whole
    chunks."""
    if row is None:
        return ()
    found = (_boxed(program, axes, op, unit_rows, row, target, wanted) for op in stores(program))
    return tuple(planned(each, target) for each in found if each is not None)


def leave_by_rows(program: tile.ProgramOp, axes: CascadeAxes, leaving: Sequence[StoreDecision]) -> bool:
    """Whether threads store a result along its rows, through a room of each consumer. leaving: those in boxes."""
    boxed = {each.parameter for each in leaving}
    for op in stores(program):
        tensor = tensor_type(op.tensor)
        strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
        along = strides.get(axes.column_of(strides)) == 1 and tensor.element_kind.bytes > 1
        if along and parameter_name(program, op.tensor) not in boxed:
            return True
    return False


def _boxed(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    op: tile.StoreOp,
    unit_rows: int,
    row: StagedRow,
    target: Target,
    wanted: Wanted,
) -> StoreDecision | None:
    names = tensor_type(op.tensor).axis_names
    column = axes.column_of(names)
    order = [column, axes.row, *(axis for axis in reversed(names) if axis in axes.batch)]
    if op.parent_op() is not program or not column:
        return None
    return box_of(program, op, order, unit_rows, row, target, wanted)


def box_of(
    program: tile.ProgramOp,
    op: tile.StoreOp,
    order: Sequence[str],
    unit_rows: int,
    row: StagedRow,
    target: Target,
    wanted: Wanted,
) -> StoreDecision | None:
    """How a result leaves in boxes of so many rows; None where no map has them. order: its axes, from that of a row's
    elements on."""
    tensor, name = tensor_type(op.tensor), parameter_name(program, op.tensor)
    if sorted(order) != sorted(tensor.axis_names):
        return None
    column, further = order[0], order[2:]
    width = tensor.element_kind.bytes
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    if strides[column] != 1 or name in wanted.misaligned or program.extents[column] * width % RUN_BYTES:
        return None
    dims = tuple(program.extents[axis] for axis in order)
    apart = tuple(strides[axis] * width for axis in order[1:])
    chunk = row.columns(width)
    box = (chunk, unit_rows, *([1] * len(further)))
    map_ = TensorMap(tensor.element_kind.value, dims, apart, box, swizzle=row.swizzle, l2_promotion="none")
    if check(map_, target).violations:
        return None
    decision = MapDecision(tensor.element_kind.value, dims, apart, box, row.swizzle, "none")
    narrow = (row.tail_bytes // width, *box[1:])
    tail = (MapDecision(tensor.element_kind.value, dims, apart, narrow, row.swizzle, "none"),) if row.tails else ()
    return StoreDecision(name, "tma", chunk, 0, decision, (), tail, row.tails)
