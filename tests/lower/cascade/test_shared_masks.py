"""A mask that several values share: no value of its own in registers, and passed over where it holds."""

from __future__ import annotations

import numpy as np
from tests.lower.lowered_programs import lower, random_inputs, run

from tilewright.base.element import Element
from tilewright.driver.compile.kernels_attention import key_gradients_kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.fragment import FragmentMapOp
from tilewright.synth.decide import Wanted

DIMS = {"B": 1, "H": 1, "Q": 200, "T": 160, "E": 64, "F": 64}
KERNEL = key_gradients_kernel(0.125, causal=True, sharing=1)
ELEMENTS = {each.name: each.element or Element.BF16 for each in KERNEL.parameters}


def test_no_map_makes_a_mask_and_both_selections_are_passed_over() -> None:
    lowered = lower(KERNEL, DIMS, ELEMENTS, wanted=Wanted(consumers=2, depth=64, ordered=False))
    (kernel,) = lowered.kernels
    maps = [op for op in kernel.walk() if isinstance(op, FragmentMapOp)]
    assert not [op for op in maps if not op.inputs]
    assert lowered.ptx.count("bra everywhere") == len([op for op in maps if op.reach is not None]) == 2


def test_values_across_the_mask_and_within() -> None:
    lowered = lower(KERNEL, DIMS, ELEMENTS, wanted=Wanted(consumers=2, depth=64))
    arrays = random_inputs(lowered, 5)
    expected = evaluate(trace(KERNEL, DIMS, ELEMENTS), arrays, rounded=False)
    for name, values in run(lowered, arrays).items():
        allowed = 2.0**-6 * np.abs(expected[name]).max()
        np.testing.assert_allclose(values.astype(np.float64), expected[name], rtol=0, atol=allowed, err_msg=name)
