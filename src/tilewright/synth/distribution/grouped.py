"""What pipeline a product becomes whose rows stand in groups of sizes that only memory knows (mixtures of experts).

Tiles begin where groups begin, so a group of r rows takes ceil(r / tile rows) rows of tiles, half a tile more than
r / tile rows on the average. What is known are extents: the mean group. The shape is chosen by a closed formula over
both, where few rows a group make narrow tiles worth it. Results leave by plain stores along rows, which can end at any
row; a bulk store writes whole boxes, into the rows of the next group. The weights of a group are picked by the
outermost coordinate of their tensor map.

Handled: products of one left operand, groups of its rows, one after the other in one array or at equal distances;
operands that a tensor map can describe as they stand; clusters of one. Anything else is refused with the author's line.
Checked by: tests/synth/distribution/test_grouped.py, by `legal`, and by `contract` on the lowered kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir.decisions import (
    ROWS_BYTES,
    RUN_BYTES,
    MapDecision,
    OperandDecision,
    PipelineDecisions,
    StoreDecision,
)
from tilewright.ir.group_rows import GroupDecision, group_pitches, multiplied_alike
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import Grouping, dots, index_offset, parameter_name, stores
from tilewright.ir.tile.products import SharedProducts, shared_products
from tilewright.ir.tile.types import axes_text, tensor_type, value_type
from tilewright.synth.cost.model import Rates, raster_group, rates_of, slice_cycles
from tilewright.synth.cost.tile_estimate import BARRIER_BYTES
from tilewright.synth.distribution.group_depth import GroupLoop, slice_depth
from tilewright.synth.distribution.tile_order import refuse_tile_order
from tilewright.synth.operand.async_plan import plan_load, plan_words
from tilewright.synth.operand.batch import broken_rules, with_matrices
from tilewright.synth.operand.further_operands import further_operands
from tilewright.synth.operand.operands import SWIZZLE_SPAN_BYTES, Site, decide_operand
from tilewright.synth.operand.scaled_product import choose_promotion, fits_registers
from tilewright.synth.store.register_budget import register_budget
from tilewright.synth.store.spill_slots import spill_bytes
from tilewright.synth.tile.accumulation import promoted_depth
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class _Shape:
    """Tile rows and columns, consumer warpgroups, and whether they take whole tiles in turn."""

    rows: int
    columns: int
    consumers: int
    turns: bool = False

    def holds(self, products: int, *, promoted: bool) -> bool:
        """Whether one wgmma takes the columns of all products, and one consumer their accumulators: two of each, where
        slots are promoted, which consumers do that share a tile."""
        unit_rows = self.rows if self.turns else self.rows // self.consumers
        columns = self.columns * products
        twice = not promoted or (not self.turns and fits_registers(self.rows, columns, self.consumers))
        return twice and columns <= _MOST_COLUMNS and unit_rows * columns <= _MOST_ACCUMULATORS


_SHAPES = (
    _Shape(128, 256, 2),
    _Shape(256, 128, 2),
    _Shape(128, 192, 2),
    _Shape(128, 128, 2),
    _Shape(64, 256, 1),
    _Shape(64, 128, 1),
    _Shape(64, 64, 1),
    _Shape(64, 256, 2, turns=True),
    _Shape(128, 128, 2, turns=True),
    _Shape(128, 192, 2, turns=True),
)
_MOST_COLUMNS = 256
"""Of one wgmma (PTX ISA, wgmma: Matrix shape)."""
_MOST_ACCUMULATORS = 128 * 192
"""Of one consumer, for all products: a thread has the registers of 192."""
_SUSTAINED = 0.79
"""Share of the tensor cores' rate that the power limit leaves; the L2 cache's is left whole. A parameter of this model,
like those below: fitted to 60 kernels of `python -m bench grouped` on an H200 (680 TFLOP/s executed, at most)."""
_TILE_START_CYCLES = {1: 2300, 2: 2500}
"""By consumer warpgroups that share a tile, which begin and end it together."""
_TURN_CYCLES = {64: 2000, 128: 400}
"""Where they take tiles in turn, and one begins while the other ends; by rows of a tile: low ones also fetch more."""
_OPERAND_BYTES_PER_CYCLE = 80
"""Of shared memory, what a wgmma of 256 columns reads; narrower ones read more, and lose a quarter of the excess."""
_STORE_BYTES_PER_CYCLE = 128
_LEAST_STAGES = 2
_MOST_STAGES = 8
_ROWS_SPREAD = 3
"""Times the mean that hardly a group's rows exceed where tokens are routed. With 64 rows a group on the average and
tiles of 128, weights given up first took 4 % more time."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Rows in all groups, groups, columns, contracted elements."""

    rows: int
    groups: int
    columns: int
    depth: int


