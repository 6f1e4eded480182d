"""Random steps come near the least loss, and are the same ones each time."""

from __future__ import annotations

import math
from dataclasses import fields

from bench.random_descent import descend

from tilewright.synth.tile.long_sum import SumParameters, parameters_of
from tilewright.targets import target


def test_a_loss_falls_and_steps_are_repeatable() -> None:
    start = parameters_of(target("sm_90a"))
    wanted = {each.name: 1.3 * getattr(start, each.name) for each in fields(start) if getattr(start, each.name)}

    def loss(tried: SumParameters) -> float:
        return sum(math.log(getattr(tried, name) / value) ** 2 for name, value in wanted.items())

    found, least = descend(start, loss, 400, 0.15, (1, 1, 2))
    assert least == loss(found) < loss(start) / 10
    assert descend(start, loss, 400, 0.15, (1, 1, 2)) == (found, least)
    assert descend(start, loss, 0, 0.15, (1,)) == (start, loss(start))
