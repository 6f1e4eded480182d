"""Does a schedule keep what its task graph demands?

The checker knows nothing of modulo arithmetic, on which schedulers rest: it writes out as many iterations as can be in
flight at once, in absolute cycles, and looks at them. Units and streams: no two spans overlap. Dependences and slots:
each end is where it must be. Registers: what lives at each cycle is added up. Deadlock: the events of all iterations,
ordered by dependences, slots and each role's order, are sorted topologically. Iterations that come before or after
those in flight only add fewer of the same, so what holds of the steady state holds of the whole loop.

Not judged: whether the times are those of the hardware (they come from the graph), and whether a lowered kernel keeps
the schedule (its protocol is proved by itself). A certificate by search is believed, and said so. Checked by:
tests/contract/schedule/test_schedule_check.py, with schedules broken on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise, product

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.rules.schedule_codes import SCHEDULE_RULES
from tilewright.ir.schedule import Placement, Schedule
from tilewright.ir.task_graph import Dependence, Task, TaskGraph, crossing_cycles

_SHOWN = 16
"""Findings reported at most, one a pair of tasks and rule."""
_CHOICES = 4096
"""Choices of arcs along a certificate's cycle that are looked at."""
_MOST_EVENTS = 50_000
"""Tasks of all iterations written out; more end as unknown."""


@dataclass(frozen=True, slots=True)
class _Span:
    """What one task of one iteration occupies, in absolute cycles."""

    begin: int
    end: int
    task: str
    turn: int

    def __str__(self) -> str:
        return f"{self.task} of iteration {self.turn} ({self.begin} to {self.end})"