def decide_grouped(program: tile.ProgramOp, grouping: Grouping, target: Target, wanted: Wanted) -> PipelineDecisions:
    """The pipeline of a program whose grid keeps to groups. Raises TilewrightError at the author's line."""
    refuse_tile_order(wanted)
    products = shared_products(program)
    if products is None or products.shared != "left":
        raise _unsupported(
            program, f"groups of {grouping.ragged} without products of one left operand", "compute one product a kernel"
        )
    if wanted.ordered:
        raise _unsupported(program, "products in groups are not issued in order", "leave out the order of issue")
    dot, count = products.products[0], len(products.products)
    rows, columns, contracted = _axes(program, dot, grouping)
    _require_plain(program, products, grouping, columns)
    element = value_type(dot.left).element_kind
    reasons: list[str] = []
    pitch = _pitch(program, grouping, rows)
    extents = program.extents
    # Groups that stand apart have room for extents[rows] rows each, and rarely as many.
    in_all = extents[rows] * (extents[grouping.group] if pitch else 1)
    sizes = _Sizes(in_all, extents[grouping.group], extents[columns], extents[contracted])
    rates = rates_of(target, element.bytes)
    stored_bytes = sum(tensor_type(store.tensor).element_kind.bytes for store in stores(program))
    depth = wanted.depth or SWIZZLE_SPAN_BYTES // element.bytes
    promoted = bool(promoted_depth(program, dot, wanted))
    shape = _tile_shape(rates, sizes, depth, element.bytes, stored_bytes, count, promoted, wanted, reasons)
    if wanted.depth is None and wanted.stages is None and not promoted and _along(products, contracted):
        question = _Slices(rates, sizes, depth, element.bytes, count, target, wanted)
        shape, depth = _deep_slices(question, shape, reasons)
    tile_m, tile_n, consumers = shape.rows, shape.columns, shape.consumers
    rows_bytes = ROWS_BYTES * consumers
    turn_bytes = (BARRIER_BYTES if shape.turns else 0) + spill_bytes(consumers, target, wanted, reasons)
    site = Site(program, target, wanted.misaligned, reasons, side_by_side=len(products.products) > 1)
    a = decide_operand(site, ("left", dot.left, rows), contracted, tile_m, depth)
    b = decide_operand(site, ("right", dot.right, columns), contracted, tile_n, depth)
    more_b = further_operands(site, products, b, columns, contracted, (tile_n, depth))
    for operand in (a, b, *more_b):
        if operand.materialized:
            raise _unsupported(
                program,
                f"the {operand.side} operand of a product in groups needs a copy: {reasons[-1]}",
                "give arrays whose rows begin at multiples of 16 bytes",
            )
    if a.major != "K":
        raise _unsupported(program, f"groups of {rows} in an array not contiguous along {contracted}", "transpose it")
    a = _all_rows(site, dot.left, a, rows, pitch, sizes.groups)
    b, *others = (
        _all_groups(site, each.right, operand, grouping.group)
        for each, operand in zip(products.products, (b, *more_b), strict=True)
    )
    once = _read_once(sizes, tile_m, element.bytes * count, target)
    if once:
        b, *others = (replace(each, read_once=1) for each in (b, *others))
        reasons.append("weights are read by one tile of rows each: the copies ask the L2 cache to evict them first")
    stage_bytes = (tile_m + tile_n * count) * depth * element.bytes
    stages = _stages(stage_bytes, rows_bytes + turn_bytes, target, wanted, reasons)
    plans = (
        plan_load(a, tile_m, depth, 1, stages),
        *(plan_load(operand, tile_n, depth, 1, stages) for operand in (b, *others)),
    )
    reasons.extend(plan_words(plan) for plan in plans)
    launch, producer, consumer = register_budget(consumers, target)
    tiles = _tiles(sizes, tile_m, tile_n)
    part, slices = (tile_m // consumers, tile_n * count), math.ceil(sizes.depth / depth)
    promotion = choose_promotion(dot, (rows, columns), part, slices, consumer) if promoted else (1, 1)
    return PipelineDecisions(
        rows,
        columns,
        contracted,
        swapped=0,
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=depth,
        a=a,
        b=b,
        stores=tuple(_store(program, store, rows, columns) for store in stores(program)),
        async_plans=plans,
        stages=stages,
        consumers=consumers,
        staging_slots=0,
        staging_slot_bytes=0,
        rows_bytes=ROWS_BYTES,
        producer_registers=producer,
        consumer_registers=consumer,
        launch_registers=launch,
        cluster_m=1,
        cluster_n=1,
        raster_group=raster_group(rates, tile_m, tile_n),
        ctas=max(1, min(rates.multiprocessors, math.ceil(tiles) + sizes.groups * math.ceil(sizes.columns / tile_n))),
        smem_bytes=(stage_bytes + 2 * target.limit("mbarrier.bytes")) * stages + rows_bytes + turn_bytes,
        fill_ctas=1,
        fill_threads=32,
        reasons=tuple(reasons),
        # CTAs that begin as others end are spread over the multiprocessors anyhow, and neighbours no longer fetch the
        # same weights side by side (measured: up to 20 % longer, and no more than 1 % shorter). Weights that one tile
        # of rows reads have no neighbours, and begin to come sooner (1 to 2 % shorter, in a race by the wish).
        programmatic=int(once if wanted.programmatic is None else wanted.programmatic),
        more_b=tuple(others),
        turns=int(shape.turns),
        spill_slots=wanted.spill_slots,
        partials=promotion[0],
        promoted=int(promoted),
        grouping=(GroupDecision(grouping.group, grouping.bounds, pitch, _in_vectors(program, wanted)),),
    )


def _unsupported(program: tile.ProgramOp, message: str, remedy: str) -> TilewrightError:
    place = dots(program)[0].place.data if dots(program) else ""
    file, _, line = place.rpartition(":")
    return TilewrightError(message, span=Span(file, int(line)) if line else None, remedy=remedy)


# ---------------------------------------------------------------- what is asked of the program


def _axes(program: tile.ProgramOp, dot: tile.DotOp, grouping: Grouping) -> tuple[str, str, str]:
    """Rows, columns and the contracted axis of the product, without an axis of groups."""
    left = [axis for axis in value_type(dot.left).axis_names if axis != grouping.group]
    right = [axis for axis in value_type(dot.right).axis_names if axis != grouping.group]
    if len(left) != 2 or len(right) != 2 or left[0] != grouping.ragged:
        raise _unsupported(
            program,
            f"groups of {grouping.ragged}, which are not the rows of the product's left operand",
            "write the product so that its left operand has the axis in groups as rows",
        )
    return left[0], right[1], left[1]


def _require_plain(program: tile.ProgramOp, products: SharedProducts, grouping: Grouping, columns: str) -> None:
    """What the lowering of groups can follow: operands loaded as they stand, results and what is added to them over
    rows and columns."""
    for value in (products.operand("left"), *(dot.right for dot in products.products)):
        source = value.owner.operand if isinstance(value.owner, tile.TransposeOp) else value
        if not isinstance(source.owner, tile.LoadOp):
            raise _unsupported(
                program, "an operand of a product in groups is computed", "compute it in a kernel before"
            )
        if alike := multiplied_alike(program, source.owner, grouping):
            raise _unsupported(program, *alike)
    apart = grouping.kind == "within"
    for load in (op for op in program.body.block.ops if isinstance(op, tile.LoadOp)):
        axes = tensor_type(load.tensor).axis_names
        rows = (grouping.group, grouping.ragged) if apart else (grouping.ragged,)
        followed = ((columns,), (grouping.group, columns), rows, (*rows, columns))
        if axes not in followed or any(index_offset(index) for index in load.indices):
            name, known = parameter_name(program, load.tensor), " or ".join(axes_text(each) for each in followed)
            raise _unsupported(
                program,
                f"{name} is read over {axes_text(axes)} beside a product in groups",
                f"read arrays over {known}, undisplaced",
            )


def _pitch(program: tile.ProgramOp, grouping: Grouping, rows: str) -> int:
    """Rows from one group's first to the next's, alike in every array that has them; 0 if groups follow one another."""
    if grouping.kind == "consecutive":
        return 0
    pitches = group_pitches(program, grouping)
    if len(pitches) != 1 or min(pitches) < program.extents[rows]:
        raise _unsupported(
            program,
            f"groups of {rows} stand differently far apart in {' and '.join(pitches.values())}",
            "give arrays whose groups lie at one whole number of rows apart, such as contiguous ones",
        )
    return next(iter(pitches))


# ---------------------------------------------------------------- maps and stores


def _all_rows(
    site: Site, value: SSAValue, operand: OperandDecision, rows: str, pitch: int, groups: int
) -> OperandDecision:
    """The map of one group's rows, or of all of them where they follow one another, as one of all groups' rows."""
    source = value.owner.operand if isinstance(value.owner, tile.TransposeOp) else value
    if not pitch or groups == 1 or not isinstance(source.owner, tile.LoadOp):
        return operand
    tensor = tensor_type(source.owner.tensor)
    # The map of a group of one row may have any stride, and that of all groups' rows has the array's.
    row_bytes = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))[rows] * tensor.element_kind.bytes
    depth, count = operand.map.dims
    map_ = replace(operand.map, dims=(depth, count + (groups - 1) * pitch), strides_bytes=(row_bytes,))
    broken = broken_rules(site, map_)
    if broken:
        raise _unsupported(
            site.program,
            f"the left operand of a product in groups needs a copy: rows are {row_bytes} bytes apart; {broken[0]}",
            "give arrays whose rows begin at multiples of 16 bytes",
        )
    return replace(operand, map=map_)


