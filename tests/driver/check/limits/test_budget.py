"""Work is ended when its time is over, wherever it is."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from tilewright.driver.check.limits.budget import BudgetSpent, bounded


def test_an_endless_loop_is_ended() -> None:
    begin = time.process_time()
    with pytest.raises(BudgetSpent), bounded(0.1):
        while True:
            pass
    assert time.process_time() - begin < 5


def test_an_alarm_whose_exception_was_dropped_rings_again_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropped:
        def __del__(self) -> None:
            while True:  # the first ring ends this, and nothing else: exceptions of destructors go nowhere
                pass

    class Failing:
        def __del__(self) -> None:
            raise ValueError

    printed: list[object] = []

    def note(dropped: sys.UnraisableHookArgs) -> None:
        printed.append(dropped.exc_type)

    monkeypatch.setattr(sys, "unraisablehook", note)
    begin = time.process_time()
    with pytest.raises(BudgetSpent), bounded(0.1):
        Failing()
        Dropped()
        while True:
            pass
    assert time.process_time() - begin < 5
    Failing()
    assert printed == [ValueError, ValueError]


def test_work_that_ends_in_time_is_left_alone() -> None:
    with bounded(0.1) as alarmed:
        assert alarmed
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    with bounded(None) as alarmed:
        assert not alarmed


def test_the_alarm_of_a_block_around_rings_when_it_should() -> None:
    with pytest.raises(BudgetSpent), bounded(0.1), bounded(60) as own:
        assert not own
        while True:
            pass
    begin = time.process_time()
    with pytest.raises(BudgetSpent), bounded(0.4):
        with bounded(0.2):
            time.sleep(0.01)
        while True:
            pass
    assert 0.3 < time.process_time() - begin < 5


def test_time_in_which_others_compute_does_not_count() -> None:
    with bounded(0.1) as alarmed:
        assert alarmed
        time.sleep(0.3)


def test_other_threads_have_no_alarm() -> None:
    seen: list[bool] = []

    def work() -> None:
        with bounded(0.1) as alarmed:
            seen.append(alarmed)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
