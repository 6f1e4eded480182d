"""What becomes of a schedule that a check refuses? Another one, under bounds that only ever get tighter.

A refusal names a resource and what of it there is. Bounds go down alone (registers of a role, slots of a buffer, bytes
of shared memory) or up (the interval, by work that a unit must have as well), so no schedule comes back that was
refused before, and the rounds end: by agreement, by a graph without a schedule, or at their limit.

Not handled: refusals that ask for more of something. Checked by: tests/synth/schedule/test_refinement.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tilewright.base.error import TilewrightError, Undecided
from tilewright.ir.schedule import Method, Schedule
from tilewright.ir.task_graph import TaskGraph, well_formed
from tilewright.synth.schedule.schedules import schedule_graph

MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Refusal:
    """registers: `name` is a role, which has `bound` a thread. slots: `name` is a buffer, of at most `bound` slots.
    memory: all buffers together have `bound` bytes. why: in words."""

    resource: Literal["registers", "slots", "memory"]
    name: str
    bound: int
    why: str

    def __str__(self) -> str:
        return f"{self.name or 'shared memory'}: at most {self.bound} ({self.resource}): {self.why}"


@dataclass(frozen=True, slots=True)
class Refined:
    """A schedule that the check agrees to, of `graph` with all bounds; refusals in the order of their rounds."""

    graph: TaskGraph
    schedule: Schedule
    rounds: int
    refusals: tuple[Refusal, ...]


Judge = Callable[[TaskGraph, Schedule], tuple[Refusal, ...]]


def refine(graph: TaskGraph, judge: Judge, method: Method = "heuristic") -> Refined:
    """Schedule, ask, tighten, until `judge` refuses nothing.

    Raises TilewrightError where no schedule keeps the bounds, or a refusal asks for no less than there was; Undecided
    at the limit of rounds.
    """
    refused: list[Refusal] = []
    for number in range(1, MOST_ROUNDS + 1):
        schedule = schedule_graph(graph, method)
        found = judge(graph, schedule)
        if not found:
            return Refined(graph, schedule, number, tuple(refused))
        refused += found
        graph = tightened(graph, found)
    raise Undecided(
        f"{graph.name}: no schedule was agreed to in {MOST_ROUNDS} rounds; last {refused[-1]}",
        remedy="use a smaller tile",
    )


def tightened(graph: TaskGraph, refusals: tuple[Refusal, ...]) -> TaskGraph:
    """The graph under the bounds of all refusals. Raises TilewrightError for one that tightens nothing: a judge that
    refuses what it allows would go on forever."""
    for refusal in refusals:
        before = graph
        match refusal.resource:
            case "registers":
                roles = tuple(
                    replace(role, registers=min(role.registers, refusal.bound)) if role.name == refusal.name else role
                    for role in graph.roles
                )
                graph = replace(graph, roles=roles)
            case "slots":
                buffers = tuple(
                    replace(buffer, slots_max=min(buffer.slots_max, refusal.bound))
                    if buffer.name == refusal.name
                    else buffer
                    for buffer in graph.buffers
                )
                graph = replace(graph, buffers=buffers)
            case "memory":
                graph = replace(graph, shared_bytes=min(graph.shared_bytes, refusal.bound))
        if graph == before:
            raise TilewrightError(
                f"{graph.name}: refused without a tighter bound: {refusal}", remedy="report the program"
            )
    return well_formed(graph)
