"""Do the consumer warpgroups of a loop go together or take turns, and what does each cost?

Both graphs are scheduled by the heuristic; the cheaper by the price of the whole loop is chosen, the cooperative one
where they are equal, since it needs no order among its warpgroups. An optimum is then that of the chosen one. Checked
by: tests/synth/schedule/test_role_assignment.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.ir.loop_body import LoopBody
from tilewright.ir.schedule import Method, Schedule
from tilewright.ir.task_graph import TaskGraph
from tilewright.synth.schedule.loop_tasks import Assignment, task_graph
from tilewright.synth.schedule.schedules import schedule_graph
from tilewright.targets import Target


def schedule_body(
    body: LoopBody,
    target: Target,
    method: Method = "heuristic",
    assignment: Assignment | None = None,
    *,
    helpers: int = 0,
) -> tuple[TaskGraph, Schedule]:
    """The cheapest schedule of a body, of that assignment or of either. Raises TilewrightError where there is none."""
    if not 0 <= helpers <= 4:
        raise TilewrightError(f"{helpers} helpers", remedy="use 0 to 4 warpgroups")
    if assignment is not None:
        graph = task_graph(body, target, assignment, helpers=helpers)
        return graph, schedule_graph(graph, method)
    ways: tuple[Assignment, ...] = ("cooperative", "ping-pong") if body.consumers > 1 else ("cooperative",)
    found: list[tuple[TaskGraph, Schedule]] = []
    errors: list[TilewrightError] = []
    for way in ways:
        graph = task_graph(body, target, way, helpers=helpers)
        try:
            found.append((graph, schedule_graph(graph)))
        except TilewrightError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    graph, schedule = min(found, key=lambda each: each[1].price_cycles)
    return graph, schedule if method == "heuristic" else schedule_graph(graph, method)
