"""How the consumers' accumulators leave: elementwise work, then bulk stores through staging slots, or plain stores.

Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import BLOCK_ROWS, PipelineDecisions, StoreDecision, exchange_attribute
from tilewright.ir.sizes import size_array
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name, stores
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import Build, affine
from tilewright.lower.distribution.split_product import WHOLE_TILE, Meeting, Share
from tilewright.lower.distribution.stream_product import PartialSums
from tilewright.lower.distribution.tile_place import GroupRows, TilePlace
from tilewright.lower.expression import Accumulated, fragment_body, fragment_of, loads_in
from tilewright.lower.pipeline.issue_order import IssueOrder
from tilewright.lower.points.array_part import part_at, parts_of_batch
from tilewright.lower.program import shape_of, sources_of, stands_in_line


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
    meeting: Meeting | None = None
    turns: SSAValue | None = None
    sums: PartialSums | None = None
    order: IssueOrder | None = None


def add_epilogue(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    place: TilePlace,
    accumulator: SSAValue,
    arrays: dict[str, SSAValue],
    share: Share = WHOLE_TILE,
    ahead: Mapping[tile.LoadOp, SSAValue] | None = None,
    *,
    freed: bool = False,
) -> None:
    """share: which part of the tile this CTA stores, where several do. ahead: from `load_ahead`. freed: whether
    `free_staging` stands before."""
    n = place.column
    row, column = _origin(build, d, unit, place, share)
    rows = d.unit_rows
    sources = sources_of(program, _of_matrix(build, program, d, place, arrays))
    arguments = program.body.block.args
    paired = frozenset(each for each in arguments if parameter_name(program, each) in d.paired_loads)
    chunks = sum(len(store.boxes(d.unit_rows, d.part_n)) for store in d.stores if store.path == "tma")
    total = SlotCounter(chunks, freed)
    for store, decision in zip(stores(program), d.stores, strict=True):
        fragment = fragment_body(
            build,
            store.value,
            accumulator,
            Accumulated(d.rows, d.columns, rows, d.part_n, d.products, paired),
            (row, column),
            sources,
            program,
            ahead or {},
        )
        if decision.path == "tma":
            origin = (row, [(n, d.tile_n), *share.columns], place.outermost(decision))
            descriptors = (arrays[decision.parameter], *(arrays[tail_of(decision)] for _ in decision.tail))
            _store_chunks(build, d, p, unit, origin, fragment, decision, descriptors, total)
        elif place.row_end is not None:
            assert p.rows is not None
            operands = [fragment, arrays[decision.parameter], row, column, place.row_end, p.rows, unit]
            vectors = any(decision.parameter in each.vectors for each in d.grouping)
            build.add(ac.RowsStoreOp.create(operands=operands, properties={"vectors": IntAttr(int(vectors))}))
        else:
            destination = _oriented(build, program, store, d, place, arrays)
            through = [p.rows, unit] if decision.along_rows and p.rows is not None else []
            build.add(ac.GlobalStoreOp.create(operands=[fragment, destination, row, column, *through]))


def free_staging(build: Build, d: PipelineDecisions, unit: SSAValue) -> bool:
    """Wait for the staging slot of a tile's first chunk, beside the tile's last products; whether there is one."""
    first = next((store for store in d.stores if store.path == "tma"), None)
    if first is not None:
        build.add(bulk_wait(unit, d.plan_of(first).pending, read=True))
        build.add(_synchronized(unit))
    return first is not None


def load_ahead(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    unit: SSAValue,
    place: TilePlace,
    arrays: dict[str, SSAValue],
    share: Share = WHOLE_TILE,
) -> dict[tile.LoadOp, SSAValue]:
    """The fragments of the vectors that are decided to be loaded before the accumulator is waited for."""
    if not d.loads_ahead:
        return {}
    origin = _origin(build, d, unit, place, share)
    shape = Accumulated(d.rows, d.columns, d.unit_rows, d.part_n, d.products)
    sources = sources_of(program, _of_matrix(build, program, d, place, arrays))
    loads = dict.fromkeys(load for store in stores(program) for load in loads_in(store.value))
    return {
        load: fragment_of(build, load, shape, origin, sources, ahead=True)
        for load in loads
        if parameter_name(program, load.tensor) in d.loads_ahead
    }


def _origin(
    build: Build, d: PipelineDecisions, unit: SSAValue, place: TilePlace, share: Share
) -> tuple[SSAValue, SSAValue]:
    """First row and column of what a unit stores of a tile."""
    part = [] if d.turns else [(unit, d.unit_rows)]
    row = affine(build, [(place.row, place.row_step), *part, *share.rows], 0)
    return row, affine(build, [(place.column, d.tile_n), *share.columns], 0)


@dataclass(slots=True)
class SlotCounter:
    """Staged chunks so far in one tile, which pick the staging slot."""

    total: int
    freed: bool
    """Whether the first one's slot has been waited for."""
    done: int = 0


