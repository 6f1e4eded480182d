"""Which tiles keep the memory busy where a product has few rows, and each element of the other operand is read once?

Such a product is bound by DRAM, and by how fast one multiprocessor can fetch where the few rows are fetched again by
every CTA. Candidates: the few rows as the accumulator's columns, in blocks of one wgmma's rows of the others; or as its
rows, with as many columns as deal the others out evenly; either whole, or split along the contracted axis between CTAs
of a cluster. A closed form ranks them: the longer of reading everything once, hindered by what all multiprocessors
fetch from L2, and of one multiprocessor's fetches; for a split its rendezvous. Elements that are no part of the
product, because a tile reaches past it, count twice: the copy engine fills them with zeros, which takes it longer than
to bring others. Boxes that cross lines of the cache count as for other tiles (`synth.tile.shape`).

Where the multiprocessors have room for the next launch's CTAs beside those of this one, it sets itself up meanwhile;
small rings of small tiles leave that room.

Source of the parameters: fitted by hand to the best of 3500 runs of 27 shapes on an H200, launches one after another in
a graph with inputs that rotate through more than the L2 cache holds (as `python -m bench skinny` measures).
Sums in two levels are taken as others, by tiles whose consumers hold two accumulators.
Of 16-bit operands `synth.tile.few_rows` asks again, with tiles that several teams share, and for both layouts of the
other operand; this form was fitted to one that is contiguous along the contracted axis.
Not handled: several products, ones scaled in their loop, batches. Checked by: tests/synth/tile/test_thin_product.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.synth.cost.model import SCATTERED_BYTES_PER_CYCLE, Rates, rates_of
from tilewright.synth.distribution.split import meeting_bytes
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.operand.scaled_product import fits_registers
from tilewright.synth.tile.shape import TileQuestion, TileShape, loaded_columns
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

FEW_ROWS = 128
"""Rows at most, for a product to be thought thin."""
_UNIT_COLUMNS = 8
_MOST_COLUMNS = 256
_SPLITS = (1, 2)
_FURTHER_SPLITS = (4, 8)
"""Between so many only where that leaves half of the multiprocessors idle even so: then nothing else is in the way."""
_DEEP_STAGE_BYTES = 16384
"""A stage is deepened while it holds fewer, as for other tiles."""
_READ_SHARE = 1.05
"""DRAM reads over the rate of a copy, which reads and writes."""
_START_CYCLES = 3800
"""From the end of the launch before to the first product, and from the last one to the end: about 1.9 us."""
_MEETING_CYCLES = 2600
_MEETING_BYTES_PER_CYCLE = 11
"""A rendezvous, and how fast accumulators of 4 bytes an element pass through it."""
_TURNED_BYTES_PER_CYCLE = 32
"""How fast a tile leaves in boxes along its rows in memory."""
_CONTENTION = 1.92
"""Reading and fetching hinder one another in the L2 cache: together they take as long as this norm of both."""
_FETCH_SHARE = 0.78
"""Of the L2 cache's rate for one multiprocessor, what a ring of copies sustains."""
_IDLE_COST = 0.5
"""Of the share of multiprocessors that are left idle, where the next launch finds no room beside this one."""
_BUSY = 0.75
"""A shared tile leaves room for the next launch only where CTAs are no more than this part of the multiprocessors. 72
CTAs took a third less time so, 128 5 % more (`python -m bench model --shape 4,2304,16384`, and without a shape)."""
_OVERLAP = 8
"""How well one multiprocessor's fetches pass while the memory reads: nearly as their maximum."""
_FURTHER_CONSUMER = 1.012
"""What a second consumer costs, where neither has enough to multiply."""
_RESIDENT_STAGES = 5
"""Stages with which a ring in half of the shared memory still covers the latency of memory."""
_RESIDENT_ACCUMULATORS = 16
"""Registers of accumulators at most, where two CTAs share a multiprocessor's registers."""


