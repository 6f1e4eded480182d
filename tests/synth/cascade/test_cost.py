"""Which form of a program is taken: heads as rows where tiles would not be full, each head by itself elsewhere."""

import pytest
from tests.synth.joining.grouped_programs import MASKS, attention

from tilewright.base.element import Element
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.cost import cost
from tilewright.synth.decide import decide
from tilewright.targets import target

HOPPER = target("sm_90a")


def taken(group, mask, batch, heads, queries, keys=512):
    kernel = attention(group, MASKS[mask])
    dims = {"B": batch, "H": heads, "Q": queries, "T": keys, "E": 128, "F": 128}
    source = trace(kernel, dims, {each.name: each.element or Element.BF16 for each in kernel.parameters})
    return the_program(walked(source, HOPPER))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("group", "mask", "batch", "heads", "queries", "joined"),
    [
        (4, "no_mask", 16, 32, 1, True),  # a fourth of the tiles
        (4, "no_mask", 1, 32, 1, True),  # one wave either way, but a fourth of the bytes
        (8, "no_mask", 16, 32, 4, True),
        (4, "no_mask", 2, 8, 512, False),  # tiles are full as they are
        (4, "causal", 2, 8, 256, False),  # and walk less where a tile's rows are neighbours
        (4, "no_mask", 2, 8, 100, True),  # 7 tiles of 64 rows a group, where 8 are begun
    ],
)
def test_heads_are_rows_where_that_takes_less(group, mask, batch, heads, queries, joined):
    program = taken(group, mask, batch, heads, queries)
    assert ("H_Q" in program.extents) == joined


def test_the_cost_counts_what_masks_leave():
    """Of 8 tiles of rows, each walks one tile more than the one before: 36 of 64."""
    costs = []
    for mask in ("no_mask", "causal"):
        program = taken(4, mask, 32, 8, 1024, 1024)
        costs.append(cost(program, decide(program, HOPPER), HOPPER))
    assert costs[1][1] * 64 == costs[0][1] * 36 and costs[1][0] == pytest.approx(costs[0][0] * 36 / 64, rel=0.05)
