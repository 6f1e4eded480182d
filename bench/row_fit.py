"""Fit the parameters of `synth.store.row_time` to the forms of rows that `bench.probes.row_forms` timed.

What is made least is what a choice by the model loses: of each program and shape the logarithm of a form's time over
the best one's, in the mean of its forms weighted by how likely each is to be the first choice (a prediction is trusted
to 1 %), and its spread over shapes; and the squares of predicted over measured logarithms, weighted by how near a form
is to the best (`random_descent`). The values are printed as rows for the target's table; nothing is written. Forms of a
warp or less take no part: no time decides on them.

Checked by: tests/benchmarks/test_row_fit.py.
"""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from bench.random_descent import descend
from tilewright.base.element import Element
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.store.row_choice import candidates
from tilewright.synth.store.row_time import RowForm, RowTimes, RowWork, row_cycles, times_of
from tilewright.synth.store.rows import ways_of_rows
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

_WARP_THREADS = 32
_STEPS = 1000
_FIRST_STEP = 0.3
_TRUSTED = 0.01
_SPREAD = 1.0
_SQUARES = 0.5
_NEAR = 8
"""How fast a form's weight falls with what it loses."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A form as the model sees it. lost: the logarithm of its time over the best one's."""

    work: RowWork
    form: RowForm
    microseconds: float
    lost: float


def timed(rows: Sequence[Mapping[str, Any]]) -> list[list[Timed]]:
    """The forms of each shape, that the model knows."""
    found: list[list[Timed]] = []
    for row in rows:
        known = [(*pair, taken["microseconds"]) for taken in row["forms"] if (pair := _known(row, taken))]
        if known:
            best = min(time for *_, time in known)
            found.append([Timed(work, form, time, math.log(time / best)) for work, form, time in known])
    return found


def _known(row: Mapping[str, Any], taken: Mapping[str, Any]) -> tuple[RowWork, RowForm] | None:
    """The work and the form of one that was timed; None for one that is no CTA's, or not chosen among."""
    threads, ctas, together = taken["threads"], taken["ctas"], taken.get("together", 1)
    if threads <= _WARP_THREADS:
        return None
    kernel, (m, n) = getattr(importlib.import_module("examples.rows"), row["program"]), row["shape"]
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    program = the_program(trace(kernel, {"M": m, "N": n}, elements))
    ways = ways_of_rows(program, Wanted())
    # Records without a run are of the longest.
    run = taken.get("run", ways[-1].run)
    shared = next((each for each in ways if each.run == run), None)
    if shared is None:
        return None
    work, forms = candidates(program, shared, target("sm_90a"), Wanted(row_threads=threads // ctas, row_ctas=ctas))
    for decided, form in forms:
        kind = (decided.streamed, bool(decided.kept), decided.together)
        if kind == (taken["streamed"], bool(taken["kept"]), together):
            return work, form
    return None


def loss(p: RowTimes, shapes: Sequence[Sequence[Timed]]) -> float:
    """See the head of this module."""
    means: list[float] = []
    squares = count = 0.0
    for forms in shapes:
        times = [predicted(p, each) for each in forms]
        least = min(times)
        chances = [(time / least) ** (-1 / _TRUSTED) for time in times]
        means.append(sum(chance * each.lost for chance, each in zip(chances, forms, strict=True)) / sum(chances))
        for time, each in zip(times, forms, strict=True):
            weight = math.exp(-_NEAR * each.lost)
            squares += weight * math.log(time / each.microseconds) ** 2
            count += weight
    spread = math.sqrt(statistics.fmean(mean**2 for mean in means))
    return statistics.fmean(means) + _SPREAD * spread + _SQUARES * squares / count


def predicted(p: RowTimes, run: Timed) -> float:
    """Microseconds."""
    hopper = target("sm_90a")
    return row_cycles(p, run.work, run.form, hopper) * 1e6 / hopper.limit("device.clock_hertz")


def first_choices(p: RowTimes, shapes: Sequence[Sequence[Timed]]) -> list[float]:
    """Of each shape the best time over that of the form that is predicted to be the quickest."""
    return [math.exp(-min(forms, key=lambda each: predicted(p, each)).lost) for forms in shapes]


def fit(rows: Sequence[Mapping[str, Any]], free: Sequence[str] = ()) -> int:
    """Print the values that fit, and how well they choose. free: which may change, all if none is named. Returns 0."""
    shapes = timed(rows)
    start = times_of(target("sm_90a"))
    print(
        f"{sum(map(len, shapes))} forms of {len(shapes)} shapes: error {loss(start, shapes):.4f} by the target's values"
    )
    found, least = descend(start, lambda tried: loss(tried, shapes), _STEPS, _FIRST_STEP, (1, 1, 2, 3), free)
    for each in fields(RowTimes):
        print(f"{each.name} = {getattr(found, each.name):.0f}")
    ratios = first_choices(found, shapes)
    print(
        f"error {least:.4f}; first choice over the best: mean {statistics.mean(ratios):.3f}, least {min(ratios):.3f}, "
        f"{sum(ratio < 0.97 for ratio in ratios)} of {len(ratios)} shapes below 0.97"
    )
    return 0
