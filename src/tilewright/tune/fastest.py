"""Which of several kernels is taken, by the times of all? The quickest, where it is clearly quicker than the first.

Times are of runs that alternate, so a clock that drifts moves all of them: kernels are compared round by round. The
first is the compiler's own choice; it gives way only for a gain that noise does not make.
Checked by: tests/tune/test_fastest.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

LEAST_GAIN = 0.01
"""Of the first one's time."""


def fastest(times: Sequence[Sequence[float]]) -> int:
    """The place of the kernel to take. times: of every kernel, one of each round; none of a kernel that cannot run.

    Raises ValueError where the first one has none: it is what others are compared with.
    """
    first = times[0]
    if not first:
        raise ValueError("the first kernel has no times")
    shares = {
        place: statistics.median(mine / own for mine, own in zip(each, first, strict=True))
        for place, each in enumerate(times)
        if each
    }
    best = min(shares, key=shares.__getitem__)
    return best if shares[best] <= 1 - LEAST_GAIN else 0