class _Judge:
    """Findings so far; one for each rule and pair of tasks."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self.found: dict[tuple[str, str, str], Diagnostic] = {}

    def report(self, code: str, message: str, first: str = "", second: str = "") -> None:
        rule = SCHEDULE_RULES[code]
        key = (code, min(first, second), max(first, second))
        if key not in self.found and len(self.found) < _SHOWN:
            self.found[key] = Diagnostic(
                code,
                rule.name,
                message,
                self._place(first),
                self._place(second),
                source=rule.source,
                repair=Repair(rule.remedy),
            )

    def _place(self, task: str) -> Span | None:
        for line, one in enumerate(self.graph.tasks, start=1):
            if one.name == task:
                return Span(f"<{self.graph.name}>", line, text=task)
        return None


def check_schedule(graph: TaskGraph, schedule: Schedule) -> Verdict:
    """Proven, with what was assumed; Refuted, with the tasks that conflict; Unknown for more iterations in flight than
    can be written out."""
    judge = _Judge(graph)
    _complete(graph, schedule, judge)
    if judge.found:
        return Refuted(tuple(judge.found.values()))
    tasks = {task.name: (task, schedule.placement(task.name)) for task in graph.tasks}
    turns = _turns(graph, schedule)
    if turns * len(graph.tasks) > _MOST_EVENTS:
        return Unknown((f"{turns} iterations of {len(graph.tasks)} tasks are too many to write out",))
    _dependences(graph, schedule, tasks, judge)
    _overlaps(graph, schedule, tasks, turns, judge)
    _slots(graph, schedule, tasks, judge)
    _registers(graph, schedule, tasks, turns, judge)
    _issue(graph, schedule, judge)
    _deadlock(graph, schedule, tasks, turns, judge)
    assumptions = ["the times of the task graph are those of the hardware"]
    if schedule.certificate is not None:
        _certificate(graph, schedule, judge)
        if schedule.certificate.kind == "search":
            assumptions.append(
                f"that no interval is shorter than {schedule.interval_cycles} rests on the solver's word"
            )
    if judge.found:
        return Refuted(tuple(judge.found.values()))
    return Proven(
        "every iteration",
        tuple(assumptions),
        (f"{graph.name}: {len(graph.tasks)} tasks every {schedule.interval_cycles} cycles, over {turns} of them",),
    )


_Tasks = dict[str, tuple[Task, Placement]]


def _complete(graph: TaskGraph, schedule: Schedule, judge: _Judge) -> None:
    placed = [one.task for one in schedule.placements]
    if schedule.interval_cycles < 1:
        judge.report("SC001", f"an interval of {schedule.interval_cycles} cycles")
    for task in graph.tasks:
        if placed.count(task.name) != 1:
            judge.report("SC001", f"{task.name} is placed {placed.count(task.name)} times", task.name)
    for one in schedule.placements:
        allowed = next((task.roles for task in graph.tasks if task.name == one.task), None)
        if allowed is None:
            judge.report("SC001", f"{one.task} is no task of {graph.name}", one.task)
        elif one.role not in allowed:
            judge.report("SC001", f"{one.task} is placed in {one.role}, and may run in {allowed}", one.task)
        if one.start_cycles < 0:
            judge.report("SC001", f"{one.task} begins at cycle {one.start_cycles}", one.task)
    named = [name for name, _ in schedule.slots]
    if sorted(named) != sorted(buffer.name for buffer in graph.buffers):
        judge.report("SC001", f"slots are given for {named}")
    for task in graph.tasks:
        for use in task.uses:
            if use.resource not in graph.resources:
                judge.report("SC001", f"{task.name} uses {use.resource}, which is no resource", task.name)
    for edge in graph.dependences:
        if edge.source not in placed or edge.target not in placed or edge.distance < 0:
            judge.report("SC001", f"{edge.source} -> {edge.target} is no dependence of placed tasks", edge.source)


def _turns(graph: TaskGraph, schedule: Schedule) -> int:
    """As many as can be in flight at once, and those which they reach by distances and slots."""
    last = max(
        schedule.placement(task.name).start_cycles
        + max(task.latency_cycles, task.stream_cycles, *(use.cycles for use in task.uses), 0)
        for task in graph.tasks
    )
    distance = max((edge.distance for edge in graph.dependences), default=0)
    slots = max((count for _, count in schedule.slots), default=1)
    return 2 * (last // schedule.interval_cycles + 1 + distance) + slots + 1


def _crossing(graph: TaskGraph, edge: Dependence, tasks: _Tasks) -> int:
    return crossing_cycles(graph, edge) if tasks[edge.source][1].role != tasks[edge.target][1].role else 0


def _dependences(graph: TaskGraph, schedule: Schedule, tasks: _Tasks, judge: _Judge) -> None:
    for edge in graph.dependences:
        source, at = tasks[edge.source]
        takes = source.stream_cycles if edge.issued else source.latency_cycles
        ready = at.start_cycles + takes + _crossing(graph, edge, tasks)
        begins = tasks[edge.target][1].start_cycles + edge.distance * schedule.interval_cycles
        if begins < ready:
            judge.report(
                "SC002",
                f"{edge.target} of iteration {edge.distance} starts at cycle {begins}, but the result of {edge.source} "
                f"of iteration 0 is ready at {ready}",
                edge.target,
                edge.source,
            )


def _overlaps(graph: TaskGraph, schedule: Schedule, tasks: _Tasks, turns: int, judge: _Judge) -> None:
    for resource in graph.resources:
        spans = [
            _Span(begin, begin + use.cycles, task.name, turn)
            for task, place in tasks.values()
            for use in task.uses
            if use.resource == resource and use.cycles
            for turn, begin in _begins(place, schedule, turns)
        ]
        _first_overlaps(spans, "SC003", resource, judge)
    for role in graph.roles:
        spans = [
            _Span(begin, begin + task.stream_cycles, task.name, turn)
            for task, place in tasks.values()
            if place.role == role.name and task.stream_cycles
            for turn, begin in _begins(place, schedule, turns)
        ]
        _first_overlaps(spans, "SC004", role.name, judge)


def _begins(place: Placement, schedule: Schedule, turns: int) -> Iterable[tuple[int, int]]:
    return ((turn, place.start_cycles + turn * schedule.interval_cycles) for turn in range(turns))


def _first_overlaps(spans: list[_Span], code: str, what: str, judge: _Judge) -> None:
    latest: _Span | None = None
    for span in sorted(spans, key=lambda span: (span.begin, span.end)):
        if latest is not None and span.begin < latest.end:
            judge.report(code, f"{what}: {latest} and {span}", latest.task, span.task)
        if latest is None or span.end > latest.end:
            latest = span


def _slots(graph: TaskGraph, schedule: Schedule, tasks: _Tasks, judge: _Judge) -> None:
    counts = dict(schedule.slots)
    taken = 0
    for buffer in graph.buffers:
        count = counts[buffer.name]
        taken += count * buffer.slot_bytes
        if not buffer.slots_min <= count <= buffer.slots_max:
            judge.report(
                "SC006", f"buffer {buffer.name} has {count} slots of {buffer.slots_min} to {buffer.slots_max} possible"
            )
            continue
        for edge in graph.dependences:
            if edge.buffer != buffer.name:
                continue
            # The data of iteration 0 are read in iteration `distance`; their slot is written again in `count`.
            reader, at = tasks[edge.target]
            free = (
                at.start_cycles
                + edge.distance * schedule.interval_cycles
                + reader.latency_cycles
                + buffer.release_cycles
            )
            again = tasks[edge.source][1].start_cycles + count * schedule.interval_cycles
            if again < free:
                judge.report(
                    "SC005",
                    f"buffer {buffer.name}: {edge.source} of iteration {count} writes at cycle {again} the slot that "
                    f"{edge.target} of iteration {edge.distance} releases at {free}",
                    edge.source,
                    edge.target,
                )
    if taken > graph.shared_bytes:
        judge.report("SC006", f"the buffers take {taken} bytes of {graph.shared_bytes}")


def _registers(graph: TaskGraph, schedule: Schedule, tasks: _Tasks, turns: int, judge: _Judge) -> None:
    for role in graph.roles:
        own = [task for task, place in tasks.values() if place.role == role.name]
        resident = sum(task.resident_registers for task in own)
        changes: list[tuple[int, int, str]] = []
        for task in own:
            if not task.result_registers:
                continue
            begin = tasks[task.name][1].start_cycles
            end = begin + task.latency_cycles
            for edge in graph.dependences:
                if edge.source == task.name and not edge.buffer and not edge.issued:
                    reader, at = tasks[edge.target]
                    done = at.start_cycles + edge.distance * schedule.interval_cycles + reader.latency_cycles
                    end = max(end, done)
            if end - begin > graph.unroll_max * schedule.interval_cycles:
                judge.report(
                    "SC007",
                    f"{role.name}: the result of {task.name} lives for {end - begin} cycles, more than "
                    f"{graph.unroll_max} iterations",
                    task.name,
                )
            for turn in range(turns):
                shift = turn * schedule.interval_cycles
                changes += [
                    (begin + shift, task.result_registers, task.name),
                    (end + shift, -task.result_registers, ""),
                ]
        held, most, when, who = resident, resident, 0, ""
        # At one cycle, what ends makes room for what begins.
        for moment, change, name in sorted(changes, key=lambda each: (each[0], each[1])):
            held += change
            if held > most:
                most, when, who = held, moment, name
        if most > role.registers:
            judge.report(
                "SC007",
                f"{role.name} holds {most} of {role.registers} registers a thread at cycle {when}"
                + (f", when {who} begins" if who else ""),
                who,
            )


def _issue(graph: TaskGraph, schedule: Schedule, judge: _Judge) -> None:
    issued = sum(task.issue_slots for task in graph.tasks)
    room = schedule.interval_cycles * graph.issue_slots_per_cycle
    if issued > room:
        judge.report("SC008", f"{issued} instructions an iteration, and {schedule.interval_cycles} cycles issue {room}")


def _deadlock(graph: TaskGraph, schedule: Schedule, tasks: _Tasks, turns: int, judge: _Judge) -> None:
    """Kahn's order of the events; what is left over waits forever."""
    counts = dict(schedule.slots)
    before: dict[tuple[str, int], set[tuple[str, int]]] = {
        (name, turn): set() for name in tasks for turn in range(turns)
    }

    def order(first: tuple[str, int], second: tuple[str, int]) -> None:
        if first in before and second in before:
            before[second].add(first)

    for edge in graph.dependences:
        for turn in range(turns):
            order((edge.source, turn - edge.distance), (edge.target, turn))
            if edge.buffer:
                order((edge.target, turn - counts[edge.buffer] + edge.distance), (edge.source, turn))
    for role in graph.roles:
        events = sorted(
            (begin, name, turn)
            for name, (_, place) in tasks.items()
            if place.role == role.name
            for turn, begin in _begins(place, schedule, turns)
        )
        # What begins in the same cycle is in whichever order its dependences ask for.
        groups: list[list[tuple[str, int]]] = []
        last = -1
        for begin, name, turn in events:
            if begin != last:
                groups.append([])
                last = begin
            groups[-1].append((name, turn))
        for earlier, later in pairwise(groups):
            for first in earlier:
                for second in later:
                    order(first, second)
    done: set[tuple[str, int]] = set()
    ready = [event for event, needs in before.items() if not needs]
    after: dict[tuple[str, int], list[tuple[str, int]]] = {event: [] for event in before}
    missing = {event: len(needs) for event, needs in before.items()}
    for event, needs in before.items():
        for need in needs:
            after[need].append(event)
    while ready:
        event = ready.pop()
        done.add(event)
        for later in after[event]:
            missing[later] -= 1
            if not missing[later]:
                ready.append(later)
    stuck = sorted(event for event in before if event not in done)
    if stuck:
        event = min(stuck, key=lambda each: (each[1], each[0]))
        need = min(each for each in before[event] if each not in done)
        judge.report(
            "SC009",
            f"{event[0]} of iteration {event[1]} waits for {need[0]} of iteration {need[1]}, which never ends; "
            f"{len(stuck)} events are never reached",
            event[0],
            need[0],
        )


