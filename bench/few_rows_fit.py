"""Fit the parameters of `synth.tile.few_rows` to stored runs: by descent from the target's values, one to three at a
time.

What is made least is what a choice by the model loses: of each product the logarithm of a run's time over the best
one's, in the mean of runs weighted by how likely each is to be the first choice (a prediction is trusted to 2 %), and
its spread over products; and the squares of predicted over measured logarithms, weighted by how near a run is to the
best (`random_descent`). The values are printed as rows for the target's table; nothing is written. Very few rows of the
same large operand take as long as one another: such products together count as one. Tiles taken in turn and streamed
ones take no part, and no runs that take three times as long as the best.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from bench.few_rows_model import is_modelled, question_of, tile_of
from bench.few_rows_runs import Parts, times_of
from bench.random_descent import descend
from tilewright.synth.cost.model import rates_of
from tilewright.synth.tile.few_rows import RowParameters, parameters_of, row_cycles, stages_of
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.targets import target

_STEPS, _STEPS_EACH = 600, 24
"""Of all parameters, and for each where few are free."""
_FIRST_STEP = 0.1
_TRUSTED = 0.02
_SPREAD = 0.7
_SQUARES = 2.0
_SLOWEST = 3.0
_VERY_FEW = 8
_MORE_ROWS, _OF_MORE_ROWS = 64, 2.0
"""What products of so many rows weigh: their choices differ most."""
_LEAST_RUNS = 4


@dataclass(frozen=True, slots=True)
class Timed:
    """A run as the model sees it. lost: the logarithm of its time over the best one's."""

    question: TileQuestion
    shape: TileShape
    stages: int
    microseconds: float
    lost: float


def timed(files: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Timed]]:
    """The runs of each product of result files of `bench few-rows`, `bench long-sums` and `bench model`, of products
    that the model chooses for."""
    found: list[list[Timed]] = []
    for rows in files:
        products: dict[tuple[int, int, int, bool], dict[tuple[Parts, int], float]] = {}
        for key, parts, stages, microseconds in itertools.chain.from_iterable(map(_runs_of, rows)):
            if is_modelled(key[:3]) and not (parts.turns or parts.streamed):
                times = products.setdefault(key, {})
                times[parts, stages] = min(times.get((parts, stages), math.inf), microseconds)
        found += [list(_timed(key, times)) for key, times in products.items() if len(times) >= _LEAST_RUNS]
    return found


def _runs_of(row: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int, int, bool], Parts, int, float]]:
    """Of a row of either kind of file: (product, decisions, stages or 0 where they are not told, microseconds)."""
    if "parts" in row:
        key = (*row["shape"], row["rows of b"])
        for parts, microseconds in times_of(row).items():
            yield key, parts, 0, microseconds
    elif "runs" in row:
        for run in row["runs"]:
            key = (row["m"], row["n"], row["k"], row["rows_of_b"])
            yield key, Parts.of(run["kept"]), run["kept"]["stages"], run["microseconds"]
    elif "microseconds" in row:
        yield (*row["shape"], False), Parts.of(row["kept"]), row["kept"]["stages"], row["microseconds"]


def _timed(key: tuple[int, int, int, bool], times: Mapping[tuple[Parts, int], float]) -> Iterator[Timed]:
    question, hopper = question_of(key[:3], rows_of_b=key[3]), target("sm_90a")
    best = min(times.values())
    for (parts, stages), time in times.items():
        if time <= _SLOWEST * best:
            tile = tile_of(parts)
            slots = stages or max(1, stages_of(tile, question, hopper))
            yield Timed(question, tile, slots, time, math.log(time / best))


def predicted(p: RowParameters, run: Timed) -> float:
    """Microseconds."""
    hopper = target("sm_90a")
    cycles = row_cycles(p, rates_of(hopper), run.question, run.shape, run.stages, hopper)
    return cycles * 1e6 / hopper.limit("device.clock_hertz")


def _alike(runs: Sequence[Timed]) -> tuple[object, ...]:
    question = runs[0].question
    return (max(_VERY_FEW, question.extents[0]), *question.extents[1:], question.loaded_steps)


def _weight(runs: Sequence[Timed]) -> float:
    return _OF_MORE_ROWS if runs[0].question.extents[0] >= _MORE_ROWS else 1.0


def loss(p: RowParameters, products: Sequence[Sequence[Timed]]) -> float:
    """See the head of this module."""
    alike = Counter(map(_alike, products))
    means, weights = list[float](), [_weight(runs) / alike[_alike(runs)] for runs in products]
    squares = count = 0.0
    for runs, weight in zip(products, weights, strict=True):
        times = [predicted(p, run) for run in runs]
        least = min(times)
        chances = [(time / least) ** (-1 / _TRUSTED) for time in times]
        lost = sum(chance * run.lost for chance, run in zip(chances, runs, strict=True))
        means.append(lost / sum(chances))
        for time, run in zip(times, runs, strict=True):
            squares += weight * math.exp(-4 * run.lost) * math.log(time / run.microseconds) ** 2
            count += weight
    spread = math.sqrt(statistics.fmean((mean**2 for mean in means), weights))
    return statistics.fmean(means, weights) + _SPREAD * spread + _SQUARES * squares / count


def first_choices(p: RowParameters, products: Sequence[Sequence[Timed]]) -> list[float]:
    """Of each product the best time over that of the run that is predicted to be the quickest."""
    return [math.exp(-min(runs, key=lambda run: predicted(p, run)).lost) for runs in products]


def fit(files: Sequence[Sequence[Mapping[str, Any]]], free: Sequence[str] = ()) -> int:
    """Print the values that fit, and how well they choose. free: parameters that may change, all if none is named.
    Returns 0."""
    products = timed(files)
    start = parameters_of(target("sm_90a"))
    error = loss(start, products)
    print(f"{sum(map(len, products))} runs of {len(products)} products: error {error:.4f} by the target's values")
    found, least = descend(
        start, lambda tried: loss(tried, products), _STEPS_EACH * len(free) or _STEPS, _FIRST_STEP, (1, 1, 2, 3), free
    )
    for each in fields(RowParameters):
        print(f"{each.name} = {getattr(found, each.name):.0f}")
    ratios = first_choices(found, products)
    print(
        f"error {least:.4f}; first choice over the best: mean {statistics.mean(ratios):.3f}, least {min(ratios):.3f}, "
        f"{sum(ratio < 0.95 for ratio in ratios)} of {len(ratios)} products below 0.95"
    )
    return 0
