"""Do refusals only ever tighten, and do the rounds end?"""

from __future__ import annotations

import pytest
from tests.synth.graphs import attention_body, gemm_body

from tilewright.base.error import TilewrightError, Undecided
from tilewright.ir.schedule import Schedule, registers_of_roles
from tilewright.ir.task_graph import TaskGraph
from tilewright.synth.schedule.loop_tasks import task_graph
from tilewright.synth.schedule.refinement import MOST_ROUNDS, Refusal, refine, tightened
from tilewright.targets import target

TARGET = target("sm_90a")
GEMM = task_graph(gemm_body(), TARGET, "cooperative")
ATTENTION = task_graph(attention_body(), TARGET)


def test_what_nobody_refuses_is_kept() -> None:
    found = refine(GEMM, lambda graph, schedule: ())
    assert found.rounds == 1 and found.graph == GEMM and found.refusals == ()


def test_slots_are_given_up_one_at_a_time() -> None:
    """A judge that allows two slots, and tells of one too many at a time."""
    seen: list[tuple[int, int]] = []

    def judge(graph: TaskGraph, schedule: Schedule) -> tuple[Refusal, ...]:
        slots = schedule.slots_of("ab")
        seen.append((slots, schedule.interval_cycles))
        return (Refusal("slots", "ab", slots - 1, "one too many"),) if slots > 2 else ()

    found = refine(GEMM, judge)
    assert found.schedule.slots_of("ab") == 2 and found.rounds == len(seen) == len(found.refusals) + 1
    assert [slots for slots, _ in seen] == sorted({slots for slots, _ in seen}, reverse=True)
    assert [interval for _, interval in seen] == sorted(interval for _, interval in seen)


def test_registers_are_given_up_until_the_judge_agrees() -> None:
    limit = 176

    def judge(graph: TaskGraph, schedule: Schedule) -> tuple[Refusal, ...]:
        held = registers_of_roles(graph, schedule)
        return tuple(Refusal("registers", role, limit, "spills") for role, count in held.items() if count > limit)

    found = refine(ATTENTION, judge)
    assert max(registers_of_roles(found.graph, found.schedule).values()) <= limit


def test_what_no_schedule_can_keep_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="no schedule"):
        refine(GEMM, lambda graph, schedule: (Refusal("registers", "consumers", 100, "less than the accumulators"),))
    with pytest.raises(TilewrightError, match="slots"):
        refine(GEMM, lambda graph, schedule: (Refusal("slots", "ab", 0, "none"),))


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal("registers", "consumers", 999, "more than there are"),
        Refusal("slots", "no such ring", 1, "of nothing"),
        Refusal("memory", "", 1 << 40, "more than there is"),
    ],
    ids=["registers", "slots", "memory"],
)
def test_a_refusal_that_tightens_nothing_is_refused_itself(refusal: Refusal) -> None:
    with pytest.raises(TilewrightError, match="without a tighter bound"):
        tightened(GEMM, (refusal,))
    with pytest.raises(TilewrightError, match="without a tighter bound"):
        refine(GEMM, lambda graph, schedule: (refusal,))


def test_rounds_are_bounded() -> None:
    """A judge that always finds a byte too many ends undecided, at the limit."""
    asked: list[int] = []

    def judge(graph: TaskGraph, schedule: Schedule) -> tuple[Refusal, ...]:
        asked.append(graph.shared_bytes)
        return (Refusal("memory", "", graph.shared_bytes - 1, "a byte too many"),)

    with pytest.raises(Undecided, match=f"{MOST_ROUNDS} rounds"):
        refine(GEMM, judge)
    assert len(asked) == MOST_ROUNDS and asked == sorted(set(asked), reverse=True)
