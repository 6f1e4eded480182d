"""Which small instance of a program stands for the large one when the emitted text is run.

The instance keeps every decision (tile, stages, roles, paths, swizzles), every stride and the remainder of each extent
by its tile, and reduces the extents. Along the contracted axis 2 stages - 1 slices are left, so that every slot is
refilled and both the loop and the first slice of the second tile cross the ring's end; where the program has fewer
slices, as many tiles as there are stages are left instead, which takes the first slice through every slot it can reach.
So many tiles one of two CTAs (or clusters) takes, where the program has several; the other takes one less, so that what
each begins with and how far it steps on shows.

Since the lowering turns extents into immediates only, the small text is the large one but for immediates, and each
pair that differs must be a pair of the same quantity: an extent, a number of tiles, a bound. `same_but_for_extents`
checks that on the parsed texts, so a lowering that strays from the rule is caught, and so is an edited text.

Batches, groups of rows, streamed tiles and teams are reduced by `small_batch`, `small_groups`, `small_streams` and
`small_teams`; the kernel that copies operands first has an instance of its own (`small_copies`). Which tiles and slices
the run loads, multiplies and stores is held against the program (`judge_sums`). What is left to trust: that the
lowering puts an immediate where its quantity belongs in the large text, but for those that decide where tiles lie,
since the places of all tiles are worked out from the large text (`tile_places`); a large text that is not the
lowering's own is refuted (`reproof`). Checked by:
tests/driver/reproof/test_small_batch.py, test_small_ctas.py, test_small_groups.py, test_small_streams.py,
test_small_teams.py; tests/end_to_end/test_mutations_text.py.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64

from tilewright.base.size import number_of
from tilewright.driver.reproof.small_batch import moved_together, reached_by_maps
from tilewright.driver.reproof.small_cascade import (
    SQUARES_MOST,
    cascade_decisions,
    cascade_extents,
    cascade_quantities,
)
from tilewright.driver.reproof.small_cursors import tiles_that_show
from tilewright.driver.reproof.small_groups import CTAS, compact_strides
from tilewright.driver.reproof.small_runs import runs_instance, runs_quantities
from tilewright.driver.reproof.small_streams import small_stream, stream_quantities
from tilewright.driver.reproof.small_teams import CTAS_OF_TEAMS, TILES_OF_TEAMS, TeamGrid, slices_of_teams
from tilewright.frontends.ptx.ast import FloatImmediate, Immediate, Instruction, Kernel, Label, Module
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import (
    RUN_BYTES,
    Decisions,
    ElementwiseDecisions,
    MapDecision,
    OperandDecision,
    PipelineDecisions,
    StoreDecision,
    decisions_of,
    to_attribute,
)
from tilewright.ir.group_rows import GroupDecision, stands_in_line
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import derived_extent
from tilewright.ir.tile.facts import gathers, grid_axes, loops, parameter_name, run_axes, stores, the_program
from tilewright.ir.tile.gather import Remainder, Table
from tilewright.ir.tile.types import TensorType, tensor_type
from tilewright.ir.transpose import tile_counts
from tilewright.lower.distribution.raster import raster_quantities
from tilewright.lower.distribution.turns import skip_quantities

_POINTS_PER_AXIS = 48
_ROWS_OF_CTAS = 2
"""Along each axis but that of rows, where each has a CTA."""
_STRIPS = 3
"""Of a row that is walked by strips."""
"""Extent left of each axis of an element-by-element program."""

_ROUNDS_MOST = 4
"""Tiles of one CTA, by the ring's stages, after which two cursors stand where they stood, in the same phases."""

_MATRICES = 2
"""Elements left of a batch."""

_GATHERED = 3
"""Places left of an axis of which only tables say places."""

_EXTENT_ROWS = frozenset({"setp", "div", "rem", "sub", "mov"})
"""Rows whose immediates may hold extents. Barrier counts, byte counts, strides, groups and addresses may not differ."""

Pairs = frozenset[tuple[int, int]]
"""(in the large text, in the small text): immediates that stand for the same quantity."""


def small_extents(program: tile.ProgramOp) -> dict[str, int]:
    """Extents of the small instance, by axis."""
    return _decided_extents(program) | gathered_extents(program)


