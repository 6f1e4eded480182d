"""Which part of the result one CTA computes at a time, how deep its slices are, and by how many consumer warpgroups.

A short list of shapes is ranked by the closed-form model of `synth.cost.model`, in both orientations of the product
where both can be stored; whole tiles by ping-pong, of any columns, are weighed against the best of it by
`synth.distribution.turns`. What is asked for may be any shape: rows in blocks of one wgmma for each consumer, columns
in any number that wgmma takes, as long as the accumulators leave a consumer enough registers.
Facts: wgmma's shape (PTX ISA, wgmma: Matrix shape) in targets.
Checked by: tests/synth/test_decide.py, tests/lower/test_tile_shapes.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright.base.error import TilewrightError
from tilewright.base.value import value
from tilewright.synth.cost.model import Rates, pipeline_cycles
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.operand.scaled_product import fits_registers
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_MOST_CONSUMERS = 3
_MOST_BLOCKS = 3
"""Blocks of wgmma's rows in one consumer."""
_MOST_ACCUMULATORS = {1: 144, 2: 144, 3: 96}
"""Registers of a thread's accumulators, by consumers: the epilogue and the loop need as many again as are left."""
_DEEP_STAGE_BYTES = 16384
"""A stage is deepened while it holds fewer: waits, releases and announcements cost as much for a small stage."""
_MOST_SPANS = 4
_SECOND_LINE = 1.2
"""What fetching a row of a box from two lines costs more than from one, and"""
_SECOND_SECTOR = 1.22
"""how many times as much all rows of a box cost where they begin inside a sector; fitted to the times of 133 kernels of
seven products with rows of B in memory on an H200, which `python -m bench large-tiles --rows-of-b` measures."""
_TRIED: tuple[tuple[int, int, int], ...] = (
    (128, 256, 2),
    (256, 128, 2),
    (128, 192, 2),
    (128, 128, 2),
    (128, 64, 2),
    (64, 256, 1),
    *((64, columns, 1) for columns in (8, 16, 32, 64, 128)),
    *((128, columns, 2) for columns in (8, 16, 32)),
)
"""(rows, columns, consumers) that are ranked unless a tile is asked for."""


@value
class TileShape:
    """rows, columns: of the accumulator; depth: elements of the contracted axis in a slot; consumers: warpgroups that
    share the rows; swapped: the accumulator holds the transposed product; split: CTAs that share the contracted axis;
    resident: CTAs, of this launch or of the next that begins early, that fit a multiprocessor together; teams: clusters
    that share the contracted axis too, and add up through memory; cluster: CTAs along rows and along columns of tiles
    that share what they load; steps: rows and columns from one tile to the next, each 0 for as many
    as it has (`synth.tile.steps`)."""

    rows: int
    columns: int
    depth: int
    consumers: int
    swapped: bool = False
    split: int = 1
    resident: int = 1
    teams: int = 1
    cluster: tuple[int, int] = (1, 1)
    steps: tuple[int, int] = (0, 0)

    @property
    def row_step(self) -> int:
        """Rows from one tile to the next."""
        return self.steps[0] or self.rows

    @property
    def column_step(self) -> int:
        """Columns from one tile to the next."""
        return self.steps[1] or self.columns

    @property
    def shares(self) -> int:
        """CTAs that have slices of a tile."""
        return self.split * self.teams

    @property
    def paired(self) -> bool:
        """Whether CTAs share what they load."""
        return self.cluster != (1, 1)


