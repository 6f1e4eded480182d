"""Work is counted in steps of the machine, alike on every machine, and ends what has a limit."""

from __future__ import annotations

from typing import Any

import pytest
from tests.driver.checked_kernels import pipe

from tilewright.base.plan import Launch, PointerParam, ScalarParam
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.check import judge_kernel as judge_module
from tilewright.driver.check.judge_kernel import JudgeOptions, KernelLaunch, judge_kernel
from tilewright.driver.check.limits.work import WorkSpent, add_steps, counted, steps_left
from tilewright.driver.launch.given_launch import BufferSize
from tilewright.driver.launch.judge_launch import LaunchJudgement


def test_a_run_counts_for_every_meter_around_it() -> None:
    with counted() as outer:
        add_steps(3)
        with counted() as inner:
            add_steps(4)
        assert inner.steps == 4
    add_steps(5)
    assert outer.steps == 7


def test_a_run_gets_what_is_left_and_no_more() -> None:
    assert steps_left(50) == 50
    with counted(100):
        assert steps_left(500) == 100
        add_steps(70)
        with counted(1000):
            assert steps_left(500) == 30
        assert steps_left(20) == 20
        add_steps(30)
        with pytest.raises(WorkSpent):
            steps_left(500)


def test_more_than_is_left_ends_the_block() -> None:
    with pytest.raises(WorkSpent), counted(10) as meter:
        add_steps(11)
    assert meter.steps == 11
    assert steps_left(5) == 5


def _judged(monkeypatch: pytest.MonkeyPatch, clusters: int, all_steps: int) -> tuple[list[Any], tuple[str, ...]]:
    """Which clusters are run of a launch, and what a proof then assumes."""
    module, kernel = pipe()
    whole = judge_module.judge_launch
    ran: list[Any] = []

    def watched(*arguments: Any, **options: Any) -> LaunchJudgement:
        ran.append(options["clusters"])
        return whole(*arguments, **options)

    monkeypatch.setattr(judge_module, "judge_launch", watched)
    monkeypatch.setattr(judge_module, "ALL_CLUSTERS_STEPS", all_steps)
    # No steps of the pipeline: its clusters store nothing that others store, too.
    params = (PointerParam("source"), PointerParam("out"), ScalarParam("i32", 0), ScalarParam("i32", 64))
    launch = Launch("pipe", (clusters, 1, 1), (64, 1, 1), params)
    known = KernelLaunch(launch, (BufferSize("source", 1 << 16), BufferSize("out", 1 << 16)))
    judgement = judge_kernel(module, kernel, known, JudgeOptions(tolerant()))
    assert judgement.complete and not judgement.findings and not judgement.doubts
    return ran, judgement.assumptions


def test_steps_decide_how_many_clusters_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _judged(monkeypatch, 4, 0)[0] == [None]
    ran, assumptions = _judged(monkeypatch, 40, 10_000_000)
    assert ran == [(0,), None] and not any("clusters" in line for line in assumptions)
    ran, assumptions = _judged(monkeypatch, 40, 1)
    assert ran == [(0,), (0, 13, 26, 39)]
    assert any(line.startswith("of 40 clusters, 4 were run") for line in assumptions)
