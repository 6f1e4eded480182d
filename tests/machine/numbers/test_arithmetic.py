"""Floating-point arithmetic against exact fractions, rounded here from IEEE 754's definitions alone; and
against results of an H200 (`arithmetic.npz`: an array for each instruction, of the operands' a, b, c, e).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.machine.numbers import arithmetic, conversion, integer, narrow_float
from tilewright.machine.numbers.rounding import Bits

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


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
def test_fma_rounds_once(kind: str, data: st.DataObject) -> None:
    a, b, c = data.draw(operands(kind))
    modes = ["rn", "rz", "rm", "rp"] if kind == "f32" else ["rn"]
    for mode in modes:
        got = arithmetic.fused_multiply_add(kind, *lanes(kind, a, b, c), mode)  # pyright: ignore[reportArgumentType]
        assert int(got[0]) == expected_fused(kind, mode, a, b, c), (mode, hex(a), hex(b), hex(c))


def test_fma_just_below_a_tie() -> None:
    # 1 + 2^-23 + 2^-24 - 2^-54: as a float64 it is a tie, from which rounding again would go up.
    below = arithmetic.fused_multiply_add("f32", *lanes("f32", 0x3F800100, 0x337FFE00, 0x3F800001))
    assert int(below[0]) == 0x3F800001
    at = arithmetic.fused_multiply_add("f32", *lanes("f32", 0x3F800000, 0x33800000, 0x3F800001))
    assert int(at[0]) == 0x3F800002


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
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


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
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


def measured() -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    with np.load(Path(__file__).parents[2] / "data" / "arithmetic.npz") as archive:
        results = {name: archive[name] for name in archive.files}
    operand = results.pop("operands")
    return results, [np.ascontiguousarray(operand[:, column]) for column in range(4)]


def models(a: Bits, b: Bits, c: Bits, e: Bits) -> dict[str, Callable[[], np.ndarray]]:
    """By the measured array's name: what the machine computes. x and y are the 64-bit operands {a, b} and {c, e}."""
    x, y = (np.stack(pair, axis=1).copy().view(np.uint64)[:, 0] for pair in ((a, b), (c, e)))
    low_a, low_b = ((operand & 0xFFFF).astype(np.uint16) for operand in (a, b))

    def halves(operation: Callable[..., Bits], kind: str, *operands_: Bits, **options: object) -> np.ndarray:
        return operation(kind, *(operand.view(np.uint16) for operand in operands_), **options).view(np.uint32)

    def pair(high: np.ndarray, low: np.ndarray, width: int) -> np.ndarray:
        return high.astype(np.uint32) << width | low.astype(np.uint32)

    found: dict[str, Callable[[], np.ndarray]] = {}
    for mode in ("rn", "rz", "rm", "rp"):
        found[f"add_{mode}_f32"] = partial(arithmetic.add, "f32", a, b, mode)
        found[f"mul_{mode}_f32"] = partial(arithmetic.multiply, "f32", a, b, mode)
        found[f"fma_{mode}_f32"] = partial(arithmetic.fused_multiply_add, "f32", a, b, c, mode)
        found[f"div_{mode}_f32"] = partial(arithmetic.divide, "f32", a, b, mode)
        found[f"sqrt_{mode}_f32"] = partial(arithmetic.square_root, "f32", a, mode)
        found[f"rcp_{mode}_f32"] = partial(arithmetic.reciprocal, "f32", a, mode)
        for kind, operand in (("s64", x), ("u64", x), ("s32", a)):
            found[f"cvt_{mode}_f32_{kind}"] = partial(conversion.integer_to_float, "f32", kind, operand, mode)
        found[f"cvt_{mode}_f32_f64"] = partial(conversion.float_to_float, "f32", "f64", x, mode)
        found[f"cvt_{mode}_f16_f32"] = partial(conversion.float_to_float, "f16", "f32", a, mode)
        for kind in ("s32", "u32", "s64", "u64"):
            found[f"cvt_{mode}i_{kind}_f32"] = partial(conversion.float_to_integer, kind, "f32", a, mode + "i")
        for kind in ("s32", "s64"):
            found[f"cvt_{mode}i_{kind}_f64"] = partial(conversion.float_to_integer, kind, "f64", x, mode + "i")
        found[f"cvt_{mode}i_f32_f32"] = partial(conversion.float_to_integral, "f32", a, mode + "i")
    found["sub_rz_f32"] = partial(arithmetic.subtract, "f32", a, b, "rz")
    found["add_rn_ftz_f32"] = partial(arithmetic.add, "f32", a, b, ftz=True)
    found["mul_rn_ftz_f32"] = partial(arithmetic.multiply, "f32", a, b, ftz=True)
    found["div_rn_ftz_f32"] = partial(arithmetic.divide, "f32", a, b, ftz=True)
    found["fma_rn_ftz_f32"] = partial(arithmetic.fused_multiply_add, "f32", a, b, c, ftz=True)
    found["fma_rn_sat_f32"] = partial(arithmetic.fused_multiply_add, "f32", a, b, c, saturate=True)
    found["neg_f32"], found["abs_f32"] = partial(arithmetic.negate, "f32", a), partial(arithmetic.absolute, "f32", a)
    found["neg_bf16x2"] = partial(halves, arithmetic.negate, "bf16", a)
    found["abs_f16x2"] = partial(halves, arithmetic.absolute, "f16", a)
    found["add_ftz_f16x2"] = partial(halves, arithmetic.add, "f16", a, b, ftz=True)
    found["fma_sat_f16x2"] = partial(halves, arithmetic.fused_multiply_add, "f16", a, b, c, saturate=True)
    for kind in ("f16", "bf16"):
        found[f"add_rn_{kind}x2"] = partial(halves, arithmetic.add, kind, a, b)
        found[f"mul_rn_{kind}x2"] = partial(halves, arithmetic.multiply, kind, a, b)
        found[f"fma_rn_{kind}x2"] = partial(halves, arithmetic.fused_multiply_add, kind, a, b, c)
        found[f"fma_rn_relu_{kind}x2"] = partial(halves, arithmetic.fused_multiply_add, kind, a, b, c, relu=True)
        found[f"max_{kind}x2"] = partial(halves, arithmetic.maximum, kind, a, b)
        found[f"min_nan_{kind}x2"] = partial(halves, arithmetic.minimum, kind, a, b, nan=True)
        found[f"max_xorsign_{kind}x2"] = partial(halves, arithmetic.maximum, kind, a, b, xorsign_abs=True)
        found[f"cvt_f32_{kind}"] = partial(conversion.float_to_float, "f32", kind, low_a)
        for mode in ("rn", "rz"):
            for name, relu in (("", False), ("_relu", True)):
                narrow = partial(conversion.float_to_float, kind, "f32", rounding=mode, relu=relu)
                found[f"cvt_{mode}{name}_{kind}x2_f32"] = lambda narrow=narrow: pair(narrow(a), narrow(b), 16)
    for name, extremum in (("min", arithmetic.minimum), ("max", arithmetic.maximum)):
        found[f"{name}_f32"] = partial(extremum, "f32", a, b)
        found[f"{name}_nan_f32"] = partial(extremum, "f32", a, b, nan=True)
        found[f"{name}_ftz_f32"] = partial(extremum, "f32", a, b, ftz=True)
        found[f"{name}_xorsign_f32"] = partial(extremum, "f32", a, b, xorsign_abs=True)
    found["cvt_rna_tf32"] = partial(conversion.float_to_tf32, a)
    found["cvt_rn_tf32"] = partial(conversion.float_to_tf32, a, "rn")
    found["cvt_rz_relu_tf32"] = partial(conversion.float_to_tf32, a, "rz", relu=True)
    for kind in ("e4m3", "e5m2"):
        for name, relu in (("", False), ("_relu", True)):
            pack = partial(narrow_float.from_float, kind, "f32", relu=relu)
            found[f"cvt{name}_{kind}x2_f32"] = lambda pack=pack: pair(pack(a), pack(b), 8)
        from_half = partial(narrow_float.from_float, kind, "f16")
        found[f"cvt_{kind}x2_f16x2"] = lambda f=from_half: pair(f((a >> 16).astype(np.uint16)), f(low_a), 8)
        to_half = partial(narrow_float.to_float, "f16", kind)
        found[f"cvt_f16x2_{kind}x2"] = lambda f=to_half: pair(f((a >> 8).astype(np.uint8)), f(a.astype(np.uint8)), 16)
    found["cvt_sat_f32_f32"] = partial(conversion.float_to_float, "f32", "f32", a, saturate=True)
    found["cvt_ftz_f32_f32"] = partial(conversion.float_to_float, "f32", "f32", a, ftz=True)
    found["cvt_rzi_s32_f16"] = partial(conversion.float_to_integer, "s32", "f16", low_a)
    found["cvt_rzi_s64_f16"] = partial(conversion.float_to_integer, "s64", "f16", low_a)
    found["cvt_rzi_u8_f32"] = partial(conversion.float_to_integer, "u8", "f32", a)
    found["cvt_rzi_s16_f32"] = partial(conversion.float_to_integer, "s16", "f32", a)
    found["cvt_rn_f16_s32"] = partial(conversion.integer_to_float, "f16", "s32", a)
    found["cvt_rn_f16_f64"] = partial(conversion.float_to_float, "f16", "f64", x)
    for kinds, left, right in ((("u32", "s32"), a, b), (("u64", "s64"), x, y)):
        for kind in kinds:
            found[f"div_{kind}"] = partial(integer.divide_integer, kind, left, right)
            found[f"rem_{kind}"] = partial(integer.remainder_integer, kind, left, right)
            found[f"mulhi_{kind}"] = partial(integer.multiply_high, kind, left, right)
            found[f"shr_{kind}"] = partial(integer.shift_right, kind, left, b if left is a else c)
    for kind in ("u32", "s32"):
        found[f"mulwide_{kind}"] = partial(integer.multiply_wide, kind, a, b)
    found["div_u16"] = partial(integer.divide_integer, "u16", low_a, low_b)
    found["div_s16"] = partial(integer.divide_integer, "s16", low_a, low_b)
    found["shl_b32"], found["addsat_s32"] = partial(integer.shift_left, a, b), partial(integer.add_saturating, a, b)
    return found


