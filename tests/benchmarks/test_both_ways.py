"""Products whose text the second proof judges the quick way and the slow way: the same is said of each."""

from __future__ import annotations

from random import Random

import pytest
from bench.both_ways import BothWays, both_ways, drawn, summary
from bench.compile_suites import products


@pytest.mark.full
def test_a_fresh_sample_is_judged_alike() -> None:
    seed = Random().randrange(1 << 32)
    rows = [both_ways(each) for each in [*Random(seed).sample(products(), 12), *drawn(seed, 4)]]
    assert [row for row in rows if row.differs] == [], f"seed {seed}"
    assert any(row.said == ("proven", "proven") for row in rows), f"seed {seed}"


def test_what_differs_is_said() -> None:
    rows = [
        BothWays("gemm", "one", (1, 2, 3), ("proven", "proven"), (0.1, 0.2)),
        BothWays("gemm", "two", (1, 2, 3), ("proven", "refuted MB101"), (0.3, 0.4)),
        BothWays("gemm", "three", (1, 2, 3), refused="too large"),
    ]
    assert [row.differs for row in rows] == [False, True, False]
    assert summary(rows) == (
        "Of 2 texts 1 are judged alike both ways; the quick way takes 0.20 s in the median and 0.30 s at most, the "
        "slow one 0.30 and 0.40; 1 are refused."
    )


def test_what_is_drawn_follows_the_seed() -> None:
    assert drawn(5, 8) == drawn(5, 8) != drawn(6, 8)
    for work in drawn(7, 40):
        assert min(work.shape) >= 1
