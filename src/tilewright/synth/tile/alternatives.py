"""Which other tiles are about as quick as the chosen one, by the models that choose? What a tuner times.

Each model that is asked for a product (`synth.tile.few_rows`, `long_sum`, `thin_product`, `scaled_tile`, and
`synth.cost.tile_estimate` for large tiles, shared or ping-pong, whole or streamed) ranks its own candidates. The best
of each alternate, since their estimates were fitted apart; of tiles that differ in their columns alone, two are taken.
Tiles whose CTAs share what they load alternate with those that do not: what they spare is known less well, and is
counted by the bytes that a CTA fetches. Tiles of one wave overlap where else the last one passes an operand's end
(`synth.tile.steps`), since it keeps the launch waiting. What is yielded may still be refused where decisions are made,
as any request may.

Not handled: groups of rows, operands computed in registers, programs that do more than sum products; depths
of the ring, orders of tiles. Checked by: tests/tune/test_candidates.py.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tilewright.ir.cascade_facts import cascade_axes
from tilewright.ir.tile import operations as tile
from tilewright.synth.cascade.decide import is_cascade
from tilewright.synth.cascade.sums.sum_tile import sum_question
from tilewright.synth.cascade.sums.tensor_columns import slot_sums
from tilewright.synth.cost.model import Rates, rates_of
from tilewright.synth.cost.tile_estimate import expected_cycles, mean_cycles, tile_work
from tilewright.synth.distribution.cluster_parts import in_equal_parts
from tilewright.synth.distribution.split import clusters_at_once
from tilewright.synth.distribution.stream_k import expected_saving
from tilewright.synth.distribution.turns import compared_tiles
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.tile import few_rows, long_sum, scaled_tile, thin_product
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.steps import with_steps
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_OF_A_KIND = 2
_WITHIN = 1.5
"""Times the least estimate of a model that a tile may be expected to take by it: more than any of them errs by."""
_SEED_TILE = (128, 128, 2)
_CLUSTERS = ((1, 4), (4, 1), (1, 2), (2, 1))
_LEAST_SPARED = 0.02
"""Of a tile's estimate, by how much less it is where CTAs share loads: else that is not worth a timer's while."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A tile by a model's estimate. turns: ping-pong; streamed: whether tiles left over after whole waves are shared
    with idle CTAs, None where that is left open."""

    shape: TileShape
    cycles: float
    turns: bool = False
    streamed: bool | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """All but the columns."""
        return replace(self.shape, columns=0, depth=0, steps=(0, 0)), self.turns, self.streamed

    def wanted(self, given: Wanted, *, promoted: bool) -> Wanted:
        """`given` with this tile. promoted: the depth of a slot is the promotion's."""
        shape = self.shape
        return replace(
            given,
            tile=(shape.rows, shape.columns),
            consumers=shape.consumers,
            swapped=shape.swapped,
            split=shape.split,
            teams=shape.teams if shape.teams > 1 else None,
            cluster=shape.cluster if shape.paired else None,
            depth=None if promoted else shape.depth,
            resident=shape.resident if shape.resident > 1 else None,
            turns=self.turns,
            stream_k=self.streamed,
            steps=shape.steps,
        )


def alternatives(program: tile.ProgramOp, target: Target, wanted: Wanted) -> Iterator[Wanted]:
    """Requests for other tiles, the most promising first; none where a program has no tile to choose."""
    question = _question(program, target, wanted)
    if question is None:
        return
    models = [sorted(each, key=lambda one: one.cycles) for each in _apart(_models(question, target, wanted))]
    near = [[each for each in found if each.cycles <= _WITHIN * found[0].cycles] for found in models]
    seen: Counter[object] = Counter()
    for row in itertools.zip_longest(*near):
        for each in row:
            if each is not None and seen[each.kind] < _OF_A_KIND:
                seen[each.kind] += 1
                yield each.wanted(wanted, promoted=bool(question.scaled_depth))


def _question(program: tile.ProgramOp, target: Target, wanted: Wanted) -> TileQuestion | None:
    """What is asked of a tile; None where there is none to choose."""
    if not is_cascade(program) or target.supports("tensor_memory"):
        return None
    axes, sums = cascade_axes(program), slot_sums(program, target)
    return sum_question(program, axes, sums, target, wanted) if sums and not axes.group else None


