"""Which tile, in which orientation, shared by how many, and with room for another CTA, for few to middling rows?

Such a product reads one large operand once, and the other again for each tile: what counts is that all of device memory
is asked for all the time. A closed form says how long that takes. A slice of a tile takes a norm of multiplying it, of
fetching it from the L2 cache and of waiting for it where the ring is short; whole waves of tiles make the loop. Memory
takes a norm of what it reads once (a little more where several tiles along the few rows ask for the large operand, and
where the pieces of its rows are short), and of what all multiprocessors fetch from the L2 cache; the product takes a
norm of both. While some multiprocessors have no tile, memory has less to do, unless the next launch's CTAs find room
beside this one's and ask for theirs meanwhile: in the multiprocessors left over, or in all of them where two CTAs fit;
the last of several waves leaves it idle even so.
Meeting in a cluster, handing sums over between clusters (`ir.ac.team`) and storing come at the end, where little hides
them.

What is compared is the choice made so far, by this form too; another is taken only for a saving larger than its error.
Of more rows (`_MORE`) only tiles are compared whose sums several CTAs share, so that few large ones keep all
multiprocessors at work: which tile a CTA takes alone, other models say better. Not so of a product of one wave of
tiles, one operand of which is much the larger (`_is_middling`): there loads that CTAs share still spare memory.
Parameters (`RowParameters`) are target facts, fitted to runs of 16-bit operands in both layouts of the large one; of 8
bits bytes and operations count the same way.

What several tiles along the few rows read of the large operand comes from memory more than once, although they read it
at the same time; CTAs of a cluster that load it together spare that, and wait for one another at each slice.

Tiles of rows that are no multiple of theirs may overlap in what they load, so that less of it lies past the end
(`synth.tile.steps`): they are counted with what is left of that.

Sums in two levels take registers for two accumulators, and one addition for each number of a slot beside its product
(`synth.tile.scaled_tile` has what that takes).

Not handled, and left as they were chosen: several products, batches, scaled products, groups of rows.
Checked by: tests/synth/tile/test_few_rows.py; against stored runs by tests/benchmarks/test_few_rows_runs.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache

from tilewright.synth.cost.model import SCATTERED_BYTES_PER_CYCLE, Rates, rates_of
from tilewright.synth.distribution.cluster_parts import in_equal_parts
from tilewright.synth.distribution.split import clusters_at_once, meeting_bytes
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.operand.scaled_product import fits_registers
from tilewright.synth.tile.long_sum import nothing_is_fixed, p_norm
from tilewright.synth.tile.scaled_tile import promotion_cycles
from tilewright.synth.tile.shape import TileQuestion, TileShape, loaded_columns, tile_family
from tilewright.synth.tile.steps import parts_of, past_end, with_steps
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_VERY_FEW = 128
"""Rows at most of a product that reads its large operand once or twice, however long that is."""
_FEW, _MORE = 512, 2048
_MIDDLING = 1024
"""Rows at most of a product whose tiles are no more than multiprocessors, and of which one operand is twice the other:
of such products tiles that one CTA takes are compared too, and loads that several share."""
_TILE, _MEASURED_BYTES = 128, 2
"""Rows and columns of such tiles; bytes of an element of such products."""
_LEAST_COLUMNS = 512
"""Of the large operand; smaller results are for `synth.tile.long_sum`."""
_ROWS = ((64, 1), (128, 2), (192, 3), (256, 2))
"""Rows of tiles, and the consumers that share them."""
_COLUMNS = (8, 16, 24, 32, 48, 64, 80, 96, 104, 112, 128, 144, 160, 176, 192, 224, 256)
"""Of tiles, besides those that deal the columns out evenly."""
_SPLITS = (1, 2, 4, 8)
_TEAMS = (1, 2, 3)
"""With more of them none was the quickest (measured)."""
_MOST_OF_TEAMS = 80
"""Registers of accumulators of a thread that adds what other teams have: with more, some epilogues spill."""
_MOST_TWICE = {1: 96, 2: 48, 3: 32}
"""Registers of accumulators of a thread, by consumers, with which two CTAs fit the register file: more are refused by
ptxas, or spill."""
_MOST_STAGES = {1: 8, 2: 12}
"""By CTAs of a multiprocessor."""
_LEAST_STAGES = 3
_SHARED_LARGE, _SHARED_FEW = (2, 4), (4,)
"""CTAs that may share loads of the large operand, and of the few rows: of these pairs gained nothing (measured)."""
_BOX = 64
_TURNED_BOX = 32
"""Columns of a tile that wait to leave together, along its rows and across them."""
_DEEP_STAGE_BYTES = 16384
"""A stage is deepened while it holds fewer, as for other tiles."""
_LEAST_GAIN = 0.03
"""For which another shape is taken than the one that was chosen. By the runs that are kept, choices have 0.989 of the
best measured speed of 605 products, 0.864 at the least (`python -m bench few-rows --from FILE`, of all its files)."""

_LEAST_OF_STEPS, _LEAST_GAIN_OF_STEPS, _NEAR = 0.01, 0.05, 1.25
"""For which a shape's tiles overlap, and for which another shape is taken because its tiles may; how many times the
cycles of the first choice such a shape may take side by side. None of 21 products took longer by more than half a
percent because its tiles overlap, and in the mean they took 0.953 of the time (`few_rows_apart.json` and
`few_rows_of_b_apart.json` in `bench/results`, which name their commands)."""


@dataclass(frozen=True, slots=True)
class RowParameters:
    """The rows `few_rows.*` of a target, in their units.

    start_cycles: from the end of the launch before to the first product, and from the last store to the end.
    alone_cycles: what that takes besides where more than half of the multiprocessors have a CTA.
    slice_cycles: of each slice, besides what it takes by the norm.
    latency_cycles: from a copy's issue until its slot is full, besides what its bytes take.
    meeting_cycles, member_cycles: of a rendezvous, and for each CTA of it after the first.
    exchange_bytes_per_kilocycle: of accumulators in it.
    handing_cycles, team_cycles: of handing a sum over through memory, and for each further team.
    taken_bytes_per_kilocycle: of such sums. store_bytes_per_kilocycle: of a tile's results.
    tail_permille: of meeting, handing over and storing, what nothing hides where memory is the longer.
    fetch_, spread_bytes_per_kilocycle: what a CTA gets from the L2 cache, and what each gets while all do.
    shared_permille: of the few rows, which all tiles ask for at the same time, how much counts there.
    read_permille: of a long copy's rate. reread_permille: of the large operand, what is read again for each further
    tile along the few rows. piece_permille: what reading takes longer where the pieces of its rows are one line long,
    and not two. zeros_permille: how many times as long as others elements take that lie past an operand's end.
    narrow_columns: a wgmma of fewer is bound by reading the rows' operand.
    idle_permille, room_permille: of the share of multiprocessors without a tile, by how much memory takes longer where
    the next launch finds no room, and where it does. last_wave_permille: of those without one in the last of several
    waves, where two CTAs fit.
    paired_permille: of the time in which a CTA gets as much alone, what it takes where CTAs share loads; paired_cycles:
    of each slice, besides, in which they wait for one another.
    slice_, memory_, kernel_norm_permille: how well parts hide one another.
    """

    start_cycles: float
    alone_cycles: float
    slice_cycles: float
    latency_cycles: float
    meeting_cycles: float
    member_cycles: float
    exchange_bytes_per_kilocycle: float
    handing_cycles: float
    team_cycles: float
    taken_bytes_per_kilocycle: float
    store_bytes_per_kilocycle: float
    tail_permille: float
    fetch_bytes_per_kilocycle: float
    spread_bytes_per_kilocycle: float
    shared_permille: float
    read_permille: float
    reread_permille: float
    piece_permille: float
    zeros_permille: float
    narrow_columns: float
    idle_permille: float
    room_permille: float
    last_wave_permille: float
    paired_permille: float
    paired_cycles: float
    slice_norm_permille: float
    memory_norm_permille: float
    kernel_norm_permille: float


@cache
def parameters_of(target: Target) -> RowParameters:
    """What is known of a target's device. Raises TilewrightError where nothing is."""
    return RowParameters(**{each.name: float(target.limit(f"few_rows.{each.name}")) for each in fields(RowParameters)})


