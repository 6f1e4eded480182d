"""Tiles of rows that walk the part of an axis that masks leave: values on the CPU machine, and both proofs."""

from dataclasses import replace

import numpy as np
import pytest
from tests.lower.cascade.value_runs import assert_near, elements_of
from tests.lower.cascade_programs import PROGRAMS, causal, dims_of
from tests.lower.lowered_programs import lower, lower_decided, random_inputs, run
from tests.synth.cascade.masked_programs import shifted

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.reproof import reprove
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted
from tilewright.targets import target


@pytest.mark.sample(2)
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


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["causal", "window"])
def test_both_proofs(name: str) -> None:
    lowered = lower(PROGRAMS[name], dims_of(name, 1000, 1000), elements_of(name, Element.F16))
    assert isinstance(verify(lowered.kernels[0], target("sm_90a")), Proven)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", name), Proven)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kernel", "together"), [(causal, 1), (causal, 2), (causal, 3), (causal, 4), (shifted, 1)])
def test_tiles_of_several_matrices_taken_together(kernel: tw.Kernel, together: int) -> None:
    """12 tiles, or 7 of one matrix, on 3 CTAs: rounds in alternating direction, the last one not full."""
    widths = {"E": 16, "F": 16}
    dims = {"B": 4, "Q": 130, "T": 130, **widths} if kernel is causal else {"Q": 400, "T": 400, **widths}
    plain = lower(kernel, dims, wanted=Wanted(depth=64, consumers=1))
    decisions = replace(plain.decisions, ctas=3, together=together)
    the_program(plain.module).attributes["decisions"] = to_attribute(decisions)
    lowered = lower_decided(plain.module, decisions)
    loops = [op for op in lowered.kernels[0].walk() if isinstance(op, ac.TilesOp)]
    assert [op.matrices_together for op in loops] == [together] * 2
    assert isinstance(verify(lowered.kernels[0], target("sm_90a")), Proven)
    proof = reprove(lowered.module, lowered.ptx, "sm_90a", kernel.name)
    assert isinstance(proof, Proven), proof
    if together in (2, 3):
        assert_near(kernel.name, dims, lowered, random_inputs(lowered), elements_of(kernel.name, Element.BF16))
