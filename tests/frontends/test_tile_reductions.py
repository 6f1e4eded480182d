# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Reductions as an author writes them: what they mean, and what is refused at the author's line."""

import numpy as np
import pytest
from tests.frontends.refusals import collector, refused_at_its_line

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import reductions, the_program
from tilewright.synth.supported import refuse_unsupported
from tilewright.targets import target

CASES: dict[str, tuple[object, str]] = {}
refused = collector(CASES)
X = tw.Tensor["M", "N"]
Y = tw.Tensor["M"]
HOPPER = target("sm_90a")


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


@tw.kernel
def places(x: X, most: tw.Tensor["M", tw.i32], least: tw.Tensor["N", tw.i32], below: Y):
    i, j = tw.grid("M", "N")
    most[i] = tw.argmax(x[i, j], over=j)
    least[j] = tw.argmin(x[i, j], over=i)
    below[i] = tw.sum(tw.where(j < tw.argmax(x[i, j], over=j), 1.0, 0.0), over=j)


def test_places_are_those_of_numpy():
    elements = {each.name: each.element or Element.F32 for each in places.parameters}
    module = trace(places, {"M": 5, "N": 7}, elements)
    x = np.random.default_rng(7).integers(-2, 3, (5, 7)).astype(np.float32)
    x[3, 2] = x[3, 5] = np.nan
    found = evaluate(module, {"x": x})
    assert found["most"].dtype == found["least"].dtype == np.int32
    np.testing.assert_array_equal(found["most"], x.argmax(axis=1))
    np.testing.assert_array_equal(found["least"], x.argmin(axis=0))
    np.testing.assert_array_equal(found["below"], x.argmax(axis=1))


def test_places_past_what_a_float_counts_stay_integers():
    """As integers they are stored; as numbers, beside others, they are refused."""

    @tw.kernel
    def place(x: X, y: tw.Tensor["M", tw.i32]):
        i, j = tw.grid("M", "N")
        y[i] = tw.argmax(x[i, j], over=j)

    @tw.kernel
    def number(x: X, y: tw.Tensor["M", tw.f32]):
        i, j = tw.grid("M", "N")
        y[i] = tw.argmax(x[i, j], over=j)

    dims = {"M": 1, "N": 2**24 + 3}
    trace(place, dims, {"x": Element.BF16, "y": Element.S32})
    with pytest.raises(TilewrightError, match=r"numbers along N past 2\^24 are no float32"):
        trace(number, dims, {"x": Element.BF16, "y": Element.F32})


def test_equal_reductions_are_one():
    """The largest element stands in the sum of exponentials and in the softmax, and is folded once."""
    names = [parameter.name for parameter in statistics.parameters]
    module = trace(statistics, {"M": 4, "N": 8}, dict.fromkeys(names, Element.F32))
    assert len(reductions(the_program(module))) == 4  # sum, max, min, sum of exponentials


@refused(r"a tile of f32 is stored to y, a tensor of integers \(store to a tensor of floats; integers come")
def numbers_as_integers(x: X, y: tw.Tensor["M", tw.i32]):
    i, j = tw.grid("M", "N")
    y[i] = tw.argmax(x[i, j], over=j) + 1  # here


@refused(r"\.to takes no i32")
def cast_to_integers(x: X, y: tw.Tensor["M", tw.i32]):
    i, j = tw.grid("M", "N")
    y[i] = tw.max(x[i, j], over=j).to(tw.i32)  # here


@refused(r"dot of i32|a product of tiles")
def product_of_places(x: X, y: X):
    i, j = tw.grid("M", "N")
    place = tw.argmax(x[i, j], over=i)
    y[i, j] = x[i, j] * tw.dot(place, place, over=j)  # here


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
def largest_product(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", tw.i32]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j])
    y[i] = tw.argmax(acc, over=j)


@tw.kernel
def both_axes(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] - tw.sum(x[i, j], over=j) - tw.sum(x[i, j], over=i)


@tw.kernel
def of_groups(sizes: tw.Tensor["G", tw.i32], x: X, y: X):
    _g, i, j = tw.grid(tw.group("G", "M", sizes), "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


def test_places_of_products_as_values_are_refused_at_their_line():
    @tw.kernel
    def place(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", tw.i32]):
        i, j, k = tw.axes("M N K")
        y[i] = tw.argmax(tw.dot(x[i, k], w[j, k], over=k), over=j)

    with pytest.raises(TilewrightError, match=r"tw.argmax or tw.argmin beside a product is not compiled yet") as raised:
        walked(trace(place, {"M": 8, "N": 8, "K": 8}, {"x": Element.BF16, "w": Element.BF16, "y": Element.S32}), HOPPER)
    assert raised.value.span is not None and raised.value.span.file == __file__


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (normed_product, "a reduction beside a product is not compiled yet"),
        (largest_product, "a reduction beside a product is not compiled yet"),
        (both_axes, "reductions over N and M in one program are not compiled yet"),
        (of_groups, "a program over groups"),
    ],
)
def test_what_is_not_compiled_yet_is_said_at_its_line(kernel, message):
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    dims = {axis: 64 for axis in kernel.axes}
    with pytest.raises(TilewrightError, match=message) as raised:
        refuse_unsupported(the_program(trace(kernel, dims, elements)), target("sm_90a"))
    assert raised.value.span is not None and raised.value.span.file == __file__


def test_a_mean_along_an_axis_of_a_range_counts_its_elements() -> None:
    @tw.kernel
    def averaged(x: tw.Tensor["M", "N"], y: tw.Tensor["M"]):
        i, j = tw.axes("M N")
        y[i] = tw.mean(x[i, j], over=j)

    elements = dict.fromkeys("xy", Element.F32)
    x = np.array([[1.0, np.nan, -3.0, 2.5], [4.0, 1.0, 0.5, 0.25]], np.float32)
    for columns, ranges in ((4, {"N": tw.dynamic(1, 4)}), (4, {"M": tw.dynamic(1, 2)})):
        module = trace(averaged, {"M": 2, "N": columns, **ranges}, elements)
        found = evaluate(module, {"x": x})["y"]
        assert np.isnan(found[0]) and found[1] == 1.4375
