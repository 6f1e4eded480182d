"""Is a schedule that keeps its graph proven, and is each way of breaking one refuted with the tasks that conflict?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.rules.schedule_codes import SCHEDULE_RULES
from tilewright.contract.schedule.schedule_check import check_schedule
from tilewright.ir.schedule import Certificate, Placement, Schedule
from tilewright.ir.task_graph import Buffer, Channel, Dependence, Role, Task, TaskGraph, Use, well_formed

GRAPH = well_formed(
    TaskGraph(
        "pipe",
        (
            Task("load", "copy", 30, ("producer",), (Use("engine", 10),), 2, 4),
            Task("product", "tensor", 20, ("consumer",), (Use("cores", 16),), 4, 8, 64),
            Task("work", "cuda", 12, ("consumer",), (), 12, 20, 8, 32),
        ),
        (
            Dependence("load", "product", 0, "full barrier", "ring"),
            Dependence("product", "work", 0, "wgmma group"),
            Dependence("work", "work", 1, "registers"),
        ),
        (Buffer("ring", 1000, 1, 8, 5),),
        ("engine", "cores"),
        (Role("producer", 1, 24), Role("consumer", 128, 184)),
        Channel(3, 2, 1, 2, 1),
        4000,
        4,
        100,
    )
)
# The product's values live from 32 to 64, two turns; the ring's slot from 0 to 57, not quite four.
GOOD = Schedule(
    "pipe",
    16,
    (Placement("load", "producer", 0), Placement("product", "consumer", 32), Placement("work", "consumer", 52)),
    (("ring", 4),),
    "heuristic",
    16,
    0,
    Certificate("unit", 16, ("cores",)),
)


def moved(task: str, start: int, role: str = "consumer") -> Schedule:
    placements = tuple(Placement(task, role, start) if one.task == task else one for one in GOOD.placements)
    return replace(GOOD, placements=placements)


def codes(graph: TaskGraph, schedule: Schedule) -> set[str]:
    verdict = check_schedule(graph, schedule)
    return {finding.code for finding in verdict.findings} if isinstance(verdict, Refuted) else set()


def changed(task: str, **fields: object) -> TaskGraph:
    tasks = tuple(replace(one, **fields) if one.name == task else one for one in GRAPH.tasks)  # type: ignore[arg-type]
    return replace(GRAPH, tasks=tasks)


def test_a_schedule_that_keeps_its_graph_is_proven() -> None:
    verdict = check_schedule(GRAPH, GOOD)
    assert isinstance(verdict, Proven) and verdict.scope == "every iteration"


BROKEN: list[tuple[str, TaskGraph, Schedule]] = [
    ("SC001", GRAPH, replace(GOOD, placements=GOOD.placements[:2])),
    ("SC001", GRAPH, replace(GOOD, placements=(*GOOD.placements, Placement("ghost", "consumer", 0)))),
    ("SC001", GRAPH, replace(GOOD, interval_cycles=0)),
    ("SC001", GRAPH, moved("work", 52, "producer")),
    ("SC001", GRAPH, moved("load", -16, "producer")),
    ("SC001", GRAPH, replace(GOOD, slots=())),
    ("SC001", replace(GRAPH, resources=("engine",)), GOOD),
    ("SC002", GRAPH, moved("product", 29)),
    ("SC002", GRAPH, moved("work", 51)),
    ("SC003", changed("product", uses=(Use("cores", 17),)), replace(GOOD, certificate=None)),
    ("SC003", changed("work", uses=(Use("cores", 1),)), replace(GOOD, certificate=None)),
    ("SC004", GRAPH, moved("work", 55)),
    ("SC005", GRAPH, replace(GOOD, slots=(("ring", 3),))),
    ("SC006", GRAPH, replace(GOOD, slots=(("ring", 5),))),
    ("SC006", replace(GRAPH, buffers=(replace(GRAPH.buffers[0], slots_max=3),)), GOOD),
    ("SC007", replace(GRAPH, roles=(GRAPH.roles[0], Role("consumer", 128, 175))), GOOD),
    ("SC007", replace(GRAPH, unroll_max=1), GOOD),
    ("SC008", changed("work", issue_slots=53), GOOD),
    ("SC009", replace(GRAPH, dependences=(*GRAPH.dependences, Dependence("work", "load"))), GOOD),
    ("SC010", GRAPH, replace(GOOD, certificate=Certificate("unit", 16, ("engine",)))),
    ("SC010", GRAPH, replace(GOOD, certificate=Certificate("unit", 15, ("cores",)))),
    ("SC010", GRAPH, replace(GOOD, certificate=Certificate("cycle", 16, ("load", "work")))),
    ("SC010", GRAPH, replace(GOOD, certificate=Certificate("stream", 16, ("producer",)))),
    ("SC010", GRAPH, replace(GOOD, certificate=Certificate("issue", 16, ()))),
]


@pytest.mark.parametrize(("code", "graph", "schedule"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_schedule_is_refuted(code: str, graph: TaskGraph, schedule: Schedule) -> None:
    assert code in codes(graph, schedule)


def test_every_code_has_a_schedule_that_breaks_it() -> None:
    assert {code for code, _, _ in BROKEN} == set(SCHEDULE_RULES)


def test_a_finding_names_both_tasks() -> None:
    verdict = check_schedule(GRAPH, moved("work", 55))
    assert isinstance(verdict, Refuted)
    (finding,) = [one for one in verdict.findings if one.code == "SC004"]
    assert finding.primary is not None and finding.conflicts_with is not None
    assert {finding.primary.text, finding.conflicts_with.text} == {"product", "work"}
    assert "consumer" in finding.message


def test_too_many_turns_in_flight_are_unknown() -> None:
    assert isinstance(check_schedule(GRAPH, moved("work", 52 + (1 << 40))), Unknown)


def test_an_order_of_issue_waits_for_the_stream_alone() -> None:
    """The product holds its stream for 4 cycles and takes 20: what follows its issue may begin at 36, and not
    before."""
    edges = (
        Dependence("load", "product", 0, "full barrier", "ring"),
        Dependence("product", "work", 0, "order of issue", issued=True),
    )
    graph = replace(GRAPH, dependences=edges)
    assert isinstance(check_schedule(graph, moved("work", 36)), Proven)
    assert "SC002" in codes(graph, moved("work", 35))


def test_a_certificate_by_search_is_believed_and_said() -> None:
    verdict = check_schedule(GRAPH, replace(GOOD, certificate=Certificate("search", 16, ())))
    assert isinstance(verdict, Proven) and any("solver's word" in line for line in verdict.assumptions)


def test_registers_are_counted_where_turns_overlap() -> None:
    """Two turns' products and two results of the work, and what is kept throughout: 2 * 64 + 2 * 8 + 32."""
    for budget, broken in ((0, True), (176, False), (175, True)):
        graph = replace(GRAPH, roles=(GRAPH.roles[0], Role("consumer", 128, budget)))
        assert ("SC007" in codes(graph, GOOD)) == broken, budget
