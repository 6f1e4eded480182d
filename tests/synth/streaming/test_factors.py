"""Which sums can be carried while results move, and what stands in the way of others."""

import pytest
from tests.synth.streaming.tracing import INFINITY, Program, exp, log, neg, sigmoid

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile.facts import the_program
from tilewright.synth.streaming import streamed
from tilewright.synth.streaming.affine import affine
from tilewright.synth.streaming.graph import read


def found(build):
    """The derivation of a program that stores what `build(p, x)` gives, x over M and N."""
    p = Program(M=3, N=7)
    p.store(build(p, p.load("x", "M", "N")), "y", "M")
    return streamed(the_program(p.module()))


def largest(p, x):
    return p.max(x, "N")


CARRIED = {
    "product": lambda p, x: p.sum(x * p.sum(x, "N"), "N"),
    "quotient": lambda p, x: p.sum(x / (1.0 + p.max(x, "N")), "N"),
    "divided by": lambda p, x: p.sum(p.sum(x, "N") / x, "N"),
    "sign": lambda p, x: p.sum(neg(x / p.sum(x, "N")), "N"),
    "both sides": lambda p, x: p.sum(x / p.sum(x, "N") + x * x / p.sum(x, "N"), "N"),
    "result alone": lambda p, x: p.sum(p.spread(p.max(x, "N"), ("M", "N")), "N"),
    "exponential": lambda p, x: p.sum(exp(x - largest(p, x)), "N"),
    "rate": lambda p, x: p.sum(exp((x - largest(p, x)) * 0.3), "N"),
    "rate, distributed": lambda p, x: p.sum(exp(x * 0.5 - largest(p, x) * 0.5), "N"),
    "divided exponent": lambda p, x: p.sum(exp((x - largest(p, x)) / 3.0), "N"),
    "smallest": lambda p, x: p.sum(exp(p.min(x, "N") - x), "N"),
    "masked below its largest": lambda p, x: p.sum(exp(p.where(x < 1.0, x, -INFINITY) - largest(p, x)), "N"),
    "two terms": lambda p, x: p.sum(exp(x - (largest(p, x) + log(p.sum(x * x, "N")))), "N"),
    "two exponentials": lambda p, x: p.sum(exp(x - largest(p, x)) * exp((x - largest(p, x)) * 2.0), "N"),
    "three sums in a row": lambda p, x: p.sum(x / p.sum(x / p.sum(x * x, "N"), "N"), "N"),
}


@pytest.mark.parametrize("name", CARRIED)
def test_carried_in_one_walk(name):
    result = found(CARRIED[name])
    assert result.walks == 1 and not result.waits


WAITING = {
    "rounding": (lambda p, x: p.sum((x / largest(p, x)).to(Element.BF16).to(Element.F32), "N"), "the rounding to bf16"),
    "sum": (lambda p, x: p.sum((x - largest(p, x)) * x, "N"), "`sub` of what changes along N and of its results"),
    "function": (lambda p, x: p.sum(sigmoid(x - largest(p, x)), "N"), "`sigmoid` mixes"),
    "comparison": (lambda p, x: p.sum(p.where(x < largest(p, x), x, 0.0), "N"), "`tile.select` mixes"),
    "selection": (
        lambda p, x: p.sum(p.where(x < 1.0, exp(x - largest(p, x)), 0.0), "N"),
        "`tile.select` mixes",
    ),
    "unbounded": (lambda p, x: p.sum(exp(x - p.sum(x, "N")), "N"), "not known to stay below 0"),
    "the other extreme": (lambda p, x: p.sum(exp(x - p.min(x, "N")), "N"), "not known to stay below 0"),
    "rate too large": (lambda p, x: p.sum(exp(x * 2.0 - largest(p, x)), "N"), "not known to stay below 0"),
    "rising": (lambda p, x: p.sum(exp(x + largest(p, x)), "N"), "not known to stay below 0"),
    "in a denominator": (lambda p, x: p.sum(x / exp(x - largest(p, x)), "N"), "a division by an exponential"),
    "product in an exponent": (lambda p, x: p.sum(exp(x * largest(p, x)), "N"), "in an exponent mixes"),
}


@pytest.mark.parametrize("name", WAITING)
def test_waits_for_a_walk_of_its_own(name):
    build, reason = WAITING[name]
    result = found(build)
    (wait,) = result.waits
    assert result.walks == 2 and wait.walk == 1
    assert reason in wait.reason
    assert wait.place.startswith("m.py:")


def test_terms_of_a_value():
    p = Program(M=3, N=7)
    x, y = p.load("x", "M", "N"), p.load("b", "M")
    p.store(((x - y) * 0.5 + x) / 4.0 - 3.0, "y", "M", "N")
    _, (stored,) = read(the_program(p.module()))
    terms = affine(stored.value)
    assert sorted((term.axes if term else (), rate) for term, rate in terms.items()) == [
        ((), -3), (("M",), -1 / 8), (("M", "N"), 3 / 8)
    ]  # fmt: skip
    p = Program(M=3, N=7)
    x = p.load("x", "M", "N")
    p.store(x - x + p.binary(Function.MUL, x, x), "y", "M", "N")
    _, (stored,) = read(the_program(p.module()))
    assert [rate for rate in affine(stored.value).values()] == [1]
