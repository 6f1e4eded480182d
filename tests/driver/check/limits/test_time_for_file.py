"""The time of a file and of its kernels, on a clock that the test moves."""

from __future__ import annotations

import pytest

from tilewright.driver.check.limits import time_for_file
from tilewright.driver.check.limits.time_for_file import TimeForFile


class Clock:
    """A clock that shows what it was set to."""

    now = 100.0

    def process_time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time_for_file, "time", found)
    return found


def test_without_limits_nothing_is_ever_over(clock: Clock) -> None:
    limits = TimeForFile(None, None)
    clock.now += 1e9
    assert limits.left() is None and not limits.over() and limits.for_kernel()[0] is None


def test_a_kernel_gets_the_smaller_of_its_own_time_and_what_the_file_has_left(clock: Clock) -> None:
    limits = TimeForFile(60.0, 100.0)
    assert limits.for_kernel() == (60.0, "stopped after 60 s; raise --budget")
    clock.now += 70.0
    seconds, reason = limits.for_kernel()
    assert seconds == 30.0 and "the 100 s for the file" in reason and "--file-budget" in reason
    assert not limits.over()
    clock.now += 30.0
    assert limits.over() and limits.left() == 0.0
    assert "after 3 of 57 kernels" in limits.not_reached(3, 57)


def test_a_file_alone_may_have_a_limit(clock: Clock) -> None:
    limits = TimeForFile(None, 10.0)
    clock.now += 4.0
    assert limits.for_kernel()[0] == 6.0
