"""Fit the parameters of `synth.few_rows` to stored runs: by descent from the target's values, one to three at a time.

What is made least is what a choice by the model loses: of each product the logarithm of a run's time over the best
one's, in the mean of runs weighted by how likely each is to be the first choice (a prediction is trusted to 2 %), and
its spread over products; and the squares of predicted over measured logarithms, weighted by how near a run is to the
best. Steps are random, from a fixed seed, and shrink; a step that does not help is taken back. The values are printed
as rows for the target's table; nothing is written. Pairs of CTAs that share loads, tiles taken in turn and streamed
ones take no part, and no runs that take three times as long as the best.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from bench.few_rows_model import question_of, tile_of
from bench.few_rows_runs import Parts, times_of
from tilewright.synth.few_rows import RowParameters, parameters_of, row_cycles, stages_of
from tilewright.synth.model import rates_of
from tilewright.synth.tile_shape import TileQuestion, TileShape
from tilewright.targets import target

_SEED = 0
_STEPS = 400
_FIRST_STEP = 0.1
_LAST_STEP = 0.01
_TRUSTED = 0.02
_SPREAD = 0.5
_SQUARES = 2.0
_SLOWEST = 3.0


@dataclass(frozen=True, slots=True)
class Timed:
    """A run as the model sees it. lost: the logarithm of its time over the best one's."""

    question: TileQuestion
    shape: TileShape
    stages: int
    microseconds: float
    lost: float


def timed(rows: Sequence[Mapping[str, Any]]) -> list[list[Timed]]:
    """The runs of each product of result files of `bench few-rows`."""
    merged: dict[tuple[int, int, int, bool], dict[Parts, float]] = {}
    for row in rows:
        m, n, k = row["shape"]
        times = merged.setdefault((m, n, k, row["rows of b"]), {})
        for parts, microseconds in times_of(row).items():
            times[parts] = min(times.get(parts, math.inf), microseconds)
    return [list(_timed((m, n, k), times, rows_of_b=of_b)) for (m, n, k, of_b), times in merged.items()]


def _timed(shape: tuple[int, int, int], times: Mapping[Parts, float], *, rows_of_b: bool) -> Iterator[Timed]:
    question, hopper = question_of(shape, rows_of_b=rows_of_b), target("sm_90a")
    known = {each: time for each, time in times.items() if not (each.paired or each.turns or each.streamed)}
    best = min(known.values(), default=math.inf)
    for parts, time in known.items():
        if time <= _SLOWEST * best:
            tile = tile_of(parts)
            yield Timed(question, tile, max(1, stages_of(tile, question, hopper)), time, math.log(time / best))


def predicted(p: RowParameters, run: Timed) -> float:
    """Microseconds."""
    hopper = target("sm_90a")
    cycles = row_cycles(p, rates_of(hopper), run.question, run.shape, run.stages, hopper)
    return cycles * 1e6 / hopper.limit("device.clock_hertz")


def loss(p: RowParameters, products: Sequence[Sequence[Timed]]) -> float:
    """See the head of this module."""
    means: list[float] = []
    squares = count = 0.0
    for runs in products:
        times = [predicted(p, run) for run in runs]
        least = min(times)
        chances = [(time / least) ** (-1 / _TRUSTED) for time in times]
        lost = sum(chance * run.lost for chance, run in zip(chances, runs, strict=True))
        means.append(lost / sum(chances))
        for time, run in zip(times, runs, strict=True):
            squares += math.exp(-4 * run.lost) * math.log(time / run.microseconds) ** 2
            count += 1
    spread = math.sqrt(statistics.fmean(mean**2 for mean in means))
    return statistics.fmean(means) + _SPREAD * spread + _SQUARES * squares / count


def first_choices(p: RowParameters, products: Sequence[Sequence[Timed]]) -> list[float]:
    """Of each product the best time over that of the run that is predicted to be the quickest."""
    return [math.exp(-min(runs, key=lambda run: predicted(p, run)).lost) for runs in products]


def fit(rows: Sequence[Mapping[str, Any]]) -> int:
    """Print the values that fit, and how well they choose. Returns 0."""
    products = [runs for runs in timed(rows) if runs]
    chance = random.Random(_SEED)
    names = [each.name for each in fields(RowParameters)]
    found = parameters_of(target("sm_90a"))
    least = loss(found, products)
    print(f"{sum(map(len, products))} runs of {len(products)} products: error {least:.4f} by the target's values")
    for step in range(_STEPS):
        width = _FIRST_STEP * (_LAST_STEP / _FIRST_STEP) ** (step / _STEPS)
        tried = found
        for name in chance.sample(names, chance.choice((1, 1, 2, 3))):
            tried = replace(tried, **{name: getattr(tried, name) * math.exp(chance.gauss(0, width))})
        error = loss(tried, products)
        if error < least:
            found, least = tried, error
    for name in names:
        print(f"{name} = {getattr(found, name):.0f}")
    ratios = first_choices(found, products)
    print(
        f"error {least:.4f}; first choice over the best: mean {statistics.mean(ratios):.3f}, least {min(ratios):.3f}, "
        f"{sum(ratio < 0.95 for ratio in ratios)} of {len(ratios)} products below 0.95"
    )
    return 0
