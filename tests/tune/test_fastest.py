"""The winner of timed kernels: compared round by round, and another than the first for a clear gain alone."""

from __future__ import annotations

import pytest

from tilewright.tune.fastest import LEAST_GAIN, fastest


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