def _all_groups(site: Site, value: SSAValue, operand: OperandDecision, group: str) -> OperandDecision:
    """The map of one group's weights with a third dimension for the groups."""
    source = value.owner.operand if isinstance(value.owner, tile.TransposeOp) else value
    assert isinstance(source.owner, tile.LoadOp)
    tensor = tensor_type(source.owner.tensor)
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    if group not in strides:
        return operand
    count = site.program.extents[group]
    map_ = with_matrices(operand.map, count, strides[group] * tensor.element_kind.bytes)
    broken = broken_rules(site, map_)
    if broken:
        raise _unsupported(
            site.program,
            f"no tensor map for the weights of all groups: {'; '.join(broken)}",
            "give an array whose groups begin at multiples of 16 bytes",
        )
    return replace(operand, map=map_)


def _store(program: tile.ProgramOp, store: tile.StoreOp, rows: str, columns: str) -> StoreDecision:
    """By plain stores along rows, which end where a group does."""
    tensor = tensor_type(store.tensor)
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    name = parameter_name(program, store.tensor)
    if strides[columns] != 1 or columns != tensor.axis_names[-1]:
        raise _unsupported(
            program, f"{name} is not contiguous along {columns}", "give a result whose columns are contiguous"
        )
    element = tensor.element_kind
    chunk = SWIZZLE_SPAN_BYTES // element.bytes
    extents = program.extents
    map_ = MapDecision(
        element.value,
        (extents[columns], extents[rows]),
        (strides[rows] * element.bytes,),
        (chunk, 64),
        "128B",
        "none",
    )
    return StoreDecision(name, "direct", chunk, 1, map_)


