"""Fit the facts that `synth.cost.tile_estimate` knows of a target to stored runs of tiles (`python -m bench
tile-family`).

One fact after the other is moved up and down in shrinking steps while that makes least what a weighted mean of the
estimate's errors and what its first choice loses come to. Each product's runs in one state are in a unit of their own,
since neither the clock nor what power allows is known well; the estimate is asked at the clock that was read in that
state. The quick tiles of a product count most: of slow ones it matters little how slow they are.

Nothing is written: the values are printed for the target's table.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from bench.tile_runs import STATES, Candidate, question_of, tiles_of

if TYPE_CHECKING:
    from tilewright.synth.cost.tile_estimate import TileFacts
    from tilewright.synth.tile.shape import TileQuestion

_STEPS = (1.1, 1.03)
_ROUNDS = 2
_WEIGHT = 8
_TRUSTED = 0.006
"""A prediction is trusted to so much: how likely a run is to be the first choice follows from it."""
_LOST = 2.0
"""What a choice loses counts so many times an error."""


@dataclass(frozen=True, slots=True)
class Run:
    """A tile that was timed. product: of which product and in which state, a number; clock_share: of the highest clock;
    saved: cycles of the loop that streaming is expected to save."""

    product: int
    state: str
    question: TileQuestion
    tile: Candidate
    seconds: float
    clock_share: float
    saved: float


def runs_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[Run]:
    """All tiles of the rows in each state in which they were timed."""
    from tilewright.synth.cost.model import rates_of
    from tilewright.synth.distribution.stream_k import expected_saving
    from tilewright.targets import target

    hopper = target("sm_90a")
    rates, highest = rates_of(hopper), hopper.limit("device.clock_hertz") / 1e6
    for number, row in enumerate(rows):
        m, n, k = row["shape"]
        question = question_of((m, n, k), rows_of_b=row["rows of b"])
        for place, state in enumerate(STATES):
            clocks = row["megahertz"][state]
            share = clocks[1] / highest if clocks else 1.0
            for name, time in tiles_of(row, state).items():
                tile = Candidate(**row["tiles"][name])
                large = tile.large()
                saved = (
                    expected_saving(rates, question, large.shape, hopper, turns=tile.turns) if tile.streamed else 0.0
                )
                yield Run(len(STATES) * number + place, state, question, tile, time * 1e-6, share, saved)


def cycles_of(facts: TileFacts, run: Run) -> float:
    """What the estimate says of a run by these facts."""
    from tilewright.synth.cost.model import rates_of
    from tilewright.synth.cost.tile_estimate import tile_cycles
    from tilewright.targets import target

    hopper = target("sm_90a")
    return tile_cycles(
        rates_of(hopper),
        run.question,
        run.tile.large().shape,
        hopper,
        turns=run.tile.turns,
        saved=run.saved,
        facts=facts,
        clock_share=run.clock_share,
    )


def error_of(facts: TileFacts, runs: Sequence[Run]) -> tuple[float, float]:
    """(how far, as a share, runs are from the estimate in the mean, each product in its own median unit; what a first
    choice loses in the mean)."""
    products: dict[int, list[Run]] = {}
    for run in runs:
        products.setdefault(run.product, []).append(run)
    far, weights, lost = 0.0, 0.0, 0.0
    for mine in products.values():
        cycles = [cycles_of(facts, run) for run in mine]
        shares = [math.log(run.seconds / each) for run, each in zip(mine, cycles, strict=True)]
        middle, quickest, least = statistics.median(shares), min(run.seconds for run in mine), min(cycles)
        chances = [(each / least) ** (-1 / _TRUSTED) for each in cycles]
        lost += sum(chance * math.log(run.seconds / quickest) for chance, run in zip(chances, mine, strict=True)) / sum(
            chances
        )
        for run, share in zip(mine, shares, strict=True):
            weight = (quickest / run.seconds) ** _WEIGHT
            far, weights = far + weight * abs(share - middle), weights + weight
    return far / weights, lost / len(products)


def fit(rows: Sequence[Mapping[str, Any]]) -> int:
    """Print facts that explain the rows' runs, and what the estimate's first choices would reach by them. Returns 0."""
    from tilewright.synth.cost.tile_estimate import facts_of
    from tilewright.targets import target

    runs = list(runs_of(rows))
    facts = facts_of(target("sm_90a"), 2)
    far, lost = error_of(facts, runs)
    print(f"{len(runs)} runs of {len(rows)} products: mean error {far:.2%}, lost {lost:.2%} by {asdict(facts)}")
    least = far + _LOST * lost
    for step in [step for step in _STEPS for _ in range(_ROUNDS)]:
        for name, value in asdict(facts).items():
            for factor in (step, 1 / step):
                moved = replace(facts, **{name: max(1, round(value * factor))})
                far, lost = error_of(moved, runs)
                if far + _LOST * lost < least:
                    facts, least = moved, far + _LOST * lost
    far, lost = error_of(facts, runs)
    print(f"fitted: mean error {far:.2%}, lost {lost:.2%} by {asdict(facts)}")
    for number in sorted({run.product for run in runs}):
        mine = [run for run in runs if run.product == number]
        first = min(mine, key=lambda run: cycles_of(facts, run))
        best = min(mine, key=lambda run: run.seconds)
        words = f"{first.question.extents} {first.state}: first choice {first.tile}"
        print(f"{words}, {best.seconds / first.seconds:.3f} of {best.tile}")
    return 0
