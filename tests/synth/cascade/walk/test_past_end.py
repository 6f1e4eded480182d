# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Which walks need one bound where their axis ends, and which need one for each fold and product.

What a wrong answer would do to numbers is seen by tests/lower/cascade/test_past_end.py.
"""

import pytest
from tests.synth.cascade.masked_programs import no_mask, ones, shifted, weights_without_a_sum, window

import tilewright as tw
from tilewright.base.element import Element
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade_facts import cascade_axes
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.walk.past_end import bounded_once
from tilewright.targets import target


@tw.kernel
def capped(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    scores = 30.0 * tw.tanh(tw.dot(q[i, e], k[t, e], over=e) / 30.0)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def turned(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    """The smallest scores weigh most."""
    i, t, e, f = tw.axes("Q T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) * -0.5
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def masked_behind(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    """A selection of weights: where a row's bound is NaN, those that it leaves out are none."""
    i, t, e, f = tw.axes("Q T E F")
    weights = tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t)
    o[i, f] = tw.dot(tw.where(t < i, weights, 0.0), v[t, f], over=t)


@tw.kernel
def one_more(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    """Weights are 1 where scores are -inf."""
    i, t, e, f = tw.axes("Q T E F")
    weights = tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t)
    o[i, f] = tw.dot(weights + 1.0, v[t, f], over=t)


@tw.kernel
def of_columns(
    q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], b: tw.Tensor["T", tw.f32],
    o: tw.Tensor["Q", "F"],
):  # fmt: skip
    """Weights by numbers of the streamed axis, which may be anything past its end."""
    i, t, e, f = tw.axes("Q T E F")
    weights = tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t)
    o[i, f] = tw.dot(weights * b[t], v[t, f], over=t)


ONCE = (no_mask, shifted, window, capped, turned)
EACH = (ones, weights_without_a_sum, masked_behind, one_more, of_columns)


def found(kernel):
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    module = trace(kernel, {"Q": 200, "T": 150, "E": 64, "F": 64}, elements)
    program = the_program(walked(module, target("sm_90a")))
    return bounded_once(program, cascade_axes(program))


@pytest.mark.parametrize("kernel", ONCE, ids=lambda kernel: kernel.name)
def test_weights_that_follow_from_scores_need_one_bound(kernel):
    assert found(kernel) == (0,)


@pytest.mark.parametrize("kernel", EACH, ids=lambda kernel: kernel.name)
def test_what_does_not_follow_is_bounded_by_itself(kernel):
    assert found(kernel) == ()
