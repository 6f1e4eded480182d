"""Tiles of rows that walk the part of an axis that masks leave: values on the CPU machine, and both proofs."""

import numpy as np
import pytest
from cascade_programs import PROGRAMS, causal, dims_of
from lowered_programs import lower, random_inputs, run
from tests.lower.cascade.test_values import assert_near, elements_of

from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.reproof import reprove
from tilewright.synth.decide import Wanted
from tilewright.targets import target


@pytest.mark.parametrize(
    ("name", "rows", "streamed"),
    [("causal", 270, 270), ("causal", 130, 400), ("causal", 300, 130), ("window", 270, 270), ("window", 300, 200)],
)
def test_values_where_tiles_walk_parts(name: str, rows: int, streamed: int) -> None:
    dims, elements = dims_of(name, rows, streamed) | {"B": 1}, elements_of(name, Element.BF16)
    dims = {axis: dims[axis] for axis in PROGRAMS[name].axes}
    lowered = lower(PROGRAMS[name], dims, elements, wanted=Wanted(consumers=2, depth=64))
    assert lowered.decisions.walked
    assert_near(name, dims, lowered, random_inputs(lowered, rows), elements)


def test_what_no_row_needs_is_not_read() -> None:
    """Of columns behind every row's last, nothing that stands there has an effect."""
    lowered = lower(causal, {"B": 1, "Q": 100, "T": 400, "E": 32, "F": 32}, wanted=Wanted(consumers=2, depth=64))
    arrays = random_inputs(lowered)
    before = run(lowered, arrays)["o"]
    for name in ("k", "v"):
        arrays[name][0, 128:] = np.nan
    assert np.array_equal(run(lowered, arrays)["o"], before)


@pytest.mark.parametrize("name", ["causal", "window"])
def test_both_proofs(name: str) -> None:
    lowered = lower(PROGRAMS[name], dims_of(name, 1000, 1000), elements_of(name, Element.F16))
    assert isinstance(verify(lowered.kernels[0], target("sm_90a")), Proven)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", name), Proven)