def _in_vectors(program: tile.ProgramOp, wanted: Wanted) -> tuple[str, ...]:
    """Results whose rows begin and end at multiples of a vector."""
    found: list[str] = []
    for store in stores(program):
        tensor, name = tensor_type(store.tensor), parameter_name(program, store.tensor)
        bytes_ = tensor.element_kind.bytes
        sizes = (*tensor.stride_elements[:-1], tensor.extents[-1])
        if name not in wanted.misaligned and all(size * bytes_ % RUN_BYTES == 0 for size in sizes):
            found.append(name)
    return tuple(found)


def _read_once(sizes: _Sizes, tile_m: int, weight_bytes: int, target: Target) -> bool:
    """Whether hardly a group has more rows than a tile, so that its weights are read once, and whether they are more
    than the L2 cache holds from one launch to the next. weight_bytes: of one column's number of all products."""
    in_all = sizes.groups * sizes.columns * sizes.depth * weight_bytes
    return _ROWS_SPREAD * sizes.rows <= tile_m * sizes.groups and in_all > target.limit("device.l2_bytes")


def _along(products: SharedProducts, contracted: str) -> bool:
    """Whether the weights of all products are contiguous along the contracted axis."""
    for dot in products.products:
        source = dot.right.owner.operand if isinstance(dot.right.owner, tile.TransposeOp) else dot.right
        assert isinstance(source.owner, tile.LoadOp)
        tensor = tensor_type(source.owner.tensor)
        if dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))[contracted] != 1:
            return False
    return True