def _certificate(graph: TaskGraph, schedule: Schedule, judge: _Judge) -> None:
    certificate = schedule.certificate
    assert certificate is not None
    shown = 0
    match certificate.kind:
        case "unit":
            shown = sum(u.cycles for task in graph.tasks for u in task.uses if (u.resource,) == certificate.names)
        case "stream":
            shown = sum(task.stream_cycles for task in graph.tasks if task.roles == certificate.names)
        case "issue":
            shown = max(1, math.ceil(Fraction(sum(t.issue_slots for t in graph.tasks), graph.issue_slots_per_cycle)))
        case "cycle":
            shown = _cycle_bound(graph, certificate.names)
        case "search":
            shown = certificate.bound_cycles
    if shown < certificate.bound_cycles or certificate.bound_cycles != schedule.interval_cycles:
        judge.report(
            "SC010",
            f"the certificate ({certificate}) shows {shown} cycles, and the interval is {schedule.interval_cycles}",
        )


def _cycle_bound(graph: TaskGraph, names: tuple[str, ...]) -> int:
    """What a cycle of tasks takes at least, whoever runs them and however many slots there are; 0 where it is none."""
    known = {task.name: task for task in graph.tasks}
    if not names or not set(names) <= set(known):
        return 0
    least = sum(buffer.slot_bytes * buffer.slots_min for buffer in graph.buffers)
    steps: list[list[tuple[int, int]]] = []
    for source, target in zip(names, (*names[1:], names[0]), strict=True):
        apart = not set(known[source].roles) & set(known[target].roles)
        arcs = [
            (
                (known[source].stream_cycles if edge.issued else known[source].latency_cycles)
                + (crossing_cycles(graph, edge) if apart else 0),
                edge.distance,
            )
            for edge in graph.dependences
            if (edge.source, edge.target) == (source, target)
        ]
        for edge in graph.dependences:
            if (edge.target, edge.source) != (source, target):
                continue
            if edge.buffer:
                buffer = graph.buffer(edge.buffer)
                spare = (graph.shared_bytes - least) // buffer.slot_bytes if buffer.slot_bytes else buffer.slots_max
                slots = min(buffer.slots_max, buffer.slots_min + spare)
                arcs.append((known[source].latency_cycles + buffer.release_cycles, slots - edge.distance))
            elif known[target].result_registers and not edge.issued:
                arcs.append((known[source].latency_cycles, graph.unroll_max - edge.distance))
        if source == target:
            arcs.append((known[source].stream_cycles, 1))  # a role issues one iteration of it after the other
            if known[source].result_registers:
                arcs.append((known[source].latency_cycles, graph.unroll_max))
        if not arcs:
            return 0
        steps.append(arcs)
    # Of several arcs between two tasks all hold, so any choice of them gives a bound.
    ratios: list[Fraction] = []
    for chosen in islice(product(*steps), _CHOICES):
        tokens = sum(arc[1] for arc in chosen)
        if tokens > 0:
            ratios.append(Fraction(sum(arc[0] for arc in chosen), tokens))
    return math.ceil(max(ratios, default=Fraction(0)))
