"""The winner of timed kernels: compared round by round, and another than the first for a clear gain alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tilewright.tune.fastest import LEAST_GAIN, fastest, finalists, winner


def test_the_quickest_is_taken() -> None:
    assert fastest([[10.0, 10.0], [8.0, 8.0], [9.0, 9.0]]) == 1


def test_the_first_stays_where_nothing_is_clearly_quicker() -> None:
    assert fastest([[10.0, 10.0], [10.0 * (1 - LEAST_GAIN / 2)] * 2]) == 0
    assert fastest([[10.0, 10.0], [10.0 * (1 - 2 * LEAST_GAIN)] * 2]) == 1


def test_rounds_are_compared_and_not_medians() -> None:
    # The clock drifts: by medians, the second would win.
    assert fastest([[10.0, 20.0, 30.0], [11.0, 15.0, 31.0], [11.0, 22.0, 33.0]]) == 0


def test_what_cannot_run_does_not_win() -> None:
    assert fastest([[10.0], [], [9.0]]) == 2
    with pytest.raises(ValueError, match="no times"):
        fastest([[], [1.0]])


def test_those_near_the_quickest_are_timed_again_beside_the_first() -> None:
    assert finalists([[10.0], [9.0], [9.2], [], [9.6], [9.1], [9.3]]) == [0, 1, 2, 5]
    assert finalists([[9.0], [10.0]]) == [0]


def test_the_second_race_decides() -> None:
    """Beside a slow kernel, which draws little power, the second looked quickest; alone with the first it is not."""
    raced: list[list[int]] = []

    def race(places: Sequence[int]) -> list[list[float]]:
        raced.append(list(places))
        return [[10.0], [9.5], [30.0]] if len(places) == 3 else [[10.0], [10.4]]

    assert winner(3, race) == 0 and raced == [[0, 1, 2], [0, 1]]
    raced.clear()
    assert winner(3, lambda places: race(places) if len(places) == 3 else [[10.0], [9.0]]) == 1
    assert winner(2, lambda places: [[9.0], [10.0]]) == 0
