# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The NumPy reference against formulas written out here, against tilings, and against the IEEE corner cases."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.reference import DTYPES, apply, evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.function import Function

extent = st.integers(1, 9)


def random(shape, element=tw.bf16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[element])


def run(kernel, arrays, outputs, **options):
    """Trace a kernel for these arrays and evaluate it. outputs: element of each output."""
    dims = {
        axis: extent
        for parameter in kernel.parameters
        if parameter.name in arrays
        for axis, extent in zip(parameter.axes, arrays[parameter.name].shape, strict=True)
    }
    kinds = {dtype: element for element, dtype in DTYPES.items()}
    elements = {name: kinds[array.dtype] for name, array in arrays.items()} | outputs
    return evaluate(trace(kernel, dims, elements), arrays, **options)


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = tw.gelu(acc * 0.5 + bias[j])


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@given(extent, extent, extent, st.sampled_from([tw.bf16, tw.f16]), st.integers(0, 99))
def test_matmul_is_the_formula(m, n, k, element, seed):
    arrays = {
        "a": random((m, k), element, seed),
        "b": random((k, n), element, seed + 1),
        "bias": random((n,), tw.f32, seed + 2),
    }
    a, b, bias = (array.astype(np.float64) for array in arrays.values())
    expected = gelu((a @ b) * 0.5 + bias)
    exact = run(matmul, arrays, {"c": element}, rounded=False)["c"]
    np.testing.assert_allclose(exact, expected, rtol=1e-13, atol=1e-14)
    rounded = run(matmul, arrays, {"c": element})["c"]
    assert rounded.dtype == DTYPES[element]
    np.testing.assert_array_equal(rounded, exact.astype(DTYPES[element]))
    single = run(matmul, arrays, {"c": tw.f32}, precision=np.float32)["c"]
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-5)