def few_rows_shape(
    question: TileQuestion,
    shape: TileShape,
    target: Target,
    reasons: list[str],
    *,
    fits: Callable[[TileShape], bool] = lambda shape: True,
    turns: bool = False,
) -> TileShape:
    """The shape that the closed form prefers, where it saves enough; else `shape`, which was chosen by others. fits:
    whether a shape may be taken at all; turns: consumers take whole tiles of `shape` alternately.

    What tiles save that overlap (`synth.tile.steps`) is known less well than what shapes differ by: another shape is
    taken for it only where it is enough beside the first choice, whose tiles overlap too."""

    def quickest(
        found: Iterable[tuple[TileShape, float]], first: tuple[TileShape, float], gain: float
    ) -> tuple[TileShape, float]:
        best = min(found, key=lambda pair: pair[1], default=first)
        return best if best[1] <= (1 - gain) * first[1] else first

    stages = stages_of(shape, question, target)
    given = row_cycles(parameters_of(target), rates_of(target, question.element_bytes), question, shape, stages, target)
    candidates = [pair for pair in _estimated(question, target) if fits(pair[0])]
    first = quickest(candidates, (shape, given), _LEAST_GAIN)
    if turns and first[0] == shape:
        return shape
    near = [pair for pair in candidates if pair[1] <= _NEAR * first[1]]
    first = _overlapping(question, target, *first)
    best, least = quickest((_overlapping(question, target, *pair) for pair in near), first, _LEAST_GAIN_OF_STEPS)
    if replace(best, steps=(0, 0)) == shape:
        return best
    shared = f", shared by {best.teams} x {best.split} CTAs" if best.shares > 1 else ""
    room = ", two CTAs a multiprocessor" if best.resident > 1 else ""
    reasons.append(
        f"tile {best.rows}x{best.columns}x{best.depth}{shared}{room}: about {least:.0f} cycles by the small-M "
        f"model, against {given:.0f} of {shape.rows}x{shape.columns} by {shape.teams} x {shape.split}"
    )
    return best


