"""How a list of algorithms is tried: a corner first, and no longer than was asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.cublaslt import CORNER_EXTENT, CublasError, DidNotReturn, Tried, corner_extents, tried_in_order
from hypothesis import given
from hypothesis import strategies as st

Times = Sequence[tuple[float, float]]
"""Milliseconds of each algorithm on the corner and on the whole; infinity: refused; NaN: silent."""


def tried(times: Times, *, seconds: float = math.inf) -> tuple[Tried, list[tuple[int, bool]]]:
    """What is found, and the calls that were timed, in order. A call takes as long as it says."""
    calls: list[tuple[int, bool]] = []
    now = 0.0

    def timer(place: int, whole: bool, hopeless: float) -> float:
        nonlocal now
        calls.append((place, whole))
        taken = times[place][whole]
        if math.isinf(taken):
            raise CublasError("refused")
        if math.isnan(taken):
            now += 1.5
            raise DidNotReturn("silent")
        now += (1 if taken > hopeless else 2) * taken / 1000
        return taken

    return tried_in_order(len(times), timer, seconds=seconds, clock=lambda: now), calls


def test_what_is_slow_on_the_corner_is_not_called_on_the_whole() -> None:
    found, calls = tried([(0.01, 1.0), (3.0, 7000.0), (0.02, 0.9)])
    assert found == Tried({0: 1.0, 2: 0.9}, 3, 1, (), ())
    assert (1, True) not in calls


def test_what_is_far_slower_on_the_whole_is_not_timed_and_a_refusal_is_kept() -> None:
    found, _ = tried([(0.01, 4.0), (0.01, math.inf), (math.inf, 1.0), (0.01, 1.6), (0.01, 2.0)])
    assert found == Tried({2: 1.0, 3: 1.6}, 5, 0, (), ("refused",))


def test_after_few_that_do_not_return_the_rest_is_left_out() -> None:
    silent = (0.01, math.nan)
    found, calls = tried([(0.01, 1.0), silent, (math.nan, 1.0), (0.01, 0.5)])
    assert found == Tried({0: 1.0}, 3, 0, (1, 2), ()) and (3, False) not in calls
    assert tried([silent, (0.01, 0.5)])[0] == Tried({1: 0.5}, 2, 0, (0,), ())


def test_tuning_ends_in_time_and_the_first_is_tried_in_any_case() -> None:
    times = [(0.01, 100.0)] * 32
    found, _ = tried(times, seconds=1.0)
    assert found.tried == len(found.worthy) == 5
    assert tried(times, seconds=0.0)[0].worthy == {0: 100.0}


@given(*[st.integers(1, 1 << 17)] * 3)
def test_a_corner_is_small_and_keeps_what_a_kernel_must_know_of_the_extents(m: int, n: int, k: int) -> None:
    for extent, cut in zip((m, n, k), corner_extents(m, n, k), strict=True):
        assert cut == extent or (cut % 16 == extent % 16 and CORNER_EXTENT <= cut < CORNER_EXTENT + 16 < extent)
