"""What is the least interval at which a body can be repeated, and of the schedules with it the cheapest?

Constraint programming (CP-SAT): a start is a place in the interval plus whole intervals. A unit that repeats is one
that does not overlap over two intervals laid end to end, every use being there twice. A register file is a cumulative
resource over the same two, a value that lives longer than an interval taking its registers throughout as often as it
does so. First the lower bound is tried as the interval; where it is impossible the interval becomes a variable, and the
solver's proof of its minimum is the certificate. Then, at that interval, the price: crossings between streams in every
turn, and the way of the first turn.

Starts may be bounded by the sum of all latencies and an interval an operation, without loss: where all that began
earlier has ended an interval ago, what follows can begin an interval earlier. One place may be fixed, since all
constraints hold of any rotation.

Effort is counted in the solver's deterministic seconds, on one worker: the same question ends the same way. At the
limit the answer is `Undetermined`, or a schedule without certificate, never a certificate. Checked by:
tests/solve/scheduling/test_modulo.py, against brute force, and every solution by `contract.schedule.schedule_check`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.solve.bounded import Undetermined
from tilewright.solve.installed import solver
from tilewright.solve.scheduling.modulo_problem import (
    Bound,
    ModuloProblem,
    ModuloSolution,
    bounds,
    most_slots,
    serial_interval,
    waited_time,
)
from tilewright.solve.scheduling.modulo_symmetry import ordered_pairs

if TYPE_CHECKING:
    from ortools.sat.python import cp_model
else:
    cp_model = solver("ortools.sat.python.cp_model")

DEFAULT_SECONDS = 6.0
"""Deterministic seconds for the question whether the lower bound is met; one is one to two seconds of a core."""
_SEARCH_SHARE = 2.5
"""Of that for the proof that no shorter interval exists, where the lower bound is not met."""
_PRICE_SHARE = 0.25
"""Of that for the price, whose answer is worth having before it is proved to be the best."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """A schedule of the least interval. bound: the lower bound that it meets, or None where `searched`: every shorter
    interval was found impossible."""

    solution: ModuloSolution
    bound: Bound | None
    searched: bool


@dataclass(frozen=True, slots=True)
class Impossible:
    """No interval up to `interval` has a schedule; that one would suffice to run everything in turn, so what is lacking
    is memory or registers."""

    interval: int


@dataclass(slots=True)
class _Model:
    """interval: a constant or a variable; the rest by operation or place."""

    model: cp_model.CpModel
    interval: Any
    starts: list[Any]
    streams: list[dict[int, Any]]
    slots: list[Any]
    crossings: list[tuple[int, Any]]
    ends: list[Any]


def optimum(
    problem: ModuloProblem, *, seconds: float = DEFAULT_SECONDS, known: ModuloSolution | None = None
) -> Optimum | Impossible | Undetermined:
    """The least interval with its cheapest schedule. known: a schedule to begin from, which bounds the interval.

    Raises ValueError where a cycle without a token makes every interval too short.
    """
    tightest = bounds(problem)[0]
    lower = tightest.interval
    upper = known.interval if known is not None else max(lower, serial_interval(problem))
    searched = False
    bound: Bound | None = tightest
    first: ModuloSolution | None = known if known is not None and known.interval == lower else None
    if first is None:
        first, impossible = _solve(_model(problem, lower, lower), problem, seconds, known)
        if first is None:
            if lower == upper:
                return Impossible(upper) if impossible else _undetermined(lower)
            built = _model(problem, lower + 1 if impossible else lower, upper)
            built.model.minimize(built.interval)
            first, proved = _solve(built, problem, seconds * _SEARCH_SHARE, known)
            if first is None:
                return Impossible(upper) if proved else _undetermined(lower)
            bound, searched = None, proved and impossible
            if not searched:
                return Undetermined(
                    f"{first.interval} cycles are possible, and nothing below {lower} is",
                    "more effort, or a coarser grain of time",
                )
    return Optimum(_cheapest(problem, first, seconds * _PRICE_SHARE), bound, searched)


def _undetermined(lower: int) -> Undetermined:
    return Undetermined(f"no schedule found in the time given; none has less than {lower} cycles", "more effort")


def _cheapest(problem: ModuloProblem, first: ModuloSolution, seconds: float) -> ModuloSolution:
    """The cheapest schedule of that interval that was found in the time given."""
    built = _model(problem, first.interval, first.interval)
    model = built.model
    horizon = _horizon(problem, first.interval)
    fill, begin = model.new_int_var(0, horizon, "fill"), model.new_int_var(0, horizon, "begin")
    for start, end in zip(built.starts, built.ends, strict=True):
        model.add(begin <= start)
        model.add(fill >= end - begin)
    crossing = sum(price * literal for price, literal in built.crossings)
    model.minimize(crossing * max(problem.turns - 1, 1) + fill + sum(built.slots))
    # Not begun from the first schedule: the solver gets further without it.
    found, proved = _solve(built, problem, seconds, None)
    if found is None or (not proved and _price(problem, found) >= _price(problem, first)):
        return first
    return found


def _price(problem: ModuloProblem, solution: ModuloSolution) -> int:
    """What `_cheapest` minimises."""
    crossing = sum(
        each.crossing_price
        for each in problem.precedences
        if solution.streams[each.source] != solution.streams[each.target]
    )
    ends = [start + one.latency for start, one in zip(solution.starts, problem.operations, strict=True)]
    return crossing * max(problem.turns - 1, 1) + max(ends) - min(solution.starts) + sum(solution.slots)


def _horizon(problem: ModuloProblem, interval: int) -> int:
    return serial_interval(problem) + (len(problem.operations) + 1) * interval


def _model(problem: ModuloProblem, lower: int, upper: int) -> _Model:
    """The constraints, for an interval of [lower, upper]."""
    model = cp_model.CpModel()
    fixed = lower == upper
    interval: Any = lower if fixed else model.new_int_var(lower, upper, "interval")
    horizon = _horizon(problem, upper)

    def times(count: Any, most: int) -> Any:
        """count * interval."""
        if fixed or isinstance(count, int):
            return count * interval
        product = model.new_int_var(0, most * upper, "")
        model.add_multiplication_equality(product, [count, interval])
        return product

    starts: list[Any] = []
    places: list[Any] = []
    for number, operation in enumerate(problem.operations):
        place = model.new_int_var(0, upper - 1 if number else 0, f"place {operation.name}")
        if not fixed:
            model.add(place <= interval - 1)
        stages = horizon // lower
        stage = model.new_int_var(0, stages, f"stage {operation.name}")
        start = model.new_int_var(0, horizon, f"start {operation.name}")
        model.add(start == place + times(stage, stages))
        starts.append(start)
        places.append(place)
    seconds: list[Any] = []  # the same place one interval later
    for place in places:
        second = model.new_int_var(0, 2 * upper, "")
        model.add(second == place + interval)
        seconds.append(second)

    streams: list[dict[int, Any]] = []
    for operation in problem.operations:
        literals = {stream: model.new_bool_var(f"{operation.name} in {stream}") for stream in operation.streams}
        model.add_exactly_one(literals.values())
        streams.append(literals)

    for unit in range(len(problem.units)):
        laid: list[Any] = []
        for number, operation in enumerate(problem.operations):
            for used, time in operation.uses:
                if used == unit and time:
                    laid += [
                        model.new_fixed_size_interval_var(places[number], time, ""),
                        model.new_fixed_size_interval_var(seconds[number], time, ""),
                    ]
        model.add_no_overlap(laid)
    for stream in range(len(problem.streams)):
        laid = []
        for number, operation in enumerate(problem.operations):
            literal = streams[number].get(stream)
            if literal is not None and operation.stream_time:
                laid += [
                    model.new_optional_fixed_size_interval_var(at, operation.stream_time, literal, "")
                    for at in (places[number], seconds[number])
                ]
        model.add_no_overlap(laid)

    crossings = _precedences(model, problem, starts, streams, interval)
    for first, second in ordered_pairs(problem):
        model.add(starts[first] <= starts[second])
    slots: list[Any] = []
    for place, most in zip(problem.places, most_slots(problem), strict=True):
        count = model.new_int_var(place.least, max(most, place.least), "slots")
        turns = times(count, max(most, place.least))
        slots.append(count)
        for pair in place.pairs:
            done = starts[pair.reader] + problem.operations[pair.reader].latency + pair.release_time
            model.add(starts[pair.writer] + turns >= done + pair.distance * interval)
    model.add(
        sum(place.slot_bytes * count for place, count in zip(problem.places, slots, strict=True))
        <= problem.memory_bytes
    )
    ends = [start + one.latency for start, one in zip(starts, problem.operations, strict=True)]
    _registers(model, problem, starts, places, seconds, streams, interval, upper, horizon, times)
    return _Model(model, interval, starts, streams, slots, crossings, ends)


def _precedences(
    model: cp_model.CpModel,
    problem: ModuloProblem,
    starts: list[Any],
    streams: list[dict[int, Any]],
    interval: Any,
) -> list[tuple[int, Any]]:
    """All precedences; (price, literal) of each that may cross."""
    crossings: list[tuple[int, Any]] = []
    for each in problem.precedences:
        done = starts[each.source] + waited_time(problem, each)
        begin = starts[each.target] + each.distance * interval
        model.add(begin >= done)
        shared = set(streams[each.source]) & set(streams[each.target])
        if not (each.crossing_time or each.crossing_price):
            continue
        crosses = model.new_bool_var("crosses")
        if not shared:
            model.add(crosses == 1)
        for stream, literal in streams[each.source].items():
            other = streams[each.target].get(stream)
            if other is None:
                model.add_implication(literal, crosses)
            else:
                model.add_bool_or([literal.negated(), other, crosses])
                model.add_bool_or([literal.negated(), other.negated(), crosses.negated()])
        model.add(begin >= done + each.crossing_time * crosses)
        crossings.append((each.crossing_price, crosses))
    return crossings


def _registers(
    model: cp_model.CpModel,
    problem: ModuloProblem,
    starts: list[Any],
    places: list[Any],
    seconds: list[Any],
    streams: list[dict[int, Any]],
    interval: Any,
    upper: int,
    horizon: int,
    times: Any,
) -> None:
    """Values live no longer than `most_copies` intervals, and fit the file of the stream that runs their operation."""
    copies = problem.most_copies
    lives: dict[int, tuple[Any, Any]] = {}
    for number, operation in enumerate(problem.operations):
        if not operation.registers:
            continue
        end = model.new_int_var(0, 2 * horizon, "")
        model.add(end >= starts[number] + operation.latency)
        for each in problem.precedences:
            if each.source == number and each.carries_value:
                reader = starts[each.target] + problem.operations[each.target].latency
                model.add(end >= reader + each.distance * interval)
        whole, rest = model.new_int_var(0, copies, "whole"), model.new_int_var(0, upper, "rest")
        model.add(rest <= interval)
        model.add(end - starts[number] == times(whole, copies) + rest)
        model.add(end - starts[number] <= copies * interval)
        lives[number] = whole, rest
    for stream, budget in enumerate(problem.stream_registers):
        able = [number for number in range(len(problem.operations)) if stream in streams[number]]
        most = sum(
            problem.operations[number].registers * (copies + 1) + problem.operations[number].resident for number in able
        )
        if most <= budget:
            continue
        laid: list[Any] = []
        demands: list[int] = []
        throughout: list[Any] = []
        for number in able:
            operation, literal = problem.operations[number], streams[number][stream]
            if operation.resident:
                throughout.append(operation.resident * literal)
            if number not in lives:
                continue
            whole, rest = lives[number]
            for at in (places[number], seconds[number]):
                until = model.new_int_var(0, 3 * upper, "")
                laid.append(model.new_optional_interval_var(at, rest, until, literal, ""))
                demands.append(operation.registers)
            here = model.new_int_var(0, copies, "")
            # At least `whole` where it runs here; more would only be held in vain.
            model.add(here >= whole - copies * (1 - literal))
            throughout.append(operation.registers * here)
        held = model.new_int_var(0, budget, "held")
        model.add(held == sum(throughout))
        # The rest of the budget, as a demand of what is held throughout.
        free = model.new_int_var(0, budget, "free")
        model.add(free == budget - held)
        model.add_cumulative(laid, demands, free)


def _solve(
    built: _Model, problem: ModuloProblem, seconds: float, known: ModuloSolution | None
) -> tuple[ModuloSolution | None, bool]:
    """(a solution, whether it is proved to be the best) or (None, whether there is proved to be none)."""
    if known is not None:
        turn = known.starts[0]  # the model rotates so that the first operation begins an interval
        shift = -turn % known.interval
        for variable, value in zip(built.starts, known.starts, strict=True):
            built.model.add_hint(variable, value + shift)
        for variable, value in zip(built.slots, known.slots, strict=True):
            built.model.add_hint(variable, value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = seconds
    status = solver.solve(built.model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        interval = built.interval if isinstance(built.interval, int) else solver.value(built.interval)
        starts = [solver.value(start) for start in built.starts]
        least = min(starts)
        chosen = tuple(
            next(stream for stream, literal in literals.items() if solver.boolean_value(literal))
            for literals in built.streams
        )
        slots = tuple(int(solver.value(count)) for count in built.slots)
        solution = ModuloSolution(int(interval), tuple(start - least for start in starts), chosen, slots)
        return solution, status == cp_model.OPTIMAL
    return None, status == cp_model.INFEASIBLE
