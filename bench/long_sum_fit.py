"""Fit the parameters of `synth.tile.long_sum` to stored runs: by descent from the target's values, one or two at a
time.

What is made least is mostly what a choice by the model loses: of each product the logarithm of a run's time over the
best one's, in the mean of runs weighted by how likely each is to be the first choice (a prediction is trusted to 2 %),
and its spread over products; and a little of the squares of predicted over measured logarithms, weighted by how near a
run is to the best (`random_descent`). The values are printed as rows for the target's table; nothing is written.
Clusters and teams that the compiler does not choose among take no part.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from bench.random_descent import descend
from tilewright.synth.tile.long_sum import SumParameters, parameters_of, sum_cycles
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.targets import target

_STEPS = 400
_FIRST_STEP = 0.15
_TRUSTED = 0.02
_SPREAD = 0.3
_MOST_SPLIT, _MOST_SHARES = 8, 48


@dataclass(frozen=True, slots=True)
class Timed:
    """A run as the model sees it. weight: of its error."""

    product: str
    question: TileQuestion
    shape: TileShape
    stages: int
    microseconds: float
    weight: float


def timed(rows: Sequence[Mapping[str, Any]]) -> list[Timed]:
    """All runs of result files of `bench long-sums`."""
    found: list[Timed] = []
    for row in rows:
        best = min(run["microseconds"] for run in row["runs"])  # of all, whoever may take part
        # Boxes of B's rows are a swizzle span wide; those along the contracted axis may end at any eight elements.
        steps = (8, 64 if row["rows_of_b"] else 8)
        question = TileQuestion((row["m"], row["n"], row["k"]), 2, 2, (False,), loaded_steps=steps)
        name = f"{row['m']}, {row['n']}, {row['k']}, {row['rows_of_b']}"
        for run in row["runs"]:
            kept = run["kept"]
            if kept["split"] > _MOST_SPLIT or kept["split"] * kept.get("teams", 1) > _MOST_SHARES:
                continue
            shape = TileShape(
                kept["tile_m"],
                kept["tile_n"],
                kept["tile_k"],
                kept["consumers"],
                bool(kept["swapped"]),
                kept["split"],
                teams=kept.get("teams", 1),
            )
            weight = (best / run["microseconds"]) ** 4
            found.append(Timed(name, question, shape, kept["stages"], run["microseconds"], weight))
    return found


def predicted(p: SumParameters, run: Timed) -> float:
    """Microseconds."""
    hopper = target("sm_90a")
    return sum_cycles(p, run.question, run.shape, run.stages, hopper) * 1e6 / hopper.limit("device.clock_hertz")


def loss(p: SumParameters, runs: Sequence[Timed]) -> float:
    """See the head of this module."""
    squares = spread = lost = 0.0
    by_product = {run.product: [each for each in runs if each.product == run.product] for run in runs}
    for own in by_product.values():
        times = [predicted(p, run) for run in own]
        least, best = min(times), min(run.microseconds for run in own)
        chances = [(time / least) ** (-1 / _TRUSTED) for time in times]
        mean = sum(chance * math.log(run.microseconds / best) for chance, run in zip(chances, own, strict=True)) / sum(
            chances
        )
        lost += mean / len(by_product)
        spread += mean**2 / len(by_product)
        squares += sum(
            run.weight * math.log(time / run.microseconds) ** 2 for time, run in zip(times, own, strict=True)
        )
    return lost + _SPREAD * math.sqrt(spread) + squares / len(runs)


def first_choices(p: SumParameters, runs: Sequence[Timed]) -> list[float]:
    """Of each product the best time over that of the run that is predicted to be the quickest."""
    ratios: list[float] = []
    for product in dict.fromkeys(run.product for run in runs):
        own = [run for run in runs if run.product == product]
        first = min(own, key=lambda run: predicted(p, run))
        ratios.append(min(run.microseconds for run in own) / first.microseconds)
    return ratios


def fit(rows: Sequence[Mapping[str, Any]]) -> int:
    """Print the values that fit, and how well they choose. Returns 0."""
    runs = timed(rows)
    start = parameters_of(target("sm_90a"))
    print(f"{len(runs)} runs: error {loss(start, runs):.4f} by the target's values")
    found, least = descend(start, lambda tried: loss(tried, runs), _STEPS, _FIRST_STEP, (1, 1, 2))
    for each in fields(SumParameters):
        print(f"{each.name} = {getattr(found, each.name):.0f}")
    ratios = first_choices(found, runs)
    print(
        f"error {least:.4f}; first choice over the best: mean {statistics.mean(ratios):.3f}, least {min(ratios):.3f}, "
        f"{sum(ratio < 0.95 for ratio in ratios)} of {len(ratios)} products below 0.95"
    )
    return 0
