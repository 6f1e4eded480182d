"""Rows with -inf, +inf, NaN, nothing finite, or numbers that leave float32's range give what the definition gives."""

import itertools

import numpy as np
import pytest
from tests.synth.streaming.programs import attention, attention_of_logsumexp, logsumexp, rows, softmax, softmin
from tests.synth.streaming.streamed_inputs import inputs
from tests.synth.streaming.tracing import exp, log

from tilewright.frontends.tile.reference import evaluate
from tilewright.ir.tile.facts import the_program
from tilewright.synth.streaming import streamed

INF, NAN = np.inf, np.nan
ELEMENTS = (-INF, -3.0, 2.0, INF, NAN)


def cross_entropy_of_zeros():
    p = rows()
    x = p.load("x", "M", "N")
    m = p.min(x, "N")
    p.store(log(p.sum(exp((x - m) * -1.0), "N")), "y", "M")
    return p.module()


def same(module, arrays, precision=np.float64, rtol=1e-12):
    found = streamed(the_program(module))
    expected = evaluate(module, arrays, precision, rounded=False)
    extent = the_program(module).extents[found.axis]
    for elements in range(1, extent + 1):
        tiles = {found.axis: elements}
        actual = evaluate(found.module, arrays, precision, rounded=False, tile_elements=tiles)
        for name, values in expected.items():
            np.testing.assert_allclose(actual[name], values, rtol=rtol, atol=1e-13, err_msg=f"tiles of {elements}")
    return expected


def rows_of(builder, length):
    """One program, and all its rows of these elements, three at a time."""
    module = builder()
    listed = list(itertools.product(ELEMENTS, repeat=length))
    program = the_program(module)
    assert program.extents == {"M": 3, "N": 7}
    for begin in range(0, len(listed), 3):
        chosen = (listed[begin : begin + 3] * 3)[:3]
        x = np.full((3, 7), -INF, np.float32)
        x[:, 2 : 2 + length] = chosen
        yield module, {"x": x}


@pytest.mark.sample(2)
@pytest.mark.parametrize("build", [softmax, logsumexp, lambda: logsumexp(0.5), cross_entropy_of_zeros, softmin])
def test_every_row_of_few_elements(build):
    """Also at the row's begin and end: elements before and behind are -inf."""
    for module, arrays in rows_of(build, 2):
        same(module, arrays)
    for module, arrays in rows_of(build, 2):
        same(module, {"x": -arrays["x"]})


def test_a_row_without_a_finite_element_is_nan():
    expected = same(logsumexp(), {"x": np.full((3, 7), -INF, np.float32)})
    assert np.isnan(expected["y"]).all()


def test_a_first_tile_of_nothing_is_no_nan():
    x = np.full((3, 7), -INF, np.float32)
    x[:, 5] = (1.0, -1000.0, 1000.0)
    expected = same(logsumexp(), {"x": x})
    assert expected["y"].tolist() == [1.0, -1000.0, 1000.0]


@pytest.mark.parametrize("offset", [-1e30, -3000.0, 3000.0, 1e30])
def test_numbers_far_from_zero_stay_in_the_range_of_float32(offset):
    x = np.linspace(-4, 4, 21, dtype=np.float32).reshape(3, 7) + np.float32(offset)
    expected = same(softmax(), {"x": x}, np.float32, rtol=1e-5)
    assert np.isfinite(expected["y"]).all()


@pytest.mark.parametrize("order", ["rising", "falling", "spike"])
def test_orders_of_the_largest(order):
    x = np.tile(np.linspace(-300, 300, 7, dtype=np.float32), (3, 1))
    if order == "falling":
        x = x[:, ::-1].copy()
    if order == "spike":
        x = np.zeros((3, 7), np.float32)
        x[:, 6] = 500
    same(softmax(), {"x": x}, np.float32, rtol=1e-5)


def test_masked_rows_of_attention():
    module = attention("lengths", lse=True)
    arrays = inputs(module)
    arrays["lengths"] = np.array([0.0, 3.0], np.float32)
    expected = same(module, arrays)
    assert np.isnan(expected["o"][0]).all() and np.isfinite(expected["o"][1]).all()


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("special", [INF, -INF, NAN])
@pytest.mark.parametrize("build", [lambda: attention("causal", lse=True), attention_of_logsumexp])
def test_special_operands_of_attention(build, name, special):
    module = build()
    arrays = inputs(module)
    arrays[name].flat[arrays[name].size // 3] = special
    expected = same(module, arrays)
    assert not all(np.isfinite(values).all() for values in expected.values())
