"""When does each task of a loop's iteration begin, in which role, and how deep is each buffer?

A modulo schedule: iteration i of a task begins at its start plus i times the interval. A task's stage is its start
divided by the interval: how many iterations later than the oldest one in flight it runs. The value holds choices alone;
what follows from them (lifetimes, occupancy) is computed from the graph. A certificate says why no shorter interval
exists.

Checked by: `contract.schedule.schedule_check`, against the task graph; tests/contract/schedule/test_schedule_check.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from tilewright.base.error import TilewrightError
from tilewright.base.plural import counted
from tilewright.base.value import value
from tilewright.ir.task_graph import TaskGraph, crossing_cycles, crossing_issue_slots, require_plain

Method = Literal["heuristic", "optimal"]
METHODS: tuple[Method, ...] = ("heuristic", "optimal")
CertificateKind = Literal["unit", "issue", "stream", "cycle", "search"]
CERTIFICATE_KINDS: tuple[CertificateKind, ...] = ("unit", "issue", "stream", "cycle", "search")
"""What bounds the interval from below: the work of one unit, issue slots, one role's stream, a cycle of dependences;
search: a solver found every shorter interval impossible, which nobody recomputes."""


@value
class Placement:
    """start_cycles: of iteration 0."""

    task: str
    role: str
    start_cycles: int


@dataclass(frozen=True, slots=True)
class Certificate:
    """No schedule of the graph has an interval below bound_cycles. names: of the unit, the role, or the tasks of the
    cycle in order."""

    kind: CertificateKind
    bound_cycles: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        match self.kind:
            case "unit":
                return f"each iteration takes {self.bound_cycles} cycles of the {self.names[0]}"
            case "issue":
                return f"each iteration takes {self.bound_cycles} cycles to issue"
            case "stream":
                return f"each iteration takes {self.bound_cycles} cycles of {self.names[0]}'s instructions"
            case "cycle":
                return f"each iteration takes {self.bound_cycles} cycles of {' -> '.join((*self.names, self.names[0]))}"
            case "search":
                return f"a search found no schedule of less than {self.bound_cycles} cycles"


@dataclass(frozen=True, slots=True)
class Schedule:
    """slots: of each buffer. lower_bound_cycles: what the graph alone demands; certificate: where the interval is known
    to be the least. price_cycles: of the whole loop, see `price_cycles`."""

    graph: str
    interval_cycles: int
    placements: tuple[Placement, ...]
    slots: tuple[tuple[str, int], ...]
    method: Method
    lower_bound_cycles: int
    price_cycles: int
    certificate: Certificate | None = None

    def placement(self, task: str) -> Placement:
        """Raises KeyError where the task is not placed."""
        for placement in self.placements:
            if placement.task == task:
                return placement
        raise KeyError(task)

    def stage(self, task: str) -> int:
        return self.placement(task).start_cycles // self.interval_cycles

    @property
    def stages(self) -> int:
        """Iterations in flight at once, by their starts."""
        return 1 + max(one.start_cycles for one in self.placements) // self.interval_cycles

    def slots_of(self, buffer: str) -> int:
        """Raises KeyError for another buffer."""
        return dict(self.slots)[buffer]


@value
class Lifetime:
    """Registers of one value, per thread of `role`: from begin_cycles of iteration 0 until end_cycles."""

    task: str
    role: str
    registers: int
    begin_cycles: int
    end_cycles: int


def lifetimes(graph: TaskGraph, schedule: Schedule) -> tuple[Lifetime, ...]:
    """Of every value that lives in registers: from its task's start until its last reader has ended."""
    found: list[Lifetime] = []
    for task in graph.tasks:
        if not task.result_registers:
            continue
        place = schedule.placement(task.name)
        end = place.start_cycles + task.latency_cycles
        for edge in graph.dependences:
            if edge.source == task.name and not edge.buffer and not edge.issued:
                reader = schedule.placement(edge.target)
                done = reader.start_cycles + graph.task(edge.target).latency_cycles
                end = max(end, done + edge.distance * schedule.interval_cycles)
        found.append(Lifetime(task.name, place.role, task.result_registers, place.start_cycles, end))
    return tuple(found)


def registers_of_roles(graph: TaskGraph, schedule: Schedule) -> dict[str, int]:
    """Registers per thread that each role holds at most, accumulators with them, in the steady state."""
    interval = schedule.interval_cycles
    living = lifetimes(graph, schedule)
    peaks: dict[str, int] = {}
    for role in graph.roles:
        resident = sum(t.resident_registers for t in graph.tasks if schedule.placement(t.name).role == role.name)
        own = [life for life in living if life.role == role.name]
        begins = {life.begin_cycles % interval for life in own} | {0}
        most = max(
            sum(life.registers * _instances(life.begin_cycles, life.end_cycles, moment, interval) for life in own)
            for moment in begins
        )
        peaks[role.name] = resident + most
    return peaks


