"""How does a schedule look over several iterations: who does what when, and when is which slot of a buffer taken?

Lanes are the roles, the units, and the slots of every buffer; bars are tasks of one iteration each, named with its
number. Checked by: tests/driver/views/test_schedule_picture.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.ir.schedule import Schedule, summary_line
from tilewright.ir.task_graph import TASK_KINDS, Task, TaskGraph
from tilewright.report.figures.figure import Bar, Lane, LaneChart

LEGEND = (*TASK_KINDS, "slot taken")
MOST_TURNS = 64


def schedule_chart(graph: TaskGraph, schedule: Schedule, turns: int = 4) -> LaneChart:
    """The first `turns` iterations, from cycle 0. Raises TilewrightError for less than one iteration or too many to
    read."""
    if not 1 <= turns <= MOST_TURNS:
        raise TilewrightError(f"{turns} iterations cannot be drawn", remedy=f"draw 1 to {MOST_TURNS}")
    lanes: list[Lane] = []
    for role in graph.roles:
        own = [task for task in graph.tasks if schedule.placement(task.name).role == role.name]
        spans = [(task, max(1, task.stream_cycles)) for task in own]
        lanes.append(Lane(role.name, _bars(schedule, spans, turns)))
    for resource in graph.resources:
        spans = [(task, use.cycles) for task in graph.tasks for use in task.uses if use.resource == resource]
        lanes.append(Lane(resource, _bars(schedule, spans, turns)))
    for buffer in graph.buffers:
        lanes += _slots(graph, schedule, buffer.name, turns)
    return LaneChart(
        f"{graph.name}, {turns} iterations",
        "cycles",
        tuple(lane for lane in lanes if lane.bars),
        LEGEND,
        summary_line(schedule),
    )


def _bars(schedule: Schedule, spans: list[tuple[Task, int]], turns: int) -> tuple[Bar, ...]:
    found: list[Bar] = []
    for task, cycles in spans:
        for turn in range(turns):
            begin = schedule.placement(task.name).start_cycles + turn * schedule.interval_cycles
            label = f"{task.name.partition('@')[0]} {turn}"
            detail = f"{task.name}, iteration {turn}: cycles {begin} to {begin + cycles}"
            found.append(Bar(begin, begin + cycles, label, TASK_KINDS.index(task.kind), detail))
    return tuple(sorted(found, key=lambda bar: bar.begin))


def _slots(graph: TaskGraph, schedule: Schedule, buffer: str, turns: int) -> list[Lane]:
    """A lane for each slot: from the first copy into it until its last reader's release."""
    count = schedule.slots_of(buffer)
    edges = [edge for edge in graph.dependences if edge.buffer == buffer]
    if not edges:
        return []
    begin = min(schedule.placement(edge.source).start_cycles for edge in edges)
    end = max(
        schedule.placement(edge.target).start_cycles
        + graph.task(edge.target).latency_cycles
        + edge.distance * schedule.interval_cycles
        for edge in edges
    )
    end += graph.buffer(buffer).release_cycles
    kind = LEGEND.index("slot taken")
    lanes: list[Lane] = []
    for slot in range(min(count, turns)):
        bars = tuple(
            Bar(
                begin + turn * schedule.interval_cycles,
                end + turn * schedule.interval_cycles,
                f"iteration {turn}",
                kind,
                f"{buffer} slot {slot} holds iteration {turn}",
            )
            for turn in range(slot, turns, count)
        )
        lanes.append(Lane(f"{buffer} slot {slot}", bars))
    return lanes