def _decided_extents(program: tile.ProgramOp) -> dict[str, int]:
    """Those that the decisions ask for."""
    decisions = decisions_of(program.attributes["decisions"])
    extents = program.extents
    match decisions:
        case ElementwiseDecisions(rows=(row,)):
            # So many rows that some units of the last CTA have none, where a CTA has several.
            most = _ROWS_OF_CTAS if row.cta_threads == decisions.threads else decisions.threads // row.threads + 1
            found = {axis: min(extent, most) for axis, extent in extents.items()}
            length = extents[row.axis]
            return found | {row.axis: reduced_extent(length, row.strip, _STRIPS) if row.streamed else length}
        case ElementwiseDecisions() if decisions.run > 1:
            return extents | runs_instance(decisions, _results(program), extents)[0]
        case ElementwiseDecisions(transpose=turned):
            found = {axis: min(extent, _POINTS_PER_AXIS) for axis, extent in extents.items()}
            for each in turned:
                # More tiles than all warps, so that a warp's memory is used again; the other axes are kept short.
                warps = each.warps * min(decisions.ctas, CTAS)
                axes = grid_axes(program)
                found = {axis: min(extent, 2) for axis, extent in extents.items()}
                for at, tiles in ((each.stored_axis, warps // 2 + 1), (each.loaded_axis, 2)):
                    found[axes[at]] = reduced_extent(extents[axes[at]], each.side, tiles)
            return found
        case PipelineDecisions():
            return extents | _pipeline_extents(decisions, extents)
        case CascadeDecisions():
            return cascade_extents(decisions, extents)


def _results(program: tile.ProgramOp) -> list[tuple[str, ...]]:
    """The axes of each result of a program whose threads take runs of points."""
    return [run_axes(program, store) for store in stores(program)]


def gathered_extents(program: tile.ProgramOp) -> dict[str, int]:
    """Of axes of which tables say places: so many that places differ, and some are none; of places in blocks: all."""
    walked = {*grid_axes(program), *(loop.axis.data for loop in loops(program))}
    found: dict[str, int] = {}
    for op in gathers(program):
        for axis, each in zip(tensor_type(op.tensor).axis_names, op.dimensions, strict=True):
            if isinstance(each.where, Remainder):
                found[axis] = each.extent
            elif isinstance(each.where, Table) and axis not in walked:
                found.setdefault(axis, min(each.extent, _GATHERED))
    return found


def _pipeline_extents(d: PipelineDecisions, extents: dict[str, int]) -> dict[str, int]:
    deep = d.tile_k * d.shares
    whole = -(-extents[d.contracted] // deep)
    slices = min(2 * d.stages - 1, whole)
    if d.teams > 1:
        program = TeamGrid(d.teams, _tiles(d, extents), d.ctas // d.cluster_ctas)
        small = TeamGrid(d.teams, min(TILES_OF_TEAMS, program.tiles), CTAS_OF_TEAMS)
        slices = slices_of_teams(d.stages, whole, program, small)
    tiles = 2 if slices == 2 * d.stages - 1 else max(2, d.stages)
    if d.teams > 1:
        tiles = TILES_OF_TEAMS
    if d.turns:
        # So many that one consumer takes a turn again after the other. Of tiles longer than the ring only those of
        # 2 stages - 1 slices will do: the second begins at the ring's last slot, and the first consumer's step over it
        # passes the ring's end, into a phase that is not the first tile's.
        tiles = max(3, tiles)
    if slices == whole and d.teams == 1 and not d.streamed:
        tiles = tiles_that_show(slices, d.stages, _units(d), least=tiles, most=_tiles_of_one(d, extents))
    if d.streamed:
        stream = small_stream(d, _tiles(d, extents), whole)
        tiles, slices = stream.tiles, stream.slices
    elif d.teams == 1 and _clusters(d) > 1:
        # As many for one of two clusters.
        tiles = 2 * tiles - 1
    for axis in d.batch:
        tiles = -(-tiles // min(extents[axis], _MATRICES))
    most_down = -(-extents[d.rows] // (d.row_step * d.cluster_m))
    most_across = -(-extents[d.columns] // (d.column_step * d.cluster_n))
    # Of tiles that overlap a whole one has a neighbour, so that what neither stores shows.
    least_down = min(2, most_down) if d.step_m else 1
    least_across = min(2, most_across) if d.step_n else 1
    # A materialized operand is computed point by point, which is slow here: its side is kept short where it can be.
    if d.b.materialized and not d.a.materialized:
        down = min(tiles, most_down)
        across = -(-tiles // down)
    else:
        # As few as there can be, and of these as many across as there can be; where both operands are computed, those
        # with the shortest sides.
        both = d.a.materialized and d.b.materialized
        across = min(
            range(min(tiles, most_across), 0, -1),
            key=lambda each: (
                -(-tiles // each) > most_down,
                each < least_across or -(-tiles // each) < least_down,
                each * -(-tiles // each),
                both and each * d.column_step * d.cluster_n + -(-tiles // each) * d.row_step * d.cluster_m,
            ),
        )
        down = -(-tiles // across)
    across, down = max(across, least_across), max(down, least_down)
    if d.tile_order != "grouped" and d.raster_group <= SQUARES_MOST:
        # So that tiles inside of a square are taken too.
        across, down = max(across, min(d.raster_group, most_across)), max(down, min(d.raster_group, most_down))
    return {
        **{axis: min(extents[axis], _MATRICES) for axis in d.batch},
        d.rows: reduced_extent(extents[d.rows], d.row_step, down * d.cluster_m),
        d.columns: reduced_extent(extents[d.columns], d.column_step, across * d.cluster_n),
        # As many slots of a turn are left over as in the large text.
        d.contracted: reduced_extent(extents[d.contracted], deep, slices + (whole - slices) % d.partials),
    }


def _units(d: PipelineDecisions) -> int:
    """Consumers that have a cursor each."""
    return 2 if d.turns else 1


def _tiles_of_one(d: PipelineDecisions, extents: Mapping[str, int]) -> int:
    """Of the program's tiles as many as one of its clusters takes, but no more than let its cursors come round."""
    clusters = max(1, d.ctas // d.cluster_ctas)
    tiles = -(-extents[d.rows] // (d.row_step * d.cluster_m)) * -(-extents[d.columns] // (d.column_step * d.cluster_n))
    tiles *= math.prod(extents[axis] for axis in d.batch)
    return min(-(-tiles // clusters), _ROUNDS_MOST * d.stages)


def _tiles(d: PipelineDecisions, extents: Mapping[str, int]) -> int:
    return -(-extents[d.rows] // d.row_step) * -(-extents[d.columns] // d.column_step)


def reduced_extent(extent: int, size: int, tiles: int) -> int:
    """At most `tiles` tiles of `size`, the last one as full as the one that `extent` ends with."""
    if extent <= size * tiles:
        return extent
    return size * (tiles - 1) + (extent % size or size)


def small_instance(module: ModuleOp, found: Mapping[str, int] | None = None) -> ModuleOp:
    """A copy of a decided program with small extents and the same decisions. found: the extents, if they are not those
    of `small_extents`."""
    copy = module.clone()
    program = the_program(copy)
    found = found or small_extents(program)
    extents = {axis: derived_extent(axis, found) for axis in found}
    program.properties["axes"] = DictionaryAttr({axis: IntegerAttr(size, i64) for axis, size in extents.items()})
    before = decisions_of(program.attributes["decisions"])
    groups, row = _groups_of(before)
    group_strides: dict[str, int] = {}
    batch = before.batch if isinstance(before, PipelineDecisions | CascadeDecisions) and not groups else ()
    mapped = reached_by_maps(program, before)
    lined = {
        parameter_name(program, argument)
        for argument in program.body.block.args
        if stands_in_line(tensor_type(argument).axis_names, groups, row)
    }
    for argument in list(program.body.block.args):
        tensor = tensor_type(argument)
        strides, name = tensor.stride_elements, parameter_name(program, argument)
        for each in groups:
            # How far apart other arrays' groups are stands in the text, where they are picked.
            if name in mapped or name in lined:
                strides = compact_strides(tensor, extents, each)
            if each.axis in tensor.axis_names:
                stride = strides[tensor.axis_names.index(each.axis)]
                group_strides[name] = stride * tensor.element_kind.bytes
        for axis in reversed(batch):
            if name in mapped:
                strides = moved_together(tensor, strides, extents, axis)
            if axis in tensor.axis_names:
                stride = strides[tensor.axis_names.index(axis)]
                group_strides[name] = stride * tensor.element_kind.bytes
        shape = [derived_extent(axis, extents) for axis in tensor.axis_names]
        kind = TensorType.of(tensor.axis_names, shape, strides, tensor.element_kind)
        # The argument is replaced by one of the new type: types of values do not change in place.
        fresh = program.body.block.insert_arg(kind, argument.index)
        argument.replace_all_uses_with(fresh)
        program.body.block.erase_arg(argument)
    decisions = decisions_of(program.attributes["decisions"])
    match decisions:
        case ElementwiseDecisions(rows=(row,)):
            rows = math.prod(extents[axis] for axis in grid_axes(program) if axis != row.axis)
            ctas = number_of(row.grid(rows, decisions.threads))
            program.attributes["decisions"] = to_attribute(replace(decisions, ctas=ctas))
        case ElementwiseDecisions():
            ctas = min(decisions.ctas, CTAS)
            if decisions.run > 1:
                _, ctas = runs_instance(decisions, _results(program), the_program(module).extents)
            program.attributes["decisions"] = to_attribute(replace(decisions, ctas=ctas))
        case CascadeDecisions():
            program.attributes["decisions"] = to_attribute(
                cascade_decisions(program, decisions, CTAS, the_program(module).extents)
            )
        case PipelineDecisions():
            small = _small_decisions(decisions, extents, group_strides)
            if decisions.streamed:
                large = the_program(module).extents
                slices = -(-large[decisions.contracted] // decisions.tile_k)
                stream = small_stream(decisions, _tiles(decisions, large), slices)
                small = replace(small, ctas=stream.ctas, streamed=stream.streamed, head_slices=stream.head_slices)
            program.attributes["decisions"] = to_attribute(small)
    return copy


def _groups_of(decisions: Decisions) -> tuple[tuple[GroupDecision, ...], str]:
    """Groups of rows, and the axis of rows."""
    match decisions:
        case CascadeDecisions():
            return decisions.grouping, decisions.row
        case _:
            return (), ""


def _small_decisions(
    decisions: PipelineDecisions, extents: dict[str, int], group_strides: Mapping[str, int]
) -> PipelineDecisions:
    """group_strides: bytes from one group's part to the next's, by parameter."""
    rows, columns, contracted = (extents[axis] for axis in (decisions.rows, decisions.columns, decisions.contracted))
    matrices = [extents[axis] for axis in decisions.batch]

    def operand(item: OperandDecision, outer: int) -> OperandDecision:
        dims = (contracted, outer) if item.major == "K" else (outer, contracted)
        if len(item.map.dims) == 2:
            return replace(item, map=replace(item.map, dims=dims))
        # A workspace is written at addresses that stand in the text.
        apart = item.map.strides_bytes[1] if item.materialized else group_strides[item.buffer]
        strides_bytes = (*item.map.strides_bytes[:1], apart)
        return replace(item, map=replace(item.map, dims=(*dims, *matrices), strides_bytes=strides_bytes))

    def store(item: StoreDecision) -> StoreDecision:
        def reduced(one: MapDecision) -> MapDecision:
            if len(one.dims) == 2:
                return replace(one, dims=(rows, columns) if item.turned else (columns, rows))
            strides_bytes = (one.strides_bytes[0], group_strides[item.parameter])
            return replace(one, dims=(columns, rows, *matrices), strides_bytes=strides_bytes)

        tail, cut = (tuple(map(reduced, maps)) for maps in (item.tail, item.cut))
        return replace(item, map=reduced(item.map), tail=tail, cut=cut)

    return replace(
        decisions,
        a=operand(decisions.a, rows),
        b=operand(decisions.b, columns),
        stores=tuple(store(item) for item in decisions.stores),
        ctas=decisions.cluster_ctas * _clusters(decisions),
        fill_ctas=min(decisions.fill_ctas, CTAS),
    )


def _clusters(d: PipelineDecisions) -> int:
    """Of the instance of a program without groups and streams."""
    return CTAS_OF_TEAMS if d.teams > 1 else min(CTAS, d.ctas // d.cluster_ctas)


# ---------------------------------------------------------------- comparison of texts


def immediate_pairs(large: tile.ProgramOp, small: tile.ProgramOp) -> Pairs:
    """Every pair of immediates by which the texts of two decided programs of one source may differ."""
    quantities = [_quantities(program) for program in (large, small)]
    return frozenset(zip(*quantities, strict=True))


def _quantities(program: tile.ProgramOp) -> list[int]:
    """What the lowering may write as an immediate that depends on extents, in an order that depends on decisions
    alone."""
    extents = program.extents
    found = list(extents.values())
    decisions = decisions_of(program.attributes["decisions"])
    match decisions:
        case ElementwiseDecisions(transpose=turned, rows=rows):
            sizes = [extents[axis] for axis in grid_axes(program)]
            found.append(math.prod(sizes))
            found += [math.prod(sizes) // extents[row.axis] for row in rows]
            # Where runs begin before their row: the bounds of those that have any of its points, and only such.
            found += [extents[row.axis] + sign * row.most_before for row in rows for sign in (1, -1)]
            # And whether the last one lies in its array.
            arguments = program.body.block.args if any(row.shifted for row in rows) else ()
            found += [_span_bytes(tensor_type(argument)) for argument in arguments]
            if decisions.run > 1:
                found += runs_quantities(decisions, _results(program), extents)
                found += [_span_bytes(tensor_type(argument)) for argument in program.body.block.args]
                found += [extent for argument in program.body.block.args for extent in tensor_type(argument).extents]
            for each in turned:
                counts = tile_counts(each, tuple(sizes))
                found += [*counts, math.prod(counts)]
        case CascadeDecisions():
            found += cascade_quantities(program, decisions)
        case PipelineDecisions():
            d = decisions
            rows, columns, depth = (extents[axis] for axis in (d.rows, d.columns, d.contracted))
            tiles_m = -(-rows // (d.row_step * d.cluster_m))
            tiles_n = -(-columns // (d.column_step * d.cluster_n))
            found += [
                tiles_m * tiles_n,
                *raster_quantities(tiles_m, tiles_n, d.raster_group),
                -(-depth // (d.tile_k * d.shares)),
                *skip_quantities(-(-depth // d.tile_k), d.stages),
            ]
            found += [d.ctas // d.cluster_ctas]
            found += stream_quantities(d, -(-depth // d.tile_k))
            for axis in d.batch:
                found.append(tiles_m * tiles_n * extents[axis])
            if d.teams > 1:
                slots = (d.teams - 1) * tiles_m * tiles_n * d.cluster_ctas * d.consumers
                found += [tiles_m, tiles_n, tiles_m * tiles_n * d.teams, slots]
            for operand, outer in ((d.a, rows), (d.b, columns)):
                inner, count = (depth, outer) if operand.major == "K" else (outer, depth)
                runs = -(-inner * operand.map.tensor_map().element.bytes // RUN_BYTES)
                found += [runs, runs * count, *(runs * count * extents[axis] for axis in d.batch)]
                found += [count] if d.batch else []
                for each in d.turned_fill if operand.materialized else ():
                    counts = tile_counts(each, (outer, depth))
                    found += [*counts, math.prod(counts)]
            found += [_span_bytes(tensor_type(argument)) for argument in program.body.block.args]
            turns = -(-depth // (d.tile_k * d.shares)) // d.partials
            found.append(turns)
            found += [extent for argument in program.body.block.args for extent in tensor_type(argument).extents]
            # A plain store compares its first column with the extent less the column's place in the tile.
            found += [max(0, columns - place) for place in range(1, d.tile_n)]
    return found


def _span_bytes(tensor: TensorType) -> int:
    """Bytes from a tensor's first element to behind its last."""
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.extents, tensor.stride_elements, strict=True))
    return (1 + last) * tensor.element_kind.bytes


def same_but_for_extents(large: Module, small: Module, pairs: Pairs) -> str:
    """Empty if the two texts are one but for immediates in `pairs`; else the first difference, in words."""
    if [kernel.name for kernel in large.kernels] != [kernel.name for kernel in small.kernels]:
        return "the texts have different entries"
    for one, other in zip(large.kernels, small.kernels, strict=True):
        difference = _kernel_difference(one, other, pairs)
        if difference:
            return f"{one.name}: {difference}"
    return ""


def _kernel_difference(large: Kernel, small: Kernel, pairs: Pairs) -> str:
    if large.directives != small.directives or len(large.body) != len(small.body):
        return f"{len(large.body)} statements against {len(small.body)}"
    for one, other in zip(large.body, small.body, strict=True):
        if one is other:
            continue
        match one, other:
            case Label(name), Label(same):
                if name != same:
                    return f"{one.span}: label {name} against {same}"
            case Instruction(), Instruction():
                if not _agree(one, other, pairs):
                    return f"{one.span}: {one.span.text.strip()} against {other.span.text.strip()}"
            case _:
                return f"{one.span}: a label against an instruction"
    return ""


def _agree(one: Instruction, other: Instruction, pairs: Pairs) -> bool:
    if (one.opcode, one.guard, len(one.operands)) != (other.opcode, other.guard, len(other.operands)):
        return False
    for mine, theirs in zip(one.operands, other.operands, strict=True):
        if mine == theirs:
            continue
        match mine, theirs:
            case Immediate(value), Immediate(small_value) if one.row in _EXTENT_ROWS:
                if (value, small_value) not in pairs:
                    return False
            case FloatImmediate(bits, 32), FloatImmediate(small_bits, 32) if one.row in _EXTENT_ROWS:
                # An extent that a position is compared with.
                if (_float32(bits), _float32(small_bits)) not in pairs:
                    return False
            case _:
                return False
    return True


def _float32(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]
