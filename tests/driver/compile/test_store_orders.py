# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Results stored with their axes in every order, which need not be that in which the program names them: elements,
folds, products of a batch, and attention whose log-sum-exp lies otherwise than its result, on the CPU machine."""

import itertools
import math

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace

TARGETS = ("sm_90a", "sm_100a")
BF16 = DTYPES[Element.BF16]


def placed(order, **indices):
    """The indices of axes, in an order of these."""
    return tuple(indices[axis] for axis in order)


def elements(order):
    @tw.kernel
    def kernel(x: tw.Tensor["A", "B", "C"], y: tw.Tensor[tuple(order)]):
        a, b, c = tw.axes("A B C")
        y[placed(order, A=a, B=b, C=c)] = x[a, b, c] * 2.0

    return kernel


def folds(order):
    @tw.kernel
    def kernel(x: tw.Tensor["A", "B", "C"], y: tw.Tensor[tuple(order)]):
        a, b, c = tw.axes("A B C")
        y[placed(order, A=a, B=b, C=c)] = tw.softmax(x[a, b, c], over=c)

    return kernel


def products(order):
    @tw.kernel
    def kernel(x: tw.Tensor["A", "B", "K"], w: tw.Tensor["A", "C", "K"], y: tw.Tensor[tuple(order)]):
        a, b, c, k = tw.axes("A B C K")
        y[placed(order, A=a, B=b, C=c)] = tw.relu(tw.dot(x[a, b, k], w[a, c, k], over=k))

    return kernel


def attention(order):
    @tw.kernel
    def kernel(
        q: tw.Tensor["N", "B", "A", "E"],
        k: tw.Tensor["N", "T", "A", "E"],
        v: tw.Tensor["N", "T", "A", "C"],
        y: tw.Tensor[("N", *order)],
        lse: tw.Tensor["N", "A", "B", tw.f32],
    ):
        n, b, a, t, e, c = tw.axes("N B A T E C")
        s = tw.where(t <= b + 40, tw.dot(q[n, b, a, e], k[n, t, a, e], over=e) * 0.2, -math.inf)
        y[(n, *placed(order, A=a, B=b, C=c))] = tw.dot(tw.softmax(s, over=t).to(tw.bf16), v[n, t, a, c], over=t)
        lse[n, a, b] = tw.logsumexp(s, over=t)

    return kernel


SIZES = {"A": 3, "B": 33, "C": 40, "K": 72, "N": 2, "T": 70, "E": 16}
ORDERS = ["".join(order) for order in itertools.permutations("ABC")]


@pytest.mark.sample(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("program", [elements, folds, products, attention], ids=lambda program: program.__name__)
def test_values_of_each_order(program, order, target):
    kernel = program(order)
    sizes = {axis: SIZES[axis] for axis in kernel.axes}
    own = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    draw = np.random.default_rng(len(kernel.axes))
    arrays = {
        each.name: draw.standard_normal([sizes[axis] for axis in each.axes]).astype(BF16)
        for each in kernel.parameters
        if each.name not in ("y", "lse")
    }
    wanted = evaluate(trace(kernel, sizes, own), arrays, rounded=False)
    found = run_on_machine(compile_kernel(kernel, dims=sizes, target=target).bundle(), tuple(arrays.values()))
    for got, (name, want) in zip(found if isinstance(found, tuple) else (found,), wanted.items(), strict=True):
        assert got.shape == want.shape, name
        # A result is rounded once; the weights of attention, too, before they are multiplied.
        most = 2**-8 * np.abs(want).max()
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=2**-8, atol=most, err_msg=name)
