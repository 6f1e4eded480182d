"""Should two consumers share every tile, or take whole tiles in turn?

Sharing a tile, both end it together, and the tensor core waits while both store. In turns, one stores while the other
multiplies, so that a tile's epilogue costs no time but for the CTA's last. Each then needs the accumulators of a whole
tile: `columns` registers a thread where the tile has 128 rows, which leaves room for no more than 200 columns.

Not handled: scaled products, a shared contracted axis, groups of rows.
Checked by: tests/synth/test_turns.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.synth.memory_bound import memory_cycles
from tilewright.synth.model import Rates, slice_cycles
from tilewright.synth.shared_memory import SharedMemory
from tilewright.synth.store_chunks import StagedRow, staged_row
from tilewright.synth.stream_k import expected_saving
from tilewright.synth.tile_loop import TileCosts, loop_cycles
from tilewright.synth.tile_shape import TileQuestion, TileShape, held_columns, loaded_columns
from tilewright.synth.wanted import Wanted
from tilewright.targets import Target

UNITS = 2
_MOST_ACCUMULATORS = 200
"""Registers of a thread's accumulators where no other consumer helps: the epilogue and the loop need the others."""
_ROWS = 128
_LEAST_COLUMNS = 96
_SHARED: tuple[tuple[int, int, int], ...] = (
    (128, 256, 2),
    (256, 128, 2),
    (128, 192, 2),
    (192, 192, 3),
    (128, 176, 2),
    (128, 128, 2),
)
"""(rows, columns, consumers) of shared tiles that are compared with tiles taken in turn."""
_SHARPNESS = 16
"""How sharply the longer of multiplying and fetching hides the other: a parameter of this model. With the target's
facts `pipeline.*`, fitted to 270 runs of 19 shapes on an H200 (`python -m bench large-tiles`), it explains their times
but for 0.7 % in the median."""
_MOST_BYTE_COLUMNS = 192
"""Of tiles of 8-bit operands taken in turn: wider ones spill where rows and columns have factors (measured)."""
_LEAST_STREAMED_GAIN = 0.005
"""For which another tile is taken because its last wave may be streamed."""
_LEAST_GAIN = 0.003
_FITTED_BYTES = 2
_LEAST_FETCH = 0.7
"""Of the time in which a slice comes to one multiprocessor by device.l2_bytes_per_cycle_per_multiprocessor, where few
others fetch; by the runs that pipeline.single_wave_fetch_bytes_per_cycle is from."""
_ENOUGH_STAGES = 4
EVERY_STAGE = 1 << 16
"""Stages for which a second staging slot is given up: where another product hides the stores, one slot is enough."""
BARRIER_BYTES = 16
"""Of the two barriers of turns."""


def require_turns(shape: TileShape, cluster: tuple[int, int], plain: bool, target: Target, products: int = 1) -> None:
    """Raises TilewrightError where consumers cannot take tiles of this shape in turn. plain: unscaled products."""
    accumulators = products * shape.rows * shape.columns // target.limit("warpgroup.threads")
    if shape.consumers != UNITS or accumulators > _MOST_ACCUMULATORS:
        raise TilewrightError(
            f"{shape.consumers} consumers cannot take tiles of {shape.rows}x{shape.columns} in turn",
            remedy=f"use {UNITS} consumers and a tile of at most 128x{_MOST_ACCUMULATORS}",
        )
    if shape.split > 1 or not plain:
        raise TilewrightError(
            "consumers take tiles in turn only of a plain product whose contracted axis is not shared",
            remedy="leave out the split, or the turns",
        )


def turn_row(columns: int, element_bytes: Sequence[int], slot_bytes: int, target: Target) -> StagedRow | None:
    """The row of staged chunks that leaves room for most stages, and of those the longest: how many stores an epilogue
    takes matters little where another product hides them. But rows of half a sector are taken only where none else
    leaves enough stages.

    slot_bytes: of one stage.
    """
    choices = (staged_row(columns, element_bytes, most_bytes) for most_bytes in (256, 128, 64, 32))
    limit = target.limit("cta.shared_bytes_max") - BARRIER_BYTES
    stage_bytes = slot_bytes + 2 * target.limit("mbarrier.bytes")

    def stages(row: StagedRow) -> int:
        return (limit - UNITS * _ROWS * row.bytes) // stage_bytes

    rows = [row for row in choices if row is not None]
    long = [row for row in rows if row.bytes >= target.limit("device.sector_bytes") and stages(row) >= _ENOUGH_STAGES]
    return max(long or rows, key=lambda row: (stages(row), row.bytes), default=None)


