"""What stands on the page of `tilewright schedule`? The chart, the tasks, what bounds the interval, registers and
slots.

Checked by: tests/cli/commands/test_schedule_command.py.
"""

from __future__ import annotations

from tilewright import __version__
from tilewright.base.verdict import Proven
from tilewright.ir.schedule import Schedule, registers_of_roles, summary_line
from tilewright.ir.task_graph import TaskGraph, graph_text
from tilewright.report.figures.figure import LaneChart
from tilewright.report.html import render_page
from tilewright.report.page import Badge, Facts, Folded, Items, Page, Section, Table


def schedule_page(graph: TaskGraph, schedule: Schedule, proof: Proven, chart: LaneChart) -> str:
    """The page as one HTML document."""
    interval = schedule.interval_cycles
    rows = tuple(
        (
            one.task,
            one.role,
            str(one.start_cycles % interval),
            str(one.start_cycles // interval),
            str(graph.task(one.task).latency_cycles),
        )
        for one in sorted(schedule.placements, key=lambda one: one.start_cycles)
    )
    registers = tuple(
        (role, f"{count} of {graph.role(role).registers} registers a thread")
        for role, count in registers_of_roles(graph, schedule).items()
        if count
    )
    slots = tuple(
        (f"buffer {name}", f"{count} slots of {graph.buffer(name).slot_bytes} bytes") for name, count in schedule.slots
    )
    found = Badge("least interval", "good") if schedule.certificate is not None else Badge("heuristic", "plain")
    sections = (
        Section("Timeline", (chart,), "Each bar is a task of one iteration; slots show how long its data stay."),
        Section("Tasks", (Table(("task", "role", "cycle", "stage", "latency"), rows, (2, 3, 4)),)),
        Section("Registers and slots", (Facts((*registers, *slots)),)),
        Section("Proof", (Items((*proof.claims, *(f"assumed: {line}" for line in proof.assumptions))),)),
        Section("Graph", (Folded("tasks and dependences", graph_text(graph)),)),
    )
    badges = (found, Badge("checked", "good"))
    return render_page(
        Page(f"Schedule of {graph.name}", summary_line(schedule), badges, sections, f"Tilewright {__version__}")
    )
