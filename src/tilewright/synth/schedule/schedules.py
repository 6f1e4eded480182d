"""Which schedule does a task graph get, by the heuristic or as the optimum, and why is none shorter?

The graph becomes a problem of plain numbers for `solve` and back. The heuristic answers in milliseconds; the optimum
begins from its answer and ends with a certificate: a lower bound that is met, or a search in which every shorter
interval was found impossible. Checked by: `contract.schedule.schedule_check` on every schedule;
tests/synth/schedule/test_schedules.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.base.error import TilewrightError, Undecided
from tilewright.ir.schedule import METHODS, Certificate, Method, Placement, Schedule, price_cycles
from tilewright.ir.task_graph import TaskGraph, crossing_cycles, crossing_issue_slots, well_formed
from tilewright.solve.bounded import Undetermined
from tilewright.solve.scheduling.marked_graph import cycle_without_token
from tilewright.solve.scheduling.modulo_problem import (
    Bound,
    ModuloProblem,
    ModuloSolution,
    Operation,
    Pair,
    Place,
    Precedence,
    arcs_of,
    bounds,
    lifetime_arcs,
    most_slots,
)
from tilewright.synth.schedule.modulo_heuristic import heuristic


def problem_of(graph: TaskGraph) -> ModuloProblem:
    """The graph as numbers: tasks, units, roles and buffers in their order."""
    number = {task.name: index for index, task in enumerate(graph.tasks)}
    unit = {name: index for index, name in enumerate(graph.resources)}
    stream = {role.name: index for index, role in enumerate(graph.roles)}
    operations = tuple(
        Operation(
            task.name,
            task.latency_cycles,
            tuple(stream[role] for role in task.roles),
            tuple((unit[use.resource], use.cycles) for use in task.uses),
            task.stream_cycles,
            task.result_registers,
            task.resident_registers,
        )
        for task in graph.tasks
    )
    precedences = tuple(
        Precedence(
            number[edge.source],
            number[edge.target],
            edge.distance,
            crossing_cycles(graph, edge),
            math.ceil(crossing_issue_slots(graph, edge) / graph.issue_slots_per_cycle),
            not edge.buffer and not edge.issued,
            edge.issued,
        )
        for edge in graph.dependences
    )
    places = tuple(
        Place(
            buffer.slot_bytes,
            buffer.slots_min,
            buffer.slots_max,
            tuple(
                Pair(number[edge.source], number[edge.target], edge.distance, buffer.release_cycles)
                for edge in graph.dependences
                if edge.buffer == buffer.name
            ),
        )
        for buffer in graph.buffers
    )
    return ModuloProblem(
        operations,
        precedences,
        places,
        graph.resources,
        tuple(role.name for role in graph.roles),
        tuple(role.registers for role in graph.roles),
        graph.shared_bytes,
        math.ceil(sum(task.issue_slots for task in graph.tasks) / graph.issue_slots_per_cycle),
        graph.trips,
        graph.unroll_max,
    )


def _deadlocked(graph: TaskGraph, problem: ModuloProblem) -> tuple[str, ...]:
    values = set(lifetime_arcs(problem))
    waits = [arc for arc in arcs_of(problem, most_slots(problem)) if arc not in values]
    nodes = cycle_without_token(len(graph.tasks), waits)
    return tuple(graph.tasks[node].name for node in nodes)


def lower_bounds(graph: TaskGraph) -> tuple[Certificate, ...]:
    """What bounds the interval, the tightest first: units, issue slots, streams, the critical cycle."""
    problem = _live_problem(graph)
    return tuple(_certificate(problem, bound) for bound in bounds(problem))


def live(graph: TaskGraph) -> TaskGraph:
    """The graph. Raises TilewrightError with the cycle of tasks that wait for one another forever, and for buffers
    that fit at no depth."""
    _live_problem(graph)
    return graph


def _live_problem(graph: TaskGraph) -> ModuloProblem:
    """The graph as numbers; raises as `live` does."""
    well_formed(graph)
    least = sum(buffer.slot_bytes * buffer.slots_min for buffer in graph.buffers)
    if least > graph.shared_bytes:
        raise TilewrightError(
            f"{graph.name}: its buffers take {least} bytes at the least, of {graph.shared_bytes}",
            remedy="use a smaller tile",
        )
    problem = problem_of(graph)
    stuck = _deadlocked(graph, problem)
    if stuck:
        raise TilewrightError(
            f"{graph.name} would stop forever: {' waits for '.join(reversed((*stuck, stuck[0])))}",
            remedy="give a buffer another slot, or a dependence a distance",
        )
    kept = cycle_without_token(len(graph.tasks), arcs_of(problem, most_slots(problem)))
    if kept:
        raise TilewrightError(
            f"{graph.name}: a value among {', '.join(graph.tasks[node].name for node in kept)} would have to live for "
            f"more than {graph.unroll_max} iterations",
            remedy="let the loop be unrolled further, or carry the value over fewer iterations",
        )
    return problem


def schedule_graph(graph: TaskGraph, method: Method = "heuristic", *, seconds: float | None = None) -> Schedule:
    """The schedule by that method. seconds: of the optimum, deterministic ones (see `solve.scheduling.modulo`).

    Raises TilewrightError where there is none, Undecided where the optimum was not found in the time given.
    """
    if method not in METHODS:
        raise TilewrightError(f"no way to schedule {method!r}", remedy=f"use {' or '.join(METHODS)}")
    problem = _live_problem(graph)
    tightest = bounds(problem)[0]
    found = heuristic(problem, tightest.interval)
    if method == "heuristic":
        if found is None:
            raise _no_schedule(graph)
        met = _certificate(problem, tightest) if found.interval == tightest.interval else None
        return _schedule(graph, found, method, tightest, met)
    from tilewright.solve.scheduling.modulo import DEFAULT_SECONDS, Impossible, optimum

    answer = optimum(problem, seconds=DEFAULT_SECONDS if seconds is None else seconds, known=found)
    if isinstance(answer, Undetermined):
        raise Undecided(f"{graph.name}: {answer.reason}", remedy=answer.would_decide)
    if isinstance(answer, Impossible):
        raise _no_schedule(graph)
    certificate = (
        _certificate(problem, answer.bound)
        if answer.bound is not None
        else Certificate("search", answer.solution.interval, ())
    )
    return _schedule(graph, answer.solution, method, tightest, certificate)


def _no_schedule(graph: TaskGraph) -> TilewrightError:
    return TilewrightError(
        f"{graph.name} has no schedule: its values exceed the registers or its buffers the shared memory",
        remedy="use a smaller tile, or more warpgroups",
    )


def _schedule(
    graph: TaskGraph, solution: ModuloSolution, method: Method, tightest: Bound, certificate: Certificate | None
) -> Schedule:
    placements = tuple(
        Placement(task.name, graph.roles[stream].name, start)
        for task, start, stream in zip(graph.tasks, solution.starts, solution.streams, strict=True)
    )
    slots = tuple((buffer.name, count) for buffer, count in zip(graph.buffers, solution.slots, strict=True))
    found = Schedule(graph.name, solution.interval, placements, slots, method, tightest.interval, 0, certificate)
    return replace(found, price_cycles=price_cycles(graph, found))


def _certificate(problem: ModuloProblem, bound: Bound) -> Certificate:
    match bound.kind:
        case "unit":
            names = tuple(problem.units[unit] for unit in bound.members)
        case "stream":
            names = tuple(problem.streams[stream] for stream in bound.members)
        case "issue":
            names = ()
        case "cycle":
            names = tuple(problem.operations[number].name for number in bound.members)
    return Certificate(bound.kind, bound.interval, names)