def estimated(question: TileQuestion, target: Target, *, past_end: bool = False) -> Iterator[tuple[TileShape, float]]:
    """All tiles that are compared, with their estimated cycles. past_end: also those of clusters some of whose CTAs
    have no tile, which is not known well enough to choose them."""
    for candidate, cycles in _estimated(question, target, past_end=past_end):
        yield _overlapping(question, target, candidate, cycles)


def _estimated(question: TileQuestion, target: Target, *, past_end: bool = False) -> Iterator[tuple[TileShape, float]]:
    """Those that do not overlap."""
    p, rates = parameters_of(target), rates_of(target, question.element_bytes)
    for candidate in _candidates(question, target, past_end=past_end):
        stages = stages_of(candidate, question, target)
        if stages >= _LEAST_STAGES:
            yield candidate, row_cycles(p, rates, question, candidate, stages, target)


def _overlapping(question: TileQuestion, target: Target, shape: TileShape, cycles: float) -> tuple[TileShape, float]:
    """A shape of so many cycles as one whose tiles overlap in what they load, where that saves enough."""
    stepped = with_steps(question, shape)
    if stepped == shape:
        return shape, cycles
    p, rates = parameters_of(target), rates_of(target, question.element_bytes)
    fewer = row_cycles(p, rates, question, stepped, stages_of(stepped, question, target), target)
    return (stepped, fewer) if fewer < (1 - _LEAST_OF_STEPS) * cycles else (shape, cycles)