@value
class TileQuestion:
    """What a tile is chosen for.

    extents: rows, columns and contracted elements of the product as written; element_bytes: of an operand's
    element; stored_bytes: for each element of the result; orientations: whether the product may be transposed, the
    natural orientation first; loaded_steps: of the left and the right operand, elements by which more or less is
    loaded; products: with an operand in common, summed side by side: a tile's columns are those of each;
    scaled_depth: elements of a slot whose product is promoted by itself, 0 where none is; batch: how many such
    products, whose tiles follow one another; scaled: whether slots are scaled by arrays when they are promoted;
    turnable: whether the product may be transposed because its results leave in bulk then too
    (`synth.store.turned_store`); bulk: whether they do as it is.
    """

    extents: tuple[int, int, int]
    element_bytes: int
    stored_bytes: int
    orientations: tuple[bool, ...]
    loaded_steps: tuple[int, int] = (8, 8)
    products: int = 1
    scaled_depth: int = 0
    batch: int = 1
    scaled: bool = False
    turnable: bool = False
    bulk: bool = False

    def oriented(self, swapped: bool) -> tuple[int, int]:
        """Rows and columns of the product, or of its transpose."""
        rows, columns, _ = self.extents
        return (columns, rows) if swapped else (rows, columns)


def tile_family(target: Target, columns_choices: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """(rows, columns, consumers) of every tile of these columns whose accumulators fit a consumer's registers."""
    unit = target.limit("product.rows")
    for consumers in range(1, _MOST_CONSUMERS + 1):
        for blocks in range(1, _MOST_BLOCKS + 1):
            for columns in columns_choices:
                if blocks * columns // 2 <= _MOST_ACCUMULATORS[consumers]:
                    yield unit * blocks * consumers, columns, consumers


def choose_tile_shape(
    rates: Rates, question: TileQuestion, target: Target, wanted: Wanted, reasons: list[str]
) -> TileShape:
    """The shape that the model expects to be quickest, of those that `wanted` leaves.

    Raises TilewrightError for a wish that no shape grants.
    """
    orientations = question.orientations
    if wanted.swapped is not None:
        orientations = (wanted.swapped,)
    offered = _offered(target, wanted, question.products)
    if question.scaled_depth:
        offered = _with_two_accumulators(offered, question.products)
    candidates = [
        TileShape(
            rows,
            columns,
            question.scaled_depth or _depth(rows, columns * question.products, question.element_bytes, wanted),
            consumers,
            swapped,
            wanted.split or 1,
            _resident(wanted),
            1 if wanted.teams is None else wanted.teams,
            steps=wanted.steps or (0, 0),
        )
        for rows, columns, consumers in offered
        for swapped in orientations
        # Tiles of several products stand behind one another with no gap, so that one instruction reads them all.
        if question.products == 1 or columns % question.loaded_steps[0 if swapped else 1] == 0
    ]
    if not candidates:
        raise TilewrightError(
            f"no tile of these columns holds {question.products} products",
            remedy=f"use a multiple of {max(question.loaded_steps)} columns, or leave the tile to the compiler",
        )

    def cycles(shape: TileShape) -> float:
        rows, columns, depth = question.extents
        if shape.swapped:
            rows, columns = columns, rows
        natural = shape.swapped == question.orientations[0]
        if question.batch > 1:
            rows = question.batch * -(-rows // shape.rows) * shape.rows
        loaded = loaded_columns(rates, question, shape)
        tile = (shape.rows, shape.columns * question.products, shape.depth)
        return pipeline_cycles(
            rates,
            (rows, columns * question.products, depth),
            tile,
            question.element_bytes,
            -(-question.stored_bytes // question.products),
            scattered=not (natural or question.turnable),
            loaded_columns=loaded,
        )

    best = min(candidates, key=lambda shape: (cycles(shape), shape.consumers != _usual_consumers(shape)))
    rows, columns = (question.extents[1], question.extents[0]) if best.swapped else question.extents[:2]
    tiles = math.ceil(rows / best.rows) * math.ceil(columns / best.columns) * question.batch
    reasons.append(
        f"tile {best.rows}x{best.columns}x{best.depth}: {tiles} tiles on {rates.multiprocessors} multiprocessors, "
        f"about {cycles(best):.0f} cycles by the model"
    )
    return best


def held_columns(question: TileQuestion, shape: TileShape) -> int:
    """Columns of a tile's operand that a slot holds: those computed, in whole boxes."""
    step = question.loaded_steps[0 if shape.swapped else 1]
    return -(-shape.columns // step) * step * question.products


def loaded_columns(rates: Rates, question: TileQuestion, shape: TileShape) -> float:
    """Columns whose bytes are fetched for a tile, counted as the L2 cache delivers them.

    Boxes that run across the columns begin where tiles do, and each of their rows is as long as a cache line. Where a
    tile begins inside a line, each row is fetched from two; where inside a sector, that sector is fetched for two tiles
    besides.
    """
    held = held_columns(question, shape)
    if question.loaded_steps[0 if shape.swapped else 1] * question.element_bytes < rates.line_bytes:
        return held
    pitch = shape.columns * question.element_bytes
    inside_lines = 1 - math.gcd(pitch, rates.line_bytes) / rates.line_bytes
    inside_sectors = pitch % rates.sector_bytes != 0
    return held * (1 + _SECOND_LINE * inside_lines) * (_SECOND_SECTOR if inside_sectors else 1)


def _resident(wanted: Wanted) -> int:
    if wanted.resident not in (None, 1, 2):
        raise TilewrightError(f"{wanted.resident} CTAs of a multiprocessor", remedy="ask for 1 or 2")
    return wanted.resident or 1


def _usual_consumers(shape: TileShape) -> int:
    """Two warpgroups hide each other's epilogue and issue; a single block of rows has but one."""
    return 1 if shape.rows == 64 else 2


def _offered(target: Target, wanted: Wanted, products: int) -> list[tuple[int, int, int]]:
    unit = products * target.limit("product.columns_step")
    if wanted.tile is None:
        offered = [item for item in _TRIED if item[1] % unit == 0]
    else:
        columns = wanted.tile[1] * products
        least, most, step = (target.limit(f"product.columns_{name}") for name in ("min", "max", "step"))
        legal = least <= columns <= most and columns % step == 0
        offered = [item for item in tile_family(target, (columns,)) if item[0] == wanted.tile[0]] if legal else []
        if not offered:
            raise TilewrightError(
                f"no tile shape {wanted.tile}",
                remedy=f"use a multiple of {target.limit('product.rows')} rows and of {step} columns, such as 128x256, "
                "256x128 or 64x16, whose accumulators fit a consumer's registers",
            )
    if wanted.consumers is not None:
        offered = [item for item in offered if item[2] == wanted.consumers]
        if not offered:
            raise TilewrightError(
                f"{wanted.consumers} consumers cannot share the tile",
                remedy=f"use 1 to {_MOST_CONSUMERS}, each with whole blocks of {target.limit('product.rows')} rows",
            )
    return [(rows, columns // products, consumers) for rows, columns, consumers in offered]


def _with_two_accumulators(offered: list[tuple[int, int, int]], products: int) -> list[tuple[int, int, int]]:
    """Those whose consumers hold totals besides what the tensor core writes."""
    fitting = [
        (rows, columns, consumers)
        for rows, columns, consumers in offered
        if fits_registers(rows, columns * products, consumers)
    ]
    if not fitting:
        raise TilewrightError(
            "the tile leaves no registers for a total and a partial product",
            remedy="a product that is scaled in its loop, or precise of 8-bit operands, has both: use a smaller tile, "
            "such as 128x128, or accumulation='fast' where nothing is scaled",
        )
    return fitting


def _depth(rows: int, columns: int, element_bytes: int, wanted: Wanted) -> int:
    span = slice_depth(element_bytes)
    if wanted.depth is not None:
        if wanted.depth < span or wanted.depth % span or wanted.depth // span > _MOST_SPANS:
            raise TilewrightError(
                f"a stage of {wanted.depth} elements is no whole number of rows of {span}",
                remedy=f"use {span}, {2 * span} or {_MOST_SPANS * span}",
            )
        return wanted.depth
    depth = span
    while (rows + columns) * depth * element_bytes < _DEEP_STAGE_BYTES and depth < _MOST_SPANS * span:
        depth *= 2
    return depth
