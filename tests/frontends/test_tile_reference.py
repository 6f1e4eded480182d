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
def copied(x: tw.Tensor["M"], y: tw.Tensor["M"]):
    i = tw.grid("M")
    y[i] = x[i]


@pytest.mark.parametrize(
    ("element", "past"),
    [
        (tw.f8e4m3, [448.0, -448.0, 448.0, math.nan, 0.3]),
        (tw.f8e5m2, [1000.0, -57344.0, math.inf, math.nan, 0.3]),
        (tw.i8, [127.0, -128.0, 127.0, 0.0, 0.3]),
        (tw.f16, [1000.0, -math.inf, math.inf, math.nan, 0.3]),
        (tw.bf16, [1000.0, -1e6, math.inf, math.nan, 0.3]),
    ],
)
def test_numbers_not_rounded_stay_in_the_range_of_their_element(element: tw.Element, past: list[float]) -> None:
    x = np.array([1000.0, -1e6, math.inf, math.nan, 0.3], np.float32)
    got = run(copied, {"x": x}, {"y": element}, rounded=False)["y"]
    np.testing.assert_allclose(got, past, rtol=1e-7)


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
    Function.RSQRT: lambda x: 1 / math.sqrt(x),
    Function.LOG: math.log,
    Function.ROUND: lambda x: math.copysign(math.floor(abs(x) + 0.5), x) if abs(x) % 1 != 0.5 else 2.0 * round(x / 2),
    Function.LT: lambda x, y: float(x < y),
    Function.LE: lambda x, y: float(x <= y),
    Function.EQ: lambda x, y: float(x == y),
    Function.WHERE: lambda c, x, y: x if c else y,
    Function.EXP2: lambda x: 2.0**x,
    Function.FMA: lambda x, y, z: x * y + z,
}
OF_POSITIVE = (Function.SQRT, Function.RSQRT, Function.LOG)


def test_every_function_has_a_formula_here():
    assert set(ELEMENTWISE) == set(Function)


@pytest.mark.sample(8)
@pytest.mark.parametrize("function", Function)
@settings(max_examples=40)
@given(x=st.floats(-8, 8), y=st.floats(-8, 8), z=st.floats(-8, 8))
def test_functions_are_their_formulas(function, x, y, z):
    if function in OF_POSITIVE:
        x = abs(x) + 1e-3
    if function is Function.DIV and abs(y) < 1e-3:
        y = 1.0
    operands = (x, y, z)[: function.arity]
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
    "rsqrt": Function.RSQRT,
    "log": Function.LOG,
}


@pytest.mark.parametrize(("name", "function"), UNARY.items())
def test_names_of_the_language_mean_their_functions(name, function):
    @tw.kernel
    def one(x: tw.Tensor["N"], y: tw.Tensor["N"]):
        i = tw.grid("N")
        y[i] = getattr(tw, name)(x[i])

    x = np.abs(random((16,), tw.f32)) - (0 if function in OF_POSITIVE else 1)
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


# ---------------------------------------------------------------- batches, blocks, groups


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "K", "N"], d: tw.Tensor["N", "K"],
            c: tw.Tensor["B", "M", "N"]):  # fmt: skip
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], b[p, k, j])
        acc += tw.dot(a[p, i, k], d[j, k].T)
    c[p, i, j] = acc


def test_batches_and_shared_operands():
    arrays = {"a": random((3, 4, 5)), "b": random((3, 5, 6), seed=1), "d": random((6, 5), seed=2)}
    a, b, d = (array.astype(np.float64) for array in arrays.values())
    expected = np.einsum("bmk,bkn->bmn", a, b) + np.einsum("bmk,nk->bmn", a, d)
    np.testing.assert_allclose(run(batched, arrays, {"c": tw.f32}, rounded=False)["c"], expected, rtol=1e-12)


