"""Does a check whose time is over say what stands in the way, and nothing that would be said of a complete one?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.driver.checked_kernels import pipe

from tilewright.base.span import Span
from tilewright.base.verdict import Unknown
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.check.limits.budget import BudgetSpent
from tilewright.driver.explore import judge_unlaunched as judging
from tilewright.driver.explore.gaps import coverage
from tilewright.driver.explore.gaps.missing import Missing
from tilewright.driver.explore.gaps.open_so_far import open_gaps
from tilewright.driver.explore.search.exploration import Exploration
from tilewright.driver.explore.search.reachable import Impossible, Undecided


def _span(position: int) -> Span:
    return Span("k.ptx", 10 + position, 2)


def _stopped(monkeypatch: pytest.MonkeyPatch, where: Callable[[Exploration], bool]) -> tuple[str, ...]:
    """What is open of a pipeline whose time is over as soon as `where` holds of its exploration."""
    at = Exploration.at

    def until(exploration: Exploration, *values: Any, **named: Any) -> object:
        if where(exploration):
            raise BudgetSpent
        return at(exploration, *values, **named)

    monkeypatch.setattr(Exploration, "at", until)
    module, kernel = pipe()
    with pytest.raises(BudgetSpent) as spent:
        judging.judge_unlaunched(module, kernel, tolerant())
    return spent.value.open


def test_a_loop_that_does_not_repeat_yet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = _stopped(monkeypatch, lambda exploration: bool(exploration.deciding))
    assert said and all(each.startswith("open after 1 launch: ") for each in said)
    assert "does not show that it repeats itself" in said[0]


def test_before_anything_is_known_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _stopped(monkeypatch, lambda _: True) == ()


def test_a_launch_that_is_not_decided_stands_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(exploration: Exploration) -> bool:
        for tried in exploration.tried[:1]:
            object.__setattr__(tried.judged, "verdict", Unknown(("k.ptx:7:2: who writes?",)))
        return len(exploration.tried) > 1

    assert _stopped(monkeypatch, undecided) == ("open after 2 launches: k.ptx:7:2: who writes?",)


def test_the_gap_that_is_asked_about_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> Undecided:
        raise BudgetSpent

    gap = Missing(3, "whether anyone arrives", ("endless",), endless)

    def found(*_: object) -> list[Missing]:
        return [gap]

    monkeypatch.setattr(coverage, "counted_barriers", found)
    module, kernel = pipe()
    with pytest.raises(BudgetSpent) as spent:
        judging.judge_unlaunched(module, kernel, tolerant())
    assert len(spent.value.open) == 1 and spent.value.open[0].endswith(": whether anyone arrives")


def test_what_is_answered_is_not_open() -> None:
    gaps = [Missing(each, f"gap {each}", (each,), Undecided) for each in range(4)]
    answers: dict[tuple[object, ...], Impossible | Undecided] = {(0,): Impossible(), (1,): Undecided()}
    assert open_gaps(gaps, answers, _span) == ["k.ptx:11:2: gap 1", "k.ptx:12:2: gap 2"]
