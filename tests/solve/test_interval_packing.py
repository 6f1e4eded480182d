"""Blocks that live together have no cell in common, in as few cells as any way takes."""

import random
from itertools import product

import pytest

from tilewright.solve.interval_packing import Block, height, least_cells, overlap, packed


def enumerated(blocks: list[Block], step: int) -> int:
    """The least height of all offsets that are multiples of a step."""
    most = sum(each.size for each in blocks)
    for cells in range(least_cells(blocks), most + 1, step):
        ranges = [range(0, cells - each.size + 1, step) for each in blocks]
        if any(overlap(blocks, offsets) is None for offsets in product(*ranges)):
            return cells
    return most


@pytest.mark.parametrize("seed", range(60))
def test_no_way_takes_fewer_cells(seed: int) -> None:
    drawn = random.Random(seed)
    blocks = [
        Block(drawn.randint(1, 4), begin := drawn.randint(0, 5), begin + drawn.randint(1, 4))
        for _ in range(drawn.randint(1, 5))
    ]
    offsets = packed(blocks)
    assert overlap(blocks, offsets) is None
    assert height(blocks, offsets) == enumerated(blocks, 1)


def test_cells_are_used_again() -> None:
    """Scores of 128 columns are in registers before their weights, 64, are multiplied into sums of 64."""
    scores, weights, sums = Block(128, 1, 2), Block(64, 2, 4), Block(64, 3, 4)
    assert height([scores, weights, sums], packed([scores, weights, sums])) == 128


def test_an_overlap_is_found() -> None:
    assert overlap([Block(8, 0, 2), Block(8, 1, 3)], [0, 7]) == (0, 1)
    assert overlap([Block(8, 0, 2), Block(8, 2, 3)], [0, 7]) is None
    assert packed([]) == () and height([], []) == 0
