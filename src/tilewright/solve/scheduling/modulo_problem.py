"""What is to be repeated how often at the least, as plain numbers: the question that modulo schedulers answer.

Operations occupy units and their stream alone; precedences have a time and a distance in turns; places are buffers
whose number of slots is to be chosen; values occupy registers of the stream that runs their operation. A solution gives
starts, streams and slots for one interval. Lower bounds come from the work of each unit and stream and from the marked
graph's critical cycle (Rau 1994 calls them ResMII and RecMII).

Nothing here says what a unit is. Checked by: tests/solve/scheduling/test_modulo.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from tilewright.base.value import value
from tilewright.solve.scheduling.marked_graph import Arc, critical_cycle

BoundKind = Literal["unit", "issue", "stream", "cycle"]


@value
class Operation:
    """uses: (unit, time). streams: that may run it. stream_time: for which it holds its stream. registers: of its
    value; resident: held throughout."""

    name: str
    latency: int
    streams: tuple[int, ...]
    uses: tuple[tuple[int, int], ...] = ()
    stream_time: int = 0
    registers: int = 0
    resident: int = 0


@value
class Precedence:
    """start(target) + distance * interval >= start(source) + latency of the source, and crossing_time more if they run
    in different streams, which then costs crossing_price each turn. carries_value: the target reads the source's
    registers. after_issue: it waits for the source's stream_time, in place of its latency."""

    source: int
    target: int
    distance: int = 0
    crossing_time: int = 0
    crossing_price: int = 0
    carries_value: bool = False
    after_issue: bool = False


@value
class Pair:
    """reader of turn i reads what writer of turn i - distance wrote; release_time after its end the slot is free."""

    writer: int
    reader: int
    distance: int
    release_time: int


@value
class Place:
    slot_bytes: int
    least: int
    most: int
    pairs: tuple[Pair, ...]


@value
class ModuloProblem:
    """stream_registers: budget of each stream. issue_time: of all instructions of a turn, which bounds the interval.
    turns: of the whole loop, for the price. most_copies: intervals that a value may live at most."""

    operations: tuple[Operation, ...]
    precedences: tuple[Precedence, ...]
    places: tuple[Place, ...]
    units: tuple[str, ...]
    streams: tuple[str, ...]
    stream_registers: tuple[int, ...]
    memory_bytes: int
    issue_time: int
    turns: int
    most_copies: int


@value
class Bound:
    """No interval is shorter than `interval`. members: the unit, the stream, or the operations of a cycle."""

    kind: BoundKind
    interval: int
    members: tuple[int, ...]


@value
class ModuloSolution:
    """starts and streams by operation, slots by place."""

    interval: int
    starts: tuple[int, ...]
    streams: tuple[int, ...]
    slots: tuple[int, ...]


def most_slots(problem: ModuloProblem) -> tuple[int, ...]:
    """Slots that each place could have if the others had their least."""
    least = sum(place.slot_bytes * place.least for place in problem.places)
    found: list[int] = []
    for place in problem.places:
        spare = problem.memory_bytes - least
        more = spare // place.slot_bytes if place.slot_bytes else place.most
        found.append(max(0, min(place.most, place.least + more)))
    return tuple(found)


def waited_time(problem: ModuloProblem, precedence: Precedence) -> int:
    """From the source's start, without a crossing."""
    source = problem.operations[precedence.source]
    return source.stream_time if precedence.after_issue else source.latency


def arcs_of(problem: ModuloProblem, slots: Sequence[int], streams: Sequence[int] | None = None) -> tuple[Arc, ...]:
    """The marked graph with so many slots. streams: of each operation, which say what crosses; without them only what
    has no stream in common does."""

    def crosses(each: Precedence) -> bool:
        if streams is not None:
            return streams[each.source] != streams[each.target]
        return not set(problem.operations[each.source].streams) & set(problem.operations[each.target].streams)

    arcs = [
        Arc(
            each.source,
            each.target,
            waited_time(problem, each) + (each.crossing_time if crosses(each) else 0),
            each.distance,
        )
        for each in problem.precedences
    ]
    for place, count in zip(problem.places, slots, strict=True):
        arcs += [
            Arc(
                pair.reader,
                pair.writer,
                problem.operations[pair.reader].latency + pair.release_time,
                count - pair.distance,
            )
            for pair in place.pairs
        ]
    return (*arcs, *lifetime_arcs(problem))


def lifetime_arcs(problem: ModuloProblem) -> tuple[Arc, ...]:
    """A value's last reader is done before its register is written again, most_copies turns later."""
    arcs = [
        Arc(each.target, each.source, problem.operations[each.target].latency, problem.most_copies - each.distance)
        for each in problem.precedences
        if each.carries_value and problem.operations[each.source].registers
    ]
    arcs += [
        Arc(number, number, operation.latency, problem.most_copies)
        for number, operation in enumerate(problem.operations)
        if operation.registers
    ]
    return tuple(arcs)


def bounds(problem: ModuloProblem) -> tuple[Bound, ...]:
    """Every lower bound of the interval, the tightest first. Raises ValueError where no interval is long enough."""
    found: list[Bound] = []
    for unit in range(len(problem.units)):
        busy = sum(time for operation in problem.operations for used, time in operation.uses if used == unit)
        found.append(Bound("unit", busy, (unit,)))
    for stream in range(len(problem.streams)):
        busy = sum(one.stream_time for one in problem.operations if one.streams == (stream,))
        found.append(Bound("stream", busy, (stream,)))
    found += [Bound("cycle", operation.stream_time, (number,)) for number, operation in enumerate(problem.operations)]
    found.append(Bound("issue", problem.issue_time, ()))
    cycle = critical_cycle(len(problem.operations), arcs_of(problem, most_slots(problem)))
    if cycle is not None:
        found.append(Bound("cycle", math.ceil(cycle.ratio), cycle.nodes))
    found.append(Bound("issue", 1, ()))
    return tuple(sorted(found, key=lambda bound: -bound.interval))


def serial_interval(problem: ModuloProblem) -> int:
    """An interval that suffices to run a turn wholly before the next, one operation after another, crossings and
    releases with them."""
    crossings = sum(each.crossing_time for each in problem.precedences)
    releases = sum(pair.release_time for place in problem.places for pair in place.pairs)
    longest = sum(max(one.latency, one.stream_time, *(time for _, time in one.uses), 0) for one in problem.operations)
    return max(longest + crossings + releases, problem.issue_time, 1)
