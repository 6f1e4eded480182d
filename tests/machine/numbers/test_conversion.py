"""Conversions against exact fractions and Python integers."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.numbers import conversion, narrow_float

INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
RAW = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
NUMPY_FLOATS = {"f16": (np.float16, np.uint16), "f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}


def bounds(kind: str) -> tuple[int, int, int]:
    width = int(kind[1:])
    return (width, -(2 ** (width - 1)), 2 ** (width - 1) - 1) if kind[0] == "s" else (width, 0, 2**width - 1)


def integer_image(number: int, kind: str) -> np.ndarray:
    width = bounds(kind)[0]
    return np.array([number % 2**width], RAW[width])


def neighbours(bits: int) -> tuple[Fraction, Fraction, Fraction]:
    """The finite f32 of an image, and the values one image below and above in magnitude."""
    numbers = np.array([max(bits - 1, 0), bits, bits + 1], np.uint32).view(np.float32)
    return tuple(Fraction(float(number)) for number in numbers)  # pyright: ignore[reportReturnType]


@pytest.mark.sample(8)
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_float_to_integer_rounds_then_clamps(target: str, source: str, data: st.DataObject) -> None:
    width, low, high = bounds(target)
    dtype, raw = NUMPY_FLOATS[source]
    drawn = data.draw(
        st.one_of(
            st.floats(width={"f16": 16, "f32": 32, "f64": 64}[source]),
            st.integers(-600, 600).map(lambda quarters: quarters / 4),
            st.sampled_from(
                [float(low), float(high), low - 0.5, high + 0.5, 2.0**63, -(2.0**63), 2.0**64, 2.0**53 + 1]
            ),
        )
    )
    with np.errstate(over="ignore"):
        number = np.array([drawn], np.float64).astype(dtype)
    exact = float(number[0])
    for mode, whole in (("rni", round), ("rzi", math.trunc), ("rmi", math.floor), ("rpi", math.ceil)):
        got = conversion.float_to_integer(target, source, number.view(raw), mode)  # pyright: ignore[reportArgumentType]
        assert got.dtype == RAW[width]
        if math.isnan(exact):
            expected = 2 ** (width - 1) if source == "f64" or width == 64 else 0
        elif math.isinf(exact):
            expected = (high if exact > 0 else low) % 2**width
        else:
            expected = min(max(whole(Fraction(exact)), low), high) % 2**width
        assert int(got[0]) == expected, (exact, mode)


@pytest.mark.sample(3)
@pytest.mark.parametrize("source", INTEGERS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_integer_to_float_rounds_once(source: str, data: st.DataObject) -> None:
    width, low, high = bounds(source)
    number = data.draw(
        st.one_of(
            st.integers(low, high),
            st.builds(
                lambda power, delta, sign: min(max(sign * (2**power + delta), low), high),
                st.integers(0, width - 1),
                st.integers(-3, 3),
                st.sampled_from([-1, 1]),
            ),
        )
    )
    image = integer_image(number, source)
    for mode in ("rn", "rz", "rm", "rp"):
        got = conversion.integer_to_float("f32", source, image, mode)  # pyright: ignore[reportArgumentType]
        result = Fraction(float(got.view(np.float32)[0]))
        below, same, above = neighbours(int(got[0]) & 0x7FFFFFFF)
        size = abs(number)
        assert abs(result) == same
        assert result == 0 or (result < 0) == (number < 0)
        toward_zero = mode == "rz" or ((mode == "rm") == (number >= 0) and mode != "rn")
        if mode == "rn":
            assert (below + same) / 2 <= size <= (same + above) / 2
            if size in ((below + same) / 2, (same + above) / 2) and size != same:
                assert int(got[0]) % 2 == 0
        elif toward_zero:
            assert same <= size < above
        else:
            assert size == same or below < size <= same
    if number == int(float(number)):
        doubled = conversion.integer_to_float("f64", source, image)  # pyright: ignore[reportArgumentType]
        assert float(doubled.view(np.float64)[0]) == number


@given(number=st.floats(width=64))
@example(number=1.0 + 2.0**-24 + 2.0**-50)
@example(number=1.0 + 2.0**-8 + 2.0**-40)
@example(number=2.0**-150)
@example(number=2.0**-134 + 2.0**-160)
def test_narrowing_is_monotone_and_within_half_a_step(number: float) -> None:
    image = np.array([number]).view(np.uint64)
    for target, wide in (("f32", 0), ("f16", 0), ("bf16", 16)):
        got = int(conversion.float_to_float(target, "f64", image)[0])  # pyright: ignore[reportArgumentType]
        if math.isnan(number):
            assert (
                got & 0x7FFFFFFF > 0x7F800000 if target == "f32" else got & 0x7FFF > {"f16": 0x7C00}.get(target, 0x7F80)
            )
            continue

        def number_of(bits: int, target: str = target, wide: int = wide) -> float:
            if target == "f16":
                return float(np.array([bits], np.uint16).view(np.float16)[0])
            return float(np.array([bits << wide], np.uint32).view(np.float32)[0])

        sign = 0x80000000 if target == "f32" else 0x8000
        assert bool(got & sign) == (math.copysign(1.0, number) < 0)
        size, magnitude = abs(number), got & ~sign
        if math.isinf(number_of(magnitude)):
            largest, step = number_of(magnitude - 1), number_of(magnitude - 1) - number_of(magnitude - 2)
            assert math.isinf(size) or Fraction(size) >= Fraction(largest) + Fraction(step) / 2
            continue
        exact, nearest = Fraction(size), Fraction(number_of(magnitude))
        upper = number_of(magnitude + 1)
        step_up = Fraction(upper) - nearest if math.isfinite(upper) else nearest - Fraction(number_of(magnitude - 1))
        step_down = nearest - Fraction(number_of(magnitude - 1)) if magnitude else step_up
        assert nearest - step_down / 2 <= exact <= nearest + step_up / 2
        if exact != nearest and exact in (nearest - step_down / 2, nearest + step_up / 2):
            assert magnitude % 2 == 0


def test_bf16_rounded_downward_and_upward_brackets_the_value() -> None:
    numbers = np.array([1.0, 1.001, -1.001, 3.4e38, -3.4e38, 1e-40, -1e-40, 0.0, np.inf, -np.inf], np.float32)
    images = numbers.view(np.uint32)
    down, up = (conversion.float_to_float("bf16", "f32", images, mode) for mode in ("rm", "rp"))
    low, high = ((bits.astype(np.uint32) << 16).view(np.float32) for bits in (down, up))
    assert ((low <= numbers) & (numbers <= high)).all()
    exact = (images & 0xFFFF) == 0
    # Neighbours unless exact; among images of one sign, neighbours differ by one.
    assert (np.abs(up.astype(np.int64) - down) == np.where(exact, 0, 1)).all()
    assert int(conversion.float_to_float("bf16", "f32", np.array([0x7FC0_0001], np.uint32), "rp")[0]) == 0x7FFF


def test_bf16_from_f32_agrees_with_another_implementation() -> None:
    bits = np.random.default_rng(7).integers(0, 1 << 32, 20000, dtype=np.uint32)
    finite = np.isfinite(bits.view(np.float32))
    bits = bits[finite]
    with np.errstate(over="ignore"):
        expected = bits.view(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(conversion.float_to_float("bf16", "f32", bits), expected)
    assert np.array_equal(conversion.float_to_float("bf16", "f32", bits, "rz"), (bits >> 16).astype(np.uint16))
    assert np.array_equal(conversion.float_to_float("f32", "bf16", expected), expected.astype(np.uint32) << 16)


def test_finite_saturation_relu_and_unit_saturation() -> None:
    numbers = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, -1.0, 0.25, -0.0], np.float32).view(np.uint32)
    clamped = conversion.float_to_float("f16", "f32", numbers, satfinite=True)
    assert clamped.tolist() == [0x7BFF, 0xFBFF, 0x7BFF, 0xFBFF, 0x7FFF, 0xBC00, 0x3400, 0x8000]
    positive = conversion.float_to_float("bf16", "f32", numbers, relu=True, satfinite=True)
    assert positive.tolist()[1:] == [0, 0x7F7F, 0, 0x7FFF, 0, 0x3E80, 0]
    unit = conversion.float_to_float("f16", "f32", numbers, saturate=True)
    assert unit.tolist() == [0x3C00, 0, 0x3C00, 0, 0, 0, 0x3400, 0]
    tiny = np.array([1, 0x80000001], np.uint32)
    assert conversion.float_to_float("f32", "f32", tiny, ftz=True).tolist() == [0, 0x80000000]


def test_tf32() -> None:
    numbers = np.array([0x3F801000, 0x3F803000, 0x3F800FFF, 0xBF801000, 0x7F7FFFFF, 0x7F800000, 0x7F800001], np.uint32)
    away = conversion.float_to_tf32(numbers).tolist()
    assert away == [0x3F802000, 0x3F804000, 0x3F800000, 0xBF802000, 0x7F800000, 0x7F800000, 0x7F800000]
    even = conversion.float_to_tf32(numbers, "rn").tolist()
    assert even == [0x3F800000, 0x3F804000, 0x3F800000, 0xBF800000, 0x7F800000, 0x7F800000, 0x7FFFE000]
    cut = conversion.float_to_tf32(numbers, "rz", relu=True).tolist()
    assert cut == [0x3F800000, 0x3F802000, 0x3F800000, 0, 0x7F7FE000, 0x7F800000, 0x7FFFE000]
    assert conversion.float_to_tf32(numbers, satfinite=True).tolist()[4:6] == [0x7F7FE000, 0x7F7FE000]


@pytest.mark.parametrize(("target", "dtype"), [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
def test_byte_floats(target: str, dtype: type) -> None:
    every = np.arange(256, dtype=np.uint8)
    values = every.view(dtype).astype(np.float32)
    half = narrow_float.to_float("f16", target, every)  # pyright: ignore[reportArgumentType]
    assert np.array_equal(half.view(np.float16).astype(np.float32), values, equal_nan=True)
    finite = np.isfinite(values)
    back = narrow_float.from_float(target, "f32", values.view(np.uint32))  # pyright: ignore[reportArgumentType]
    assert np.array_equal(back[finite], every[finite])
    assert set(back[np.isnan(values)].tolist()) == {0x7F}
    largest = float(values[finite].max())
    beyond = np.array([largest * 2, -np.inf, -1.0], np.float32).view(np.uint32)
    clamped = narrow_float.from_float(target, "f32", beyond)  # pyright: ignore[reportArgumentType]
    assert clamped[:2].view(dtype).astype(np.float32).tolist() == [largest, -largest]
    relu = narrow_float.from_float(target, "f32", beyond, relu=True)  # pyright: ignore[reportArgumentType]
    assert relu.tolist()[1:] == [0, 0]


def test_integral_values_keep_the_sign_of_zero() -> None:
    numbers = np.array([-0.25, 0.5, 1.5, -2.5, 1e20], np.float32).view(np.uint32)
    got = {mode: conversion.float_to_integral("f32", numbers, mode) for mode in ("rni", "rzi", "rmi", "rpi")}
    assert got["rni"].view(np.float32).tolist() == [0.0, 0.0, 2.0, -2.0, float(np.float32(1e20))]
    assert got["rzi"].view(np.float32).tolist()[:4] == [0.0, 0.0, 1.0, -2.0]
    assert got["rmi"].view(np.float32).tolist()[:4] == [-1.0, 0.0, 1.0, -3.0]
    assert got["rpi"].view(np.float32).tolist()[:4] == [0.0, 1.0, 2.0, -2.0]
    assert int(got["rni"][0]) == 0x80000000


@given(source=st.sampled_from(INTEGERS), target=st.sampled_from(INTEGERS), bits=st.integers(0, 2**64 - 1))
def test_integer_to_integer(source: str, target: str, bits: int) -> None:
    source_width, source_low, _ = bounds(source)
    width, low, high = bounds(target)
    number = bits % 2**source_width
    if source_low < 0 and number >= 2 ** (source_width - 1):
        number -= 2**source_width
    image = integer_image(number, source)
    plain = conversion.integer_to_integer(target, source, image)  # pyright: ignore[reportArgumentType]
    assert int(plain[0]) == number % 2**width
    clamped = conversion.integer_to_integer(target, source, image, saturate=True)  # pyright: ignore[reportArgumentType]
    assert int(clamped[0]) == min(max(number, low), high) % 2**width


def test_conversions_that_do_not_exist_are_refused() -> None:
    with pytest.raises(EngineFault):
        narrow_float.from_float("e4m3", "f64", np.zeros(1, np.uint64))