def with_turns(memory: SharedMemory, turns: bool, target: Target) -> SharedMemory:
    """Shared memory with the barriers of turns in it. Raises TilewrightError where they do not fit."""
    if not turns:
        return memory
    if memory.bytes + BARRIER_BYTES > target.limit("cta.shared_bytes_max"):
        raise TilewrightError(
            f"{memory.stages} stages leave no room for the barriers of turns", remedy="use fewer stages"
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


def choose_turns(
    rates: Rates, question: TileQuestion, shape: TileShape, target: Target, wanted: Wanted, reasons: list[str]
) -> LargeTile:
    """Large tiles shared or in turn, whichever takes fewer cycles by schedules of the loop over tiles, in which only
    shared tiles pay for their epilogues; `shape`, the best of all shared tiles by `synth.model`, where none is better.

    A wish for turns is for tiles of `shape`.
    """
    if question.extents[2] <= shape.depth:
        # A turn is passed on by one thread; what says that all warps have taken it is the product of an earlier slot.
        if wanted.turns:
            raise TilewrightError("tiles of one slot are not taken in turn", remedy="leave out the turns")
        return LargeTile(shape, turns=False)
    given = LargeTile(shape, bool(wanted.turns))
    # Fitted to results that leave along their rows.
    plain = not question.scaled_depth and (question.products == 1 or question.element_bytes > 1)
    fixed = (wanted.tile, wanted.cluster, wanted.consumers, wanted.split, wanted.depth, wanted.stages, wanted.turns)
    if not plain or shape.split > 1 or any(each is not None for each in fixed):
        return given
    products = question.products
    if (
        shape.resident > 1
        or products * shape.rows * shape.columns < _ROWS * _ROWS
        or shape.swapped != question.orientations[0]
    ):
        return given
    widest = _MOST_ACCUMULATORS if question.element_bytes > 1 else _MOST_BYTE_COLUMNS
    in_turn = [
        LargeTile(replace(shape, rows=_ROWS, columns=columns // products, consumers=UNITS), True)
        for columns in range(_LEAST_COLUMNS, widest + 1, target.limit("wgmma.n_step"))
    ]
    shared = [
        LargeTile(replace(shape, rows=rows, columns=columns // products, consumers=consumers), False)
        for rows, columns, consumers in _SHARED
    ]
    if products > 1:
        # As in `synth.tile_shape`: the tiles of several products stand behind one another with no gap.
        step = question.loaded_steps[0 if shape.swapped else 1]
        legal = {step * count for count in range(1, _MOST_ACCUMULATORS)}
        in_turn, shared = ([tile for tile in tiles if tile.shape.columns in legal] for tiles in (in_turn, shared))

    def cycles(tile: LargeTile) -> float:
        return _cycles(rates, question, tile.shape, target, turns=tile.turns)

    def streamed_cycles(tile: LargeTile) -> float:
        return cycles(tile) - expected_saving(rates, question, tile.shape, turns=tile.turns)

    # Of as good ones the widest, whose rows stay in registers for longest.
    best = min((*in_turn, *shared), key=lambda tile: (cycles(tile), -tile.shape.columns))
    expected = cycles(best)
    if wanted.stream_k is not False:
        other = min((*in_turn, *shared), key=lambda tile: (streamed_cycles(tile), -tile.shape.columns))
        if streamed_cycles(other) < (1 - _LEAST_STREAMED_GAIN) * min(cycles(best), cycles(given)):
            best = other
            expected = streamed_cycles(best)
    if expected > (1 - _LEAST_GAIN) * cycles(given):
        return given
    how = "in turn" if best.turns else "shared"
    reasons.append(
        f"tile {best.shape.rows}x{best.shape.columns}, {how} by {best.shape.consumers} consumers: about "
        f"{expected:.0f} cycles, epilogues counted, against {cycles(given):.0f}"
    )
    return best


def _cycles(rates: Rates, question: TileQuestion, shape: TileShape, target: Target, *, turns: bool) -> float:
    loop = _loop_cycles(rates, question, shape, target, turns=turns)
    memory = memory_cycles(question, _chunk_bytes(question, shape, target, turns=turns), target)
    return target.limit("pipeline.start_cycles") + (loop**_SHARPNESS + memory**_SHARPNESS) ** (1 / _SHARPNESS)


def _chunk_bytes(question: TileQuestion, shape: TileShape, target: Target, *, turns: bool) -> tuple[int, ...]:
    """Of a row of each of the chunks in which a tile leaves, none where it leaves in none."""
    widths = (question.stored_bytes,)
    row = staged_row(shape.columns, widths)
    if turns:
        loaded = shape.rows + held_columns(question, shape)
        row = turn_row(shape.columns, widths, loaded * shape.depth * question.element_bytes, target)
    return () if row is None else row.chunks(shape.columns * question.stored_bytes)


def _loop_cycles(rates: Rates, question: TileQuestion, shape: TileShape, target: Target, *, turns: bool) -> float:
    """Of the multiprocessor with most tiles, once its pipeline is full."""
    rows, columns, depth = question.extents
    if shape.swapped:
        rows, columns = columns, rows
    tiles = math.ceil(rows / shape.rows) * math.ceil(columns / shape.columns) * question.batch
    waves = math.ceil(tiles / rates.multiprocessors)
    loaded = loaded_columns(rates, question, shape)
    multiplied = (shape.rows, shape.columns * question.products, shape.depth)
    multiply, fetch = slice_cycles(rates, multiplied, question.element_bytes, loaded)
    if waves == 1 and question.element_bytes == _FITTED_BYTES:
        # So short a kernel runs at full clock, at which the L2 cache keeps fewer multiprocessors busy.
        together = tiles * rates.l2_bytes_per_cycle / target.limit("pipeline.single_wave_fetch_bytes_per_cycle")
        fetch *= max(together, _LEAST_FETCH)
    else:
        fetch *= target.limit(f"pipeline.fetch_percent_of_{8 * question.element_bytes}_bits") / 100
    each = (multiply**_SHARPNESS + fetch**_SHARPNESS) ** (1 / _SHARPNESS)
    tile = math.ceil(depth / shape.depth) * each
    row = staged_row(shape.columns, (question.stored_bytes,))
    width_bytes = shape.columns * question.stored_bytes
    chunks = len(row.chunks(width_bytes)) if row is not None else shape.columns
    stored = shape.rows * shape.columns * question.stored_bytes
    epilogue = stored / target.limit("pipeline.store_bytes_per_cycle") + target.limit("pipeline.chunk_cycles") * chunks
    accumulators = multiplied[0] * multiplied[1] // target.limit("warpgroup.threads")
    costs = TileCosts(round(tile), round(epilogue), accumulators, shape.consumers, accumulators, waves)
    return loop_cycles(costs, target, "ping-pong" if turns else "cooperative")
