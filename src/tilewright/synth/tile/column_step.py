"""How far along the columns is it from one tile to the next, so that the last one hardly goes past the operand's end?

Rows of a box that lie past an array's end take a TMA unit longer than rows that it fetches, and the tile that has most
of them keeps all others waiting: of 128x72 tiles of 1536 by 8192 elements, 722 columns take 49.0 us, 792 take 36.8 us,
and 720, with one tile of columns fewer, 35.4 us (H200, bf16). So columns are dealt out evenly: with as many tiles, the
step is the least with which they reach the end. A tile's box is a fragment's columns wide, so neighbours overlap in up
to seven columns of what they load and multiply; each stores those up to the next one's first, by boxes whose last one
is cut (`StoreDecision.cut`). Of 734 columns in eleven tiles of 72 each stores 67, and the last box passes the end by 8
columns instead of 58.

Only boxes that run along the accumulator's rows can be cut so: their lines are columns, and an engine's box may have
any number of them. Of those along the columns, lines are rows, whose bytes are multiples of 16.

Not handled, and left at a tile's columns: tiles whose columns several CTAs store (`split`), batches, several products,
scales, groups of rows, columns whose extent only a launch knows, for which no step is the least for all.
Checked by: tests/synth/tile/test_column_step.py, tests/lower/test_column_step.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.ir.decisions import StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.synth.tile.shape import TileQuestion, TileShape

FRAGMENT_COLUMNS = 8
"""Columns by which tiles differ (PTX ISA, wgmma: Matrix shape): fewer than these overlap."""


def even_step(columns: int, extent: int) -> int:
    """The least step with which as many tiles of so many columns reach the end, and neighbours overlap in less than a
    fragment; 0 for that of all columns."""
    tiles = math.ceil(extent / columns)
    step = max(math.ceil(extent / tiles), columns - FRAGMENT_COLUMNS + 1)
    return step if tiles > 1 and step < columns else 0


def with_step(question: TileQuestion, shape: TileShape) -> TileShape:
    """A tile with the step that deals the columns out evenly, where there can be one."""
    if not question.turnable or shape.swapped == question.orientations[0] or not may_step(question, shape):
        return shape
    rows, columns, _ = question.extents
    return replace(shape, step=even_step(shape.columns, rows if shape.swapped else columns))


def may_step(question: TileQuestion, shape: TileShape) -> bool:
    """Whether tiles of such a product, taken so, may overlap in what they load."""
    plain = question.products == 1 and question.batch == 1 and not question.scaled
    return plain and shape.split == 1


def steps_of_stores(
    program: tile.ProgramOp, columns: str, shape: TileShape, stores: tuple[StoreDecision, ...], *, asked: bool
) -> tuple[TileShape, tuple[StoreDecision, ...]]:
    """The tile and its stores with last boxes that end at the step; as they would be without one where boxes cannot
    end there. columns: axis of the accumulator's columns.

    Raises TilewrightError where it is asked for, and cannot be.
    """
    if not shape.step:
        return shape, stores
    bulk = all(each.path == "tma" and each.turned for each in stores)
    overlap = shape.columns - shape.step
    if not bulk or not 0 < overlap < FRAGMENT_COLUMNS or columns in program.run_time or shape.split > 1:
        if asked:
            raise TilewrightError(
                f"tiles of {shape.columns} columns cannot be {shape.step} apart",
                remedy=f"ask for {shape.columns - FRAGMENT_COLUMNS + 1} to {shape.columns - 1} of a transposed product "
                "whose results leave in bulk, or leave the step to the compiler",
            )
        return replace(shape, step=0), stores
    return shape, tuple(_cut(each, shape.columns, overlap) for each in stores)


def _cut(store: StoreDecision, columns: int, overlap: int) -> StoreDecision:
    last = store.chunks(columns)[-1]
    return replace(store, cut=(replace(store.map, box=(store.map.box[0], last - overlap)),))
