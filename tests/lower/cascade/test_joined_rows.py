"""Tiles whose rows run over heads and queries: each element's value on the CPU machine, and both proofs."""

import numpy as np
import pytest
from tests.lower.cascade.value_runs import OPERANDS, UNITS
from tests.lower.lowered_programs import lower, random_inputs, run
from tests.synth.joining.grouped_programs import MASKS, attention, batched_product

from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.reproof import reprove
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.synth.decide import Wanted
from tilewright.targets import target

CASES = [
    (3, "causal", (1, 6, 5)), (8, "late_window", (1, 8, 3)), (4, "slopes", (1, 8, 1)), (None, "lengths", (2, 3, 5))
]  # fmt: skip
FURTHER = [
    (4, "causal", (1, 4, 33)), (3, "lengths", (2, 3, 1)), (8, "no_mask", (1, 8, 9)), (None, "numbered", (1, 5, 7))
]  # fmt: skip


def lowered_at(group, mask, extents, **wanted):
    dims = dict(zip("BHQ", extents, strict=True)) | {"T": 40, "E": 16, "F": 24}
    kernel = attention(group, MASKS[mask])
    return kernel, dims, lower(kernel, dims, wanted=Wanted(depth=16, **wanted))


def assert_values(kernel, dims, lowered) -> None:
    arrays = random_inputs(lowered)
    if "more" in arrays and arrays["more"].dtype == np.int32:
        arrays["more"][...] = [each % 30 + 1 for each in range(len(arrays["more"]))]
    kinds = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    expected, got = evaluate(trace(kernel, dims, kinds), arrays, rounded=False), run(lowered, arrays)
    for buffer in lowered.plan.buffers:
        if buffer.role == "output":
            wanted, found = expected[buffer.name], got[buffer.name].astype(np.float64)
            allowed = UNITS[buffer.element] * np.abs(wanted) + OPERANDS[Element.BF16] * np.abs(wanted).max()
            assert np.all(np.abs(found - wanted) <= allowed), (buffer.name, np.abs(found - wanted).max())


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("group", "mask", "extents"), [*CASES, *(pytest.param(*each, marks=pytest.mark.full) for each in FURTHER)]
)
def test_values_of_heads_as_rows(group, mask, extents):
    kernel, dims, lowered = lowered_at(group, mask, extents)
    assert lowered.decisions.row == "H_Q" and lowered.decisions.tile_rows >= extents[2]
    assert_values(kernel, dims, lowered)


@pytest.mark.full
def test_values_where_tiles_end_inside_of_a_head_s_queries():
    """Tiles of 128 rows of 3 heads with 50 queries each, that each see up to their own place."""
    kernel, dims, lowered = lowered_at(3, "causal", (1, 3, 50), consumers=2)
    assert lowered.decisions.row == "H_Q"
    assert_values(kernel, dims, lowered)


def test_values_of_matrices_as_rows():
    dims = {"B": 9, "M": 5, "N": 16, "K": 40}
    lowered = lower(batched_product, dims)
    assert lowered.decisions.row == "B_M" and lowered.decisions.batch == ()
    assert_values(batched_product, dims, lowered)


@pytest.mark.parametrize(
    ("group", "mask", "extents"), [CASES[0], *(pytest.param(*each, marks=pytest.mark.full) for each in CASES[1:])]
)
def test_both_proofs(group, mask, extents):
    kernel, _, lowered = lowered_at(group, mask, extents)
    assert isinstance(verify(lowered.kernels[0], target("sm_90a")), Proven)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", kernel.name), Proven)


def test_arrays_of_the_plan_are_the_author_s():
    _, _, lowered = lowered_at(3, "no_mask", (1, 6, 5))
    shapes = {buffer.name: buffer.shape for buffer in lowered.plan.buffers}
    assert shapes["q"] == (1, 6, 5, 16) and shapes["o"] == (1, 6, 5, 24) and shapes["sums"] == (1, 6, 5)
