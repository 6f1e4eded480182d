"""A modulo schedule in milliseconds: not always the shortest interval, always one that holds.

Iterative modulo scheduling (Rau 1994): operations in order of their height (the longest way to the end, less an
interval for each turn that it crosses) are put at the first free place after what they wait for; where an interval has
no free place, what stands there is taken out and placed again, up to a budget. Times are cycles, thousands to an
interval, so only places where something else ends are tried. Buffers are given what memory allows before, and keep what
they need after. Where the registers of a role are exceeded, values are first made to live shorter, then turns not to
overlap in a role; only then grows the interval.

What it misses against the optimum is measured by `python -m bench schedules`. Checked by:
tests/synth/schedule/test_modulo_heuristic.py, where every schedule is judged by `contract.schedule.schedule_check`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.solve.scheduling.marked_graph import Arc, earliest_starts
from tilewright.solve.scheduling.modulo_problem import ModuloProblem, ModuloSolution, arcs_of, bounds, serial_interval

_ATTEMPTS_PER_OPERATION = 12
_GROWTH = 32
"""Intervals tried grow by this part of the lower bound, and by more the longer nothing is found."""
_Contention = tuple[tuple[tuple[int, int, int], ...], ...]
"""By operation: others that occupy something that it does too, each with the operation's own time there and theirs."""


def heuristic(problem: ModuloProblem, bound: int | None = None) -> ModuloSolution | None:
    """The schedule of the shortest interval found; None where there is none up to that at which turns run one after the
    other. bound: the tightest of `solve.scheduling.modulo_problem.bounds`, where it is known already."""
    best: ModuloSolution | None = None
    lower = bounds(problem)[0].interval if bound is None else bound
    for streams in _assignments(problem):
        found = _shortest(problem, streams, lower, best)
        if found is not None and (best is None or found.interval < best.interval):
            best = found
    return best


