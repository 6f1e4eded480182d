"""Is the optimum that of brute force, and does a limit never end as a certificate?"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from tilewright.solve.bounded import Undetermined
from tilewright.solve.scheduling.marked_graph import Arc, earliest_starts
from tilewright.solve.scheduling.modulo import Impossible, Optimum, optimum
from tilewright.solve.scheduling.modulo_problem import (
    ModuloProblem,
    Operation,
    Pair,
    Place,
    Precedence,
    arcs_of,
    bounds,
)
from tilewright.solve.scheduling.modulo_symmetry import ordered_pairs


def random_problem(seed: int) -> ModuloProblem:
    """Few operations of few cycles on two units and one stream, with a loop and a place of fixed slots."""
    dice = random.Random(seed)
    count = dice.randint(2, 4)
    operations = tuple(
        Operation(
            f"o{number}",
            dice.randint(1, 4),
            (0,),
            tuple((unit, dice.randint(1, 3)) for unit in dice.sample((0, 1), dice.randint(0, 2))),
            dice.randint(0, 2),
        )
        for number in range(count)
    )
    forward = tuple(Precedence(dice.randrange(target), target) for target in range(1, count))
    back = Precedence(count - 1, dice.randrange(count), dice.randint(1, 2))
    slots = dice.randint(1, 3)
    place = Place(8, slots, slots, (Pair(0, count - 1, 0, dice.randint(0, 2)),))
    return ModuloProblem(operations, (*forward, back), (place,), ("u", "v"), ("s",), (99,), 64, 1, 10, 2)


def brute_force(problem: ModuloProblem) -> int:
    """The least interval, by trying every place of every operation; stages follow from the difference constraints."""
    slots = [place.least for place in problem.places]
    arcs = arcs_of(problem, slots)
    for interval in itertools.count(1):
        for places in itertools.product(range(interval), repeat=len(problem.operations)):
            if places[0] == 0 and _free(problem, places, interval):
                # start = place + interval * stage: a difference constraint of stages, with an interval of one.
                staged = [
                    Arc(a.source, a.target, -(-(a.time + places[a.source] - places[a.target]) // interval), a.tokens)
                    for a in arcs
                ]
                if earliest_starts(len(places), staged, 1) is not None:
                    return interval
    raise AssertionError


def _free(problem: ModuloProblem, places: tuple[int, ...], interval: int) -> bool:
    taken: set[tuple[object, int]] = set()
    for place, operation in zip(places, problem.operations, strict=True):
        for what, time in (*operation.uses, (("stream", operation.streams), operation.stream_time)):
            for cycle in range(place, place + time):
                if (what, cycle % interval) in taken:
                    return False
                taken.add((what, cycle % interval))
    return True


@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_is_that_of_brute_force(seed: int) -> None:
    problem = random_problem(seed)
    found = optimum(problem)
    assert isinstance(found, Optimum)
    assert found.solution.interval == brute_force(problem)
    assert found.searched == (found.bound is None)


def test_some_optimum_is_above_every_bound() -> None:
    """Otherwise no certificate by search was ever tested."""
    searched = [
        seed for seed in range(40) if brute_force(random_problem(seed)) > bounds(random_problem(seed))[0].interval
    ]
    assert searched


def alike(seed: int, streams: int = 2) -> ModuloProblem:
    """Two operations in each of so many streams, which share a unit and slots that another stream fills."""
    dice = random.Random(seed)
    first = Operation("first", dice.randint(1, 3), (1,), ((0, dice.randint(1, 2)),), 1)
    second = Operation("second", dice.randint(1, 2), (1,), (), dice.randint(0, 1))
    fill = Operation("fill", dice.randint(1, 4), (0,), ((1, dice.randint(1, 2)),), 1)
    operations = [fill, *(replace(one, streams=(1 + stream,)) for stream in range(streams) for one in (first, second))]
    edges: list[Precedence] = []
    pairs: list[Pair] = []
    distance = dice.randint(0, 1)
    for stream in range(streams):
        at = 1 + 2 * stream
        edges += [Precedence(0, at), Precedence(at, at + 1, distance), Precedence(at + 1, at, 1, after_issue=True)]
        pairs.append(Pair(0, at + 1, distance, 1))
    slots = distance + dice.randint(1, 2)
    place = Place(8, slots, slots, tuple(pairs))
    names = tuple(f"s{stream}" for stream in range(streams + 1))
    return ModuloProblem(
        tuple(operations), tuple(edges), (place,), ("u", "v"), names, (99,) * (streams + 1), 64, 1, 10, 2
    )


@pytest.mark.sample(7)
@pytest.mark.parametrize("seed", range(20))
def test_an_order_of_streams_that_are_alike_loses_nothing(seed: int) -> None:
    problem = alike(seed)
    assert ordered_pairs(problem) == ((1, 3),)
    found = optimum(problem)
    assert isinstance(found, Optimum) and found.solution.interval == brute_force(problem)
    assert found.solution.starts[1] <= found.solution.starts[3]


def test_streams_are_alike_only_where_nothing_tells_them_apart() -> None:
    problem = alike(0, 3)
    assert ordered_pairs(problem) == ((1, 3), (3, 5))
    slower = replace(problem.operations[3], latency=9)
    for other in (
        replace(problem, operations=(*problem.operations[:3], slower, *problem.operations[4:])),
        replace(problem, stream_registers=(99, 99, 50, 99)),
        replace(problem, precedences=(*problem.precedences, Precedence(1, 3))),
        replace(problem, places=(replace(problem.places[0], pairs=problem.places[0].pairs[1:]),)),
    ):
        assert (1, 3) not in ordered_pairs(other)
    movable = replace(problem.operations[1], streams=(1, 2))
    assert ordered_pairs(replace(problem, operations=(problem.operations[0], movable, *problem.operations[2:]))) == ()


def two_values(budget: int) -> ModuloProblem:
    """Two values of 10 registers that one operation reads; each lives for at least four cycles of an interval of 3."""
    operations = (
        Operation("x", 2, (0,), ((0, 1),), 0, 10),
        Operation("y", 2, (0,), ((0, 1),), 0, 10),
        Operation("sum", 2, (0,), ((0, 1),), 0),
    )
    precedences = (Precedence(0, 2, carries_value=True), Precedence(1, 2, carries_value=True))
    return ModuloProblem(operations, precedences, (), ("u",), ("s",), (budget,), 0, 1, 10, 2)


@pytest.mark.parametrize(("budget", "interval"), [(40, 3), (30, 4), (20, 5)])
def test_registers_lengthen_the_interval(budget: int, interval: int) -> None:
    found = optimum(two_values(budget))
    assert isinstance(found, Optimum) and found.solution.interval == interval


def test_too_few_registers_are_impossible() -> None:
    assert isinstance(optimum(two_values(19)), Impossible)


def test_a_channel_is_paid_for_only_where_it_shortens_the_interval() -> None:
    def problem(price: int, stream_time: int) -> ModuloProblem:
        operations = (
            Operation("x", stream_time, (0, 1), (), stream_time),
            Operation("y", stream_time, (0, 1), (), stream_time),
        )
        edge = Precedence(0, 1, 0, 2, price)
        return ModuloProblem(operations, (edge,), (), (), ("s", "t"), (99, 99), 0, 6, 10, 2)

    together = optimum(problem(5, 3))  # six cycles issue anyhow: nothing is won by a second stream
    apart = optimum(problem(5, 4))
    assert isinstance(together, Optimum) and together.solution.streams in {(0, 0), (1, 1)}
    assert isinstance(apart, Optimum) and apart.solution.interval == 6 and len(set(apart.solution.streams)) == 2


def test_a_limit_ends_undetermined_or_without_a_certificate() -> None:
    """At almost no effort, no claim of a minimum is made that a bound does not show."""
    for seed in range(12):
        found = optimum(random_problem(seed), seconds=1e-9)
        if isinstance(found, Optimum):
            assert found.bound is not None and found.solution.interval == found.bound.interval
        else:
            assert isinstance(found, Undetermined | Impossible)
            assert not isinstance(found, Impossible) or brute_force(random_problem(seed)) > found.interval
