"""Which tile does a program take whose only walk sums the products of what it brings?

Such a program is a product with an epilogue, so it is put to the models that choose tiles of products, in both
orientations: shared by consumers or taken alternately, of any columns (`synth.tile.shape`,
`synth.distribution.turns`), of few rows those of `synth.tile.few_rows` that no CTAs share, of sums in two levels those
of `synth.tile.scaled_tile`. So is the question how shared memory is divided among slots and staging
(`synth.store.shared_memory`). Which operand's axis the tile's rows run along is the program's form; the form is asked
for that suits the tile (`suits_its_tile`).

How far apart tiles of rows of no multiple lie says `synth.tile.steps`.
Checked by: tests/synth/cascade/sums/test_sum_tile.py, tests/lower/test_steps.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.base.size import ceil_div, settled
from tilewright.ir.ac.split import sum_parts
from tilewright.ir.cascade_facts import CascadeAxes, Product, cascade_axes, products_of, refuse_at
from tilewright.ir.copy_decisions import StoreDecision
from tilewright.ir.decisions import ROWS_BYTES
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import gathers, parameter_name, stores
from tilewright.ir.tile.types import tensor_type
from tilewright.ir.tile_stream import TileStream
from tilewright.synth.cascade.boxed_store import boxed_results, leave_by_rows, turned_results
from tilewright.synth.cascade.slots.remade import inner_axis
from tilewright.synth.cascade.slots.slot_maps import WalkTile, both_come_by_maps
from tilewright.synth.cascade.sums.scaled_sums import Levels, choose_levels, scaled_depth
from tilewright.synth.cost.model import raster_group, rates_of
from tilewright.synth.cost.tile_estimate import turn_row
from tilewright.synth.distribution.cluster_shape import choose_cluster, taken_by_clusters
from tilewright.synth.distribution.grouped import GroupRows, choose_group_tile
from tilewright.synth.distribution.split import require_split, require_teams
from tilewright.synth.distribution.stream_k import LEAST_TURNED_COLUMNS, STREAMED_BYTES, CutTiles, choose_stream
from tilewright.synth.distribution.tile_order import choose_tile_order
from tilewright.synth.distribution.turns import (
    EVERY_STAGE,
    LargeTile,
    choose_turns,
    require_turns,
    unit_shape,
    with_turns,
)
from tilewright.synth.operand.operands import loaded_step
from tilewright.synth.operand.register_operand import fixed_for_registers
from tilewright.synth.schedule.loads_ahead import choose_loads_ahead
from tilewright.synth.schedule.loop_schedule import SPARE_SLOTS, LoopShape, ScheduledLoop, slots_wanted
from tilewright.synth.schedule.walk_schedule import schedule_walk, shortest_walk
from tilewright.synth.store.register_budget import register_budget
from tilewright.synth.store.shared_memory import SharedMemory, divide_shared_memory
from tilewright.synth.store.store_chunks import staged_row
from tilewright.synth.store.turned_store import is_turnable
from tilewright.synth.tile.accumulation import level_depth
from tilewright.synth.tile.few_rows import few_rows_shape, is_few_rows
from tilewright.synth.tile.long_sum import long_sum_shape
from tilewright.synth.tile.scaled_tile import choose_scaled_shape
from tilewright.synth.tile.shape import TileQuestion, TileShape, choose_tile_shape
from tilewright.synth.tile.steps import leave_in_bulk, parts_of, stepped
from tilewright.synth.tile.thin_product import FEW_ROWS, is_thin, thin_shape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class SumTile:
    """tile: its shape, and whether consumers take whole ones alternately; stores: results that leave in boxes;
    order: in which tiles are taken, and tiles of rows in a band of it; levels: of a sum in two of them; cluster: CTAs
    along rows and columns of tiles that bring each other what they need; stream: which tiles are cut, if any are;
    scheduled: the loop over a tile's slices; loads_ahead: vectors of the results that are loaded while a tile's first
    products run. Where rows stand in groups: read_once, whether no byte of the columns' operands is expected to be read
    a second time; ctas, how many there are."""

    tile: LargeTile
    stores: tuple[StoreDecision, ...]
    memory: SharedMemory
    order: tuple[str, int]
    levels: Levels
    cluster: tuple[int, int]
    stream: TileStream | None
    scheduled: ScheduledLoop
    loads_ahead: tuple[str, ...]
    read_once: bool = False
    ctas: int = 0

    @property
    def apart(self) -> tuple[int, int]:
        """Parts of a tile's rows and of its columns that overlap, where tiles do."""
        shape = self.tile.shape
        units = 1 if self.tile.turns else shape.consumers
        return units if shape.steps[0] else 1, parts_of(shape) if shape.steps[1] else 1

    @property
    def of_slots(self) -> WalkTile:
        """The tile, as slots are chosen for it."""
        shape, turns = self.tile.shape, self.tile.turns
        return WalkTile(
            shape.consumers, shape.columns, shape.depth, False, self.unit_rows, turns, self.cluster, apart=self.apart
        )

    @property
    def unit_rows(self) -> int:
        """Of a consumer."""
        return unit_shape(self.tile.shape, self.tile.turns).rows // self.tile.shape.consumers


