"""Should two consumers share every tile, or take whole tiles in turn?

Sharing a tile, both end it together, and the tensor core waits while both store. In turns, one stores while the other
multiplies, so that a tile's epilogue costs no time but for the CTA's last. Each then needs the accumulators of a whole
tile: `columns` registers a thread where the tile has 128 rows, which leaves room for no more than 200 columns.

Not handled: scaled products, a shared contracted axis, groups of rows.
Checked by: tests/synth/distribution/test_turns.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.synth.cost.model import Rates, slice_cycles
from tilewright.synth.cost.tile_estimate import (
    BARRIER_BYTES,
    FITTED_BYTES,
    UNIT_ROWS,
    UNITS,
    expected_cycles,
    mean_cycles,
    tile_work,
)
from tilewright.synth.distribution.stream_k import expected_saving
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.store.shared_memory import SharedMemory
from tilewright.synth.tile.shape import TileQuestion, TileShape, tile_family
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_MOST_ACCUMULATORS = 200
"""Registers of a thread's accumulators where no other consumer helps: the epilogue and the loop need the others."""
_LEAST_COLUMNS = 96
_SHARED_ROWS: tuple[tuple[int, int], ...] = ((64, 1), (128, 2), (192, 3), (256, 2))
"""(rows, consumers) of shared tiles compared with tiles taken in turn, of all columns that fit; for elements to
which the estimate of so many is not fitted, of these columns alone:"""
_SHARED_COLUMNS = {128: (128, 176, 192, 256), 192: (192,), 256: (128,)}
_SHARED_LEAST_COLUMNS = 64
_MOST_BYTE_COLUMNS = 192
"""Of tiles of 8-bit operands taken in turn: wider ones spill where rows and columns have factors (measured)."""
_LEAST_STREAMED_GAIN = 0.005
"""For which another tile is taken because its last wave may be streamed."""
_LEAST_GAIN = 0.003
EVERY_STAGE = 1 << 16
"""Stages for which a second staging slot is given up: where another product hides the stores, one slot is enough."""


def require_turns(shape: TileShape, plain: bool, target: Target, products: int = 1) -> None:
    """Raises TilewrightError where consumers cannot take tiles of this shape in turn. plain: unscaled products."""
    accumulators = products * shape.rows * shape.columns // target.limit("warpgroup.threads")
    if shape.consumers != UNITS or accumulators > _MOST_ACCUMULATORS:
        raise TilewrightError(
            f"{shape.consumers} consumers cannot take tiles of {shape.rows}x{shape.columns} in ping-pong",
            remedy=f"use {UNITS} consumers and a tile of at most 128x{_MOST_ACCUMULATORS}",
        )
    if shape.split > 1 or not plain:
        raise TilewrightError(
            "ping-pong takes a plain product whose contracted axis is not split",
            remedy="leave out the split, or ping-pong",
        )


def with_turns(memory: SharedMemory, turns: bool, target: Target) -> SharedMemory:
    """Shared memory with the barriers of turns in it. Raises TilewrightError where they do not fit."""
    if not turns:
        return memory
    if memory.bytes + BARRIER_BYTES > target.limit("cta.shared_bytes_max"):
        raise TilewrightError(
            f"{memory.stages} stages leave no room for the ping-pong barriers", remedy="use fewer stages"
        )
    return replace(memory, bytes=memory.bytes + BARRIER_BYTES)


def unit_shape(shape: TileShape, turns: bool) -> TileShape:
    """A shape of which each consumer's share is what it computes of a tile here: all of it, in turns."""
    return replace(shape, rows=shape.rows * shape.consumers) if turns else shape


@dataclass(frozen=True, slots=True)
class LargeTile:
    """A tile shape, and whether whole tiles of it are taken in turn."""

    shape: TileShape
    turns: bool


Compared = dict[tuple[Rates, TileQuestion, TileShape, bool], tuple[LargeTile, float]]
"""The quickest tile and its cycles, by what was asked of one target; the last: whether it may be streamed."""


