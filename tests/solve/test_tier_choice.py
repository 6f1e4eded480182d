"""The cheapest choice of tiers that fits, against all choices."""

import random
import time
from itertools import product

import pytest

from tilewright.solve.interval_packing import Block, height, overlap, packed
from tilewright.solve.tier_choice import Option, chosen_tiers


def drawn_values(drawn: random.Random) -> list[list[Option]]:
    values: list[list[Option]] = []
    for _ in range(drawn.randint(1, 4)):
        options: list[Option] = []
        for _ in range(drawn.randint(1, 3)):
            blocks = [
                Block(drawn.randint(1, 4), begin := drawn.randint(0, 4), begin + drawn.randint(1, 4))
                for _ in range(drawn.randint(0, 2))
            ]
            options.append(Option(drawn.randint(0, 9), drawn.randint(0, 5), tuple(blocks)))
        values.append(options)
    return values


@pytest.mark.parametrize("seed", range(80))
def test_no_choice_is_cheaper(seed: int) -> None:
    drawn = random.Random(seed)
    values, budget, cells = drawn_values(drawn), drawn.randint(2, 14), drawn.randint(2, 12)
    best: tuple[int, int] | None = None
    for options in product(*values):
        blocks = [block for each in options for block in each.blocks]
        needed, cost = height(blocks, packed(blocks)), sum(each.cost for each in options)
        if needed <= cells and sum(each.load for each in options) <= budget:
            best = min(best or (cost, needed), (cost, needed))
    found = chosen_tiers(values, budget, cells)
    assert (found and (found.cost, found.cells)) == best
    if found is not None:
        taken = [each[option] for each, option in zip(values, found.options, strict=True)]
        blocks = [block for each in taken for block in each.blocks]
        offsets = [at for each in found.offsets for at in each]
        assert overlap(blocks, offsets) is None and height(blocks, offsets) == found.cells
        assert sum(each.load for each in taken) <= budget


def test_many_values_take_no_second() -> None:
    """Seven products, as a gradient of attention has, each with two tiers."""
    values = [
        [Option(columns, columns // 2, (Block(columns, 2 * at, 2 * at + 2),)), Option(0, 0, (Block(columns, 0, 14),))]
        for at, columns in enumerate((128, 64, 128, 64, 96, 32, 128))
    ]
    begin = time.process_time()
    assert chosen_tiers(values, 240, 512) is not None
    assert time.process_time() - begin < 1
