# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs in the language: what tw.softmax, tw.logsumexp and tw.dot expand to is streamed as expected."""

import math

import numpy as np
import pytest
from tests.synth.streaming.streamed_inputs import inputs

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.streaming import streamed

B16, F32 = Element.BF16, Element.F32


@tw.kernel
def causal_attention(
    q: tw.Tensor["B", "H", "Q", "E"],
    k: tw.Tensor["B", "H/2", "T", "E"],
    v: tw.Tensor["B", "H/2", "T", "F"],
    o: tw.Tensor["B", "H", "Q", "F"],
    lse: tw.Tensor["B", "H", "Q"],
):
    b, h, i, t, e, f = tw.axes("B H Q T E F")
    s = tw.dot(q[b, h, i, e], k[b, h // 2, t, e], over=e) * 0.25
    s = tw.where(t <= i, s, -math.inf)
    o[b, h, i, f] = tw.dot(tw.softmax(s, over=t), v[b, h // 2, t, f], over=t).to(tw.bf16)
    lse[b, h, i] = tw.logsumexp(s, over=t)


@tw.kernel
def product_softmax(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    m, n, k = tw.axes("M N K")
    y[m, n] = tw.softmax(tw.dot(x[m, k], w[k, n], over=k), over=n).to(tw.bf16)


@tw.kernel
def norm_product(x: tw.Tensor["M", "K"], g: tw.Tensor["K"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    m, n, k = tw.axes("M N K")
    r = x[m, k].to(tw.f32)
    r = r * tw.rsqrt(tw.mean(r * r, over=k) + 1e-6)
    y[m, n] = tw.dot(r * g[k].to(tw.f32), w[k, n], over=k).to(tw.bf16)


PROGRAMS = {
    "attention": (causal_attention, {"B": 2, "H": 4, "Q": 5, "T": 7, "E": 3, "F": 2}, "T", 1, ("lse",)),
    "product, softmax": (product_softmax, {"M": 3, "N": 5, "K": 4}, "N", 2, ()),
    "norm, product": (norm_product, {"M": 3, "N": 5, "K": 7}, "K", 1, ()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_language(name):
    kernel, dims, axis, walks, wide = PROGRAMS[name]
    elements = {each.name: F32 if each.name in wide else B16 for each in kernel.parameters}
    module = trace(kernel, dims, elements)
    found = streamed(the_program(module))
    assert (found.axis, found.walks) == (axis, walks)
    arrays = inputs(module)
    expected = evaluate(module, arrays, rounded=False)
    for size in range(1, dims[axis] + 1):
        actual = evaluate(found.module, arrays, rounded=False, tile_elements={axis: size})
        for output, values in expected.items():
            np.testing.assert_allclose(actual[output], values, rtol=1e-12, atol=1e-13)


@tw.kernel
def two_axes(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    m, n, k = tw.axes("M N K")
    p = tw.softmax(x[m, k].to(tw.f32), over=k)
    y[m, n] = tw.softmax(tw.dot(p, w[k, n], over=k), over=n).to(tw.bf16)


def test_a_refusal_names_the_line_and_a_way_out():
    elements = {each.name: B16 for each in two_axes.parameters}
    module = trace(two_axes, {"M": 3, "N": 5, "K": 4}, elements)
    with pytest.raises(TilewrightError, match="sums over K and over N both have to be walked along") as error:
        streamed(the_program(module))
    assert error.value.span is not None and error.value.span.file.endswith("test_language.py")
    assert "in a kernel of its own" in error.value.remedy
