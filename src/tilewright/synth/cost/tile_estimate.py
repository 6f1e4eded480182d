"""How many cycles does a product in large tiles take, shared by consumers or taken in turn?

A slice takes the longer of multiplying it and fetching it from the L2 cache; a tile is its slices and its epilogue, of
which what nothing hides follows from the schedule of the loop over tiles (`synth.cost.tile_loop`); whole waves of tiles
make the loop, and the longer of that and of what memory brings and takes (`synth.cost.memory_bound`) makes the product.
Longer is meant a little softly. Where a tile reaches past the operands, the copy engine fills its boxes with zeros,
which takes it longer than to bring as much; one such tile counts, since some multiprocessor has it. Constants are facts
of the target (`pipeline.*`), fitted to measured products.

A GPU that was idle runs at its highest clock; under load it comes to its power cap, and the multiprocessors' clock
falls, but not the L2 cache's, which then brings more in each of their cycles. Small tiles, which fetch more, lose at
the highest clock what they gain at the other. A kernel is compiled once for both, so both count alike.

Not handled: scaled products, rows in groups, clusters; of 8-bit operands the clock and the zeros, which the facts were
not fitted to. It ranks tiles; `synth.cost.time_model` promises times. Checked by:
tests/synth/distribution/test_turns.py, tests/synth/cost/test_tile_estimate.py, and against stored runs by
tests/benchmarks/test_tile_runs.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.synth.cost.memory_bound import meeting_cycles, with_meetings
from tilewright.synth.cost.model import Rates, slice_cycles
from tilewright.synth.cost.tile_loop import TileCosts, loop_cycles
from tilewright.synth.store.store_chunks import StagedRow, staged_row, turned_columns
from tilewright.synth.tile.shape import TileQuestion, TileShape, held_columns, loaded_columns
from tilewright.targets import Target

UNITS = 2
"""Consumers that take tiles in turn."""
UNIT_ROWS = 128
"""Of a tile that one consumer computes alone."""
BARRIER_BYTES = 16
"""Of the two barriers of turns."""
FITTED_BYTES = 2
"""Of operands' elements, for which most was measured."""
_SHARPNESS = 8
"""How sharply the longer of multiplying and fetching hides the other, in a slice: a parameter of this model."""
_WHOLE_SHARPNESS = 16
"""The same of the loop and of memory, in the whole product; and in slices of 8-bit operands, as those were fitted."""
_ENOUGH_STAGES = 4


@dataclass(frozen=True, slots=True)
class TileFacts:
    """What the estimate knows of a GPU. start_cycles: from a launch until its pipeline is full, and from its last store
    to its end; fetch_percent: of the time in which the L2 cache's documented rate brings a slice, at the highest clock;
    zeros_percent: of the time in which as much is fetched, what zeros take longer; store_bytes: of a tile that leave
    in a cycle; chunk_cycles: of each box of a unit, besides; meeting_percent: of the time that memory
    takes for lines and sectors of which two boxes write a part each, what is not hidden at the end; turn_cycles: from
    the last product of one consumer to the first of the other, where they take whole tiles in turn."""

    start_cycles: int
    fetch_percent: int
    zeros_percent: int
    store_bytes: int
    chunk_cycles: int
    meeting_percent: int
    turn_cycles: int


@lru_cache(maxsize=16)
def facts_of(target: Target, element_bytes: int) -> TileFacts:
    """The facts of a target, for operands of so many bytes an element."""
    kind = f"of_{8 * element_bytes}_bits"
    return TileFacts(
        target.limit("pipeline.start_cycles"),
        target.limit(f"pipeline.fetch_percent_{kind}"),
        target.limit("pipeline.zeros_percent_of_16_bits") if element_bytes == FITTED_BYTES else 0,
        target.limit(f"pipeline.store_bytes_per_cycle_{kind}"),
        target.limit(f"pipeline.chunk_cycles_{kind}"),
        target.limit("pipeline.meeting_percent"),
        target.limit(f"pipeline.turn_cycles_{kind}"),
    )


@dataclass(frozen=True, slots=True)
class TileWork:
    """What a tile shape asks of a GPU at whatever clock. multiply, fetch: cycles of a slice at the highest clock, fetch
    as the L2 cache's rate is documented; empty_share: of what a tile at both ends loads, the part past the ends;
    memory_cycles, meeting_cycles: of the device's clock, as in `synth.cost.memory_bound`."""

    facts: TileFacts
    element_bytes: int
    turns: bool
    waves: int
    slices: int
    multiply: float
    fetch: float
    empty_share: float
    epilogue_cycles: float
    accumulators: int
    consumers: int
    memory_cycles: float
    meeting_cycles: float


def expected_cycles(
    rates: Rates, question: TileQuestion, shape: TileShape, target: Target, *, turns: bool, saved: float = 0.0
) -> float:
    """Cycles of the product, in the mean of the highest clock and of the one under load; see `tile_cycles`."""
    return mean_cycles(tile_work(rates, question, shape, target, turns=turns), target, saved)


def mean_cycles(work: TileWork, target: Target, saved: float = 0.0) -> float:
    """`expected_cycles` of a shape whose work is known."""
    shares = (1.0,)
    if work.element_bytes == FITTED_BYTES:
        shares = (1.0, target.limit("device.clock_percent_under_load") / 100)
    found = [_cycles_at(work, target, share, saved) for share in shares]
    return sum(found) / len(found)


def tile_cycles(
    rates: Rates,
    question: TileQuestion,
    shape: TileShape,
    target: Target,
    *,
    turns: bool,
    saved: float = 0.0,
    facts: TileFacts | None = None,
    clock_share: float = 1.0,
) -> float:
    """Cycles of the product. saved: cycles of the loop that idle CTAs take over; facts: others than the target's;
    clock_share: of the device's highest clock, what the multiprocessors run at."""
    work = tile_work(rates, question, shape, target, turns=turns, facts=facts)
    return _cycles_at(work, target, clock_share, saved)


