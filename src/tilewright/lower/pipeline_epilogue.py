"""How the consumers' accumulators leave: elementwise work, then bulk stores through staging slots, or plain stores.

Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.ir import ac, tile
from tilewright.ir.decisions import PipelineDecisions, StoreDecision
from tilewright.ir.tier import int_array
from tilewright.ir.tile_facts import parameter_name, stores
from tilewright.ir.tile_types import tensor_type
from tilewright.lower.build import Build, affine
from tilewright.lower.expression import Accumulated, fragment_body
from tilewright.lower.program import sources_of
from tilewright.lower.tile_place import GroupRows, TilePlace


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What both roles refer to."""

    decisions: PipelineDecisions
    ring: SSAValue
    a: SSAValue
    b: SSAValue
    a_map: SSAValue
    b_map: SSAValue
    staging: SSAValue | None
    rows: SSAValue | None
    groups: GroupRows | None
    more_b_maps: tuple[SSAValue, ...] = ()


def add_epilogue(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    place: TilePlace,
    accumulator: SSAValue,
    arrays: dict[str, SSAValue],
) -> None:
    n = place.column
    rows = d.tile_m // d.consumers
    row = affine(build, [(place.row, place.row_step), (unit, rows)], 0)
    column = affine(build, [(n, d.tile_n)], 0)
    total = SlotCounter(sum(d.tile_n // store.chunk_columns for store in d.stores if store.path == "tma"))
    for store, decision in zip(stores(program), d.stores, strict=True):
        fragment = fragment_body(
            build,
            store.value,
            accumulator,
            Accumulated(d.rows, d.columns, rows, d.tile_n, d.products),
            (row, column),
            sources_of(program, arrays),
            program,
        )
        if decision.path == "tma":
            _store_chunks(build, d, p, unit, (row, n), fragment, decision, arrays[decision.parameter], total)
        elif place.row_end is not None:
            assert p.rows is not None
            operands = [fragment, arrays[decision.parameter], row, column, place.row_end, p.rows, unit]
            vectors = any(decision.parameter in each.vectors for each in d.grouping)
            build.add(ac.RowsStoreOp.create(operands=operands, properties={"vectors": IntAttr(int(vectors))}))
        else:
            destination = _oriented(build, program, store, d, arrays)
            through = [p.rows, unit] if decision.along_rows and p.rows is not None else []
            build.add(ac.GlobalStoreOp.create(operands=[fragment, destination, row, column, *through]))


@dataclass(slots=True)
class SlotCounter:
    """Staged chunks so far in one tile, which pick the staging slot."""

    total: int
    done: int = 0


def _oriented(
    build: Build, program: tile.ProgramOp, store: tile.StoreOp, d: PipelineDecisions, arrays: dict[str, SSAValue]
) -> SSAValue:
    """The destination seen as (rows, columns) of the accumulator."""
    name = parameter_name(program, store.tensor)
    tensor = tensor_type(store.tensor)
    if tensor.axis_names == (d.rows, d.columns):
        return arrays[name]
    view = arrays[name].owner
    assert isinstance(view, ac.GlobalOp)
    view.properties["shape"] = int_array(tensor.extents[::-1])
    view.properties["strides"] = int_array(tensor.stride_elements[::-1])
    return arrays[name]


def _store_chunks(
    build: Build,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    origin: tuple[SSAValue, SSAValue],
    fragment: SSAValue,
    decision: StoreDecision,
    descriptor: SSAValue,
    counter: SlotCounter,
) -> None:
    """Column chunks through the staging slots: wait until the slot's last store was read, write, fence, store."""
    assert p.staging is not None
    row, n = origin
    name = StringAttr("staging")

    def staged(state: str) -> Attribute:
        return ac.StagedType(name, StringAttr(state))

    def synchronize(operand: SSAValue | None) -> ac.NamedBarrierSyncOp:
        op = ac.NamedBarrierSyncOp.create(
            operands=[unit, *([operand] if operand is not None else [])],
            properties={"first_barrier": IntAttr(1), "threads": IntAttr(128)},
            result_types=[staged("ready")] if operand is not None else [],
        )
        build.add(op)
        return op

    plan = d.plan_of(decision)
    for begin in range(0, d.tile_n, decision.chunk_columns):
        slot = counter.done % plan.stages
        counter.done += 1
        build.add(bulk_wait(unit, plan.pending, read=True))
        synchronize(None)
        written = build.value(
            ac.StageWriteOp.create(
                operands=[fragment, p.staging, unit],
                properties={
                    "column_begin": IntAttr(begin),
                    "column_end": IntAttr(begin + decision.chunk_columns),
                    "slot": IntAttr(slot),
                },
                result_types=[staged("written")],
            )
        )
        fenced = build.value(ac.FenceProxyOp.create(operands=[written], result_types=[staged("fenced")]))
        ready = synchronize(fenced).results[0]
        column = affine(build, [(n, d.tile_n)], begin)
        build.add(
            ac.CopyStoreOp.create(
                operands=[descriptor, p.staging, unit, ready, column, row],
                properties={"slot": IntAttr(slot), "box_bytes": IntAttr(plan.box_bytes)},
            )
        )
        build.add(ac.BulkCommitOp.create(operands=[unit]))


def bulk_wait(unit: SSAValue, pending: int, *, read: bool) -> ac.BulkWaitOp:
    return ac.BulkWaitOp.create(operands=[unit], properties={"pending": IntAttr(pending), "read": IntAttr(int(read))})