@tw.kernel
def transposed(a: tw.Tensor["K", "M"], b: tw.Tensor["N", "K"], c: tw.Tensor["N", "M"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[k, i].T, b[j, k].T)
    c[j, i] = acc.T


@given(extent, extent, extent)
def test_transposes(m, n, k):
    arrays = {"a": random((k, m)), "b": random((n, k), seed=1)}
    a, b = (array.astype(np.float64) for array in arrays.values())
    np.testing.assert_allclose(run(transposed, arrays, {"c": tw.f32})["c"], b @ a, rtol=1e-6, atol=1e-6)


@tw.kernel
def chained(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["K", "N"],
    d: tw.Tensor["M", "L"],
    e: tw.Tensor["L", "N"],
    c: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc, other = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        other += tw.dot(tw.relu(a[i, k]).to(tw.bf16), b[k, j])
        acc += tw.dot(a[i, k], b[k, j])
        acc += tw.dot(a[i, k], b[k, j])
    for m in tw.loop("L"):
        acc += tw.dot(d[i, m], e[m, j])
    c[i, j] = acc - other


def test_loops_and_accumulators_chain():
    arrays = {
        "a": random((5, 4)),
        "b": random((4, 6), seed=1),
        "d": random((5, 3), seed=2),
        "e": random((3, 6), seed=3),
    }
    a, b, d, e = (array.astype(np.float64) for array in arrays.values())
    expected = 2 * a @ b + d @ e - np.maximum(a, 0) @ b
    np.testing.assert_allclose(run(chained, arrays, {"c": tw.f32}, rounded=False)["c"], expected, rtol=1e-12)


@tw.kernel
def broadcast(x: tw.Tensor["M", "N"], row: tw.Tensor["N"], column: tw.Tensor["M"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = (x[i, j] - row[j]) * column[i] + 2 * row[j] + column[i] * row[j]


def test_vectors_broadcast_by_name_even_where_extents_agree():
    arrays = {"x": random((4, 4)), "row": random((4,), seed=1), "column": random((4,), seed=2)}
    x, row, column = (array.astype(np.float64) for array in arrays.values())
    expected = (x - row[None, :]) * column[:, None] + 2 * row[None, :] + column[:, None] * row[None, :]
    np.testing.assert_allclose(run(broadcast, arrays, {"y": tw.f32}, rounded=False)["y"], expected, rtol=1e-12)


@tw.kernel
def spread(row: tw.Tensor["N"], y: tw.Tensor["M", "N"], z: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = row[j]
    z[i, j] = 1.5


def test_stores_broadcast_rows_and_numbers():
    row = random((4,))
    module = trace(spread, {"M": 3, "N": 4}, {"row": tw.bf16, "y": tw.f16, "z": tw.bf16})
    outputs = evaluate(module, {"row": row})
    np.testing.assert_array_equal(outputs["y"], np.tile(row.astype(np.float16), (3, 1)))
    np.testing.assert_array_equal(outputs["z"], np.full((3, 4), 1.5, ml_dtypes.bfloat16))


@given(st.integers(-12, 12), st.integers(-12, 12), extent, extent)
def test_a_shifted_load_is_zero_outside(rows, columns, m, n):
    @tw.kernel
    def shift(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        y[i, j] = x[i + rows, columns + j]

    x = random((m, n))
    expected = np.zeros((m, n), x.dtype)
    for p in range(m):
        for q in range(n):
            if 0 <= p + rows < m and 0 <= q + columns < n:
                expected[p, q] = x[p + rows, q + columns]
    np.testing.assert_array_equal(run(shift, {"x": x}, {"y": tw.bf16})["y"], expected)


@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(1, 7), st.integers(1, 4))
def test_a_product_of_shifted_operands_equals_its_tiled_sum(left, right, k, tile):
    """The meaning does not depend on the tile: k runs over 0 .. K-1, whatever shifted loads would find past it."""

    @tw.kernel
    def correlate(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k + left], b[k + right, j])
        c[i, j] = acc

    arrays = {"a": random((2, k)), "b": random((k, 3), seed=1)}
    a, b = (array.astype(np.float64) for array in arrays.values())
    expected = np.zeros((2, 3))
    for start in range(0, k, tile):
        for at in range(start, min(start + tile, k)):
            if 0 <= at + left < k and 0 <= at + right < k:
                expected += np.outer(a[:, at + left], b[at + right])
    np.testing.assert_allclose(run(correlate, arrays, {"c": tw.f32}, rounded=False)["c"], expected, atol=1e-12)


@tw.kernel
def rounding(x: tw.Tensor["N"], y: tw.Tensor["N"], z: tw.Tensor["N"]):
    i = tw.grid("N")
    y[i] = (x[i] * 3).to(tw.bf16) - x[i] * 3
    z[i] = x[i].to(tw.f16).to(tw.f32)


def test_casts_round_where_they_stand():
    x = random((64,), tw.f32)
    outputs = run(rounding, {"x": x}, {"y": tw.f32, "z": tw.f32})
    tripled = x.astype(np.float64) * 3
    expected = tripled.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64) - tripled
    np.testing.assert_allclose(outputs["y"], expected, rtol=1e-6)
    assert np.any(expected)
    np.testing.assert_array_equal(outputs["z"], x.astype(np.float16).astype(np.float32))


ELEMENTWISE = {
    Function.ADD: lambda x, y: x + y,
    Function.SUB: lambda x, y: x - y,
    Function.MUL: lambda x, y: x * y,
    Function.DIV: lambda x, y: x / y,
    Function.MAX: lambda x, y: x if x >= y else y,
    Function.MIN: lambda x, y: x if x <= y else y,
    Function.NEG: lambda x: -x,
    Function.ABS: lambda x: x if x >= 0 else -x,
    Function.EXP: math.exp,
    Function.TANH: math.tanh,
    Function.SIGMOID: lambda x: 1 / (1 + math.exp(-x)),
    Function.RELU: lambda x: x if x > 0 else 0.0,
    Function.GELU: lambda x: x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    Function.SILU: lambda x: x / (1 + math.exp(-x)),
    Function.SQRT: math.sqrt,
}


def test_every_function_has_a_formula_here():
    assert set(ELEMENTWISE) == set(Function)


@pytest.mark.parametrize("function", Function)
@settings(max_examples=40)
@given(x=st.floats(-8, 8), y=st.floats(-8, 8))
def test_functions_are_their_formulas(function, x, y):
    if function is Function.SQRT:
        x = abs(x)
    if function is Function.DIV and abs(y) < 1e-3:
        y = 1.0
    operands = (x, y)[: function.arity]
    got = apply(function, *(np.array([operand]) for operand in operands))[0]
    assert got == pytest.approx(ELEMENTWISE[function](*operands), rel=1e-9, abs=1e-12)


UNARY = {
    "abs": Function.ABS,
    "exp": Function.EXP,
    "tanh": Function.TANH,
    "sigmoid": Function.SIGMOID,
    "relu": Function.RELU,
    "gelu": Function.GELU,
    "silu": Function.SILU,
    "sqrt": Function.SQRT,
}


@pytest.mark.parametrize(("name", "function"), UNARY.items())
def test_names_of_the_language_mean_their_functions(name, function):
    @tw.kernel
    def one(x: tw.Tensor["N"], y: tw.Tensor["N"]):
        i = tw.grid("N")
        y[i] = getattr(tw, name)(x[i])

    x = np.abs(random((16,), tw.f32)) - (0 if name == "sqrt" else 1)
    got = run(one, {"x": x}, {"y": tw.f32}, rounded=False)["y"]
    np.testing.assert_array_equal(got, apply(function, x.astype(np.float64)))


OPERATORS = {
    Function.ADD: lambda x, y: x + y,
    Function.SUB: lambda x, y: x - y,
    Function.MUL: lambda x, y: x * y,
    Function.DIV: lambda x, y: x / y,
    Function.MAX: tw.maximum,
    Function.MIN: tw.minimum,
}


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("number", [None, 3, 2.5, np.float32(0.75)])
@pytest.mark.parametrize("swapped", [False, True])
def test_operators_mean_their_functions_on_either_side(function, number, swapped):
    operator = OPERATORS[function]

    @tw.kernel
    def two(x: tw.Tensor["N"], z: tw.Tensor["N"], y: tw.Tensor["N"]):
        i = tw.grid("N")
        other = z[i] if number is None else number
        y[i] = (operator(other, x[i]) if swapped else operator(x[i], other)) + z[i] * 0

    x, z = random((16,), tw.f32), random((16,), tw.f32, 1)
    operands = [x.astype(np.float64), z.astype(np.float64) if number is None else np.full(16, float(number))]
    expected = apply(function, *(operands[::-1] if swapped else operands))
    np.testing.assert_array_equal(run(two, {"x": x, "z": z}, {"y": tw.f32}, rounded=False)["y"], expected)


def test_negation():
    @tw.kernel
    def negate(x: tw.Tensor["N"], y: tw.Tensor["N"]):
        i = tw.grid("N")
        y[i] = -x[i] + abs(x[i])

    x = np.array([-2.0, 3.0], np.float32)
    np.testing.assert_array_equal(run(negate, {"x": x}, {"y": tw.f32})["y"], [4.0, 0.0])


def test_nan_wins_against_a_number_in_maximum_minimum_and_relu():
    nan, one = np.array([np.nan]), np.array([1.0])
    for function in (Function.MAX, Function.MIN):
        assert np.isnan(apply(function, nan, one)) and np.isnan(apply(function, one, nan))
    assert np.isnan(apply(Function.RELU, nan))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bias": None}, "input bias is missing"),
        ({"c": random((3, 4))}, "the program has no input c"),
        ({"a": random((4, 3))}, r"input a is bfloat16\[4, 3\], not bfloat16\[3, 2\]"),
        ({"a": random((3, 2), tw.f32)}, r"input a is float32\[3, 2\], not bfloat16\[3, 2\]"),
    ],
)
def test_wrong_arrays_are_refused(changed, message):
    module = trace(matmul, {"M": 3, "N": 4, "K": 2}, dict.fromkeys(["a", "b", "bias", "c"], tw.bf16))
    arrays = {"a": random((3, 2)), "b": random((2, 4)), "bias": random((4,))} | changed
    with pytest.raises(TilewrightError, match=message):
        evaluate(module, {name: array for name, array in arrays.items() if array is not None})