@dataclass(frozen=True, slots=True)
class ThinRates:
    """multiprocessors; bytes a cycle: `read` from DRAM by all of them, `fetch` by one of them from L2; lines: by which
    boxes that cross lines and sectors are counted."""

    multiprocessors: int
    read: float
    fetch: float
    lines: Rates


def thin_rates(target: Target) -> ThinRates:
    read = target.limit("device.dram_bytes_per_second") / target.limit("device.clock_hertz")
    fetch = target.limit("device.l2_bytes_per_cycle_per_multiprocessor")
    return ThinRates(target.limit("device.multiprocessors"), read * _READ_SHARE, fetch, rates_of(target))


def is_thin(question: TileQuestion, wanted: Wanted) -> bool:
    """Whether a product is one for this model: few rows in an orientation that may be chosen, and nothing fixed from
    outside that the model does not know."""
    fixed = (
        wanted.tile, wanted.cluster, wanted.consumers, wanted.split, wanted.depth, wanted.swapped, wanted.resident,
        wanted.stages, wanted.turns,
    )  # fmt: skip
    plain = question.products == 1 and not question.scaled and question.batch == 1
    return plain and len(question.orientations) > 1 and all(each is None for each in fixed)


def thin_shape(question: TileQuestion, target: Target, reasons: list[str]) -> TileShape:
    """The shape that the closed form prefers; of equals, the first, in the natural orientation."""
    rates = thin_rates(target)
    candidates = list(_compared(question, rates, target))
    best = min(candidates, key=lambda shape: thin_cycles(rates, question, shape, target))
    units = _tiles(question, best) * best.split
    if units > rates.multiprocessors // 2:
        best = _with_room(question, best, target) or best
    reasons.append(
        f"tile {best.rows}x{best.columns}x{best.depth}: a small-M product in {units} parts on {rates.multiprocessors} "
        f"multiprocessors, about {thin_cycles(rates, question, best, target):.0f} cycles by the model of memory's work"
    )
    if best.split > 1:
        reasons.append(f"{best.split} CTAs share a tile's contracted axis: so each fetches less of the small operand")
    return best


def estimated(question: TileQuestion, target: Target) -> Iterator[tuple[TileShape, float]]:
    """All tiles that are compared, with their estimated cycles."""
    rates = thin_rates(target)
    for shape in _compared(question, rates, target):
        yield shape, thin_cycles(rates, question, shape, target)


def _compared(question: TileQuestion, rates: ThinRates, target: Target) -> Iterator[TileShape]:
    for swapped in question.orientations:
        for shape in _candidates(question, rates, swapped, target):
            fits = not question.scaled_depth or fits_registers(shape.rows, shape.columns, shape.consumers)
            if fits and (shape.split in _SPLITS or 2 * _tiles(question, shape) * shape.split <= rates.multiprocessors):
                yield shape


def _tiles(question: TileQuestion, shape: TileShape) -> int:
    rows, columns = question.oriented(shape.swapped)
    return math.ceil(rows / shape.rows) * math.ceil(columns / shape.columns)