def _oriented(
    build: Build,
    program: tile.ProgramOp,
    store: tile.StoreOp,
    d: PipelineDecisions,
    place: TilePlace,
    arrays: dict[str, SSAValue],
) -> SSAValue:
    """The destination, or this matrix's part of it, seen as (rows, columns) of the accumulator."""
    name = parameter_name(program, store.tensor)
    tensor = tensor_type(store.tensor)
    if tensor.axis_names[-2:] != (d.rows, d.columns):
        view = arrays[name].owner
        assert isinstance(view, ac.GlobalOp)
        shape = shape_of(program, name)
        matrices = len(shape) - 2
        view.properties["shape"] = size_array(shape[:matrices] + shape[matrices:][::-1])
        strides = tensor.stride_elements
        view.properties["strides"] = int_array(strides[:matrices] + strides[matrices:][::-1])
    return part_at(build, arrays[name], 0, place.group) if d.batch and place.group is not None else arrays[name]


def _of_matrix(
    build: Build, program: tile.ProgramOp, d: PipelineDecisions, place: TilePlace, arrays: dict[str, SSAValue]
) -> dict[str, SSAValue]:
    """The arrays that the epilogue reads: those of a batch as the part of this matrix, those of groups as the part of
    this group, unless they have the rows of all groups in one line."""
    axes = [*d.batch[:1], *(each.axis for each in d.grouping)]
    if place.group is None or not axes:
        return arrays
    loads = [load for store in stores(program) for load in loads_in(store.value)]
    read = {
        parameter_name(program, load.tensor)
        for load in loads
        if not stands_in_line(tensor_type(load.tensor).axis_names, d)
    }
    return parts_of_batch(build, program, axes[0], place.group, arrays, read)


def _store_chunks(
    build: Build,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    origin: tuple[SSAValue, list[tuple[SSAValue, int]], list[SSAValue]],
    fragment: SSAValue,
    decision: StoreDecision,
    descriptors: tuple[SSAValue, ...],
    counter: SlotCounter,
) -> None:
    """Column chunks through the staging slots: wait until the slot's last store was read, write, fence, store."""
    assert p.staging is not None
    row, columns, further = origin
    name = StringAttr("staging")

    def staged(state: str) -> Attribute:
        return ac.StagedType(name, StringAttr(state))

    plan = d.plan_of(decision)
    boxes = decision.boxes(d.unit_rows, d.part_n)
    for block, begin, width in boxes:
        # The last boxes may be narrower, and have a map of their own.
        narrow = width < decision.chunk_columns
        map_ = decision.tail[0] if narrow else decision.map
        slot = counter.done % plan.stages
        counter.done += 1
        if counter.done > 1 or not counter.freed:
            build.add(bulk_wait(unit, plan.pending, read=True))
            build.add(_synchronized(unit))
        written = build.value(
            ac.StageWriteOp.create(
                operands=[fragment, p.staging, unit],
                properties={
                    "column_begin": IntAttr(begin),
                    "column_end": IntAttr(begin + width),
                    "slot": IntAttr(slot),
                    **({"plan": exchange_attribute(decision.staging[int(narrow)])} if decision.staging else {}),
                    **({"block": IntAttr(block)} if decision.turned else {}),
                },
                result_types=[staged("written")],
            )
        )
        fenced = build.value(ac.FenceProxyOp.create(operands=[written], result_types=[staged("fenced")]))
        ready = build.value(_synchronized(unit, fenced, staged("ready")))
        column = affine(build, columns, begin)
        place = [column, row]
        if decision.turned:
            place = [affine(build, [(row, 1)], BLOCK_ROWS * block) if block else row, column]
        build.add(
            ac.CopyStoreOp.create(
                operands=[descriptors[int(narrow)], p.staging, unit, ready, *place, *further],
                properties={"slot": IntAttr(slot), "box_bytes": IntAttr(map_.tensor_map().box_bytes)},
            )
        )
        build.add(ac.BulkCommitOp.create(operands=[unit]))


def _synchronized(unit: SSAValue, staged: SSAValue | None = None, ready: Attribute | None = None) -> Operation:
    """A barrier of the unit's threads, which makes ready what all have staged and fenced."""
    return ac.NamedBarrierSyncOp.create(
        operands=[unit, *([staged] if staged is not None else [])],
        properties={"first_barrier": IntAttr(1), "threads": IntAttr(128)},
        result_types=[ready] if ready is not None else [],
    )


def tail_of(decision: StoreDecision) -> str:
    """Under which name, of no parameter, the map of a store's narrower boxes is kept among the arrays."""
    return f"{decision.parameter} tail"


def tail_name(program: tile.ProgramOp, decision: StoreDecision) -> str:
    """That map's name in the kernel, which no parameter has."""
    taken = {parameter_name(program, argument) for argument in program.body.block.args}
    name = f"{decision.parameter}_tail"
    while name in taken:
        name += "_"
    return name


def bulk_wait(unit: SSAValue, pending: int, *, read: bool) -> ac.BulkWaitOp:
    return ac.BulkWaitOp.create(operands=[unit], properties={"pending": IntAttr(pending), "read": IntAttr(int(read))})
