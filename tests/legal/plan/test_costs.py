"""Costs are ordered by what they sum to, and tell their parts in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.legal.plan.costs import Cost

NOTHING = Cost(boxes=10, box_bytes=1024)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"padded_bytes": 4096}, "4096 bytes of padding"),
        ({"copied_bytes": 4096}, "4096 bytes copied beforehand"),
        ({"extra_copies": 1}, "1 copy more for each box"),
        ({"extra_copies": 3}, "3 copies more for each box"),
        ({"overfetched_bytes": 32}, "32 bytes fetched beyond each box"),
        ({"thread_copies": 64}, "64 copies by threads for each box"),
        ({"bank_conflict_ways": 8}, "8-way bank conflicts"),
        ({"copied_bytes": 4096, "transposed_bytes": 4096}, "4096 bytes copied beforehand, transposed"),
    ],
)
def test_every_part_costs_something_and_is_told(part: dict[str, int], words: str) -> None:
    cost = replace(NOTHING, **part)
    assert cost.rank > NOTHING.rank
    assert cost.line == words
    assert "\n" not in cost.line


def test_nothing_costs_nothing() -> None:
    assert NOTHING.rank[0] == 0
    assert NOTHING.line == "nothing"


def test_padding_is_cheaper_than_copying_and_copying_than_loading_bytes() -> None:
    tensor = 1 << 20
    padded, copied = replace(NOTHING, padded_bytes=tensor // 25), replace(NOTHING, copied_bytes=tensor)
    loaded = replace(NOTHING, boxes=1024, thread_copies=2 * 512)
    assert padded.rank < copied.rank < loaded.rank
