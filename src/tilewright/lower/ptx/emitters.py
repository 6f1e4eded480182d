"""What emits each operation of a role: one table by class, which the modules that emit families of them add to.

By class: to ask of an operation which of all it is, one after the other, takes longer than to emit it. Not handled:
operations of a whole kernel, and tests of what surrounds one (`ac_to_ptx`). Checked by: tests/lower/ptx.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.split import SplitPartOp
from tilewright.ir.ac.stream import PartialAddOp, PartialStoreOp
from tilewright.ir.ac.team import TeamAfterOp, TeamSumOp
from tilewright.ir.decisions import rows_of, transpose_of
from tilewright.lower.distribution import issue_order, tile_loops
from tilewright.lower.distribution.split_reduction import lower_cluster_reduce, lower_split_part
from tilewright.lower.distribution.stream_partials import lower_partial_add, lower_partial_store
from tilewright.lower.distribution.team_sum import lower_team_after, lower_team_sum
from tilewright.lower.distribution.tile_range import lower_range, lower_unit_pass, lower_unit_range
from tilewright.lower.distribution.turns import lower_turn_pass
from tilewright.lower.fragment import promotion, register_operand, registers
from tilewright.lower.fragment.group_rows import lower_rows_store
from tilewright.lower.fragment.register_operand import keep_read_registers
from tilewright.lower.points.array_part import lower_part
from tilewright.lower.points.elementwise import lower_elementwise
from tilewright.lower.points.rows import lower_rows
from tilewright.lower.points.runs import lower_runs
from tilewright.lower.points.transpose import lower_transpose
from tilewright.lower.ptx import handed, loops
from tilewright.lower.ptx.copies import async_copy, remade
from tilewright.lower.ptx.copies.fragment_memory import (
    lower_bulk_commit,
    lower_bulk_wait,
    lower_fence_proxy,
    lower_fragment_load,
    lower_slot_write,
    lower_store,
)
from tilewright.lower.ptx.copies.prefetch import lower_box_prefetch
from tilewright.lower.ptx.copies.rings import (
    keep_releases_first,
    lower_advance,
    lower_arrive,
    lower_arrive_expect,
    lower_copy_issue,
    lower_copy_store,
    lower_drain,
    meet,
)
from tilewright.lower.ptx.indices import lower_affine, lower_index_divide, lower_index_load
from tilewright.lower.ptx.lowering import Emitters, Lowering, emitted, nothing, placed
from tilewright.lower.ptx.places import CursorPlace, IndexPlace, NoPlace, Place
from tilewright.lower.ptx.products import tensor_memory, tensor_slots
from tilewright.lower.ptx.products.tensor_core import lower_wgmma_issue
from tilewright.lower.ptx.products.tensor_slots import lower_barrier_wait


def _lower_cursor_start(lowering: Lowering, op: ac.CursorStartOp) -> Place:
    return CursorPlace(lowering.text.into("b32", "mov.u32", 0), lowering.text.into("b32", "mov.u32", 0))


def _lower_release(lowering: Lowering, op: ac.ArriveOp) -> None:
    lower_arrive(lowering, op)
    keep_releases_first(lowering, op)


def _lower_wgmma_wait(lowering: Lowering, op: ac.WgmmaWaitOp) -> None:
    if not isinstance(before := op.prev_op, ac.WgmmaWaitOp) or before.pending != op.pending:
        lowering.text.emit("wgmma.wait_group.sync.aligned", op.pending.data)
    if op.reading is not None:
        keep_read_registers(lowering, op.reading)
    if op.retired is not None and op.reading is not None:
        lowering.places[op.retired] = lowering.place(op.reading)
    if op.settled is not None and op.accumulator is not None:
        lowering.places[op.settled] = lowering.place(op.accumulator)


def _lower_split_index(lowering: Lowering, op: ac.SplitIndexOp) -> Place:
    return IndexPlace(lowering.text.into("b32", "mov.u32", "%cluster_ctaid.z"))


def _lower_named_barrier_sync(lowering: Lowering, op: ac.NamedBarrierSyncOp) -> None:
    meet(lowering, op.unit, op.first_barrier.data, op.threads.data)
    if op.result is not None:
        lowering.places[op.result] = NoPlace()


def _lower_points(lowering: Lowering, op: ac.ElementwiseOp) -> None:
    if op.rows is not None:
        lower_rows(lowering, op, rows_of(op.rows))
    elif op.transpose is not None:
        lower_transpose(lowering, op, transpose_of(op.transpose))
    elif op.run is None or op.run.data == 1:
        lower_elementwise(lowering, op)
    else:
        lower_runs(lowering.text, lowering.places, op, op.run.data, lowering.thread)


EMITTERS: Emitters = {
    **tile_loops.EMITTERS,
    **loops.EMITTERS,
    **issue_order.EMITTERS,
    **promotion.EMITTERS,
    **registers.EMITTERS,
    **register_operand.EMITTERS,
    **async_copy.EMITTERS,
    **handed.EMITTERS,
    **remade.EMITTERS,
    **tensor_memory.EMITTERS,
    **tensor_slots.EMITTERS,
    ac.TurnPassOp: lower_turn_pass,
    ac.GridWaitOp: emitted("griddepcontrol.wait"),
    ac.GridReleaseOp: emitted("griddepcontrol.launch_dependents"),
    PartialStoreOp: lower_partial_store,
    PartialAddOp: lower_partial_add,
    ac.YieldOp: nothing,
    ac.AffineOp: placed(lower_affine),
    ac.IndexDivideOp: placed(lower_index_divide),
    ac.IndexLoadOp: placed(lower_index_load),
    ac.RangeOp: placed(lower_range),
    ac.UnitRangeOp: lower_unit_range,
    ac.UnitPassOp: lower_unit_pass,
    ac.GlobalPartOp: placed(lower_part),
    ac.CursorStartOp: placed(_lower_cursor_start),
    ac.AdvanceOp: placed(lower_advance),
    ac.BarrierWaitOp: placed(lower_barrier_wait),
    ac.DrainOp: lower_drain,
    ac.ArriveExpectOp: placed(lower_arrive_expect),
    ac.CopyIssueOp: lower_copy_issue,
    ac.BoxPrefetchOp: lower_box_prefetch,
    ac.TransactionCloseOp: nothing,
    ac.ArriveOp: _lower_release,
    ac.WgmmaFenceOp: emitted("wgmma.fence.sync.aligned"),
    ac.WgmmaIssueOp: lower_wgmma_issue,
    ac.WgmmaCommitOp: emitted("wgmma.commit_group.sync.aligned"),
    ac.WgmmaWaitOp: _lower_wgmma_wait,
    ac.SplitIndexOp: placed(_lower_split_index),
    TeamAfterOp: lower_team_after,
    TeamSumOp: lower_team_sum,
    SplitPartOp: lower_split_part,
    ac.ClusterReduceOp: lower_cluster_reduce,
    ac.FragmentLoadOp: placed(lower_fragment_load),
    ac.StageWriteOp: placed(lower_slot_write),
    ac.FenceProxyOp: placed(lower_fence_proxy),
    ac.NamedBarrierSyncOp: _lower_named_barrier_sync,
    ac.CopyStoreOp: lower_copy_store,
    ac.BulkCommitOp: lower_bulk_commit,
    ac.BulkWaitOp: lower_bulk_wait,
    ac.GlobalStoreOp: lower_store,
    ac.RowsStoreOp: lower_rows_store,
    ac.ElementwiseOp: _lower_points,
}