def _shortest(
    problem: ModuloProblem, streams: tuple[int, ...], bound: int, best: ModuloSolution | None
) -> ModuloSolution | None:
    """With those streams, of intervals below the best known one: growing ones until one holds, then halving."""
    lower = max(bound, _stream_bound(problem, streams))
    most = max(lower, serial_interval(problem)) if best is None else best.interval - 1
    if lower > most:
        return None
    interval, failed, step = lower, lower - 1, max(1, lower // _GROWTH)
    contention = _contention(problem, streams)
    found: ModuloSolution | None = None
    while found is None:
        found = _at(problem, streams, contention, interval)
        if found is None:
            if interval >= most:
                return None
            failed, interval, step = interval, min(most, interval + step), step + max(1, step // 4)
    while found.interval - failed > max(1, lower // 128):
        middle = (found.interval + failed) // 2
        better = _at(problem, streams, contention, middle)
        if better is None:
            failed = middle
        else:
            found = better
    return found


def _stream_bound(problem: ModuloProblem, streams: tuple[int, ...]) -> int:
    """What each stream has to issue, and the cycles of dependences with their crossings."""
    load = [0] * len(problem.streams)
    for operation, stream in zip(problem.operations, streams, strict=True):
        load[stream] += operation.stream_time
    return max(load, default=0)


def _assignments(problem: ModuloProblem) -> tuple[tuple[int, ...], ...]:
    """Who runs what, in several ways: by work and crossings, by registers, by the first choice."""
    if all(len(operation.streams) == 1 for operation in problem.operations):
        return (tuple(operation.streams[0] for operation in problem.operations),)
    first = tuple(operation.streams[0] for operation in problem.operations)
    ways = (_streams(problem, 1, 1, 0), _streams(problem, 1, 0, 8), _streams(problem, 0, 1, 64), first)
    return tuple(dict.fromkeys(ways))


def _streams(problem: ModuloProblem, work: int, crossings: int, registers: int) -> tuple[int, ...]:
    """One operation after the other goes where its weights cost least; those without a choice first."""
    load = [0] * len(problem.streams)
    chosen: dict[int, int] = {}
    order = sorted(
        range(len(problem.operations)), key=lambda number: (len(problem.operations[number].streams) > 1, number)
    )

    def cost(number: int, stream: int) -> int:
        crossing = sum(
            each.crossing_price + each.crossing_time
            for each in problem.precedences
            for other in ({each.source, each.target} - {number} if number in (each.source, each.target) else ())
            if chosen.get(other, stream) != stream
        )
        return load[stream] + crossings * crossing

    for number in order:
        operation = problem.operations[number]
        stream = min(operation.streams, key=lambda stream: cost(number, stream))
        chosen[number] = stream
        load[stream] += work * operation.stream_time + registers * (operation.registers + operation.resident)
    return tuple(chosen[number] for number in range(len(problem.operations)))


def _at(
    problem: ModuloProblem, streams: tuple[int, ...], contention: _Contention, interval: int
) -> ModuloSolution | None:
    """A schedule of that interval whose registers fit, trying shorter lives where they do not."""
    slots = _allotted(problem)
    plain = arcs_of(problem, slots, streams)
    for arcs in (plain, (*plain, *_lives_within(problem)), (*plain, *_apart(problem, streams))):
        if earliest_starts(len(streams), arcs, interval) is None:
            continue
        for preference in _preferences(problem, arcs, interval):
            starts = _place(contention, arcs, interval, preference)
            if starts is None:
                continue
            least = min(starts)
            moved = tuple(start - least for start in starts)
            solution = ModuloSolution(interval, moved, streams, _needed_slots(problem, moved, interval))
            if fits_registers(problem, solution):
                return solution
    return None


def _preferences(problem: ModuloProblem, arcs: Sequence[Arc], interval: int) -> list[list[int]]:
    """Orders in which to place: by height; what occupies a unit longest before the rest; one stream after the other,
    which keeps together what one warpgroup does; those heights disturbed a little."""
    heights = earliest_starts(
        len(problem.operations), [Arc(a.target, a.source, a.time, a.tokens) for a in arcs], interval
    )
    assert heights is not None  # the reversed graph has the same cycles
    top = max(heights) + 1
    longest = [max((time for _, time in operation.uses), default=0) for operation in problem.operations]
    streams = [operation.streams[0] for operation in problem.operations]
    disturbed = [height + (number * 7919 % 13) * top // 40 for number, height in enumerate(heights)]
    return [
        heights,
        [height - stream * top for height, stream in zip(heights, streams, strict=True)],
        [height + time * top for height, time in zip(heights, longest, strict=True)],
        disturbed,
    ]


def _allotted(problem: ModuloProblem) -> tuple[int, ...]:
    """Slots by turns, one each, as memory lasts."""
    slots = [place.least for place in problem.places]
    left = problem.memory_bytes - sum(p.slot_bytes * n for p, n in zip(problem.places, slots, strict=True))
    growing = True
    while growing:
        growing = False
        for number in sorted(range(len(slots)), key=lambda number: slots[number]):
            place = problem.places[number]
            if slots[number] < place.most and place.slot_bytes <= left:
                slots[number] += 1
                left -= place.slot_bytes
                growing = True
                break
    return tuple(slots)


def _lives_within(problem: ModuloProblem) -> list[Arc]:
    return [
        Arc(each.target, each.source, problem.operations[each.target].latency, 1 - each.distance)
        for each in problem.precedences
        if each.carries_value and problem.operations[each.source].registers
    ]


def _apart(problem: ModuloProblem, streams: tuple[int, ...]) -> list[Arc]:
    """In one stream no turn begins before the turn before has ended."""
    return [
        Arc(last, first, problem.operations[last].latency, 1)
        for last in range(len(streams))
        for first in range(len(streams))
        if streams[last] == streams[first] and (problem.operations[last].registers or problem.operations[last].uses)
    ]


def _needed_slots(problem: ModuloProblem, starts: Sequence[int], interval: int) -> tuple[int, ...]:
    slots: list[int] = []
    for place in problem.places:
        need = place.least
        for pair in place.pairs:
            done = starts[pair.reader] + problem.operations[pair.reader].latency + pair.release_time
            need = max(need, -(-(done + pair.distance * interval - starts[pair.writer]) // interval))
        slots.append(need)
    return tuple(slots)


def fits_registers(problem: ModuloProblem, solution: ModuloSolution) -> bool:
    """Does every stream's file hold its values and what it keeps throughout?"""
    interval = solution.interval
    for stream, budget in enumerate(problem.stream_registers):
        own = [number for number, chosen in enumerate(solution.streams) if chosen == stream]
        resident = sum(problem.operations[number].resident for number in own)
        lives: list[tuple[int, int, int]] = []
        for number in own:
            operation = problem.operations[number]
            if operation.registers:
                readers = [
                    solution.starts[each.target] + problem.operations[each.target].latency + each.distance * interval
                    for each in problem.precedences
                    if each.source == number and each.carries_value
                ]
                begin = solution.starts[number]
                lives.append((begin, max([begin + operation.latency, *readers]), operation.registers))
        for moment in {begin % interval for begin, _, _ in lives}:
            held = sum(
                registers * max(0, -(-(end - begin - (moment - begin) % interval) // interval))
                for begin, end, registers in lives
            )
            if resident + held > budget:
                return False
        if resident > budget:
            return False
    return True


# ---------------------------------------------------------------- one interval


def _place(
    contention: _Contention, arcs: Sequence[Arc], interval: int, preference: Sequence[int]
) -> tuple[int, ...] | None:
    """Starts at that interval, by an order of preference; None where the budget of attempts ends before."""
    count = len(contention)
    into: list[list[Arc]] = [[] for _ in range(count)]
    out: list[list[Arc]] = [[] for _ in range(count)]
    for arc in arcs:
        if arc.source != arc.target:
            into[arc.target].append(arc)
            out[arc.source].append(arc)
    order = sorted(range(count), key=lambda number: (-preference[number], number))
    starts: dict[int, int] = {}
    before = [-1] * count
    attempts = _ATTEMPTS_PER_OPERATION * count
    while len(starts) < count:
        if attempts == 0:
            return None
        attempts -= 1
        number = next(number for number in order if number not in starts)
        begin = max([0, *(starts[a.source] + a.time - a.tokens * interval for a in into[number] if a.source in starts)])
        free = _first_free(contention[number], begin, starts, interval)
        start = free if free is not None else max(begin, before[number] + 1)
        before[number] = start
        for other, own, theirs in contention[number]:
            if other in starts and _clash(start, own, starts[other], theirs, interval):
                del starts[other]
        starts[number] = start
        for arc in out[number]:
            target = starts.get(arc.target)
            if target is not None and target < start + arc.time - arc.tokens * interval:
                del starts[arc.target]
        for arc in into[number]:  # a source that would now be too late, where the arc has tokens to spare
            source = starts.get(arc.source)
            if source is not None and start < source + arc.time - arc.tokens * interval:
                del starts[arc.source]
    return tuple(starts[number] for number in range(count))


def _contention(problem: ModuloProblem, streams: tuple[int, ...]) -> _Contention:
    needs = [_needs(problem, streams, number) for number in range(len(problem.operations))]
    return tuple(
        tuple(
            (other, time, theirs[resource])
            for other, theirs in enumerate(needs)
            if other != number
            for resource, time in own.items()
            if resource in theirs
        )
        for number, own in enumerate(needs)
    )


def _needs(problem: ModuloProblem, streams: tuple[int, ...], number: int) -> dict[int, int]:
    """Time by what is occupied: units from 0 on, streams below."""
    operation = problem.operations[number]
    needs = {unit: time for unit, time in operation.uses if time}
    if operation.stream_time:
        needs[-1 - streams[number]] = operation.stream_time
    return needs


def _clash(start: int, own: int, other_start: int, theirs: int, interval: int) -> bool:
    return (other_start - start) % interval < own or (start - other_start) % interval < theirs


def _first_free(
    contended: Sequence[tuple[int, int, int]], begin: int, starts: dict[int, int], interval: int
) -> int | None:
    """The first place from `begin` on, within one interval, at which nothing else stands: what stands at p for t keeps
    out whatever would begin between p less that one's own time and p + t, both apart; a sweep over these stretches."""
    stretches: list[tuple[int, int]] = []
    for other, own, theirs in contended:
        if other in starts:
            first = (starts[other] - own + 1 - begin) % interval
            end = first + own + theirs - 1
            stretches.append((first, end))
            if end > interval:
                stretches.append((0, end - interval))
    stretches.sort()
    place = 0
    for first, end in stretches:
        if first > place:
            break
        place = max(place, end)
    return begin + place if place < interval else None
