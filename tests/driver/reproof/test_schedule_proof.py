"""Is the schedule of decisions judged before it is believed, and made again where the decisions do not keep it?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.driver.reproof.decided_parts import decided_parts

from tilewright.base.error import TilewrightError
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.reproof.schedule_proof import settle_schedule
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.synth.schedule.loop_schedule import RING, schedule_of


def decided() -> tuple[tile.ProgramOp, CascadeDecisions]:
    (part,) = decided_parts(matmul_kernel, {"M": 4096, "N": 4096, "K": 4096})
    assert isinstance(part.decisions, CascadeDecisions)
    return the_program(part.module), part.decisions


def test_a_schedule_that_holds_is_kept() -> None:
    program, decisions = decided()
    assert settle_schedule(program, decisions, "heuristic") is decisions


def test_a_wrong_schedule_is_refuted_with_its_finding() -> None:
    program, decisions = decided()
    document = json.loads(decisions.schedule)
    document["schedule"]["interval_cycles"] -= 100
    with pytest.raises(TilewrightError, match="refuted: SC") as caught:
        settle_schedule(program, replace(decisions, schedule=json.dumps(document)), "heuristic")
    assert caught.value.findings


def test_slots_released_at_another_distance_than_the_schedule_s_are_refused() -> None:
    program, decisions = decided()
    with pytest.raises(TilewrightError, match="releases slots 1 products late, its decisions 0"):
        settle_schedule(program, replace(decisions, release_distance=0), "heuristic")


def test_fewer_stages_or_registers_than_the_schedule_has_make_another() -> None:
    program, decisions = decided()
    slots = tuple(replace(slot, slots=2) for slot in decisions.slots)
    poorer = replace(decisions, slots=slots, consumer_registers=decisions.consumer_registers - 8)
    settled = settle_schedule(program, poorer, "heuristic")
    assert isinstance(settled, CascadeDecisions) and settled != poorer
    assert decisions_of(program.attributes["decisions"]) == settled
    before, after = schedule_of(decisions), schedule_of(settled)
    assert before is not None and after is not None
    assert after[1].slots_of(RING) == 2 and after[1].interval_cycles > before[1].interval_cycles
    assert after[0].role("consumers").registers == poorer.consumer_registers
    assert sum(line.startswith("schedule (") for line in settled.reasons) == 1