@tw.kernel
def turned(x: tw.Tensor["B", "N", "M"], s: tw.Tensor["B"], t: tw.Tensor["M", "B"], y: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    y[p, i, j] = x[p, j, i].T * s[p] + t[i, p]


def test_three_axes_broadcast_by_name_and_turn_the_last_two():
    arrays = {"x": random((2, 5, 4)), "s": random((2,), seed=1), "t": random((4, 2), seed=2)}
    x, s, t = (array.astype(np.float64) for array in arrays.values())
    expected = x.swapaxes(1, 2) * s[:, None, None] + t.T[:, :, None]
    np.testing.assert_allclose(run(turned, arrays, {"y": tw.f32}, rounded=False)["y"], expected, rtol=1e-12)


@tw.kernel
def block_scaled(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/4"],
    t: tw.Tensor["N/3", "K/6"],
    c: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // 4] * t[j // 3, k // 6]
    c[i, j] = acc


@tw.kernel
def block_scaled_at_once(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/4"],
    t: tw.Tensor["N/3", "K/4"],
    c: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += (s[i, k // 4] * t[j // 3, k // 4]) * tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc


@given(extent, st.integers(1, 10), st.integers(1, 20))
def test_scales_of_blocks_scale_every_term(m, n, k):
    for kernel, size in ((block_scaled, 6), (block_scaled_at_once, 4)):
        arrays = {
            "a": random((m, k)),
            "b": random((n, k), seed=1),
            "s": random((m, -(-k // 4)), tw.f32, seed=2),
            "t": random((-(-n // 3), -(-k // size)), tw.f32, seed=3),
        }
        a, b, s, t = (array.astype(np.float64) for array in arrays.values())
        rows, columns, depth = np.arange(m), np.arange(n), np.arange(k)
        scaled_a = a * s[np.ix_(rows, depth // 4)]
        scaled_b = b * t[np.ix_(columns // 3, depth // size)]
        found = run_blocks(kernel, arrays, {"M": m, "N": n, "K": k})
        np.testing.assert_allclose(found, scaled_a @ scaled_b.T, rtol=1e-11, atol=1e-12)


def run_blocks(kernel, arrays, dims):
    kinds = {dtype: element for element, dtype in DTYPES.items()}
    elements = {name: kinds[array.dtype] for name, array in arrays.items()} | {"c": tw.f32}
    return evaluate(trace(kernel, dims, elements), arrays, rounded=False)["c"]


@tw.kernel
def dequantized(x: tw.Tensor["M", "N"], s: tw.Tensor["N/4", "M"], t: tw.Tensor["M/3"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    c[i, j] = x[i, j] * s[j // 4, i].T - t[i // 3] - t[i // 3 + 1]


def test_blocks_broadcast_along_their_elements():
    arrays = {"x": random((7, 9)), "s": random((3, 7), seed=1), "t": random((3,), seed=2)}
    x, s, t = (array.astype(np.float64) for array in arrays.values())
    rows, columns = np.arange(7)[:, None], np.arange(9)
    expected = x * s[columns // 4, rows] - t[rows // 3] - np.append(t[1:], 0)[rows // 3]
    np.testing.assert_allclose(run_blocks(dequantized, arrays, {"M": 7, "N": 9}), expected, rtol=1e-12)


@tw.kernel
def grouped(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "K", "N"],
    bias: tw.Tensor["G", "N"],
    s: tw.Tensor["T/2"],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, k, j])
    y[i, j] = acc * s[i // 2] + bias[g, j]


def grouped_arrays(ends, rows):
    return {
        "x": random((rows, 5)),
        "w": random((len(ends), 5, 6), seed=1),
        "bias": random((len(ends), 6), seed=2),
        "s": random((-(-rows // 2),), seed=3),
        "ends": np.int32(ends),
    }


def evaluate_groups(kernel, arrays, dims, **options):
    kinds = {dtype: element for element, dtype in DTYPES.items()}
    elements = {name: kinds[array.dtype] for name, array in arrays.items()} | {"y": tw.f32}
    return evaluate(trace(kernel, dims, elements), arrays, **options)["y"]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 9))
def test_consecutive_groups(cuts, rows):
    ends = sorted(min(cut, rows) for cut in cuts)
    arrays = grouped_arrays(ends, rows)
    x, w, bias, s, _ = (array.astype(np.float64) for array in arrays.values())
    held = np.full((rows, 6), 7.0)
    expected = held.copy()
    for row in range(ends[-1]):
        group = next(number for number, end in enumerate(ends) if row < end)
        expected[row] = x[row] @ w[group] * s[row // 2] + bias[group]
    dims = {"T": rows, "K": 5, "N": 6, "G": len(ends)}
    found = evaluate_groups(grouped, arrays, dims, rounded=False, held={"y": held})
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("ends", [[3, 2, 6], [-1, 2, 6], [1, 2, 7]])
def test_ends_of_no_groups_are_refused(ends):
    with pytest.raises(TilewrightError, match=r"group \d of T runs from"):
        evaluate_groups(grouped, grouped_arrays(ends, 6), {"T": 6, "K": 5, "N": 6, "G": 3})


@tw.kernel
def masked(
    x: tw.Tensor["G", "M", "K"],
    w: tw.Tensor["G", "K", "N"],
    counts: tw.Tensor["G", tw.i32],
    y: tw.Tensor["G", "M", "N"],
):
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = acc


def test_groups_within():
    counts = [0, 4, 2]
    arrays = {"x": random((3, 4, 5)), "w": random((3, 5, 6), seed=1), "counts": np.int32(counts)}
    x, w, _ = (array.astype(np.float64) for array in arrays.values())
    held = np.full((3, 4, 6), 7.0)
    expected = x @ w
    for group, count in enumerate(counts):
        expected[group, count:] = 7.0
    dims = {"G": 3, "M": 4, "K": 5, "N": 6}
    found = evaluate_groups(masked, arrays, dims, rounded=False, held={"y": held})
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(TilewrightError, match="group 1 of M runs from 0 to 5, of 4 elements"):
        evaluate_groups(masked, {**arrays, "counts": np.int32([0, 5, 2])}, dims)


@tw.kernel
def outer_products(x: tw.Tensor["M", "N"], s: tw.Tensor["B"], t: tw.Tensor["N"], y: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    y[p, i, j] = x[i, j] * s[p] + t[j] * s[p]


def test_three_axes_stand_in_the_grids_order():
    arrays = {"x": random((4, 5)), "s": random((3,), seed=1), "t": random((5,), seed=2)}
    x, s, t = (array.astype(np.float64) for array in arrays.values())
    expected = s[:, None, None] * (x + t)
    np.testing.assert_allclose(run(outer_products, arrays, {"y": tw.f32}, rounded=False)["y"], expected, rtol=1e-12)
