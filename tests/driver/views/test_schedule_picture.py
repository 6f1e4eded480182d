"""Does the picture show each task of each turn where the schedule has it, and no slot taken twice at once?"""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.synth.graphs import attention_body, gemm_body

from tilewright.base.error import TilewrightError
from tilewright.driver.views.schedule_picture import schedule_chart
from tilewright.ir.loop_body import LoopBody
from tilewright.synth.schedule.role_assignment import schedule_body
from tilewright.targets import target


@pytest.mark.parametrize("body", [gemm_body(), attention_body()], ids=["gemm", "attention"])
def test_every_task_of_every_turn_is_there_once(body: LoopBody) -> None:
    graph, schedule = schedule_body(body, target("sm_90a"))
    chart = schedule_chart(graph, schedule, 6)
    lanes = {lane.name: lane.bars for lane in chart.lanes}
    issued = [bar for role in graph.roles for bar in lanes[role.name]]
    assert len(issued) == 6 * len(graph.tasks)
    for task in graph.tasks:
        begins = [bar.begin for bar in issued if bar.detail.startswith(f"{task.name}, ")]
        start = schedule.placement(task.name).start_cycles
        assert begins == [start + turn * schedule.interval_cycles for turn in range(6)]
    for lane in chart.lanes:  # units, streams and slots serve one at a time
        assert all(first.end <= second.begin for first, second in pairwise(lane.bars)), lane.name
    assert sum(name.startswith(f"{graph.buffers[0].name} slot") for name in lanes) == min(
        6, schedule.slots_of(graph.buffers[0].name)
    )


@pytest.mark.parametrize("turns", [0, -3, 1000])
def test_a_number_of_turns_that_cannot_be_drawn_is_refused(turns: int) -> None:
    graph, schedule = schedule_body(gemm_body(), target("sm_90a"))
    with pytest.raises(TilewrightError, match="iterations"):
        schedule_chart(graph, schedule, turns)
