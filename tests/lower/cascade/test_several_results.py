# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs with several results of one walk: proven, and each element's value against the program's own meaning."""

import numpy as np
import pytest
from lowered_programs import lower, random_inputs, run

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.synth.decide import Wanted
from tilewright.targets import target


@tw.kernel
def two_sums(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    g: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
    p: tw.Tensor["M", "F"],
):
    """Both sums are only carried on: the operand of the second is made while the first may be running."""
    i, t, e, f = tw.axes("M T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) * 0.2
    o[i, f] = tw.dot(tw.relu(scores), v[t, f], over=t)
    p[i, f] = tw.dot(tw.sigmoid(scores), g[t, f], over=t)


@tw.kernel
def weights_stored(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
    w: tw.Tensor["M", "T"],
):
    """A walk that multiplies stores, too."""
    i, t, e, f = tw.axes("M T E F")
    weights = tw.relu(tw.dot(q[i, e], k[t, e], over=e) * 0.2)
    o[i, f] = tw.dot(weights, v[t, f], over=t)
    w[i, t] = weights


@tw.kernel
def float_weights_stored(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
    w: tw.Tensor["M", "T", tw.f32],
):
    i, t, e, f = tw.axes("M T E F")
    weights = tw.relu(tw.dot(q[i, e], k[t, e], over=e) * 0.2)
    o[i, f] = tw.dot(weights, v[t, f], over=t)
    w[i, t] = weights


@tw.kernel
def row_added(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
):
    """What is added to a product is one number for each row."""
    i, t, e, f = tw.axes("M T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) * 0.2
    most = tw.max(scores, over=t)
    o[i, f] = tw.dot(scores - most, v[t, f], over=t) + tw.max(tw.relu(scores), over=t)


@tw.kernel
def row_repeated(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
    p: tw.Tensor["M", "F"],
    w: tw.Tensor["M", "T", tw.f32],
):
    """A number of each row, stored along rows of two lengths."""
    i, t, e, f = tw.axes("M T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) * 0.2
    most = tw.max(scores, over=t)
    o[i, f] = tw.dot(scores, v[t, f], over=t)
    p[i, f] = most
    w[i, t] = most


PROGRAMS = (two_sums, weights_stored, float_weights_stored, row_added, row_repeated)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kernel", PROGRAMS, ids=lambda each: each.name)
def test_values_and_proof(kernel):
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    for rows, streamed in ((7, 8), (100, 200)):
        dims = {"M": rows, "T": streamed, "E": 64, "F": 40}
        lowered = lower(kernel, dims, elements, wanted=Wanted(consumers=2, depth=64))
        for each in lowered.kernels:
            assert isinstance(verify(each, target("sm_90a")), Proven)
        arrays = random_inputs(lowered, rows)
        expected, got = evaluate(trace(kernel, dims, elements), arrays, rounded=False), run(lowered, arrays)
        for name, values in got.items():
            allowed = 2.0**-6 * np.abs(expected[name]).max()
            np.testing.assert_allclose(values.astype(np.float64), expected[name], rtol=0, atol=allowed, err_msg=name)