def choose_turns(
    rates: Rates,
    question: TileQuestion,
    shape: TileShape,
    target: Target,
    wanted: Wanted,
    reasons: list[str],
    compared: Compared,
) -> LargeTile:
    """Large tiles shared or in turn, whichever takes fewer cycles by schedules of the loop over tiles, in which only
    shared tiles pay for their epilogues; `shape`, the best of all shared tiles by `synth.cost.model`, where none is
    better.

    A wish for turns is for tiles of `shape`. compared: what was found before, where one program is decided several
    times.
    """
    if question.extents[2] <= shape.depth:
        # A turn is passed on by one thread; what says that all warps have taken it is the product of an earlier slot.
        if wanted.turns:
            raise TilewrightError("ping-pong needs tiles of at least two slots", remedy="leave out ping-pong")
        return LargeTile(shape, turns=False)
    given = LargeTile(shape, bool(wanted.turns))
    # Fitted to results that leave along their rows.
    plain = not question.scaled_depth and (question.products == 1 or question.element_bytes > 1)
    fixed = (wanted.tile, wanted.cluster, wanted.consumers, wanted.split, wanted.depth, wanted.stages, wanted.turns)
    if not plain or shape.shares > 1 or any(each is not None for each in fixed):
        return given
    few = len(question.orientations) > 1
    small = question.products * shape.rows * shape.columns < UNIT_ROWS * UNIT_ROWS
    if shape.resident > 1 or (few and small) or shape.swapped != question.orientations[0]:
        return given
    streams = wanted.stream_k is not False
    asked = (rates, question, shape, streams)
    if asked not in compared:
        found = _best(rates, question, compared_tiles(question, shape, target, further=False), target, streams=streams)
        if question.element_bytes != FITTED_BYTES:
            other = _best(rates, question, compared_tiles(question, shape, target), target, streams=streams)
            worth = 1 - target.limit("pipeline.least_further_gain_percent") / 100
            found = other if other[1] <= worth * found[1] else found
        compared[asked] = found
    best, expected = compared[asked]
    before = expected_cycles(rates, question, shape, target, turns=given.turns)
    if expected > (1 - _LEAST_GAIN) * before:
        return given
    how = "ping-pong" if best.turns else "shared"
    reasons.append(
        f"tile {best.shape.rows}x{best.shape.columns}, {how} by {best.shape.consumers} consumers: about "
        f"{expected:.0f} cycles, epilogues counted, against {before:.0f}"
    )
    return best


def _best(
    rates: Rates, question: TileQuestion, tiles: Iterable[LargeTile], target: Target, *, streams: bool
) -> tuple[LargeTile, float]:
    """The quickest of these tiles, and its cycles: whole, or where another one's last wave, streamed, makes that
    quicker by more than half a percent, that one. Of as good ones the widest, whose rows stay in registers for longest.
    """
    whole: tuple[float, int, LargeTile] | None = None
    best: tuple[float, int, LargeTile] | None = None
    for least, tile in sorted(_bounded(rates, question, tiles), key=lambda pair: pair[0]):
        if whole is not None and best is not None and least > max(whole[0], best[0]):
            break
        work = tile_work(rates, question, tile.shape, target, turns=tile.turns)
        cycles = mean_cycles(work, target)
        saved = expected_saving(rates, question, tile.shape, target, turns=tile.turns) if streams else 0.0
        with_help = cycles
        if saved:
            with_help = mean_cycles(work, target, saved)
        order = -tile.shape.columns
        whole = min(whole or (math.inf, 0, tile), (cycles, order, tile), key=lambda each: each[:2])
        best = min(best or (math.inf, 0, tile), (with_help, order, tile), key=lambda each: each[:2])
    assert whole is not None and best is not None
    return (best[2], best[0]) if best[0] < (1 - _LEAST_STREAMED_GAIN) * whole[0] else (whole[2], whole[0])


def _bounded(rates: Rates, question: TileQuestion, tiles: Iterable[LargeTile]) -> Iterator[tuple[float, LargeTile]]:
    """Each of these tiles, with cycles that it does not undercut: those of its products, spread evenly."""
    for tile in tiles:
        rows, columns, depth = question.extents
        if tile.shape.swapped:
            rows, columns = columns, rows
        count = math.ceil(rows / tile.shape.rows) * math.ceil(columns / tile.shape.columns) * question.batch
        extent = (tile.shape.rows, tile.shape.columns * question.products, tile.shape.depth)
        multiply, _ = slice_cycles(rates, extent, question.element_bytes)
        yield max(1.0, count / rates.multiprocessors) * math.ceil(depth / tile.shape.depth) * multiply, tile


def compared_tiles(
    question: TileQuestion, shape: TileShape, target: Target, *, further: bool = True
) -> Iterator[LargeTile]:
    """Ping-pong tiles and shared ones, in the orientations in which results leave in bulk. further: also those to which
    the estimate is not fitted, of 8-bit operands: most columns of shared ones, and results that leave turned."""
    natural, products, step = question.orientations[0], question.products, target.limit("product.columns_step")
    depth = slice_depth(question.element_bytes)
    widest = _MOST_ACCUMULATORS if question.element_bytes > 1 else _MOST_BYTE_COLUMNS
    fitted = question.element_bytes == FITTED_BYTES
    for swapped in (natural, not natural) if question.turnable and (fitted or further) else (natural,):
        # As in `synth.tile.shape`: the tiles of several products stand behind one another with no gap.
        unit = products * question.loaded_steps[0 if swapped else 1] if products > 1 else step
        for columns in range(_LEAST_COLUMNS, widest + 1, step):
            if columns % unit == 0:
                yield LargeTile(_of(shape, UNIT_ROWS, columns // products, UNITS, swapped, depth), turns=True)
        choices = tuple(range(_SHARED_LEAST_COLUMNS, target.limit("product.columns_max") + 1, step))
        for rows, columns, consumers in tile_family(target, choices):
            known = fitted or further or columns in _SHARED_COLUMNS.get(rows, ())
            if (rows, consumers) in _SHARED_ROWS and columns % unit == 0 and known:
                yield LargeTile(_of(shape, rows, columns // products, consumers, swapped, depth), turns=False)


def _of(shape: TileShape, rows: int, columns: int, consumers: int, swapped: bool, depth: int) -> TileShape:
    return replace(shape, rows=rows, columns=columns, consumers=consumers, swapped=swapped, depth=depth)
