"""Every elementwise function's PTX on the CPU machine, against float64: accuracy, NaN, infinities, signs of zero."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from tests.lower.lowered_programs import blur, lower, matmul_gelu, random_inputs, run
from tests.lower.ptx.computed_scalars import computed

import tilewright.frontends.tile.language as tw
from tilewright.frontends.tile.reference import apply, evaluate
from tilewright.ir.function import Function
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.numbers.scalar import emit_round, emit_scalar

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38])


def function(name, *inputs):
    return computed(lambda text, loaded: emit_scalar(text, name, loaded), *inputs)


@cache
def everywhere():
    """Values from all over float32 by bit pattern, NaNs included, and densely where functions bend."""
    with np.errstate(all="ignore"):
        patterns = np.arange(0, 2**32, 262_139, dtype=np.uint64).astype(np.uint32).view(np.float32)
        return np.concatenate([patterns, np.linspace(-110, 110, 8191), np.linspace(-1, 1, 2047), SPECIAL]).astype(
            np.float32
        )


def exact_sigmoid(x):
    """Without cancellation or overflow on either side."""
    below = np.exp(np.minimum(x, 0))
    return np.where(x < 0, below / (1 + below), 1 / (1 + np.exp(-x)))


def exact(name, x):
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        match name:
            case "exp":
                return np.exp(x)
            case "tanh":
                return np.tanh(x)
            case "sigmoid":
                return exact_sigmoid(x)
            case "silu":
                return x * exact_sigmoid(x)
            case "gelu":
                return x * exact_sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
            case _:
                raise AssertionError(name)


# Bounds of the relative error where the exact result is a normal float32, and from which x on, as the module's
# docstring states them.
BOUNDS = {"exp": 2.0**-22, "sigmoid": 2.0**-20, "tanh": 2.0**-20, "silu": 2.0**-20, "gelu": 2.0**-15}
FROM = {"exp": -86.64, "sigmoid": -87.0, "tanh": -np.inf, "silu": -87.0, "gelu": -10.0}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", BOUNDS)
def test_transcendental_functions_keep_their_bounds(name):
    x = everywhere()
    got, expected = function(name, x).astype(np.float64), exact(name, x)
    size = np.abs(expected)
    normal = (size >= 2.0**-126) & (size <= 3.4028e38)
    measured = normal & (x >= FROM[name])
    relative = np.abs(got[measured] - expected[measured]) / size[measured]
    assert measured.sum() > 6000
    assert relative.max() < BOUNDS[name], (x[measured][relative.argmax()], relative.max())
    # What is not measured relatively is small, and stays small.
    rest = np.isfinite(expected) & ~measured & (size <= 3.4028e38)
    assert np.all(size[rest] < 1e-35) and np.all(np.abs(got[rest]) < 1e-35)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", BOUNDS)
def test_nan_stays_nan_and_nothing_else_becomes_it(name):
    """silu and gelu of minus infinity are minus infinity times zero, here as in NumPy."""
    x = everywhere()
    got = function(name, x)
    expected_nan = np.isnan(x)
    if name in ("silu", "gelu"):
        expected_nan |= np.isneginf(x)
    np.testing.assert_array_equal(np.isnan(got), expected_nan)


@pytest.mark.parametrize(("name", "bound"), [("log", 2.0**-21), ("rsqrt", 2.0**-22)])
def test_functions_of_positive_numbers(name, bound):
    x = np.concatenate([everywhere(), np.linspace(0.5, 2, 8191).astype(np.float32)])
    got = function(name, x).astype(np.float64)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        expected = np.log(wide) if name == "log" else 1 / np.sqrt(wide)
    finite = np.isfinite(expected) & (expected != 0)
    relative = np.abs(got[finite] - expected[finite]) / np.abs(expected[finite])
    assert finite.sum() > 6000 and relative.max() < bound, (x[finite][relative.argmax()], relative.max())
    np.testing.assert_array_equal(got[~finite], expected[~finite])


def test_ends():
    ends = np.array([-np.inf, -200, -3e38, 200, 3e38, np.inf], np.float32)
    np.testing.assert_array_equal(function("exp", ends), [0, 0, 0, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(function("sigmoid", ends), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(function("tanh", ends), [-1, -1, -1, 1, 1, 1])
    np.testing.assert_array_equal(function("silu", ends)[1:], [0, 0, 200, 3e38 * np.float32(1), np.inf])
    np.testing.assert_array_equal(function("gelu", ends)[1:], [0, 0, 200, 3e38 * np.float32(1), np.inf])


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh"])
def test_the_ends_are_approached_in_order(name):
    """Monotone up to the stated error, over the range where the result leaves and reaches its ends."""
    x = np.linspace(-110, 110, 20_001).astype(np.float32)
    got = function(name, x).astype(np.float64)
    # inf - inf is NaN, which compares false: equal ends are in order.
    with np.errstate(invalid="ignore"):
        steps = np.diff(got)
    slack = BOUNDS[name] * np.abs(got[1:])
    assert not np.any(steps < -2 * slack)


def test_odd_functions_keep_the_sign_of_zero():
    zeros = np.array([0.0, -0.0], np.float32)
    for name in ("tanh", "silu", "gelu", "sqrt"):
        np.testing.assert_array_equal(np.signbit(function(name, zeros)), [False, True])


@pytest.mark.parametrize("name", ["neg", "abs", "relu", "sqrt"])
def test_exact_unary_functions(name):
    x = everywhere()
    with np.errstate(all="ignore"):
        expected = apply(Function(name), x)
    np.testing.assert_array_equal(function(name, x), expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min"])
def test_exact_binary_functions(name):
    """Every pair of the special values, and random pairs of bit patterns; NaN wins against any number."""
    x, y = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    patterns = np.random.default_rng(1).integers(0, 2**32, (2, 8000), dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        x, y = (np.concatenate(pair).astype(np.float32) for pair in ((x, patterns[0]), (y, patterns[1])))
        expected = apply(Function(name), x, y)
    got = function(name, x, y)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.isnan(got) & (np.isnan(x) | np.isnan(y)), np.isnan(x) | np.isnan(y))


def test_fma_rounds_once():
    """Against exact fractions: sums that a rounded product, or a float64 sum, would get wrong are among them."""
    patterns = np.random.default_rng(2).integers(0, 2**32, (3, 4000), dtype=np.uint32).view(np.float32)
    near = np.random.default_rng(3).standard_normal((3, 4000)).astype(np.float32)
    near[2] = -(near[0] * near[1])
    halves = [[1 + 2.0**-12, 1 + 2.0**-23, 1.0], [1 + 2.0**-12, 1.0, 2.0**-24], [2.0**-60, 2.0**-60, 2.0**-80]]
    with np.errstate(all="ignore"):
        x, y, z = np.concatenate([patterns, near, np.float32(halves)], axis=1)
        expected = apply(Function.FMA, x, y, z)
    np.testing.assert_array_equal(function("fma", x, y, z), expected)
    for at in range(4000, 8003, 7):
        exact = Fraction(float(x[at])) * Fraction(float(y[at])) + Fraction(float(z[at]))
        error = abs(Fraction(float(expected[at])) - exact)
        beside = [Fraction(float(np.nextafter(expected[at], np.float32(end)))) for end in (-np.inf, np.inf)]
        assert all(error <= abs(other - exact) for other in beside)


def test_exp2_is_the_hardware_s_within_its_bound():
    """Hardware's own bits are not specified: PTX ISA, ex2.approx.ftz.f32, within 2 ulp, subnormal numbers as 0."""
    x = everywhere()
    got = function("exp2", x).astype(np.float64)
    with np.errstate(all="ignore"):
        expected = np.exp2(x.astype(np.float64))
    normal = (expected >= 2.0**-126) & (expected <= 3.4028e38)
    relative = np.abs(got[normal] - expected[normal]) / expected[normal]
    assert normal.sum() > 6000 and relative.max() <= 2.0**-22
    assert np.all(got[expected < 2.0**-127] == 0) and np.all(got[expected > 3.5e38] == np.inf)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_rounding_is_to_nearest_even(element):
    import ml_dtypes

    x = everywhere()
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16 if element == "f16" else ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(computed(lambda text, loaded: emit_round(text, element, loaded[0]), x), expected)