def is_few_rows(question: TileQuestion, wanted: Wanted) -> bool:
    """Whether a product is one for this model, and nothing is fixed from outside."""
    plain = question.products == 1 and not question.scaled and question.batch == 1
    if not plain or not nothing_is_fixed(wanted):
        return False
    few, many = sorted(question.extents[:2])
    return many >= _LEAST_COLUMNS and few <= _MORE


def _candidates(question: TileQuestion, target: Target, *, past_end: bool) -> Iterator[TileShape]:
    natural = question.orientations[0]
    both = question.turnable and min(question.extents[:2]) > _VERY_FEW
    whole = min(question.extents[:2]) <= _FEW or _is_middling(question, target)
    for swapped in (natural, not natural) if both else question.orientations:
        tall, wide = question.oriented(swapped)
        for rows, consumers in _ROWS:
            if rows > _ROWS[0][0] and rows >= 2 * tall:
                continue
            for columns in _widths(target, math.ceil(tall / rows), wide):
                twice = not question.scaled_depth or fits_registers(rows, columns, consumers)
                if twice and (rows, columns, consumers) in _family(target):
                    tile = TileShape(rows, columns, 0, consumers, swapped)
                    found = _shared(question, tile, target, past_end=past_end)
                    yield from (each for each in found if each.shares > 1 or whole)


def _is_middling(question: TileQuestion, target: Target) -> bool:
    """Whether tiles that one CTA takes are compared too, of a product of more than few rows."""
    few, many = sorted(question.extents[:2])
    tiles = math.ceil(few / _TILE) * math.ceil(many / _TILE)
    few_tiles = few <= _MIDDLING and many >= 2 * few and tiles <= target.limit("device.multiprocessors")
    return few_tiles and question.element_bytes == _MEASURED_BYTES


@cache
def _family(target: Target) -> frozenset[tuple[int, int, int]]:
    return frozenset(tile_family(target, tuple(range(8, target.limit("product.columns_max") + 1, 8))))