BOUNDS = {
    **{"ex2_f32": 2.0**-22, "rcp_f32": 2.0**-23, "rsqrt_f32": 2.0**-22.4, "sqrt_f32": 2.0**-22.9, "tanh_f32": 2.0**-11},
    **{"divapprox_f32": 2.0**-22, "divfull_f32": 2.0**-22},
}


def test_results_are_the_hardwares_bit_for_bit() -> None:
    results, operands_ = measured()
    computed = models(*operands_)
    for name, model in computed.items():
        got, seen = model().astype(np.uint64), results[name].astype(np.uint64)
        wrong = np.flatnonzero(got != seen)
        assert wrong.size == 0, (name, *(hex(int(o[wrong[0]])) for o in operands_), hex(int(seen[wrong[0]])))
    f64 = {"add_rn_f64", "mul_rn_f64", "fma_rn_f64"}
    approximate = {name for name in results if name.split("_")[0] in {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin"}}
    approximate |= {name for name in results if name.split("_")[0] in {"cos", "tanh", "divapprox", "divfull"}}
    assert set(results) - f64 - approximate <= set(computed)


def test_f64_is_the_hardwares_but_for_nan() -> None:
    results, (a, b, c, e) = measured()
    x, y = (np.stack(pair, axis=1).copy().view(np.uint64)[:, 0] for pair in ((a, b), (c, e)))
    for name, got in (
        ("add_rn_f64", arithmetic.add("f64", x, y)),
        ("mul_rn_f64", arithmetic.multiply("f64", x, y)),
        ("fma_rn_f64", arithmetic.fused_multiply_add("f64", x, y, x)),
    ):
        assert np.array_equal(got.view(np.float64), results[name].view(np.float64), equal_nan=True), name


@pytest.mark.parametrize("name", BOUNDS)
def test_hardware_approximations_stay_within_their_bounds(name: str) -> None:
    results, (a, b, _, _) = measured()
    operation = name.split("_")[0]
    if operation.startswith("div"):
        model = arithmetic.divide_approximate(a, b, full=operation == "divfull")
    else:
        model = arithmetic.approximate("f32", operation, a)  # pyright: ignore[reportArgumentType]
    near, seen = model.view(np.float32).astype(np.float64), results[name].view(np.float32).astype(np.float64)
    assert np.array_equal(np.isfinite(near), np.isfinite(seen))
    normal = np.isfinite(near) & (np.abs(near) > 2.0**-126)
    near, seen = near[normal], seen[normal]
    # The model is itself rounded, so half an ulp comes on top of the ISA's bound.
    assert np.all(np.abs(near - seen) <= (BOUNDS[name] + 2.0**-24) * np.abs(near))
