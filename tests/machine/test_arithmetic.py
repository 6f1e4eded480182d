"""Floating-point arithmetic against exact fractions, rounded here from IEEE 754's definitions alone."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.machine import arithmetic
from tilewright.machine.engine_fault import EngineFault
from tilewright.machine.rounding import Bits

FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
"""Bits of the significand, least and largest exponent of a normal number."""

WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
NANS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}


def value(bits: int, kind: str) -> Fraction | float:
    """The number of an image: a fraction, or a float infinity or NaN."""
    precision, least, _ = FORMATS[kind]
    sign = -1 if bits >> (WIDTHS[kind] - 1) else 1
    exponent_bits = WIDTHS[kind] - precision
    biased = bits >> (precision - 1) & ((1 << exponent_bits) - 1)
    tail = bits & ((1 << (precision - 1)) - 1)
    if biased == (1 << exponent_bits) - 1:
        return float("nan") if tail else sign * float("inf")
    if biased == 0:
        return sign * Fraction(tail) * Fraction(2) ** (least - precision + 1)
    return sign * Fraction(tail + (1 << (precision - 1))) * Fraction(2) ** (biased + least - 1 - precision + 1)


def is_negative(bits: int, kind: str) -> bool:
    return bool(bits >> (WIDTHS[kind] - 1))


def rounded(exact: Fraction, kind: str, mode: str, zero_is_negative: bool = False) -> int:
    """The image of `exact` rounded to `kind` in mode rn, rz, rm or rp."""
    precision, least, largest = FORMATS[kind]
    sign_bit = 1 << (WIDTHS[kind] - 1)
    if exact == 0:
        return sign_bit if zero_is_negative else 0
    negative, size = exact < 0, abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, least)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - precision + 1)
    count, rest = divmod(size, unit)
    up = {
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
        "rn": rest * 2 > unit or (rest * 2 == unit and count % 2 == 1),
    }[mode]
    count += up
    # Counting units from the subnormal grid up, an image is the number of representable steps.
    if count == 1 << precision:
        exponent, count = exponent + 1, count >> 1
    infinity = (1 << (WIDTHS[kind] - 1)) - (1 << (precision - 1))
    if exponent > largest:
        to_infinity = mode == "rn" or (mode == "rm" and negative) or (mode == "rp" and not negative)
        return (infinity if to_infinity else infinity - 1) | (sign_bit if negative else 0)
    return int((exponent - least) << (precision - 1)) + int(count) | (sign_bit if negative else 0)


DTYPES = {16: np.uint16, 32: np.uint32, 64: np.uint64}
SMALL = ("f16", "f32")
ALL = ("f16", "bf16", "f32", "f64")


def images(kind: str) -> st.SearchStrategy[int]:
    """Images of a kind, with the neighbourhoods of powers of two, zero, infinity and NaN drawn often."""
    width = WIDTHS[kind]
    near = st.builds(
        lambda base, step: (base + step) % (1 << width),
        st.sampled_from([0, 1 << (width - 1), *(value_ << (width - 6) for value_ in range(64))]),
        st.integers(-3, 3),
    )
    return st.one_of(st.integers(0, (1 << width) - 1), near)


def alike(kind: str) -> st.SearchStrategy[tuple[int, int, int]]:
    """Three images of nearby exponents, so that sums cancel and round."""
    width = WIDTHS[kind]
    mantissa = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind]
    exponents = (1 << (width - 1 - mantissa)) - 2
    half = exponents // 2
    one = st.builds(
        lambda sign, exponent, tail: sign << (width - 1) | exponent << mantissa | tail,
        st.integers(0, 1),
        st.integers(max(1, half - mantissa // 2 - 2), half + mantissa // 2 + 2),
        st.one_of(st.integers(0, (1 << mantissa) - 1), st.sampled_from([0, 1, 1 << (mantissa - 1)])),
    )
    return st.tuples(one, one, one)


def operands(kind: str) -> st.SearchStrategy[tuple[int, int, int]]:
    return st.one_of(alike(kind), st.tuples(images(kind), images(kind), images(kind)))


def lanes(kind: str, *bits: int) -> list[Bits]:
    return [np.array([image], DTYPES[WIDTHS[kind]]) for image in bits]


def special(kind: str, result: float) -> int:
    if math.isnan(result):
        return NANS[kind]
    infinity = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}[kind]
    return infinity | (1 << (WIDTHS[kind] - 1) if result < 0 else 0)


def expected_fused(kind: str, mode: str, a: int, b: int, c: int) -> int:
    x, y, z = (value(bits, kind) for bits in (a, b, c))
    product_negative = is_negative(a, kind) != is_negative(b, kind)
    if any(isinstance(term, float) for term in (x, y, z)):
        if any(isinstance(term, float) and math.isnan(term) for term in (x, y, z)):
            return NANS[kind]
        if isinstance(x, float) or isinstance(y, float):
            if x == 0 or y == 0:
                return NANS[kind]
            product = -math.inf if product_negative else math.inf
            return special(kind, product + (z if isinstance(z, float) else 0.0))
        assert isinstance(z, float)
        return special(kind, z)
    assert isinstance(x, Fraction) and isinstance(y, Fraction) and isinstance(z, Fraction)
    exact = x * y + z
    both = product_negative == is_negative(c, kind)
    cancels = x * y != 0 or not both
    zero_negative = mode == "rm" if cancels else product_negative
    return rounded(exact, kind, mode, zero_negative)


@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_fma_rounds_once(kind: str, data: st.DataObject) -> None:
    a, b, c = data.draw(operands(kind))
    modes = ["rn", "rz", "rm", "rp"] if kind == "f32" else ["rn"]
    for mode in modes:
        got = arithmetic.fused_multiply_add(kind, *lanes(kind, a, b, c), mode)  # pyright: ignore[reportArgumentType]
        assert int(got[0]) == expected_fused(kind, mode, a, b, c), (mode, hex(a), hex(b), hex(c))


@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_add_subtract_multiply(kind: str, data: st.DataObject) -> None:
    a, b, _ = data.draw(operands(kind))
    one = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}[kind]
    sign = 1 << (WIDTHS[kind] - 1)
    for mode in ["rn", "rz", "rm", "rp"] if kind in SMALL else ["rn"]:
        given_ = lanes(kind, a, b)
        total = arithmetic.add(kind, *given_, mode)  # pyright: ignore[reportArgumentType]
        assert int(total[0]) == expected_fused(kind, mode, a, one, b), mode
        difference = arithmetic.subtract(kind, *given_, mode)  # pyright: ignore[reportArgumentType]
        assert int(difference[0]) == expected_fused(kind, mode, a, one, b ^ sign), mode
        product = arithmetic.multiply(kind, *given_, mode)  # pyright: ignore[reportArgumentType]
        negative_zero = is_negative(a, kind) != is_negative(b, kind)
        assert int(product[0]) == expected_fused(kind, mode, a, b, sign if negative_zero else 0), mode


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_division_is_correctly_rounded(data: st.DataObject) -> None:
    a, b, _ = data.draw(operands("f32"))
    x, y = value(a, "f32"), value(b, "f32")
    if not (isinstance(x, Fraction) and isinstance(y, Fraction) and y != 0):
        return
    negative = is_negative(a, "f32") != is_negative(b, "f32")
    for mode in ("rn", "rz", "rm", "rp"):
        got = arithmetic.divide("f32", *lanes("f32", a, b), mode)
        assert int(got[0]) == rounded(x / y, "f32", mode, negative), mode


def test_division_of_special_values() -> None:
    zero, one, infinity, nan = 0, 0x3F800000, 0x7F800000, 0x7FC00001
    cases = [(one, zero, infinity), (zero, zero, NANS["f32"]), (infinity, infinity, NANS["f32"]), (one, infinity, 0)]
    cases += [(nan, one, NANS["f32"]), (one, 0x80000000, 0xFF800000)]
    for mode in ("rn", "rz", "rm", "rp"):
        for a, b, result in cases:
            assert int(arithmetic.divide("f32", *lanes("f32", a, b), mode)[0]) == result


@given(bits=st.one_of(st.integers(0, 0x7F7FFFFF), images("f32")))
@settings(max_examples=200, deadline=None)
def test_square_root_is_correctly_rounded(bits: int) -> None:
    x = value(bits, "f32")
    for mode in ("rn", "rz", "rm", "rp"):
        got = int(arithmetic.square_root("f32", *lanes("f32", bits), mode)[0])
        if not isinstance(x, Fraction):
            assert got == (bits if bits == 0x7F800000 else NANS["f32"])
        elif x == 0:
            assert got == bits
        elif x < 0:
            assert got == NANS["f32"]
        else:
            root = value(got, "f32")
            assert isinstance(root, Fraction)
            lower, upper = value(got - 1, "f32"), value(got + 1, "f32")
            assert isinstance(lower, Fraction) and isinstance(upper, Fraction)
            if mode in ("rz", "rm"):
                assert root**2 <= x < upper**2
            elif mode == "rp":
                assert lower**2 < x <= root**2
            else:
                assert ((lower + root) / 2) ** 2 < x < ((root + upper) / 2) ** 2


def test_flush_to_zero_and_saturation() -> None:
    subnormal, least = 0x00000001, 0x00800000
    half, one, two = 0x3F000000, 0x3F800000, 0x40000000
    f32 = partial(lanes, "f32")
    assert int(arithmetic.add("f32", *f32(subnormal, 0x80000000), ftz=True)[0]) == 0
    assert int(arithmetic.multiply("f32", *f32(least, half), ftz=True)[0]) == 0
    assert int(arithmetic.multiply("f32", *f32(least | 0x80000000, half), ftz=True)[0]) == 0x80000000
    assert int(arithmetic.multiply("f32", *f32(least, half))[0]) == 0x00400000
    assert int(arithmetic.add("f32", *f32(one, one), saturate=True)[0]) == one
    assert int(arithmetic.subtract("f32", *f32(one, two), saturate=True)[0]) == 0
    assert int(arithmetic.add("f32", *f32(NANS["f32"], two), saturate=True)[0]) == 0
    assert int(arithmetic.multiply("f32", *f32(half, half), saturate=True)[0]) == 0x3E800000


def test_relu() -> None:
    bf16 = lanes("bf16", 0x3F80, 0xC000, 0x3F80)
    assert int(arithmetic.fused_multiply_add("bf16", *bf16, relu=True)[0]) == 0
    nan = lanes("bf16", 0x7FC0, 0x3F80, 0x3F80)
    assert int(arithmetic.fused_multiply_add("bf16", *nan, relu=True)[0]) == 0x7FFF
    positive = lanes("f16", 0x3C00, 0x4000, 0x3C00)
    assert int(arithmetic.fused_multiply_add("f16", *positive, relu=True)[0]) == 0x4200


@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_minimum_and_maximum(kind: str, data: st.DataObject) -> None:
    a, b, _ = data.draw(operands(kind))
    sign = 1 << (WIDTHS[kind] - 1)
    given_ = lanes(kind, a, b)
    low = int(arithmetic.minimum(kind, *given_)[0])  # pyright: ignore[reportArgumentType]
    high = int(arithmetic.maximum(kind, *given_)[0])  # pyright: ignore[reportArgumentType]
    strict = int(arithmetic.maximum(kind, *given_, nan=True)[0])  # pyright: ignore[reportArgumentType]
    x, y = value(a, kind), value(b, kind)
    x_nan, y_nan = x != x, y != y
    if x_nan or y_nan:
        assert low == high == (NANS[kind] if x_nan and y_nan else a if y_nan else b)
        assert strict == NANS[kind]
        return
    smaller_first = x < y or (x == y and bool(a & sign))
    assert (low, high) == ((a, b) if smaller_first else (b, a)) or a == b == low == high
    assert strict == high
    crossed = int(arithmetic.maximum(kind, *given_, xorsign_abs=True)[0])  # pyright: ignore[reportArgumentType]
    assert crossed == (max(a & ~sign, b & ~sign) | ((a ^ b) & sign))


def test_comparisons() -> None:
    one, two, nan = 0x3F800000, 0x40000000, NANS["f32"]
    truth = {
        "eq": (False, False, True),
        "ne": (True, False, False),
        "lt": (True, False, False),
        "le": (True, False, True),
        "gt": (False, False, False),
        "ge": (False, False, True),
        "equ": (False, True, True),
        "neu": (True, True, False),
        "ltu": (True, True, False),
        "leu": (True, True, True),
        "gtu": (False, True, False),
        "geu": (False, True, True),
        "num": (True, False, True),
        "nan": (False, True, False),
    }
    a, b = np.array([one, one, two], np.uint32), np.array([two, nan, two], np.uint32)
    for comparison, answers in truth.items():
        got = arithmetic.compare("f32", comparison, a, b)  # pyright: ignore[reportArgumentType]
        assert tuple(got.tolist()) == answers, comparison


def test_approximations_are_nearest_values() -> None:
    x = np.array([0.5, 1.0, 2.0, 3.0, 10.0], np.float32)
    reference = {
        "ex2": np.exp2(x.astype(np.float64)),
        "lg2": [math.log2(v) for v in x],
        "rcp": [1 / float(v) for v in x],
        "rsqrt": [1 / math.sqrt(v) for v in x],
        "sqrt": [math.sqrt(v) for v in x],
        "sin": [math.sin(v) for v in x],
        "cos": [math.cos(v) for v in x],
        "tanh": [math.tanh(v) for v in x],
    }
    for operation, expected in reference.items():
        got = arithmetic.approximate("f32", operation, x.view(np.uint32))  # pyright: ignore[reportArgumentType]
        assert np.array_equal(got.view(np.float32), np.array(expected, np.float32)), operation
    edge = np.array([0.0, -0.0, -1.0, np.inf], np.float32).view(np.uint32)
    assert arithmetic.approximate("f32", "lg2", edge).tolist() == [0xFF800000, 0xFF800000, NANS["f32"], 0x7F800000]
    assert arithmetic.approximate("f32", "rcp", edge).tolist()[:2] == [0x7F800000, 0xFF800000]
    assert arithmetic.approximate("f32", "ex2", np.array([0xC3100000], np.uint32), ftz=True).tolist() == [0]


def test_approximate_division_of_huge_divisors() -> None:
    one, huge, infinity = 0x3F800000, 0x7F000000, 0x7F800000
    assert int(arithmetic.divide_approximate(*lanes("f32", one, huge))[0]) == 0
    assert int(arithmetic.divide_approximate(*lanes("f32", infinity, huge))[0]) == NANS["f32"]
    assert int(arithmetic.divide_approximate(*lanes("f32", one, huge), full=True)[0]) == 0x00400000
    assert int(arithmetic.divide_approximate(*lanes("f32", one, one))[0]) == one


def test_modes_that_are_not_modelled_are_refused() -> None:
    with pytest.raises(EngineFault):
        arithmetic.add("f64", *lanes("f64", 0, 0), "rz")
    with pytest.raises(EngineFault):
        arithmetic.add("bf16", *lanes("bf16", 0, 0), "rm")
