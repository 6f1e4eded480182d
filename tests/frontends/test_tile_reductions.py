# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Reductions as an author writes them: what they mean, and what is refused at the author's line."""

import numpy as np
import pytest
from tests.frontends.refusals import collector, refused_at_its_line

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile_facts import reductions, the_program
from tilewright.synth.supported import refuse_unsupported

CASES: dict[str, tuple[object, str]] = {}
refused = collector(CASES)
X = tw.Tensor["M", "N"]
Y = tw.Tensor["M"]


@tw.kernel
def statistics(x: X, sums: Y, largest: Y, least: Y, means: Y, logs: Y, shares: X):
    i, j = tw.grid("M", "N")
    row = x[i, j]
    sums[i] = tw.sum(row, over=j)
    largest[i] = tw.max(row, over=j)
    least[i] = tw.min(row, over=j)
    means[i] = tw.mean(row, over=j)
    logs[i] = tw.logsumexp(row, over=j)
    shares[i, j] = tw.softmax(row, over=j)


@pytest.mark.parametrize(("rows", "length"), [(1, 1), (3, 1), (1, 9), (4, 7)])
def test_values_are_those_of_numpy(rows, length):
    names = [parameter.name for parameter in statistics.parameters]
    module = trace(statistics, {"M": rows, "N": length}, dict.fromkeys(names, Element.F32))
    x = np.random.default_rng(rows).standard_normal((rows, length)).astype(np.float32)
    found, wide = evaluate(module, {"x": x}, rounded=False), x.astype(np.float64)
    weights = np.exp(wide)
    expected = {
        "sums": wide.sum(1),
        "largest": wide.max(1),
        "least": wide.min(1),
        "means": wide.mean(1),
        "logs": np.log(weights.sum(1)),
        "shares": weights / weights.sum(1, keepdims=True),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)


def test_equal_reductions_are_one():
    """The largest element stands in the sum of exponentials and in the softmax, and is folded once."""
    names = [parameter.name for parameter in statistics.parameters]
    module = trace(statistics, {"M": 4, "N": 8}, dict.fromkeys(names, Element.F32))
    assert len(reductions(the_program(module))) == 4  # sum, max, min, sum of exponentials


@refused(r"a reduction over 'N' \(give an index of tw.axes or tw.grid as it is, as in tw.sum\(x\[i, j\], over=j\)\)")
def over_a_name(x: X, y: Y):
    i, j = tw.grid("M", "N")
    y[i] = tw.sum(x[i, j], over="N")  # here


@refused(r"a reduction over <index over N>")
def over_a_shifted_index(x: X, y: Y):
    i, j = tw.grid("M", "N")
    y[i] = tw.max(x[i, j], over=j + 1)  # here


@refused(r"a reduction of the number 3")
def of_a_number(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + tw.sum(3, over=j)  # here


@refused(r"a tile over \(M\) is reduced over N, which it does not have")
def over_an_axis_that_is_not_there(x: Y, z: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = z[i, j] + tw.sum(x[i], over=j)  # here


@refused(r"tensor x is used without indices")
def of_a_tensor(x: X, y: Y):
    i, j = tw.grid("M", "N")
    y[i] = tw.mean(x, over=j)  # here


@refused(r"there is no tw\.sofmax \(did you mean softmax\?\)")
def misspelt(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.sofmax(x[i, j], over=j)  # here


@refused(r"a reduction over N inside a loop")
def in_a_loop(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], y: X, z: X):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j])
        tw.sum(z[i, j], over=j)  # here
    y[i, j] = acc


@pytest.mark.parametrize("name", CASES)
def test_wrong_reductions_are_refused_at_the_authors_line(name):
    refused_at_its_line(*CASES[name], __file__)


def test_unknown_names_outside_kernels_are_missing_attributes():
    assert not hasattr(tw, "sofmax")


@tw.kernel
def normed_product(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], y: X):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j])
    y[i, j] = tw.softmax(acc, over=j)


@tw.kernel
def both_axes(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] - tw.sum(x[i, j], over=j) - tw.sum(x[i, j], over=i)


@tw.kernel
def of_groups(sizes: tw.Tensor["G", tw.i32], x: X, y: X):
    _g, i, j = tw.grid(tw.group("G", "M", sizes), "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (normed_product, "a reduction beside a product is not compiled yet"),
        (both_axes, "reductions over N and M in one program are not compiled yet"),
        (of_groups, "a program over groups"),
    ],
)
def test_what_is_not_compiled_yet_is_said_at_its_line(kernel, message):
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    dims = {axis: 64 for axis in kernel.axes}
    with pytest.raises(TilewrightError, match=message) as raised:
        refuse_unsupported(the_program(trace(kernel, dims, elements)))
    assert raised.value.span is not None and raised.value.span.file == __file__