def _candidates(question: TileQuestion, rates: ThinRates, swapped: bool, target: Target) -> Iterator[TileShape]:
    rows, columns = question.oriented(swapped)
    unit_rows = target.limit("product.rows")
    for split in (*_SPLITS, *_FURTHER_SPLITS):
        step = _UNIT_COLUMNS * split
        if columns <= FEW_ROWS:
            width = _rounded(columns, step)
            yield from (_shape(question, unit_rows * blocks, width, swapped, split) for blocks in (1, 2))
        if rows <= FEW_ROWS:
            height = _rounded(rows, unit_rows)
            for waves in (1, 2):
                width = _rounded(math.ceil(columns / (waves * rates.multiprocessors // split)), step)
                if width <= _MOST_COLUMNS:
                    yield _shape(question, height, width, swapped, split)
            # Where boxes run across the columns, tiles that begin where boxes of other tiles end.
            box = question.loaded_steps[0 if swapped else 1]
            whole = range(_rounded(box, math.lcm(box, step)), _MOST_COLUMNS + 1, math.lcm(box, step)) if box > 8 else ()
            yield from (_shape(question, height, width, swapped, split) for width in whole)


def _rounded(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _shape(question: TileQuestion, rows: int, columns: int, swapped: bool, split: int) -> TileShape:
    span = slice_depth(question.element_bytes)
    deep = (rows + columns) * span * question.element_bytes < _DEEP_STAGE_BYTES
    return TileShape(rows, columns, 2 * span if deep else span, -(-rows // 64), swapped, split)


def thin_cycles(rates: ThinRates, question: TileQuestion, shape: TileShape, target: Target) -> float:
    """Estimated cycles of a launch."""
    rows, columns = question.oriented(shape.swapped)
    depth, element_bytes = question.extents[2], question.element_bytes
    loaded = shape.rows + loaded_columns(rates.lines, question, shape)
    empty = max(0, shape.rows - rows) + max(0, shape.columns - columns)
    fetched = (loaded + empty) * _rounded(-(-depth // shape.split), shape.depth) * element_bytes
    # CTAs take further tiles as they are done, so what counts is the average, of one wave at the least; CTAs that share
    # tiles do so together, and those of a last wave have nobody's work to help with.
    waves = _tiles(question, shape) * shape.split / rates.multiprocessors
    passes = max(1.0, waves) if shape.split == 1 else math.ceil(waves)
    fetch = passes * fetched / (rates.fetch * _FETCH_SHARE)
    all_fetch = waves * fetched / rates.fetch
    read = ((rows + columns) * depth * element_bytes + rows * columns * question.stored_bytes) / rates.read
    epilogue = 0.0
    if shape.split > 1:
        epilogue = _MEETING_CYCLES + 4 * shape.rows * shape.columns / _MEETING_BYTES_PER_CYCLE
    if shape.swapped != question.orientations[0]:
        stored = min(shape.rows, rows) * min(shape.columns, columns) * question.stored_bytes / shape.split
        epilogue += stored / (_TURNED_BYTES_PER_CYCLE if question.turnable else SCATTERED_BYTES_PER_CYCLE)
    memory = (read**_CONTENTION + all_fetch**_CONTENTION) ** (1 / _CONTENTION)
    if 0.5 < waves < 1 and _with_room(question, shape, target) is None:
        memory *= 1 + _IDLE_COST * (1 - waves)
    warpgroups = _FURTHER_CONSUMER ** (shape.consumers - 1)
    longer = (fetch**_OVERLAP + memory**_OVERLAP) ** (1 / _OVERLAP)
    return _START_CYCLES + warpgroups * longer + math.ceil(waves) * epilogue


def _with_room(question: TileQuestion, shape: TileShape, target: Target) -> TileShape | None:
    """The shape with two CTAs on a multiprocessor, in thinner slices if need be; None where they do not fit. A shared
    tile has room only where many multiprocessors would idle else, and takes thinner slices in any case: of those its
    ring has more (measured)."""
    thinner = replace(shape, depth=slice_depth(question.element_bytes))
    if shape.split > 1 and _tiles(question, shape) * shape.split > _BUSY * target.limit("device.multiprocessors"):
        return None
    tried = (shape, thinner) if shape.split == 1 else (thinner,)
    roomy = (each for each in tried if _leaves_room(question, each, target))
    return next((replace(each, resident=2) for each in roomy), None)


def _leaves_room(question: TileQuestion, shape: TileShape, target: Target) -> bool:
    """Whether two CTAs of such a tile fit a multiprocessor with rings long enough."""
    half = target.limit("multiprocessor.shared_bytes") // 2 - target.limit("cta.shared_reserved_bytes")
    half -= meeting_bytes(shape, target)
    stage = (shape.rows + shape.columns) * shape.depth * question.element_bytes
    accumulators = shape.rows * shape.columns // (128 * shape.consumers)
    all_columns = question.oriented(shape.swapped)[1] <= shape.columns
    return all_columns and half // stage >= _RESIDENT_STAGES and accumulators <= _RESIDENT_ACCUMULATORS
