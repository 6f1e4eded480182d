"""Largest and smallest elements of what depends on results: folded first, computed after, or left to a further walk."""

import numpy as np
import pytest
from tests.synth.streaming.streamed_inputs import inputs
from tests.synth.streaming.tracing import Program, exp, neg, rsqrt, sigmoid, unary

from tilewright.frontends.tile.reference import evaluate
from tilewright.ir.function import Function
from tilewright.ir.tile.facts import the_program
from tilewright.synth.streaming import streamed

CASES = {
    "shifted": (lambda p, x, d: p.max(x - d, "N"), 1),
    "shifted the other way": (lambda p, x, d: p.max(d - x, "N"), 1),
    "negative": (lambda p, x, d: p.min(neg(x) + d, "N"), 1),
    "exponential": (lambda p, x, d: p.max(exp(d - x), "N"), 1),
    "scaled": (lambda p, x, d: p.max(x * exp(d), "N"), 1),
    "divided": (lambda p, x, d: p.min(x / (1.0 + sigmoid(d)), "N"), 1),
    "norm": (lambda p, x, d: p.max(x * rsqrt(p.sum(x * x, "N")), "N"), 1),
    "bounded": (lambda p, x, d: p.max(p.binary(Function.MIN, x, d), "N"), 1),
    "the same twice": (lambda p, x, d: p.max(p.max(x, "N") - x, "N") + p.min(x, "N"), 1),
    "sign unknown": (lambda p, x, d: p.max(x * d, "N"), 2),
    "divided by": (lambda p, x, d: p.max(exp(d) / x, "N"), 2),
    "square": (lambda p, x, d: p.max((x - d) * (x - d), "N"), 2),
    "no direction": (lambda p, x, d: p.max(unary(Function.ABS, x - d), "N"), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_extremes_of_what_depends_on_results(name):
    build, walks = CASES[name]
    p = Program(M=3, N=7)
    x = p.load("x", "M", "N")
    p.store(build(p, x, p.sum(x, "N")), "y", "M")
    module = p.module()
    found = streamed(the_program(module))
    assert found.walks == walks
    arrays = inputs(module)
    expected = evaluate(module, arrays)["y"]
    for size in (1, 3, 7):
        actual = evaluate(found.module, arrays, tile_elements={"N": size})["y"]
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_equal_folds_are_one_state():
    p = Program(M=3, N=7)
    x = p.load("x", "M", "N")
    p.store(p.max(p.max(x, "N") - x, "N") + p.min(x, "N"), "y", "M")
    assert len(streamed(the_program(p.module())).derivation.states) == 2
