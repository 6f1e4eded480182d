"""What work does one iteration of a loop consist of, what must wait for what, and what does each piece occupy?

A task graph is a marked graph with times (Petri nets in which every place has one input and one output; the same as
homogeneous synchronous dataflow). Transitions are tasks: copies, tensor-core work, work of the CUDA cores and of the
special-function units, stores. A dependence is a place whose tokens at the start are its `distance` in iterations of
the loop. A bounded buffer is a pair of places: data ahead, free slots back; its tokens are its slots. Unfolding the
graph iteration by iteration gives an event structure without conflicts, so any run differs from another in time alone.

Times are cycles of a multiprocessor. Units are used by one task at a time: a resource that serves several at once is
declared as several resources, or as issue slots, which are counted per iteration and not placed.

Not handled: branches inside the body; durations that differ from iteration to iteration. Checked by:
tests/synth/schedule/test_schedules.py and, for a schedule of it, `contract.schedule.schedule_check`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast

from tilewright.base.error import TilewrightError
from tilewright.base.value import value

TaskKind = Literal["copy", "tensor", "cuda", "special", "store"]
TASK_KINDS: tuple[TaskKind, ...] = ("copy", "tensor", "cuda", "special", "store")


@value
class Use:
    """A task occupies `resource` alone for `cycles` from its start."""

    resource: str
    cycles: int


@value
class Task:
    """One piece of work of one iteration.

    latency_cycles: from its start until its result may be used. stream_cycles: for which the role that runs it can
    issue nothing else (all of its time for ordinary instructions, the issue alone for asynchronous ones). issue_slots:
    warp instructions it issues. roles: who may run it, the author's first choice first. result_registers: per thread of
    its role, from its start until its last reader is done; 0 where the result lies in shared memory.
    resident_registers: per thread, held by its role throughout (accumulators).
    """

    name: str
    kind: TaskKind
    latency_cycles: int
    roles: tuple[str, ...]
    uses: tuple[Use, ...] = ()
    stream_cycles: int = 0
    issue_slots: int = 0
    result_registers: int = 0
    resident_registers: int = 0


@value
class Dependence:
    """`target` of iteration i needs the result of `source` of iteration i - distance.

    token: what tells the target so ("full barrier", "wgmma group", "registers"). buffer: the buffer through which the
    data goes, or empty where it stays in registers. value_bytes: what one warpgroup would have to move through shared
    memory if source and target ran in different roles; 0 for what both can read. issued: the target waits until the
    source has been issued, for its stream_cycles and no longer: an order of the instructions of one role.
    """

    source: str
    target: str
    distance: int = 0
    token: str = ""
    buffer: str = ""
    value_bytes: int = 0
    issued: bool = False


@value
class Buffer:
    """Slots in shared memory, written by the sources and read by the targets of the dependences that name it.

    release_cycles: from the end of a reader until a writer may know the slot to be free.
    """

    name: str
    slot_bytes: int
    slots_min: int
    slots_max: int
    release_cycles: int = 0


@value
class Role:
    """An instruction stream: a warpgroup, or one elected thread. registers: per thread, for values of this loop."""

    name: str
    threads: int
    registers: int


@dataclass(frozen=True, slots=True)
class Channel:
    """What it costs to hand a value from one role to another.

    signal_cycles: from an arrival on a barrier to the waiter's next instruction. handoff_cycles and
    handoff_cycles_per_kib: registers to shared memory to registers, besides. issue_slots: warp instructions of the
    signal on both sides; issue_slots_per_kib: of the stores and loads.
    """

    signal_cycles: int
    handoff_cycles: int
    handoff_cycles_per_kib: int
    issue_slots: int
    issue_slots_per_kib: int


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """One iteration of a loop. resources: names of units. shared_bytes: what the buffers may take together.
    issue_slots_per_cycle: of the multiprocessor. trips: iterations of the loop, for prices. unroll_max: iterations for
    which a value may live in registers, whose names a loop unrolled so often tells apart."""

    name: str
    tasks: tuple[Task, ...]
    dependences: tuple[Dependence, ...]
    buffers: tuple[Buffer, ...]
    resources: tuple[str, ...]
    roles: tuple[Role, ...]
    channel: Channel
    shared_bytes: int
    issue_slots_per_cycle: int
    trips: int
    unroll_max: int = 2

    def task(self, name: str) -> Task:
        """Raises KeyError where there is none."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise KeyError(name)

    def buffer(self, name: str) -> Buffer:
        """Raises KeyError where there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    def role(self, name: str) -> Role:
        """Raises KeyError where there is none."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)


