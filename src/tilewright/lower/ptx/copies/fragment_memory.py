"""How does a fragment come from an array, and go to a staging slot or to an array?

What the copy engine takes out of a slot it takes in bulk groups of one thread, behind a fence of its proxy.

Checked by: tests/lower/test_ptx_text.py.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.lower.fragment.epilogue import (
    StoredPlace,
    load_vector,
    lower_global_store,
    lower_row_store,
    lower_stage_write,
)
from tilewright.lower.fragment.group_rows import lower_store_through
from tilewright.lower.fragment.shared_columns import load_shared_columns
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.places import FragmentPlace, LoadedFragmentPlace, NoPlace, Place


def lower_fragment_load(lowering: Lowering, op: ac.FragmentLoadOp) -> Place:
    source, kind = lowering.array(op.source), op.result.type
    assert isinstance(kind, ac.FragmentType)
    blocks = integers(op.blocks) if op.blocks is not None else ()
    row, column = lowering.index(op.row), lowering.index(op.column)
    pairs = op.pairs is not None and bool(op.pairs.data)
    fragment = LoadedFragmentPlace(source, row, column, kind.axes.data, blocks=blocks, pairs=pairs)
    if op.through:
        return load_shared_columns(lowering, op, fragment)
    if op.ahead is not None and op.ahead.data:
        shape = (kind.m.data, kind.n.data)
        fragment = load_vector(lowering.text, fragment, shape, lowering.warpgroup_thread, lowering.warp_rows)
    return fragment


def lower_slot_write(lowering: Lowering, op: ac.StageWriteOp) -> Place:
    unit = lowering.index(op.unit)
    lower_stage_write(lowering.text, lowering.places, op, lowering.shared_base, lowering.warpgroup_thread, unit)
    return NoPlace()


def lower_fence_proxy(lowering: Lowering, op: ac.FenceProxyOp) -> Place:
    lowering.text.emit("fence.proxy.async.shared::cta")
    return NoPlace()


def lower_bulk_commit(lowering: Lowering, op: ac.BulkCommitOp) -> None:
    lowering.text.emit("cp.async.bulk.commit_group", guard=lowering.is_first_thread)


def lower_bulk_wait(lowering: Lowering, op: ac.BulkWaitOp) -> None:
    read = ".read" if op.read.data else ""
    lowering.text.emit(f"cp.async.bulk.wait_group{read}", op.pending.data, guard=lowering.is_first_thread)


def lower_store(lowering: Lowering, op: ac.GlobalStoreOp) -> None:
    fragment, destination = lowering.place(op.fragment), lowering.array(op.destination)
    thread, warp_rows = lowering.warpgroup_thread, lowering.warp_rows
    if isinstance(fragment, FragmentPlace) and fragment.axes == "m":
        lower_row_store(lowering.text, fragment, destination, thread, lowering.index(op.row), warp_rows)
        return
    assert isinstance(fragment, StoredPlace)
    origin = (lowering.index(op.row), lowering.index(op.column))
    if op.through:
        lower_store_through(lowering, op, fragment, destination, origin)
    else:
        lower_global_store(lowering.text, fragment, destination, thread, origin, warp_rows)
