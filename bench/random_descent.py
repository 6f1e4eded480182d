"""Which values of a model's parameters make a loss least, as far as random steps find?

Steps change few parameters at a time by a random factor, from a fixed seed, and shrink; a step that does not help is
taken back. A local method: where it begins matters. What is made least is for those who ask (`few_rows_fit`,
`long_sum_fit`, `row_fit`). Checked by: tests/benchmarks/test_random_descent.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from tilewright.synth.store.row_time import RowTimes
from tilewright.synth.tile.few_rows import RowParameters
from tilewright.synth.tile.long_sum import SumParameters

_SEED = 0
_LAST_STEP = 0.01

Parameters = TypeVar("Parameters", RowParameters, SumParameters, RowTimes)


def descend(
    start: Parameters,
    loss: Callable[[Parameters], float],
    steps: int,
    first_step: float,
    counts: Sequence[int],
    free: Sequence[str] = (),
) -> tuple[Parameters, float]:
    """(the best values met, their loss). first_step: standard deviation of the first factors' logarithms; counts: how
    many parameters a step may change, as often as each stands there; free: which may change, all if none is named."""
    chance = random.Random(_SEED)
    names = [each.name for each in fields(start) if not free or each.name in free]
    found, least = start, loss(start)
    for step in range(steps):
        width = first_step * (_LAST_STEP / first_step) ** (step / steps)
        tried = found
        for name in chance.sample(names, min(len(names), chance.choice(counts))):
            tried = replace(tried, **{name: getattr(tried, name) * math.exp(chance.gauss(0, width))})
        error = loss(tried)
        if error < least:
            found, least = tried, error
    return found, least
