"""Which of several kernels is taken, by the times of all? The quickest, where it is clearly quicker than the first.

Times are of runs that alternate, so a clock that drifts moves all of them: kernels are compared round by round. The
first is the compiler's own choice; it gives way only for a gain that noise does not make. Those that come near the
quickest are timed once more, beside the first alone: a GPU under its power cap runs at a clock that depends on all that
is timed together, and slow kernels draw less.
Checked by: tests/tune/test_fastest.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

LEAST_GAIN = 0.01
"""Of the first one's time."""
_NEAR = 0.05
"""Of the quickest one's time, by how much more others may take that are timed again, and"""
_MOST_AGAIN = 3
"""how many of them, the quickest included."""

Race = Callable[[Sequence[int]], Sequence[Sequence[float]]]
"""Of the kernels at these places, the times of every round; none of one that cannot run."""


def winner(kernels: int, race: Race) -> int:
    """The place of the kernel to take, of so many, by two races. Raises ValueError as `fastest` does."""
    again = finalists(race(range(kernels)))
    return again[fastest(race(again))] if len(again) > 1 else again[0]


def finalists(times: Sequence[Sequence[float]]) -> list[int]:
    """The places of those that are timed again: the first, and those that come near the quickest. times: as `fastest`
    has them."""
    shares = _shares(times)
    near = [
        place for place in sorted(shares, key=shares.__getitem__) if shares[place] <= (1 + _NEAR) * min(shares.values())
    ]
    return sorted({0, *near[:_MOST_AGAIN]})


def fastest(times: Sequence[Sequence[float]]) -> int:
    """The place of the kernel to take. times: of every kernel, one of each round; none of a kernel that cannot run.

    Raises ValueError where the first one has none: it is what others are compared with.
    """
    shares = _shares(times)
    best = min(shares, key=shares.__getitem__)
    return best if shares[best] <= 1 - LEAST_GAIN else 0


def _shares(times: Sequence[Sequence[float]]) -> dict[int, float]:
    """Of the first one's time, what each takes that can run, by its place."""
    first = times[0]
    if not first:
        raise ValueError("the first kernel has no times")
    return {
        place: statistics.median(mine / own for mine, own in zip(each, first, strict=True))
        for place, each in enumerate(times)
        if each
    }