def _instances(begin: int, end: int, moment: int, interval: int) -> int:
    """Iterations whose [begin, end) holds `moment` of the steady state."""
    first = begin + (moment - begin) % interval
    return max(0, -(-(end - first) // interval))


def price_cycles(graph: TaskGraph, schedule: Schedule) -> int:
    """What the whole loop takes: its iterations, what handing values between roles costs besides, and the first
    iteration's way through. Equal intervals are not equal speed: this is what chooses among them."""
    role_of = {one.task: one.role for one in schedule.placements}
    crossed = [edge for edge in graph.dependences if role_of[edge.source] != role_of[edge.target]]
    slots = sum(crossing_issue_slots(graph, edge) for edge in crossed)
    fill = max(one.start_cycles + graph.task(one.task).latency_cycles for one in schedule.placements)
    turn = schedule.interval_cycles + -(-slots // graph.issue_slots_per_cycle)
    return turn * (graph.trips - 1) + fill


def channels(graph: TaskGraph, schedule: Schedule) -> tuple[tuple[str, str, int], ...]:
    """(source, target, cycles) of every dependence that hands a value from one role to another."""
    role_of = {one.task: one.role for one in schedule.placements}
    return tuple(
        (edge.source, edge.target, crossing_cycles(graph, edge))
        for edge in graph.dependences
        if role_of[edge.source] != role_of[edge.target] and not edge.buffer
    )


# ---------------------------------------------------------------- as text and JSON


def summary_line(schedule: Schedule) -> str:
    """One sentence for the reasons of a decision."""
    slots = ", ".join(f"{name} {counted(count, 'slot')}" for name, count in schedule.slots)
    bound = (
        f"the least there is: {schedule.certificate}"
        if schedule.certificate is not None
        else f"no less than {schedule.lower_bound_cycles} being possible"
    )
    return (
        f"schedule ({schedule.method}): an iteration every {schedule.interval_cycles} cycles, {bound}; "
        f"{schedule.stages} iterations in flight{'; ' + slots if slots else ''}"
    )


def schedule_text(graph: TaskGraph, schedule: Schedule) -> str:
    """The schedule for a reader: a line a task in order of its place in the steady state, buffers, registers."""
    lines = [f"{schedule.graph}: {summary_line(schedule)}", "  cycle  stage  task"]
    width = max(len(one.task) for one in schedule.placements)
    for one in sorted(schedule.placements, key=lambda one: (one.start_cycles % schedule.interval_cycles, one.task)):
        stage, place = divmod(one.start_cycles, schedule.interval_cycles)
        lines.append(f"  {place:5d}  {stage:5d}  {one.task:<{width}}  {one.role}")
    for name, count in schedule.slots:
        buffer = graph.buffer(name)
        lines.append(f"  buffer {name}: {counted(count, 'slot')} of {buffer.slot_bytes} bytes")
    for role, registers in registers_of_roles(graph, schedule).items():
        if registers:
            lines.append(f"  {role}: at most {registers} of {graph.role(role).registers} registers a thread")
    for source, target, cycles in channels(graph, schedule):
        lines.append(f"  {source} -> {target}: between roles, {cycles} cycles")
    return "\n".join(lines)


def schedule_to_json(schedule: Schedule) -> dict[str, object]:
    """The schedule as plain JSON values."""
    return cast("dict[str, object]", json.loads(json.dumps(asdict(schedule))))


def schedule_from_json(value: object) -> Schedule:
    """The schedule that `schedule_to_json` wrote. Raises TilewrightError for anything else."""
    try:
        data = dict(cast("Mapping[str, Any]", value))
        certificate = data.pop("certificate")
        schedule = Schedule(
            placements=tuple(Placement(**one) for one in data.pop("placements")),
            slots=tuple((str(name), int(count)) for name, count in data.pop("slots")),
            certificate=None
            if certificate is None
            else Certificate(certificate["kind"], certificate["bound_cycles"], tuple(certificate["names"])),
            **data,
        )
        for part in (*schedule.placements, schedule, *([schedule.certificate] if schedule.certificate else [])):
            require_plain(part)
        if schedule.interval_cycles < 1 or not schedule.placements or schedule.method not in METHODS:
            raise ValueError("no interval, no task, or no known method")
        if schedule.certificate is not None and schedule.certificate.kind not in CERTIFICATE_KINDS:
            raise ValueError(f"a certificate of kind {schedule.certificate.kind!r}")
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TilewrightError(f"this is no schedule: {error}", remedy="give what schedule_to_json wrote") from error
    return schedule
