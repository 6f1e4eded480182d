"""Which tile do products take whose rows stand in groups of sizes that only memory knows (mixtures of experts)?

Tiles begin where groups begin, so a group of r rows takes ceil(r / tile rows) rows of tiles, half a tile more than
r / tile rows on the average. What is known are extents: the mean group. The shape is chosen by a closed formula over
both, where few rows a group make narrow tiles worth it. Results leave by plain stores along rows, which can end at any
row; a bulk store writes whole boxes, into the rows of the next group. What else is decided of them, and refused, is
`synth.cascade.groups`.

Checked by: tests/synth/distribution/test_grouped.py, and by `contract` on the lowered kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.ir.decisions import ROWS_BYTES
from tilewright.synth.cost.model import Rates, rates_of, slice_cycles
from tilewright.synth.cost.tile_estimate import BARRIER_BYTES
from tilewright.synth.distribution.group_depth import GroupLoop, slice_depth
from tilewright.synth.distribution.tile_order import refuse_tile_order
from tilewright.synth.operand.operands import SWIZZLE_SPAN_BYTES
from tilewright.synth.operand.scaled_product import fits_registers
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class GroupShape:
    """Tile rows and columns, consumer warpgroups, and whether they take whole tiles in turn."""

    rows: int
    columns: int
    consumers: int
    turns: bool = False

    @property
    def sums(self) -> int:
        """Of one product, that a consumer holds."""
        return (self.rows if self.turns else self.rows // self.consumers) * self.columns

    def holds(self, products: int, *, promoted: bool) -> bool:
        """Whether one wgmma takes the columns of all products, and one consumer their accumulators: two of each, where
        slots are promoted, which consumers do that share a tile."""
        unit_rows = self.rows if self.turns else self.rows // self.consumers
        columns = self.columns * products
        twice = not promoted or (not self.turns and fits_registers(self.rows, columns, self.consumers))
        return twice and columns <= _MOST_COLUMNS and unit_rows * columns <= _MOST_ACCUMULATORS


_SHAPES = (
    GroupShape(128, 256, 2),
    GroupShape(256, 128, 2),
    GroupShape(128, 192, 2),
    GroupShape(128, 128, 2),
    GroupShape(64, 256, 1),
    GroupShape(64, 128, 1),
    GroupShape(64, 64, 1),
    GroupShape(64, 256, 2, turns=True),
    GroupShape(128, 128, 2, turns=True),
    GroupShape(128, 192, 2, turns=True),
)
_MOST_COLUMNS = 256
"""Of one wgmma (PTX ISA, wgmma: Matrix shape)."""
_MOST_ACCUMULATORS = 128 * 192
"""Of one consumer, for all products: a thread has the registers of 192."""
_OPERAND_BYTES_PER_CYCLE = 80
"""Of shared memory, what a wgmma of 256 columns reads; narrower ones read more, and lose a quarter of the excess."""
_LEAST_STAGES = 2
_MOST_STAGES = 8
_ROWS_SPREAD = 3
"""Times the mean that hardly a group's rows exceed where tokens are routed. With 64 rows a group on the average and
tiles of 128, weights given up first took 4 % more time."""


def narrower_group_tiles(sums: int) -> list[GroupShape]:
    """Tiles of which a consumer holds fewer sums of one product, those with most first."""
    return sorted((each for each in _SHAPES if each.sums < sums), key=lambda each: -each.sums)


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Rows in all groups, groups, columns, contracted elements."""

    rows: int
    groups: int
    columns: int
    depth: int


@dataclass(frozen=True, slots=True)
class GroupTile:
    """stages: of the ring of operands. read_once: whether no byte of the columns' operands is expected to be read a
    second time. ctas: that take the tiles; smem_bytes: of each, in all."""

    shape: TileShape
    turns: bool
    stages: int
    read_once: bool
    ctas: int
    smem_bytes: int