def crossing_cycles(graph: TaskGraph, dependence: Dependence) -> int:
    """Cycles that a dependence takes longer if its ends run in different roles. What goes through a buffer has its
    signal in the source's latency already."""
    if dependence.buffer:
        return 0
    channel = graph.channel
    if not dependence.value_bytes:
        return channel.signal_cycles
    moved = channel.handoff_cycles + -(-channel.handoff_cycles_per_kib * dependence.value_bytes // 1024)
    return channel.signal_cycles + moved


def crossing_issue_slots(graph: TaskGraph, dependence: Dependence) -> int:
    """Warp instructions that the same costs in each iteration."""
    if dependence.buffer:
        return 0
    channel = graph.channel
    return channel.issue_slots + -(-channel.issue_slots_per_kib * dependence.value_bytes // 1024)


def well_formed(graph: TaskGraph) -> TaskGraph:
    """The graph. Raises TilewrightError, naming the task or buffer, for one that no schedule could be judged
    against."""

    def refuse(what: str, remedy: str) -> TilewrightError:
        return TilewrightError(f"task graph {graph.name}: {what}", remedy=remedy)

    names = [task.name for task in graph.tasks]
    roles, buffers = {role.name for role in graph.roles}, {buffer.name for buffer in graph.buffers}
    if not names:
        raise refuse("no tasks", "give the loop's body at least one operation")
    for kind, given in (
        ("task", names),
        ("buffer", [one.name for one in graph.buffers]),
        ("role", [one.name for one in graph.roles]),
    ):
        for name in given:
            if not name or given.count(name) > 1:
                raise refuse(f"{kind} {name!r} is nameless or there twice", "give each its own name")
    if min(graph.shared_bytes, graph.trips - 1, graph.issue_slots_per_cycle - 1, graph.unroll_max - 1) < 0:
        raise refuse("a negative budget, no iteration or no issue slot", "shared_bytes >= 0; trips and unroll_max >= 1")
    for task in graph.tasks:
        numbers = (task.latency_cycles, task.stream_cycles, task.issue_slots, task.result_registers)
        if min(*numbers, task.resident_registers, *(use.cycles for use in task.uses), 0) < 0:
            raise refuse(f"{task.name} has a negative number", "cycles, slots and registers are 0 or more")
        if task.kind not in TASK_KINDS:
            raise refuse(f"{task.name} is of kind {task.kind!r}", f"use one of {', '.join(TASK_KINDS)}")
        if not task.roles or not set(task.roles) <= roles or len(set(task.roles)) < len(task.roles):
            raise refuse(f"{task.name} may run in {task.roles}", f"name roles of the graph: {', '.join(sorted(roles))}")
        used = [use.resource for use in task.uses]
        if not set(used) <= set(graph.resources) or len(set(used)) < len(used):
            raise refuse(f"{task.name} uses {used}", f"name each of {', '.join(graph.resources)} at most once")
        if task.stream_cycles > max(task.latency_cycles, 0):
            raise refuse(
                f"{task.name} holds its stream for {task.stream_cycles} cycles, longer than it takes",
                "make latency_cycles at least stream_cycles",
            )
    for edge in graph.dependences:
        ends = f"{edge.source} -> {edge.target}"
        if edge.source not in names or edge.target not in names:
            raise refuse(f"{ends} names no task", "name tasks of the graph")
        if edge.distance < 0 or edge.value_bytes < 0:
            raise refuse(f"{ends} has a negative distance or size", "an iteration can need earlier iterations alone")
        if edge.issued and (edge.buffer or edge.value_bytes):
            raise refuse(f"{ends} is an order of issue and carries data", "leave out the buffer and the bytes")
        if edge.buffer and edge.buffer not in buffers:
            raise refuse(f"{ends} goes through {edge.buffer!r}, which is no buffer", "declare it")
    for buffer in graph.buffers:
        if not 1 <= buffer.slots_min <= buffer.slots_max or buffer.slot_bytes < 0 or buffer.release_cycles < 0:
            raise refuse(f"buffer {buffer.name} has no possible number of slots", "1 <= slots_min <= slots_max")
    return graph


# ---------------------------------------------------------------- as text and JSON


def graph_text(graph: TaskGraph) -> str:
    """The graph for a reader, one line a task, dependence, buffer and role."""
    lines = [f"{graph.name}: {graph.trips} iterations"]
    for task in graph.tasks:
        uses = ", ".join(f"{use.resource} {use.cycles}" for use in task.uses) or "no unit"
        registers = task.result_registers + task.resident_registers
        held = f", {registers} registers" if registers else ""
        lines.append(
            f"  {task.kind:<7} {task.name}: {uses}; ready after {task.latency_cycles} cycles, "
            f"{task.stream_cycles} of its stream{held}; by {' or '.join(task.roles)}"
        )
    for edge in graph.dependences:
        later = f", {edge.distance} iterations later" if edge.distance else ""
        through = f" through {edge.buffer}" if edge.buffer else ""
        lines.append(f"  {edge.source} -> {edge.target}{through}{later}: {edge.token or 'order'}")
    for buffer in graph.buffers:
        lines.append(
            f"  buffer {buffer.name}: {buffer.slots_min} to {buffer.slots_max} slots of {buffer.slot_bytes} bytes"
        )
    for role in graph.roles:
        lines.append(f"  role {role.name}: {role.threads} threads, {role.registers} registers each")
    return "\n".join(lines)


_PLAIN: dict[str, type] = {"int": int, "str": str, "bool": bool}


def require_plain(value: object) -> None:
    """Raises TypeError where a field of a dataclass that is declared an integer, a text or a truth value is none."""
    for field in fields(cast("Any", value)):
        wanted = _PLAIN.get(str(field.type))
        found: object = getattr(value, field.name)
        texts = cast("tuple[object, ...]", found) if field.type == "tuple[str, ...]" else ()
        if (wanted is not None and type(found) is not wanted) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{field.name} is {found!r}")


def graph_to_json(graph: TaskGraph) -> dict[str, object]:
    """The graph as plain JSON values."""
    return cast("dict[str, object]", json.loads(json.dumps(asdict(graph))))


def graph_from_json(value: object) -> TaskGraph:
    """The graph that `graph_to_json` wrote. Raises TilewrightError for anything else."""
    try:
        data = dict(cast("Mapping[str, Any]", value))
        tasks: list[Task] = []
        for given in data.pop("tasks"):
            fields = dict(cast("Mapping[str, Any]", given))
            roles, uses = tuple(fields.pop("roles")), tuple(Use(**use) for use in fields.pop("uses"))
            tasks.append(Task(roles=roles, uses=uses, **fields))
        graph = TaskGraph(
            tasks=tuple(tasks),
            dependences=tuple(Dependence(**edge) for edge in data.pop("dependences")),
            buffers=tuple(Buffer(**buffer) for buffer in data.pop("buffers")),
            roles=tuple(Role(**role) for role in data.pop("roles")),
            channel=Channel(**data.pop("channel")),
            resources=tuple(data.pop("resources")),
            **data,
        )
        for part in (*graph.tasks, *(use for task in graph.tasks for use in task.uses), *graph.dependences):
            require_plain(part)
        for part in (*graph.buffers, *graph.roles, graph.channel, graph):
            require_plain(part)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TilewrightError(f"this is no task graph: {error}", remedy="give what graph_to_json wrote") from error
    return well_formed(graph)