def _apart(models: Iterable[Iterable[Alternative]]) -> Iterator[list[Alternative]]:
    """Of every model first tiles that a CTA loads by itself, then those of which several share loads."""
    for found in map(list, models):
        yield [each for each in found if not each.shape.paired]
        yield [each for each in found if each.shape.paired]


def _dealt_out(question: TileQuestion, given: Alternative, target: Target) -> Alternative:
    """The same in tiles that overlap, where whole ones are one wave and the last would keep the others waiting."""
    shape, (rows, columns) = given.shape, question.oriented(given.shape.swapped)
    ctas = math.ceil(rows / shape.rows) * math.ceil(columns / shape.columns) * shape.shares
    if given.turns or given.streamed or ctas > target.limit("device.multiprocessors"):
        return given
    return replace(given, shape=with_steps(question, shape))


def _models(question: TileQuestion, target: Target, wanted: Wanted) -> Iterator[Iterator[Alternative]]:
    """Of every model that is asked for such a product, its candidates."""
    if few_rows.is_few_rows(question, wanted):
        yield (Alternative(*each) for each in few_rows.estimated(question, target, past_end=True))
    # Others know nothing of what lies past an end.
    for found in _others(question, target, wanted):
        yield (_dealt_out(question, each, target) for each in found)


def _others(question: TileQuestion, target: Target, wanted: Wanted) -> Iterator[Iterator[Alternative]]:
    """Of every other model than that of few rows."""
    rates = rates_of(target, question.element_bytes)
    if long_sum.is_long_sum(question, target, wanted):
        yield (Alternative(*each) for each in long_sum.estimated(question, target))
    if thin_product.is_thin(question, wanted):
        yield (Alternative(*each) for each in thin_product.estimated(question, target))
    if question.scaled_depth:
        if question.batch == 1 and question.products == 1:
            yield (Alternative(*each) for each in scaled_tile.estimated(rates, question, target))
            yield (Alternative(*each) for each in scaled_tile.further_estimated(rates, question, target))
    elif question.extents[2] > slice_depth(question.element_bytes):
        yield _large(rates, question, target)


def _large(rates: Rates, question: TileQuestion, target: Target) -> Iterator[Alternative]:
    rows, columns, consumers = _SEED_TILE
    seed = TileShape(rows, columns, slice_depth(question.element_bytes), consumers, question.orientations[0])
    for large in compared_tiles(question, seed, target):
        saved = expected_saving(rates, question, large.shape, target, turns=large.turns)
        for streamed in (False, True) if saved else (False,):
            cycles = expected_cycles(
                rates, question, large.shape, target, turns=large.turns, saved=saved if streamed else 0.0
            )
            yield Alternative(large.shape, cycles, large.turns, streamed)
        if not (large.turns or question.products > 1 or question.batch > 1):
            yield from _sharing_loads(rates, question, large.shape, target)


def _sharing_loads(rates: Rates, question: TileQuestion, shape: TileShape, target: Target) -> Iterator[Alternative]:
    """A tile by clusters whose CTAs each bring an equal part of what they have in common."""
    work = tile_work(rates, question, shape, target, turns=False)
    alone = mean_cycles(work, target)
    rows, columns, _ = question.extents
    tall, wide = (columns, rows) if shape.swapped else (rows, columns)
    of_rows, of_columns = question.loaded_steps[::-1] if shape.swapped else question.loaded_steps
    for m, n in _CLUSTERS:
        if not (in_equal_parts(shape.rows, n, of_rows) and in_equal_parts(shape.columns, m, of_columns)):
            continue
        clusters = math.ceil(tall / (m * shape.rows)) * math.ceil(wide / (n * shape.columns))
        waves = math.ceil(clusters / clusters_at_once(m * n, target))
        fetched = (shape.rows / n + shape.columns / m) / (shape.rows + shape.columns)
        cycles = mean_cycles(replace(work, waves=waves, fetch=fetched * work.fetch), target)
        if cycles <= (1 - _LEAST_SPARED) * alone:
            yield Alternative(replace(shape, cluster=(m, n)), cycles, streamed=False)