def choose_group_tile(
    rows: GroupRows, question: TileQuestion, target: Target, wanted: Wanted, reasons: list[str], *, along: bool
) -> GroupTile:
    """The tile of products of one operand whose rows stand in groups. along: whether the other operands are contiguous
    along the contracted axis. Raises TilewrightError for a wish that no tile grants."""
    refuse_tile_order(wanted)
    if wanted.ordered:
        raise TilewrightError("products in groups are not issued in order", remedy="leave out the order of issue")
    element_bytes, products = question.element_bytes, question.products
    rates, promoted = rates_of(target, element_bytes), bool(question.scaled_depth)
    depth = wanted.depth or SWIZZLE_SPAN_BYTES // element_bytes
    stored_bytes = question.stored_bytes
    shape = _tile_shape(rates, rows, depth, element_bytes, stored_bytes, products, promoted, target, wanted, reasons)
    if wanted.depth is None and wanted.stages is None and not promoted and along:
        shape, depth = _deep_slices(
            _Slices(rates, rows, depth, element_bytes, products, target, wanted), shape, reasons
        )
    once = _read_once(rows, shape.rows, element_bytes * products, target)
    if once:
        reasons.append("weights are read by one tile of rows each: the copies ask the L2 cache to evict them first")
    stage_bytes = (shape.rows + shape.columns * products) * depth * element_bytes
    kept_bytes = ROWS_BYTES * shape.consumers + (BARRIER_BYTES if shape.turns else 0)
    stages = _stages(stage_bytes, kept_bytes, target, wanted, reasons)
    tiles = math.ceil(_tiles(rows, shape.rows, shape.columns))
    most = tiles + rows.groups * math.ceil(rows.columns / shape.columns)
    return GroupTile(
        TileShape(shape.rows, shape.columns, depth, shape.consumers),
        shape.turns,
        stages,
        once,
        max(1, min(rates.multiprocessors, most)),
        (stage_bytes + 2 * target.limit("mbarrier.bytes")) * stages + kept_bytes,
    )


def _read_once(sizes: GroupRows, tile_m: int, weight_bytes: int, target: Target) -> bool:
    """Whether hardly a group has more rows than a tile, so that its weights are read once, and whether they are more
    than the L2 cache holds from one launch to the next. weight_bytes: of one column's number of all products."""
    in_all = sizes.groups * sizes.columns * sizes.depth * weight_bytes
    return _ROWS_SPREAD * sizes.rows <= tile_m * sizes.groups and in_all > target.limit("device.l2_bytes")


# ---------------------------------------------------------------- shape


def _tiles(sizes: GroupRows, tile_m: int, tile_n: int) -> float:
    """Tiles to be expected: a group's last one is half full on the average, and no group that has a row has none."""
    occupied = min(sizes.groups, sizes.rows)
    mean = sizes.rows / occupied
    return occupied * max(1.0, mean / tile_m + 0.5) * math.ceil(sizes.columns / tile_n)


def _tile_shape(
    rates: Rates,
    sizes: GroupRows,
    depth: int,
    element_bytes: int,
    stored_bytes: int,
    products: int,
    promoted: bool,
    target: Target,
    wanted: Wanted,
    reasons: list[str],
) -> GroupShape:
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

    sustained = target.limit("grouped.sustained_percent") / 100
    store_bytes = target.limit("grouped.store_bytes_per_cycle")

    def cycles(shape: GroupShape) -> float:
        tile_m, tile_n, consumers = shape.rows, shape.columns, shape.consumers
        multiply, fetch = slice_cycles(rates, (tile_m, tile_n * products, depth), element_bytes)
        store = min(tile_m, sizes.rows / min(sizes.groups, sizes.rows)) * tile_n * stored_bytes
        columns = tile_n * products
        excess = 64 * (64 + columns) / columns / _OPERAND_BYTES_PER_CYCLE - 1
        slice_ = max(multiply / sustained * (1 + excess / 4), fetch)
        tile_cycles = math.ceil(sizes.depth / depth) * slice_ + store / store_bytes
        kind = f"turn_cycles_of_{tile_m}_rows" if shape.turns else f"start_cycles_of_{consumers}_consumers"
        tile_cycles += target.limit(f"grouped.{kind}")
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
    sizes: GroupRows
    depth: int
    element_bytes: int
    products: int
    target: Target
    wanted: Wanted

    def depth_with(self, shape: GroupShape, reasons: list[str]) -> int:
        """Of slices of that tile."""
        sizes, columns = self.sizes, shape.columns * self.products
        held = ROWS_BYTES * shape.consumers + (BARRIER_BYTES if shape.turns else 0)
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


def _deep_slices(question: _Slices, shape: GroupShape, reasons: list[str]) -> tuple[GroupShape, int]:
    """The tile and the depth of its slices. Where memory binds, a taller tile that fewer groups need two of reads fewer
    weights twice: tiles of 128 x 256 took 2.5 % less time than those of 64 x 256 with 64 rows a group on an H200."""
    depth = question.depth_with(shape, reasons)
    if depth == question.depth or question.wanted.tile is not None or question.wanted.turns is not None:
        return shape, depth

    def readings(each: GroupShape) -> tuple[float, int, int]:
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