def tile_work(
    rates: Rates,
    question: TileQuestion,
    shape: TileShape,
    target: Target,
    *,
    turns: bool,
    facts: TileFacts | None = None,
) -> TileWork:
    """What a tile shape asks of a GPU. facts: others than the target's."""
    known = facts or facts_of(target, question.element_bytes)
    oriented = _oriented(question, shape)
    chunks = _chunk_bytes(question, shape, target, turns=turns)
    meetings = meeting_cycles(oriented, chunks, target)
    loaded = loaded_columns(rates, question, shape)
    multiplied = (shape.rows, shape.columns * question.products, shape.depth)
    multiply, fetch = slice_cycles(rates, multiplied, question.element_bytes, loaded)
    stored = shape.rows * shape.columns * question.stored_bytes
    return TileWork(
        known,
        question.element_bytes,
        turns,
        math.ceil(_tiles(oriented, shape) / rates.multiprocessors),
        math.ceil(question.extents[2] / shape.depth),
        multiply,
        fetch,
        _empty_share(oriented, shape, loaded),
        stored / known.store_bytes + known.chunk_cycles * _chunks(question, shape, turns=turns),
        multiplied[0] * multiplied[1] // target.limit("warpgroup.threads"),
        shape.consumers,
        with_meetings(oriented, meetings, target),
        meetings,
    )


def _cycles_at(work: TileWork, target: Target, clock_share: float, saved: float) -> float:
    known = work.facts
    loop = _loop_cycles(work, target, clock_share) - saved
    memory = clock_share * work.memory_cycles
    # Every wave's but the last one's hide behind the next one's products.
    exposed = clock_share * known.meeting_percent / 100 * work.meeting_cycles / work.waves
    longer = (loop**_WHOLE_SHARPNESS + memory**_WHOLE_SHARPNESS) ** (1 / _WHOLE_SHARPNESS)
    return known.start_cycles + longer + exposed


def _tiles(oriented: TileQuestion, shape: TileShape) -> int:
    rows, columns, _ = oriented.extents
    return math.ceil(rows / shape.rows) * math.ceil(columns / shape.columns) * oriented.batch


def _oriented(question: TileQuestion, shape: TileShape) -> TileQuestion:
    """The question with its extents as the accumulator has them."""
    rows, columns, depth = question.extents
    return replace(question, extents=(columns, rows, depth)) if shape.swapped else question


def _chunk_bytes(question: TileQuestion, shape: TileShape, target: Target, *, turns: bool) -> tuple[int, ...]:
    """Of a row of each of the chunks in which a tile leaves, none where it leaves in none."""
    widths = (question.stored_bytes,)
    if is_turned(question, shape):
        return (BLOCK_ROWS * question.stored_bytes,)
    row = staged_row(shape.columns, widths)
    if turns:
        loaded = shape.rows + held_columns(question, shape)
        row = turn_row(shape.columns, widths, loaded * shape.depth * question.element_bytes, target)
    return () if row is None else row.chunks(shape.columns * question.stored_bytes)


def _loop_cycles(work: TileWork, target: Target, clock_share: float) -> float:
    """Of the multiprocessor with most tiles, once its pipeline is full."""
    facts, multiply = work.facts, work.multiply
    fetch = work.fetch * (clock_share * facts.fetch_percent / 100)
    sharp = _SHARPNESS if work.element_bytes == FITTED_BYTES else _WHOLE_SHARPNESS
    each = (multiply**sharp + fetch**sharp) ** (1 / sharp)
    zeros = facts.zeros_percent / 100 * work.empty_share
    at_the_edge = (multiply**sharp + ((1 + zeros) * fetch) ** sharp) ** (1 / sharp)
    costs = TileCosts(
        round(work.slices * each), round(work.epilogue_cycles), work.accumulators, work.consumers, work.accumulators,
        work.waves, facts.turn_cycles,
    )  # fmt: skip
    loop = loop_cycles(costs, target, "ping-pong" if work.turns else "cooperative")
    return loop + work.slices * (at_the_edge - each)


def _empty_share(oriented: TileQuestion, shape: TileShape, loaded: float) -> float:
    """Of what is loaded for a tile, the part past the ends of the operands, for a tile at both ends."""
    rows, columns, _ = oriented.extents
    empty = -rows % shape.rows + -columns % shape.columns * loaded / shape.columns
    return empty / (shape.rows + loaded)


def _chunks(question: TileQuestion, shape: TileShape, *, turns: bool) -> int:
    """How many boxes a unit stores of a tile, or how many columns where they leave in none."""
    if is_turned(question, shape):
        rows = shape.rows if turns else shape.rows // shape.consumers
        return rows // BLOCK_ROWS * len(turned_columns(shape.columns))
    row = staged_row(shape.columns, (question.stored_bytes,))
    return len(row.chunks(shape.columns * question.stored_bytes)) if row is not None else shape.columns


def is_turned(question: TileQuestion, shape: TileShape) -> bool:
    """Whether the result's memory runs along the accumulator's rows, and leaves in boxes along them."""
    return question.turnable and shape.swapped != question.orientations[0]


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
        return (limit - UNITS * UNIT_ROWS * row.bytes) // stage_bytes

    rows = [row for row in choices if row is not None]
    long = [row for row in rows if row.bytes >= target.limit("device.sector_bytes") and stages(row) >= _ENOUGH_STAGES]
    return max(long or rows, key=lambda row: (stages(row), row.bytes), default=None)