def test_every_function_has_an_emission():
    for name in Function:
        text = Text()
        inputs = tuple(text.register("f32") for _ in range(name.arity))
        assert emit_scalar(text, name.value, inputs).startswith("%f")
    with pytest.raises(KeyError):
        emit_scalar(Text(), "erf", ("%f0",))


# ---------------------------------------------------------------- whole kernels


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (37, 129), (130, 70)])
def test_elementwise_kernel_with_displaced_loads(shape):
    lowered = lower(blur, dict(zip("MN", shape, strict=True)), {"x": tw.f32, "weight": tw.f32, "y": tw.f32})
    arrays = random_inputs(lowered)
    got, expected = run(lowered, arrays)["y"], evaluate(lowered.module, arrays, np.float32)["y"]
    np.testing.assert_array_equal(got, expected)


def test_nan_reaches_the_result_through_a_whole_epilogue():
    lowered = lower(matmul_gelu, {"M": 64, "N": 64, "K": 64}, {"bias": tw.f32, "c": tw.f32})
    arrays = random_inputs(lowered)
    arrays["bias"][7], arrays["a"][3, 5] = np.nan, np.nan
    got = run(lowered, arrays)["c"]
    expected = np.zeros((64, 64), bool)
    expected[:, 7], expected[3, :] = True, True
    np.testing.assert_array_equal(np.isnan(got), expected)