# ---------------------------------------------------------------- shape


def _tiles(sizes: _Sizes, tile_m: int, tile_n: int) -> float:
    """Tiles to be expected: a group's last one is half full on the average, and no group that has a row has none."""
    occupied = min(sizes.groups, sizes.rows)
    mean = sizes.rows / occupied
    return occupied * max(1.0, mean / tile_m + 0.5) * math.ceil(sizes.columns / tile_n)


def _tile_shape(
    rates: Rates,
    sizes: _Sizes,
    depth: int,
    element_bytes: int,
    stored_bytes: int,
    products: int,
    promoted: bool,
    wanted: Wanted,
    reasons: list[str],
) -> _Shape:
    shapes = [
        shape
        for shape in _SHAPES
        if wanted.tile in (None, (shape.rows, shape.columns))
        and wanted.turns in (None, shape.turns)
        and (not shape.turns or sizes.depth > depth)
        and shape.holds(products, promoted=promoted)
    ]
    if not shapes:
        fitting = (each for each in _SHAPES if each.holds(products, promoted=promoted))
        known = ", ".join(f"{each.rows}x{each.columns}" for each in fitting if wanted.turns in (None, each.turns))
        in_turn = " in ping-pong" if wanted.turns else ""
        raise TilewrightError(f"no tile shape {wanted.tile} for groups{in_turn}", remedy=f"choose one of {known}")

    def cycles(shape: _Shape) -> float:
        tile_m, tile_n, consumers = shape.rows, shape.columns, shape.consumers
        multiply, fetch = slice_cycles(rates, (tile_m, tile_n * products, depth), element_bytes)
        store = min(tile_m, sizes.rows / min(sizes.groups, sizes.rows)) * tile_n * stored_bytes
        columns = tile_n * products
        excess = 64 * (64 + columns) / columns / _OPERAND_BYTES_PER_CYCLE - 1
        slice_ = max(multiply / _SUSTAINED * (1 + excess / 4), fetch)
        tile_cycles = math.ceil(sizes.depth / depth) * slice_ + store / _STORE_BYTES_PER_CYCLE
        tile_cycles += _TURN_CYCLES[shape.rows] if shape.turns else _TILE_START_CYCLES[consumers]
        waves = _tiles(sizes, tile_m, tile_n) / rates.multiprocessors
        return (math.ceil(waves) + waves) / 2 * tile_cycles

    best = min(shapes, key=cycles)
    mean = sizes.rows / sizes.groups
    reasons.append(
        f"tile {best.rows}x{best.columns}x{depth}{', ping-pong' if best.turns else ''}: {mean:.1f} rows a group on "
        f"the average, about {cycles(best):.0f} cycles by the model"
    )
    return best