def _widths(target: Target, row_tiles: int, wide: int) -> list[int]:
    """Columns of tiles: usual ones, and those that leave no multiprocessor much more to do than another."""
    step, most = target.limit("product.columns_step"), target.limit("product.columns_max")
    multiprocessors = target.limit("device.multiprocessors")
    parts = {max(1, multiprocessors // (row_tiles * shares)) for shares in (1, 2, 3, 4, 6, 8)} | set(range(1, 9))
    even = {step * math.ceil(wide / (step * part)) for part in parts}
    return sorted(each for each in {*_COLUMNS, *even} if each <= most and each < wide + step)


def _shared(question: TileQuestion, tile: TileShape, target: Target, *, past_end: bool) -> Iterator[TileShape]:
    """A tile, by each number of CTAs and teams that may share it, in slices that suit it, alone and beside another."""
    span, bytes_ = slice_depth(question.element_bytes), question.element_bytes
    rows, columns, consumers = tile.rows, tile.columns, tile.consumers
    tall, wide = question.oriented(tile.swapped)
    tiles = math.ceil(tall / rows) * math.ceil(wide / columns)
    deep = (rows + columns) * span * bytes_ < _DEEP_STAGE_BYTES
    accumulators = rows * columns // (128 * consumers) * (2 if question.scaled_depth else 1)
    twice = accumulators <= _MOST_TWICE[consumers]
    for split, teams in itertools.product(_SPLITS, (1,) if question.scaled_depth else _TEAMS):
        if columns % (target.limit("product.columns_step") * split) or 2 * span * split * teams > question.extents[2]:
            continue
        if teams > 1 and (tiles * teams > clusters_at_once(split, target) or accumulators > _MOST_OF_TEAMS):
            # Who waits for others and who is waited for are resident together.
            continue
        depth = 2 * span if deep else span
        yield TileShape(rows, columns, depth, consumers, tile.swapped, split, 1, teams)
        if twice and teams == 1:
            for depth in (span, 2 * span) if deep else (span,):
                yield TileShape(rows, columns, depth, consumers, tile.swapped, split, 2)
    if not question.scaled_depth:
        yield from _sharing_loads(question, replace(tile, depth=2 * span if deep else span), past_end=past_end)


def _sharing_loads(question: TileQuestion, tile: TileShape, *, past_end: bool) -> Iterator[TileShape]:
    """A tile whose CTAs along the few rows load the large operand's part together, or whose CTAs along the large
    operand load the few rows together."""
    tall, wide = question.oriented(tile.swapped)
    large_is_rows = tall >= wide
    along, across = math.ceil(tall / tile.rows), math.ceil(wide / tile.columns)
    of_rows, of_columns = reversed(question.loaded_steps) if tile.swapped else question.loaded_steps
    for ctas in _SHARED_LARGE if large_is_rows else _SHARED_FEW:
        if (past_end or across % ctas == 0) and in_equal_parts(tile.rows, ctas, of_rows):
            yield replace(tile, cluster=(1, ctas))
    for ctas in _SHARED_FEW if large_is_rows else _SHARED_LARGE:
        if (past_end or along % ctas == 0) and in_equal_parts(tile.columns, ctas, of_columns):
            yield replace(tile, cluster=(ctas, 1))


def _lies_across(question: TileQuestion, rates: Rates) -> bool:
    """Whether the rows of the large operand run across the contracted axis: it is loaded by whole lines of them."""
    rows, columns, _ = question.extents
    step = question.loaded_steps[1 if columns >= rows else 0]
    return step * question.element_bytes >= rates.line_bytes


def stages_of(shape: TileShape, question: TileQuestion, target: Target) -> int:
    """About as many slots as there will be: what shared memory holds beside the staged tile and the meeting."""
    slot_bytes = (shape.rows + shape.columns) * shape.depth * question.element_bytes
    left = target.limit("cta.shared_bytes_max")
    if shape.resident > 1:
        left = target.limit("multiprocessor.shared_bytes") // 2 - target.limit("cta.shared_reserved_bytes")
    box = _TURNED_BOX if shape.swapped != question.orientations[0] else _BOX
    staged = shape.rows * min(shape.columns // shape.split, box) * question.stored_bytes
    left -= meeting_bytes(shape, target) + staged
    return min(_MOST_STAGES[shape.resident], left // slot_bytes)


def row_cycles(
    p: RowParameters, rates: Rates, question: TileQuestion, shape: TileShape, stages: int, target: Target
) -> float:
    """Estimated cycles of a launch. rates: of the target; stages: slots of the ring."""
    depth, bytes_ = question.extents[2], question.element_bytes
    tall, wide = question.oriented(shape.swapped)
    along, across = math.ceil(tall / shape.row_step), math.ceil(wide / shape.column_step)
    (cluster_m, cluster_n), multiprocessors = shape.cluster, rates.multiprocessors
    tiles = math.ceil(along / cluster_m) * cluster_m * math.ceil(across / cluster_n) * cluster_n
    slices = math.ceil(depth / (shape.depth * shape.shares))
    loaded = loaded_columns(rates, question, shape)
    past_rows = past_end(tall, shape.rows, shape.row_step, shape.consumers)
    past_columns = past_end(wide, shape.columns, shape.column_step, parts_of(shape))
    empty = past_rows / along + past_columns / across
    slot_bytes = (shape.rows + loaded + empty * p.zeros_permille / 1000) * shape.depth * bytes_
    multiply = 2 * shape.rows * max(shape.columns, p.narrow_columns) * shape.depth / rates.operations_per_cycle
    if question.scaled_depth:
        multiply += promotion_cycles(question, shape, slices, target)
    fetch = 1000 * slot_bytes / p.fetch_bytes_per_kilocycle
    if shape.paired:
        together = shape.columns if shape.cluster[0] > 1 else shape.rows
        fetch *= 1 + (p.paired_permille / 1000 - 1) * together / (shape.rows + shape.columns)
    wait = (p.latency_cycles + fetch + multiply) / max(1, stages)
    each = p_norm((multiply, fetch, wait), p.slice_norm_permille) + p.slice_cycles
    sharing = math.prod(shape.cluster)
    if sharing > 1:
        each += p.paired_cycles
    end = 0.0
    if shape.split > 1:
        exchanged = 1000 * 4 * shape.rows * shape.columns / p.exchange_bytes_per_kilocycle
        end = p.meeting_cycles + p.member_cycles * (shape.split - 1) + exchanged
    if shape.teams > 1:
        taken = 1000 * 4 * shape.rows * shape.columns / shape.split * (shape.teams - 1) / p.taken_bytes_per_kilocycle
        end += p.handing_cycles + p.team_cycles * (shape.teams - 1) + taken
    stored = min(shape.rows, tall) * min(shape.columns, wide) * question.stored_bytes / shape.split
    bulk = question.turnable or shape.swapped == question.orientations[0]
    store = stored / (p.store_bytes_per_kilocycle / 1000 if bulk else SCATTERED_BYTES_PER_CYCLE)
    at_once = clusters_at_once(shape.split * sharing, target)
    loop = math.ceil(tiles * shape.teams / sharing / at_once) * (slices * each + end) + store
    ctas = tiles * shape.shares
    memory = _memory_cycles(p, rates, question, shape, ctas * slices, slot_bytes, target)
    busy = 2 * min(ctas, multiprocessors) > multiprocessors
    idle = 1 - ctas / (multiprocessors * math.ceil(ctas / multiprocessors))
    if shape.resident > 1 and ctas > multiprocessors:
        # There is room, but a further tile on few multiprocessors asks for little of memory at a time.
        idle *= p.last_wave_permille / 1000
    else:
        idle *= (p.room_permille if shape.resident > 1 or not busy else p.idle_permille) / 1000
    memory *= 1 + idle
    start = p.start_cycles + (p.alone_cycles if busy else 0.0)
    return start + p_norm((loop, memory), p.kernel_norm_permille) + p.tail_permille / 1000 * (end + store)


def _memory_cycles(
    p: RowParameters,
    rates: Rates,
    question: TileQuestion,
    shape: TileShape,
    slots: int,
    slot_bytes: float,
    target: Target,
) -> float:
    """Cycles in which memory brings both operands, and the L2 cache what all tiles fetch of them, in so many slots."""
    rows, columns, depth = question.extents
    bytes_ = question.element_bytes
    few, many = sorted((rows, columns))
    # The large operand lies along the tile's rows where the few rows are its columns.
    along_rows = shape.swapped == (columns >= rows)
    of_few = shape.columns if along_rows else shape.rows
    of_many = shape.rows if along_rows else shape.columns
    of_large, of_rows = shape.cluster[::-1] if along_rows else shape.cluster
    over_few = math.ceil(math.ceil(few / of_few) / of_large)
    line, across = rates.line_bytes, _lies_across(question, rates)
    piece = bytes_ * (of_many if across else shape.depth)
    longer = p.reread_permille / 1000 * (over_few - 1) + p.piece_permille / 1000 * (line / max(piece, line / 2) - 0.5)
    read = many * depth * bytes_ * (1 + longer) + few * depth * bytes_ + few * many * question.stored_bytes
    copied = target.limit("device.dram_bytes_per_second") / target.limit("device.clock_hertz")
    read_cycles = read / (copied * p.read_permille / 1000)
    # Of what CTAs load together each brings a part.
    once = (1 - p.shared_permille / 1000 / of_rows) * of_few + (1 - 1 / of_large) * of_many
    fetched = slots * (slot_bytes - once * shape.depth * bytes_)
    spread_cycles = 1000 * fetched / (p.spread_bytes_per_kilocycle * rates.multiprocessors)
    return p_norm((read_cycles, spread_cycles), p.memory_norm_permille)
