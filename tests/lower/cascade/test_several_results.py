# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs with several results of one walk: proven, and each element's value against the program's own meaning."""

import numpy as np
import pytest
from tests.lower.cascade_programs import two_gradients, weights_stored
from tests.lower.lowered_programs import lower, random_inputs, run

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.reproof import reprove
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.fragment import FragmentIssueOp
from tilewright.lower.fragment import map as fragment_map
from tilewright.lower.fragment import register_operand
from tilewright.lower.fragment.register_operand import operand_registers
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


@tw.kernel
def of_one_slot(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
    p: tw.Tensor["M", "F"],
):
    """Of two sums of one slot that consumers issue in order, the first settles in its own iteration, the second does
    not."""
    i, t, e, f = tw.axes("M T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) * 0.2
    o[i, f] = tw.dot(tw.relu(scores), v[t, f], over=t)
    p[i, f] = tw.dot(tw.relu(scores) * scores, v[t, f], over=t)


PROGRAMS = (two_sums, weights_stored, float_weights_stored, row_added, row_repeated, two_gradients, of_one_slot)


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


_GRADIENTS = {each.name: each.element or Element.BF16 for each in two_gradients.parameters}


@pytest.mark.parametrize("columns", [(24, 72), (8, 8), (128, 64)], ids=str)
def test_results_over_different_columns_share_a_walk(columns):
    width, other = columns
    dims = {"M": 100, "T": 130, "E": width, "F": other}
    d = lower(two_gradients, dims, _GRADIENTS).decisions
    assert {d.column: d.tile_columns, **dict(zip(d.further, d.further_columns, strict=True))} == {
        "E": width,
        "F": other,
    }
    assert sorted(each.buffer for each in d.slots) == ["g", "k", "q", "v"]  # each once, whoever multiplies it


def issues_of(kernel):
    return [op for op in kernel.walk() if isinstance(op, FragmentIssueOp)]


def test_products_in_flight_together_have_banks_of_their_own():
    lowered = lower(two_gradients, {"M": 100, "T": 130, "E": 64, "F": 40}, _GRADIENTS)
    (kernel,) = lowered.kernels
    assert {op.bank_number for op in issues_of(kernel)} == {0, 1}
    assert isinstance(verify(kernel, target("sm_90a")), Proven)
    for op in issues_of(kernel):
        op.properties.pop("bank", None)
    found = verify(kernel, target("sm_90a"))
    assert isinstance(found, Refuted) and "WG011" in {each.code for each in found.findings}


def test_a_text_in_which_banks_are_the_same_registers_is_not_proven(monkeypatch):
    """The proof of the program believes that banks are apart; that of the text sees the registers."""
    dims = {"M": 100, "T": 130, "E": 64, "F": 40}
    apart = operand_registers
    monkeypatch.setattr(register_operand, "operand_registers", lambda lowering, count, bank: apart(lowering, count, 0))
    monkeypatch.setattr(fragment_map, "held_bank", lambda value: None)
    lowered = lower(two_gradients, dims, _GRADIENTS)
    assert not isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "two_gradients"), Proven)
