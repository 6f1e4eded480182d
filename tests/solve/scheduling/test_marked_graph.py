"""Are liveness and the critical cycle those of all cycles, enumerated?"""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from tilewright.solve.scheduling.marked_graph import Arc, critical_cycle, cycle_without_token, earliest_starts


def cycles(count: int, arcs: list[Arc]) -> list[list[Arc]]:
    """Every simple cycle, from its least node."""
    found: list[list[Arc]] = []

    def extend(path: list[Arc], first: int) -> None:
        for arc in arcs:
            if arc.source == path[-1].target:
                if arc.target == first:
                    found.append([*path, arc])
                elif arc.target > first and arc.target not in {each.source for each in path}:
                    extend([*path, arc], first)

    for arc in arcs:
        if arc.source == arc.target:
            found.append([arc])
        elif arc.target > arc.source:
            extend([arc], arc.source)
    return found


def random_arcs(seed: int, least_tokens: int) -> tuple[int, list[Arc]]:
    dice = random.Random(seed)
    count = dice.randint(2, 5)
    return count, [
        Arc(dice.randrange(count), dice.randrange(count), dice.randint(0, 9), dice.randint(least_tokens, 3))
        for _ in range(dice.randint(2, 8))
    ]


@pytest.mark.parametrize("seed", range(80))
def test_a_cycle_without_token_is_found_exactly_where_there_is_one(seed: int) -> None:
    count, arcs = random_arcs(seed, 0)
    found = cycle_without_token(count, arcs)
    assert bool(found) == any(all(arc.tokens == 0 for arc in cycle) for cycle in cycles(count, arcs))
    for source, target in zip(found, (*found[1:], *found[:1]), strict=True):
        assert any((arc.source, arc.target, arc.tokens) == (source, target, 0) for arc in arcs)


@pytest.mark.parametrize("seed", range(80))
def test_the_critical_cycle_has_the_largest_ratio(seed: int) -> None:
    count, arcs = random_arcs(seed, 1)
    found = critical_cycle(count, arcs)
    ratios = [Fraction(sum(a.time for a in cycle), sum(a.tokens for a in cycle)) for cycle in cycles(count, arcs)]
    assert (found.ratio if found is not None else None) == max(ratios, default=None)


@pytest.mark.parametrize("seed", range(40))
def test_starts_exist_from_the_ratio_on(seed: int) -> None:
    count, arcs = random_arcs(seed, 1)
    found = critical_cycle(count, arcs)
    interval = 0 if found is None else -(-found.ratio.numerator // found.ratio.denominator)
    starts = earliest_starts(count, arcs, interval)
    assert starts is not None
    assert all(starts[a.target] + a.tokens * interval >= starts[a.source] + a.time for a in arcs)
    if interval:
        assert earliest_starts(count, arcs, interval - 1) is None


def test_no_interval_is_long_enough_for_a_cycle_without_token() -> None:
    with pytest.raises(ValueError, match="0 tokens"):
        critical_cycle(2, [Arc(0, 1, 3, 0), Arc(1, 0, 2, 0)])
