"""Does a decided walk keep the schedule that it was decided by, and is that schedule a right one?

The schedule on the decisions is judged by `contract.schedule.schedule_check`, which shares nothing with whoever made
it, and compared with the decisions: as many slots as it needs, registers as it was promised, slots released as late.
What is refused tightens the graph, which is scheduled again (`synth.schedule.refinement`). Checked by:
tests/driver/reproof/test_schedule_proof.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError, Undecided
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.schedule.schedule_check import check_schedule
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import Decisions, to_attribute
from tilewright.ir.schedule import Method, Schedule
from tilewright.ir.task_graph import TaskGraph
from tilewright.ir.tile import operations as tile
from tilewright.synth.schedule.loop_schedule import RING, distance_of, schedule_of, with_schedule
from tilewright.synth.schedule.refinement import Refusal, refine


def prove_schedule(graph: TaskGraph, schedule: Schedule) -> Proven:
    """The checker's proof. Raises TilewrightError with its findings, since whoever made the schedule erred."""
    match check_schedule(graph, schedule):
        case Proven() as proven:
            return proven
        case Refuted(findings):
            raise TilewrightError(
                f"the schedule of {graph.name} is refuted: {findings[0].code} {findings[0].message}",
                remedy="this is a fault of the compiler; please report the program",
                findings=findings,
            )
        case Unknown(reasons):
            raise Undecided(f"the schedule of {graph.name} is not proved: {'; '.join(reasons)}")


def settle_schedule(program: tile.ProgramOp, decisions: Decisions, method: Method) -> Decisions:
    """The decisions, their schedule proven and one that they keep; made again under tighter bounds where it was not,
    and then written on `program`."""
    if not isinstance(decisions, CascadeDecisions):
        return decisions
    found = schedule_of(decisions)
    if found is None:
        return decisions
    graph, schedule = found
    prove_schedule(graph, schedule)
    if not decisions.partials and distance_of(graph) != decisions.release_distance:
        raise TilewrightError(
            f"{graph.name}: its schedule releases slots {distance_of(graph)} products late, its decisions "
            f"{decisions.release_distance}",
            remedy="this is a fault of the compiler; please report the program",
        )
    if not refusals(decisions, graph, schedule):
        return decisions
    refined = refine(graph, lambda graph, schedule: refusals(decisions, graph, schedule), method)
    prove_schedule(refined.graph, refined.schedule)
    settled = with_schedule(decisions, refined.graph, refined.schedule)
    program.attributes["decisions"] = to_attribute(settled)
    return settled


def refusals(decisions: CascadeDecisions, graph: TaskGraph, schedule: Schedule) -> tuple[Refusal, ...]:
    """What a schedule takes for granted and the decisions do not give."""
    found: list[Refusal] = []
    stages = decisions.slots[0].slots
    if schedule.slots_of(RING) > stages:
        found.append(Refusal("slots", RING, stages, f"the kernel has {stages} stages"))
    for role in graph.roles:
        if role.name.startswith("consumer") and role.registers > decisions.consumer_registers:
            why = f"setmaxnreg gives {decisions.consumer_registers}"
            found.append(Refusal("registers", role.name, decisions.consumer_registers, why))
    return tuple(found)