def suits_its_tile(program: tile.ProgramOp, target: Target, wanted: Wanted) -> bool:
    """Whether the tile that such a program should take has the rows that its form gives it; nobody asks of several
    products, whose tile is chosen otherwise, nor of rows that integers lead to, which are put together first."""
    axes, (product, *others) = cascade_axes(program), products_of(program)
    if others or gathers(program):
        return True
    question = sum_question(program, axes, [product], target, wanted)
    return _chosen(question, target, wanted, []).shape.swapped == lies_along_rows(program, axes)


def choose_sum_tile(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    sums: Sequence[Product],
    target: Target,
    wanted: Wanted,
    reasons: list[str],
) -> SumTile:
    """sums: products of one operand with the rows. Raises TilewrightError for a wish that no tile grants."""
    if axes.group:
        return _of_groups(program, axes, sums, target, wanted, reasons)
    turned, computed = lies_along_rows(program, axes), is_computed(sums)
    if len(sums) > 1 and wanted.swapped not in (None, turned):
        raise TilewrightError(
            f"the operand that {len(sums)} products have in common has the rows of their tiles",
            remedy="leave the orientation to the compiler",
        )
    question = sum_question(program, axes, sums, target, wanted)
    counted = axes.streamed not in program.run_time
    if not counted:
        wanted = _of_any_length(sums, question, wanted)
    if computed:
        question = replace(question, orientations=(turned,), turnable=False, bulk=False)
        wanted = fixed_for_registers(wanted, swapped=turned)
    large = _chosen(question, target, wanted, reasons)
    if large.shape.swapped != turned:
        # Of a form that nobody asked for: with the rows that it gives.
        question = replace(question, orientations=(turned,), turnable=False)
        large = _chosen(question, target, wanted, reasons)
    known = counted and _is_known(program, axes, large.shape)
    if not known:
        # Tiles that are cut, summed through memory or taken by clusters are numbered in advance.
        large = _chosen(question, target, wanted, reasons, alone=True)
    shape, widths = large.shape, _stored_widths(program)
    rates = rates_of(target, question.element_bytes)
    cluster = choose_cluster(rates, shape, question, target, wanted, reasons)
    require_split(shape, cluster, len(sums) == 1, target)
    plain = len(sums) == 1 and not (axes.batch or question.scaled_depth or large.turns)
    require_teams(shape, cluster, plain and known)
    if large.turns:
        require_turns(shape, not question.scaled_depth, target, question.products)
    step = question.loaded_steps[0 if turned else 1]
    columns = -(-shape.columns // step) * step
    slot_bytes = (shape.rows + question.products * columns) * shape.depth * question.element_bytes
    stored = shape.columns // sum_parts(shape.columns, shape.split)
    row = turn_row(stored, widths, slot_bytes, target) if large.turns else staged_row(stored, widths)
    unit = unit_shape(shape, large.turns)
    leaving = turned_results(program, axes, stored, target, wanted) if turned else ()
    leaving = leaving or boxed_results(program, axes, unit.rows // shape.consumers, row, target, wanted)
    if computed:
        shape = replace(shape, steps=(0, 0))
    else:
        shape, leaving = _stepped(program, axes, sums, shape, cluster, leaving, wanted, turns=large.turns)
    large = replace(large, shape=shape)
    loop = _loop(question, shape, columns, target, turns=large.turns)
    needed = slots_wanted(loop, target)
    enough, most = EVERY_STAGE if large.turns else needed, needed + SPARE_SLOTS
    by_threads = leave_by_rows(program, axes, leaving)
    memory = divide_shared_memory(
        unit, slot_bytes, leaving, target, wanted, reasons, enough, most, along_rows=by_threads
    )
    memory = with_turns(memory, large.turns, target)
    rows, columns = program.extents[axes.row], program.extents[axes.column]
    tiles = (math.ceil(rows / shape.row_step), math.ceil(columns / shape.column_step))
    taken = taken_by_clusters(rates, (shape.rows, shape.columns), tiles, cluster)
    matrices = math.prod(program.extents[axis] for axis in axes.batch)
    order = choose_tile_order(*taken, wanted, matrices=matrices)
    if wanted.ordered:
        raise TilewrightError("a walk issues products as they come", remedy="leave out the order of issue")
    levels = _levels(program, axes, sums, question, shape, target)
    narrow = any(each.turned for each in leaving) and shape.columns < LEAST_TURNED_COLUMNS
    obstacles = {
        "CTAs of a cluster share what they load": cluster != (1, 1),
        "CTAs of a cluster share what is walked": shape.split > 1,
        "several clusters share what is walked": shape.teams > 1,
        "how many tiles there are only a launch knows": counted and not known,
        "how long the sum is only a launch knows": not counted,
        "a batch has several matrices": bool(axes.batch),
        "products share an operand": len(sums) > 1,
        "an iteration of a sum in two levels has two slots": levels.slots > 1,
        "products are scaled by blocks": question.scaled,
        "an operand is computed in registers": computed,
        "threads copy an operand": wanted.unmapped == "threads" and not both_come_by_maps(program, wanted, target),
    }
    obstacle = next((why for why, stands in obstacles.items() if stands), "")
    extents = [program.extents[axis] for axis in (axes.row, axes.column, axes.streamed)]
    stream = _cut_tiles(extents, question.element_bytes, large, obstacle, target, wanted, reasons, narrow=narrow)
    trips = loop.trips if counted else math.ceil(program.run_time[axes.streamed].least_launched / shape.depth)
    name, slices = program.sym_name.data, shortest_walk(trips, stream)
    plain = not (loop.scaled or computed)
    late = schedule_walk(name, loop, memory.stages, slices, target, wanted, reasons, turns=large.turns, plain=plain)
    ahead = _loads_ahead(program, axes, large, len(sums), levels.slots, target)
    return SumTile(large, leaving, memory, order, levels, cluster, stream, late, ahead)


def _of_any_length(sums: Sequence[Product], question: TileQuestion, wanted: Wanted) -> Wanted:
    """What is asked of a tile whose sum may be of any length: consumers that take tiles alternately pass over slots by
    number. Raises TilewrightError for sums in two levels, which are of a number of slices."""
    if question.scaled_depth:
        what = "a sum of scaled products" if question.scaled else "a sum of 8-bit products"
        refuse_at(
            sums[0].op,
            f"{what} over {sums[0].op.axis.data}, whose extent only the launch knows",
            "give the extent, or accumulation='fast' where nothing is scaled",
        )
    return replace(wanted, turns=False, split=1, teams=1, stream_k=False)


def _stepped(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    sums: Sequence[Product],
    shape: TileShape,
    cluster: tuple[int, int],
    leaving: tuple[StoreDecision, ...],
    wanted: Wanted,
    *,
    turns: bool,
) -> tuple[TileShape, tuple[StoreDecision, ...]]:
    """The tile with its step, where there may be one, and stores that end at it."""
    product, held = sums[0], sums[0].held.owner
    assert isinstance(held, tile.LoadOp), "both operands of a sum of slots are loaded"
    alone = len(sums) == 1 and not (axes.batch or scaled_depth(sums))

    def major(load: tile.LoadOp) -> str:
        return "K" if inner_axis(load) == axes.streamed else "MN"

    parts = (1 if turns else shape.consumers, parts_of(shape))
    sides, cut = (major(held), major(product.brought)), leaving if alone else ()
    asked = any(wanted.steps or ())
    shape, cut = stepped(program, (axes.row, axes.column), shape, parts, cluster, sides, cut, asked=asked)
    return shape, cut if alone else leaving


def _of_groups(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    sums: Sequence[Product],
    target: Target,
    wanted: Wanted,
    reasons: list[str],
) -> SumTile:
    """Where rows stand in groups. Results leave along rows, which end where a group does."""
    question = sum_question(program, axes, sums, target, wanted)
    extents = program.extents
    in_all = extents[axes.row] * (extents[axes.group] if axes.pitch else 1)
    rows = GroupRows(in_all, extents[axes.group], extents[axes.column], extents[axes.streamed])
    along = all(inner_axis(each.brought) == axes.streamed for each in sums)
    deep = replace(wanted, depth=question.scaled_depth) if question.scaled else wanted
    found = choose_group_tile(rows, question, target, deep, reasons, along=along)
    shape = found.shape
    memory = SharedMemory(found.stages, 0, 0, ROWS_BYTES, found.smem_bytes)
    loop = _loop(question, shape, shape.columns, target, turns=found.turns)
    levels = _levels(program, axes, sums, question, shape, target)
    name = program.sym_name.data
    stages, plain = found.stages, not loop.scaled
    late = schedule_walk(name, loop, stages, loop.trips, target, wanted, reasons, turns=found.turns, plain=plain)
    order = ("grouped", raster_group(rates_of(target), shape.rows, shape.columns))
    tile_ = LargeTile(shape, found.turns)
    ahead = _loads_ahead(program, axes, tile_, len(sums), levels.slots, target)
    return SumTile(tile_, (), memory, order, levels, (1, 1), None, late, ahead, found.read_once, found.ctas)


def _loads_ahead(
    program: tile.ProgramOp, axes: CascadeAxes, large: LargeTile, sums: int, partials: int, target: Target
) -> tuple[str, ...]:
    """Beside a sum in two levels a thread holds products of `partials` slots, too."""
    shape = large.shape
    _, _, registers = register_budget(shape.consumers, target, shape.resident)
    accumulators = sums * (1 + partials)
    return choose_loads_ahead(program, (axes.row, axes.column), unit_shape(shape, large.turns), accumulators, registers)


def _cut_tiles(
    extents: Sequence[int],
    element_bytes: int,
    tile: LargeTile,
    obstacle: str,
    target: Target,
    wanted: Wanted,
    reasons: list[str],
    *,
    narrow: bool,
) -> TileStream | None:
    """The tiles left over after whole waves, cut where that pays (`synth.distribution.stream_k`). extents: along rows,
    columns and what is walked; obstacle: why none can be cut; narrow: results leave turned, of few columns."""
    shape = tile.shape
    rows, columns, slices = (
        math.ceil(extent / size)
        for extent, size in zip(extents, (shape.row_step, shape.column_step, shape.depth), strict=True)
    )
    least, fitted = 2 if tile.turns else 1, element_bytes == STREAMED_BYTES and not narrow
    depths = (shape.rows, shape.columns, shape.depth)
    cut = CutTiles((rows * columns, slices), least, depths, element_bytes, tile.turns, fitted)
    found = choose_stream(cut, obstacle, target, wanted)
    if found is None:
        return None
    stream, reason = found
    reasons.append(reason)
    return TileStream(stream.tiles, stream.ctas - stream.tiles, stream.head_slices)


def _levels(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    sums: Sequence[Product],
    question: TileQuestion,
    shape: TileShape,
    target: Target,
) -> Levels:
    """How products are added to a total one by one, where the tensor core has not the sum."""
    if not question.scaled_depth:
        return Levels()
    _, _, registers = register_budget(shape.consumers, target, shape.resident)
    part = (shape.rows // shape.consumers, shape.columns)
    slices = math.ceil(question.extents[2] / (shape.depth * shape.shares))
    return choose_levels(program, axes, sums, part, shape.depth, slices, registers)


def _loop(question: TileQuestion, shape: TileShape, columns: int, target: Target, *, turns: bool) -> LoopShape:
    """What the loop over a tile's slices does, with so many columns loaded."""
    _, _, registers = register_budget(shape.consumers, target, shape.resident)
    return LoopShape(
        (shape.rows, shape.columns, shape.depth),
        (shape.rows, columns),
        question.element_bytes,
        question.products,
        bool(question.scaled_depth),
        1 if turns else shape.consumers,
        registers,
        math.ceil(question.extents[2] / (shape.depth * shape.shares)),
    )


def _stored_widths(program: tile.ProgramOp) -> list[int]:
    return [tensor_type(store.tensor).element_kind.bytes for store in stores(program)]


def is_computed(sums: Sequence[Product]) -> bool:
    """Whether the operand with the rows is computed on the way, in registers."""
    return not isinstance(sums[0].held.owner, tile.LoadOp)


def lies_along_rows(program: tile.ProgramOp, axes: CascadeAxes) -> bool:
    """Whether the first result is contiguous along the tile's rows, and not along its columns."""
    tensor = tensor_type(stores(program)[0].tensor)
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    return strides.get(axes.column, 1) != 1 and strides.get(axes.row) == 1


def sum_question(
    program: tile.ProgramOp, axes: CascadeAxes, sums: Sequence[Product], target: Target, wanted: Wanted
) -> TileQuestion:
    """What is asked of a tile, with the axis along which results are contiguous as that of the columns. Of several
    products, the operand that all have has the rows of the tile."""
    product, turned = sums[0], lies_along_rows(program, axes)
    sides = [(axes.row, product.held), (axes.column, product.brought.result)]
    if turned:
        sides.reverse()
    (rows, left), (columns, right) = sides
    extents = (program.extents[rows], program.extents[columns], program.extents[axes.streamed])
    steps = (loaded_step(left, axes.streamed, target), loaded_step(right, axes.streamed, target))
    element_bytes = tensor_type(product.brought.tensor).element_kind.bytes
    free = not axes.batch and wanted.swapped is None and len(sums) == 1
    turnable = free and is_turnable(program, columns, wanted.misaligned)
    # Few rows waste most of a wgmma's, which are 64 at least; as its columns they need not.
    stored = {parameter_name(program, store.tensor) for store in stores(program)}
    few = extents[0] <= FEW_ROWS and not (axes.group or stored & set(wanted.mapped))
    # Threads store the turned results of a batch, by strides that are known.
    few = few and not (axes.batch and columns in program.run_time)
    orientations = (turned,) if len(sums) > 1 else (False, True) if few else (False,)
    scaled = scaled_depth(sums)
    if scaled and wanted.accumulation == "fast":
        what = "a product that is scaled inside its loop cannot be summed by the tensor core alone"
        refuse_at(product.op, what, "leave out accumulation='fast'")
    return TileQuestion(
        extents,
        element_bytes,
        sum(_stored_widths(program)),
        orientations,
        steps,
        len(sums),
        scaled_depth=scaled or level_depth(element_bytes, extents[2], wanted),
        scaled=bool(scaled),
        batch=math.prod(program.extents[axis] for axis in axes.batch if axis != axes.group),
        turnable=turnable,
        bulk=free and leave_in_bulk(program, wanted.misaligned),
    )


def _is_known(program: tile.ProgramOp, axes: CascadeAxes, shape: TileShape) -> bool:
    """Whether there are as many tiles at every extent."""
    sides = ((axes.row, shape.row_step), (axes.column, shape.column_step), *((axis, 1) for axis in axes.batch))
    counts = [settled(ceil_div(program.sizes[axis], size), program.run_time) for axis, size in sides]
    return all(isinstance(count, int) for count in counts)


def _chosen(
    question: TileQuestion, target: Target, wanted: Wanted, reasons: list[str], *, alone: bool = False
) -> LargeTile:
    """alone: whether clusters share nothing: neither what is walked of a tile nor loads."""
    rates = rates_of(target, question.element_bytes)
    if is_thin(question, wanted):
        shape = thin_shape(question, target, reasons)
    else:
        shape = choose_scaled_shape(rates, question, target, wanted, reasons, alone=alone)
        shape = shape or choose_tile_shape(rates, question, target, wanted, reasons)
    large = choose_turns(rates, question, shape, target, wanted, reasons, {})
    if not alone:
        summed = long_sum_shape(question, large.shape, target, wanted, reasons)
        large = large if summed == large.shape else LargeTile(summed, turns=False)
    if not is_few_rows(question, replace(wanted, stream_k=None)):
        return large

    # CTAs whose threads fill the slots of their own share no loads.
    apart = alone or wanted.unmapped == "threads"

    def fits(shape: TileShape) -> bool:
        return not ((alone and shape.teams > 1) or (apart and shape.paired))

    found = few_rows_shape(question, large.shape, target, reasons, fits=fits, turns=large.turns)
    return LargeTile(found, large.turns and replace(found, steps=large.shape.steps) == large.shape)
