"""Does the heuristic find what is known to be there, and keep what the problem demands?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.synth.graphs import attention_body, gated_body, gemm_body, random_graph

from tilewright.base.error import TilewrightError
from tilewright.solve.scheduling.marked_graph import Arc
from tilewright.solve.scheduling.modulo_problem import (
    ModuloProblem,
    ModuloSolution,
    Operation,
    Precedence,
    arcs_of,
    bounds,
)
from tilewright.synth.schedule.loop_tasks import task_graph
from tilewright.synth.schedule.modulo_heuristic import fits_registers, heuristic
from tilewright.synth.schedule.schedules import live, problem_of
from tilewright.targets import target

TARGET = target("sm_90a")


def holds(problem: ModuloProblem, solution: ModuloSolution) -> bool:
    """Every dependence, slot and lifetime, and every use and stream cycle by cycle."""
    arcs: tuple[Arc, ...] = arcs_of(problem, solution.slots, solution.streams)
    starts, interval = solution.starts, solution.interval
    if any(starts[a.target] + a.tokens * interval < starts[a.source] + a.time for a in arcs):
        return False
    taken: set[tuple[int, int]] = set()
    for start, stream, operation in zip(starts, solution.streams, problem.operations, strict=True):
        for what, time in (*operation.uses, (-1 - stream, operation.stream_time)):
            cells = {(what, cycle % interval) for cycle in range(start, start + time)}
            if len(cells) < time or cells & taken:
                return False
            taken |= cells
    return fits_registers(problem, solution)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_found_holds(seed: int) -> None:
    graph = random_graph(seed, count=4 + seed % 6)
    try:
        problem = problem_of(live(graph))
    except TilewrightError:
        return  # tasks that wait for one another: no schedule exists
    found = heuristic(problem)
    assert found is None or (holds(problem, found) and found.interval >= bounds(problem)[0].interval)


def test_most_random_graphs_have_one() -> None:
    found = [heuristic(problem_of(random_graph(seed))) for seed in range(24)]
    assert sum(each is not None for each in found) >= 20


@pytest.mark.parametrize(
    "body",
    [gemm_body(), gated_body(), attention_body(), attention_body(128, 176), attention_body(192, 128, 64, 3)],
    ids=["gemm", "gated", "attention", "attention 176", "attention of three"],
)
def test_real_loops_keep_the_tensor_cores_busy(body: object) -> None:
    problem = problem_of(task_graph(body, TARGET))  # type: ignore[arg-type]
    found = heuristic(problem)
    assert found is not None and holds(problem, found)
    assert found.interval == bounds(problem)[0].interval


def test_registers_that_do_not_fit_are_no_schedule() -> None:
    operations = (Operation("x", 2, (0,), ((0, 1),), 0, 10), Operation("y", 2, (0,), ((0, 1),), 0, 0, 5))
    problem = ModuloProblem(operations, (Precedence(0, 1, carries_value=True),), (), ("u",), ("s",), (15,), 0, 1, 10, 2)
    assert heuristic(problem) is not None
    assert heuristic(replace(problem, stream_registers=(14,))) is None
