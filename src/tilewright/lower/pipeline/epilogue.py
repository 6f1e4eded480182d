"""How the consumers' accumulators leave: elementwise work, then bulk stores through staging slots, or plain stores.

Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.sizes import size_array
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name, stores
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import Build, affine
from tilewright.lower.distribution.issue_order import IssueOrder
from tilewright.lower.distribution.split_product import WHOLE_TILE, Meeting, Share
from tilewright.lower.distribution.stream_product import PartialSums
from tilewright.lower.distribution.tile_place import TilePlace
from tilewright.lower.expression import Accumulated, fragment_body, fragment_of, loads_in
from tilewright.lower.points.array_part import part_at, parts_of_batch
from tilewright.lower.program import shape_of, sources_of
from tilewright.lower.staged_store import SlotCounter, free_slot, further_maps, store_boxes


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
            Accumulated(d.rows, d.columns, rows, d.part_n, paired),
            (row, column),
            sources,
            program,
            ahead or {},
        )
        if decision.path == "tma":
            origin = (row, [(n, d.column_step), *share.columns], place.outermost(decision))
            descriptors = (arrays[decision.parameter], *(arrays[each] for each, *_ in further_maps(program, decision)))
            assert p.staging is not None
            shape = (d.unit_rows, d.part_n)
            store_boxes(
                build, p.staging, unit, origin, fragment, decision, d.plan_of(decision), shape, descriptors, total
            )
        else:
            destination = _oriented(build, program, store, d, place, arrays)
            through = [p.rows, unit] if decision.along_rows and p.rows is not None else []
            build.add(ac.GlobalStoreOp.create(operands=[fragment, destination, row, column, *through]))


def free_staging(build: Build, d: PipelineDecisions, unit: SSAValue) -> bool:
    """Wait for the staging slot of a tile's first chunk, beside the tile's last products; whether there is one."""
    first = next((store for store in d.stores if store.path == "tma"), None)
    if first is not None:
        free_slot(build, unit, d.plan_of(first))
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
    shape = Accumulated(d.rows, d.columns, d.unit_rows, d.part_n)
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
    part = [] if d.turns else [(unit, d.unit_step)]
    row = affine(build, [(place.row, d.row_step), *part, *share.rows], 0)
    return row, affine(build, [(place.column, d.column_step), *share.columns], 0)


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
    return part_at(build, arrays[name], 0, place.matrix) if d.batch and place.matrix is not None else arrays[name]


def _of_matrix(
    build: Build, program: tile.ProgramOp, d: PipelineDecisions, place: TilePlace, arrays: dict[str, SSAValue]
) -> dict[str, SSAValue]:
    """The arrays that the epilogue reads: those of a batch as the part of this matrix."""
    if place.matrix is None or not d.batch:
        return arrays
    read = {parameter_name(program, load.tensor) for store in stores(program) for load in loads_in(store.value)}
    return parts_of_batch(build, program, d.batch[0], place.matrix, arrays, read)
