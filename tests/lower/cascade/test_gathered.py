# ruff: noqa: F821, E741  (axis names are quoted in annotations; O is the output)
"""Attention whose keys lie where tables say: each element's value on the CPU machine, and both proofs."""

import numpy as np
import pytest
from tests.lower.cascade.value_runs import OPERANDS, UNITS
from tests.lower.gathered_programs import paged, slots, tables
from tests.lower.lowered_programs import lower, random_inputs, run

import tilewright as tw
from tilewright.base.element import Element
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.synth.decide import Wanted


def dims_of(page: int, blocks: int, *, heads: int = 1, batch: int = 2, pages: int = 5):
    return {"B": batch, "H": heads, "Q": 1, "T": page * blocks, "E": 16, "F": 24, "P": pages, "S": page}


def assert_values(kernel, dims, lowered, **given) -> None:
    arrays = random_inputs(lowered)
    for name, values in given.items():
        arrays[name][...] = values
    kinds = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    expected = evaluate(trace(kernel, dims, kinds), arrays, rounded=False)["O"]
    found = run(lowered, arrays)["O"].astype(np.float64)
    allowed = UNITS[Element.BF16] * np.abs(expected) + OPERANDS[Element.BF16] * np.nanmax(np.abs(expected))
    with np.errstate(invalid="ignore"):
        near = np.abs(found - expected) <= allowed
    assert np.all(near | (np.isnan(found) & np.isnan(expected)))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("page", "blocks", "depth"),
    [
        (16, 5, 32),
        (16, 6, 48),
        (64, 3, 32),
        (64, 3, 128),
        (256, 1, 128),
        (8, 5, 32),
    ],
)
def test_pages_against_tiles(page, blocks, depth):
    """Tiles of several pages, pages of several tiles, and a last tile that ends within the pages' number."""
    kernel, dims = paged(page), dims_of(page, blocks)
    lowered = lower(kernel, dims, wanted=Wanted(depth=depth, consumers=1))
    assert_values(kernel, dims, lowered, table=tables(2, blocks, 5), lengths=[page * blocks - 3, page + 1])


@pytest.mark.sample(1)
@pytest.mark.parametrize("lengths", [(0, 1), (16, 17), (15, 32)])
def test_lengths_at_the_edges_of_pages(lengths):
    kernel, dims = paged(16), dims_of(16, 4)
    lowered = lower(kernel, dims, wanted=Wanted(depth=32, consumers=1))
    assert_values(kernel, dims, lowered, table=tables(2, 4, 5), lengths=lengths)


def test_repeated_pages_and_numbers_that_are_no_page():
    kernel, dims = paged(16), dims_of(16, 4)
    lowered = lower(kernel, dims, wanted=Wanted(depth=32, consumers=1))
    table = [[3, 3, -1, 3], [5, 2**31 - 1, 0, -(2**31)]]
    assert_values(kernel, dims, lowered, table=table, lengths=[64, 64])


@pytest.mark.full
def test_heads_of_a_group_are_rows_of_one_tile():
    kernel, dims = paged(16, group=4), dims_of(16, 4, heads=8)
    lowered = lower(kernel, dims, wanted=Wanted(depth=32))
    assert lowered.decisions.row == "H_Q"
    assert_values(kernel, dims, lowered, table=tables(2, 4, 5), lengths=[64, 20])


@pytest.mark.parametrize("length", [1000, pytest.param(130, marks=pytest.mark.full)])
def test_parts_that_divide_a_page(length: int):
    kernel, dims = paged(256), dims_of(256, 4, batch=1)
    lowered = lower(kernel, dims, cut=True)
    walk = lowered.parts[0].decisions
    assert [each.batch for each in walk.slots if each.lookups] == [("H", "T_parts%2", "")] * 2
    assert_values(kernel, dims, lowered, table=tables(1, 4, 5), lengths=[length])


@tw.kernel
def every_sixteenth(Q: tw.Tensor["Q", "E"], K: tw.Tensor["T", "E"], V: tw.Tensor["S", "F"], O: tw.Tensor["Q", "F"]):
    q, t, e, f = tw.axes("Q T E F")
    s = tw.dot(Q[q, e], K[t, e], over=e)
    O[q, f] = tw.dot(tw.softmax(s, over=t), V[t % 16, f], over=t)


@pytest.mark.parametrize(("depth", "kernels"), [(32, 2), (16, 1)])
def test_rows_past_the_end_are_zeros_or_copied_first(depth: int, kernels: int):
    """Rows that no table leads to would come again past the end, where weights of 0 meet whatever they hold."""
    dims = {"Q": 4, "T": 48, "E": 16, "F": 16, "S": 16}
    lowered = lower(every_sixteenth, dims, wanted=Wanted(depth=depth, consumers=1))
    assert len(lowered.kernels) == kernels
    assert_values(every_sixteenth, dims, lowered)


@pytest.mark.full
def test_slots_of_sequences():
    dims = {"B": 3, "H": 2, "Q": 5, "T": 40, "E": 16, "F": 24, "R": 4}
    lowered = lower(slots, dims, wanted=Wanted(depth=32, consumers=1))
    assert_values(slots, dims, lowered, slot=[2, 0, 2])
