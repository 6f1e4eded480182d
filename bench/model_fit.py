"""Which parameters foretell the stored times best, and how well do those of ten products foretell the other ten?

    python -m bench model --from bench/results/model.json --fit [--held-out FILE]

Weighted least squares of the logarithm of predicted over measured, by Levenberg and Marquardt, over the logarithms of
all `TimeParameters`. What matters is which configuration comes first: so a run that takes r times the best of its
product weighs exp(-6 (r - 1)), each product as much as another, and what all predictions of a product are off together
counts less than how they are off against each other. A weak pull toward the values in use keeps what the runs do not
tell. Which configuration the model then puts first is not in what is minimised: it is what the result is judged by.

Printed are the fitted values as rows of a target, and scores: of all products, of each half of them by what the other
half gave (the products at even places, those at odd ones), and of a file of other products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.model_runs import RESULT_BYTES, Run, Shape, decisions_of, read_runs, summary

if TYPE_CHECKING:
    from tilewright.ir.cascade import CascadeDecisions
    from tilewright.synth.cost.time_model import TimeParameters

    Known = Sequence[tuple[Run, CascadeDecisions]]
Vector = NDArray[np.float64]

_SLOW = 6.0
"""How fast slower runs lose weight: of 3, 4, 6, 8 and 12 what gave the best first choices of products held out."""
_COMMON = 0.4
"""What a product's common error counts beside errors against each other."""
_PULL = 0.02
_STEP = 1e-3
_ROUNDS = 12
_LONGEST = 0.5
"""Of a step, in logarithms."""
_NORMS = ("slice_norm_permille", "memory_norm_permille", "kernel_norm_permille")
_AT_LEAST, _AT_MOST = {name: 1000.0 for name in _NORMS}, {"read_permille": 1000.0, "sustained_permille": 1000.0}
"""A norm below 1 is none; no more than all of a rate is reached."""


def fit(stored: Path, held_out: Path | None = None) -> int:
    """Fit, and print what came of it. Returns 0."""
    from tilewright.synth.cost.time_model import parameters_of
    from tilewright.targets import target

    known = _known(stored)
    begin = parameters_of(target("sm_90a"))
    found = fitted(known, begin)
    for name, value in asdict(found).items():
        print(f"{name:28} {round(value):8}   (before {getattr(begin, name):.0f})")
    _say("all products", known, found)
    shapes = list(dict.fromkeys(run.shape for run, _ in known))
    for words, place in (("even", 0), ("odd", 1)):
        chosen: set[Shape] = set(shapes[place::2])
        one = fitted([each for each in known if each[0].shape in chosen], begin)
        _say(
            f"fitted to products at {words} places, of the others", [e for e in known if e[0].shape not in chosen], one
        )
    if held_out is not None:
        _say(f"of {held_out.name}, by all of {stored.name}", _known(held_out), found)
    return 0


def _known(path: Path) -> Known:
    _, runs = read_runs(path)
    with ProcessPoolExecutor() as pool:
        return list(zip(runs, pool.map(decisions_of, runs, chunksize=32), strict=True))


def _say(words: str, known: Known, parameters: TimeParameters) -> None:
    times = predictions(known, parameters)
    runs = [replace(run, predicted_microseconds=float(t)) for (run, _), t in zip(known, times, strict=True)]
    print(f"{words}:")
    for line in summary(runs):
        print(f"  {line}")


def predictions(known: Known, parameters: TimeParameters) -> Vector:
    """Microseconds of each run."""
    from tilewright.synth.cost.time_model import predicted_time
    from tilewright.targets import target

    hopper = target("sm_90a")
    return np.array([predicted_time(d, run.shape, hopper, parameters, RESULT_BYTES).microseconds for run, d in known])


def fitted(known: Known, begin: TimeParameters) -> TimeParameters:
    """The parameters that foretell these runs best, sought from `begin` on."""
    names = [each.name for each in fields(begin)]
    start: Vector = np.log(np.array([float(getattr(begin, name)) for name in names]))
    weights, products = _weights([run for run, _ in known])

    def clipped(place: Vector) -> TimeParameters:
        values = {name: float(value) for name, value in zip(names, np.exp(place), strict=True)}
        return replace(begin, **_within(values))

    def errors(place: Vector) -> Vector:
        off = np.log(predictions(known, clipped(place)) / np.array([run.microseconds for run, _ in known]))
        common = np.array([(weights[each] * off[each]).sum() for each in products])
        apart = np.sqrt(weights) * off
        for each, mean in zip(products, common, strict=True):
            apart[each] -= np.sqrt(weights[each]) * mean
        return np.concatenate([apart, _COMMON * common, _PULL * (place - start)])

    place, damping = start.copy(), 1e-2
    now = errors(place)
    for _ in range(_ROUNDS):
        slopes = np.stack([(errors(place + _STEP * each) - now) / _STEP for each in np.eye(len(names))], axis=1)
        square, toward = slopes.T @ slopes, slopes.T @ now
        before = now @ now
        for _ in range(6):
            step = -np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-9), toward)
            tried = place + np.clip(step, -_LONGEST, _LONGEST)
            then = errors(tried)
            if then @ then < before:
                place, now, damping = tried, then, max(damping / 4, 1e-7)
                break
            damping *= 5
        if before - now @ now < 1e-5 * before:
            break
    return clipped(place)


def _within(values: Mapping[str, float]) -> dict[str, float]:
    return {
        name: min(max(value, _AT_LEAST.get(name, 0.0)), _AT_MOST.get(name, float("inf")))
        for name, value in values.items()
    }


def _weights(runs: Sequence[Run]) -> tuple[Vector, list[NDArray[np.intp]]]:
    """(what each run weighs, one in all for each product; where each product's runs are)."""
    weights = np.zeros(len(runs))
    shapes = [run.shape for run in runs]
    products = [np.array([at for at, other in enumerate(shapes) if other == shape]) for shape in dict.fromkeys(shapes)]
    for each in products:
        times = np.array([runs[int(at)].microseconds for at in each])
        weight = np.exp(-_SLOW * (times / times.min() - 1))
        weights[each] = weight / weight.sum()
    return weights, products