@dataclass(frozen=True, slots=True)
class _Slices:
    """What the depth of slices depends on, but for the tile. depth: of slices of one span."""

    rates: Rates
    sizes: _Sizes
    depth: int
    element_bytes: int
    products: int
    target: Target
    wanted: Wanted

    def depth_with(self, shape: _Shape, reasons: list[str]) -> int:
        """Of slices of that tile."""
        sizes, columns = self.sizes, shape.columns * self.products
        held = ROWS_BYTES * shape.consumers + (BARRIER_BYTES if shape.turns else 0)
        held += spill_bytes(shape.consumers, self.target, self.wanted, [])
        stage_bytes = (shape.rows + columns) * self.depth * self.element_bytes + self.target.limit("mbarrier.bytes")
        weight_bytes = sizes.columns * sizes.depth * self.element_bytes * self.products
        loop = GroupLoop(
            (shape.rows, columns, self.depth),
            _tiles(sizes, shape.rows, shape.columns),
            sizes.depth,
            self.element_bytes,
            min(sizes.groups, sizes.rows) * weight_bytes,
            (self.target.limit("cta.shared_bytes_max") - held) // (2 * stage_bytes),
        )
        return slice_depth(self.rates, loop, self.target, reasons)


def _deep_slices(question: _Slices, shape: _Shape, reasons: list[str]) -> tuple[_Shape, int]:
    """The tile and the depth of its slices. Where memory binds, a taller tile that fewer groups need two of reads fewer
    weights twice: tiles of 128 x 256 took 2.5 % less time than those of 64 x 256 with 64 rows a group on an H200."""
    depth = question.depth_with(shape, reasons)
    if depth == question.depth or question.wanted.tile is not None or question.wanted.turns is not None:
        return shape, depth

    def readings(each: _Shape) -> tuple[float, int, int]:
        return _tiles(question.sizes, each.rows, question.sizes.columns), -each.columns, each.rows

    taller = [
        each
        for each in _SHAPES
        if each.holds(question.products, promoted=False)
        and readings(each)[0] < readings(shape)[0]
        and question.depth_with(each, []) == depth
    ]
    if not taller:
        return shape, depth
    best = min(taller, key=readings)
    reasons.append(f"tile {best.rows}x{best.columns} instead: fewer groups have rows for two, which read weights twice")
    return best, depth


def _stages(stage_bytes: int, rows_bytes: int, target: Target, wanted: Wanted, reasons: list[str]) -> int:
    limit = target.limit("cta.shared_bytes_max")
    stages = min(_MOST_STAGES, (limit - rows_bytes) // (stage_bytes + 2 * target.limit("mbarrier.bytes")))
    if wanted.stages is not None:
        if not _LEAST_STAGES <= wanted.stages <= stages:
            raise TilewrightError(
                f"{wanted.stages} stages of {stage_bytes} bytes do not make a pipeline",
                remedy=f"use {_LEAST_STAGES} to {stages} stages",
            )
        stages = wanted.stages
    reasons.append(
        f"{stages} stages of {stage_bytes} bytes and {rows_bytes} bytes for rows in {limit} bytes of shared memory"
    )
    return stages
