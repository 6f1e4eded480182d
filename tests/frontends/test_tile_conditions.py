# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Conditions, choices and indices as numbers: what they mean, in NumPy and on the CPU machine, and what is refused."""

import math

import numpy as np
import pytest
from tests.frontends.refusals import collector, refused_at_its_line

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.supported import refuse_unsupported
from tilewright.targets import target

CASES: dict[str, tuple[object, str]] = {}
refused = collector(CASES)
X = tw.Tensor["M", "N"]


def value(kernel, **arrays):
    elements = dict.fromkeys([each.name for each in kernel.parameters], Element.F32)
    dims = {axis: size for each in kernel.parameters if each.name in arrays
            for axis, size in zip(each.axes, arrays[each.name].shape, strict=True)}  # fmt: skip
    return evaluate(trace(kernel, dims, elements), arrays)["y"]


@tw.kernel
def masked(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.where((j <= i + 1) | tw.equal(j, 4.0), x[i, j], -math.inf)


@tw.kernel
def clipped(x: X, y: X):
    i, j = tw.grid("M", "N")
    inside = (x[i, j] > -1.0) & (x[i, j] < 1) & ~(x[i, j] >= 0.5)
    y[i, j] = tw.where(inside, x[i, j], 7.0)


@tw.kernel
def numbered(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * 0.0 + (i - j) + 10 * (j + 2) + j * i


@tw.kernel
def of_blocks(s: tw.Tensor["N/4"], x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * 0.0 + s[j // 4] + (j // 4) * 100


X_VALUES = np.random.default_rng(0).standard_normal((5, 9)).astype(np.float32)
ROWS, COLUMNS = np.indices((5, 9))
EXPECTED = {
    "masked": (masked, np.where((COLUMNS <= ROWS + 1) | (COLUMNS == 4), X_VALUES, -np.inf)),
    "clipped": (clipped, np.where((X_VALUES > -1) & (X_VALUES < 0.5), X_VALUES, np.float32(7))),
    "numbered": (numbered, ROWS - COLUMNS + 10 * (COLUMNS + 2) + COLUMNS * ROWS),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_values_are_those_of_numpy(name):
    kernel, expected = EXPECTED[name]
    np.testing.assert_array_equal(value(kernel, x=X_VALUES), expected)
    made = tw.compile(kernel, M=5, N=9, dtype="f32")
    np.testing.assert_array_equal(made(X_VALUES), expected)


def test_numbers_of_blocks():
    s = np.arange(3, dtype=np.float32)
    expected = s[COLUMNS // 4] + COLUMNS // 4 * 100
    np.testing.assert_array_equal(value(of_blocks, s=s, x=X_VALUES), expected)
    np.testing.assert_array_equal(tw.compile(of_blocks, M=5, N=9, dtype="f32")(s, X_VALUES), expected)


def test_nan_compares_with_nothing_and_what_is_not_taken_counts_for_nothing():
    x = np.full((2, 2), np.nan, np.float32)
    assert (value(clipped, x=x) == 7).all()


@refused(r"a tile has no truth value while tracing \(choose by tw.where, .*; combine conditions by & \| ~\)")
def chosen_by_python(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] if x[i, j] > 0 else 0.0  # here


@refused(r"the index over N is used as a number")
def index_as_truth(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] if j else 0.0  # here


@refused(r"tw.where of the condition True \(compare tiles or indices, or use Python's if\)")
def condition_of_python(x: X, y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.where(True, x[i, j], 0.0)  # here


@pytest.mark.parametrize("name", CASES)
def test_wrong_conditions_are_refused_at_the_authors_line(name):
    refused_at_its_line(*CASES[name], __file__)


@tw.kernel
def masked_product(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], y: X):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    y[i, j] = tw.where(j <= i, acc, 0.0)


def test_what_is_not_compiled_yet_is_said_at_its_line():
    elements = {each.name: Element.BF16 for each in masked_product.parameters}
    with pytest.raises(TilewrightError, match="beside a product is not compiled yet") as raised:
        refuse_unsupported(the_program(trace(masked_product, {"M": 64, "N": 64, "K": 64}, elements)), target("sm_90a"))
    assert raised.value.span is not None and raised.value.span.file == __file__


def test_numbers_that_are_no_float32_are_refused():
    @tw.kernel
    def long(x: tw.Tensor["N"], y: tw.Tensor["N"]):
        j = tw.grid("N")
        y[j] = x[j] + j

    with pytest.raises(TilewrightError, match="past 2\\^24 are no float32"):
        compile_kernel(long, dims={"N": (1 << 24) + 1}, assembled=False)


@tw.kernel
def turned(x: tw.Tensor["N", "M"], y: X):
    i, j = tw.grid("M", "N")
    y[i, j] = x[j, i].T + i


def test_indices_beside_turned_loads():
    x = np.random.default_rng(3).standard_normal((64, 48)).astype(np.float32)
    expected = x.T + np.arange(48, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(tw.compile(turned, M=48, N=64, dtype="f32")(x), expected)
