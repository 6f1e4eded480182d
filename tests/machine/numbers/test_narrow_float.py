"""Floats of 4 to 8 bits: conversion to them is the nearest of all their values, and conversion back is exact."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.instruction.evaluated_floats import evaluate

from tilewright.machine.numbers import narrow_float

Array = NDArray[np.generic]
RNG = np.random.default_rng(41)
# Exponent bits, fraction bits, bias, and how many of the largest images are no finite numbers.
FORMATS = {
    "e4m3": (4, 3, 7, 1),
    "e5m2": (5, 2, 15, 4),
    "e2m3": (2, 3, 1, 0),
    "e3m2": (3, 2, 3, 0),
    "e2m1": (2, 1, 1, 0),
}


def values_of(name: str) -> list[float]:
    """The non-negative finite values by image, from the format's definition."""
    exponent_bits, fraction_bits, bias, special = FORMATS[name]
    found: list[float] = []
    for image in range((1 << (exponent_bits + fraction_bits)) - special):
        exponent, fraction = image >> fraction_bits, image & ((1 << fraction_bits) - 1)
        scale = 2.0 ** (max(exponent, 1) - bias - fraction_bits)
        found.append(scale * (fraction + (1 << fraction_bits if exponent else 0)))
    return found


def nearest(name: str, value: float) -> int:
    """The image that is nearest, of even image where two are."""
    sign = 1 << sum(FORMATS[name][:2])
    if np.isnan(value):
        return 0x7F if name in ("e4m3", "e5m2") else sign - 1
    values = values_of(name)
    size = min(abs(value), values[-1])
    best = min(range(len(values)), key=lambda image: (abs(values[image] - size), image & 1))
    return best | (sign if np.signbit(value) else 0)


def samples(name: str) -> NDArray[np.float32]:
    values = np.array(values_of(name))
    halfway = (values[1:] + values[:-1]) / 2
    every = np.concatenate(
        [values, halfway, halfway * 1.001, RNG.standard_normal(40) * values[-1], [np.inf, np.nan, 1e9]]
    )
    both = np.concatenate([every, -every]).astype(np.float32)
    return np.resize(both, (len(both) + 63) // 64 * 64)


@pytest.mark.parametrize("name", FORMATS)
def test_conversion_to_a_narrow_float_is_the_nearest(name: str) -> None:
    numbers = samples(name)
    wanted = [nearest(name, float(value)) for value in numbers]
    found = narrow_float.from_float(name, "f32", numbers.view(np.uint32))  # pyright: ignore[reportArgumentType]
    assert found.tolist() == wanted
    relu = narrow_float.from_float(name, "f32", numbers.view(np.uint32), relu=True)  # pyright: ignore[reportArgumentType]
    assert relu.tolist() == [0 if value <= 0 else image for value, image in zip(numbers, wanted, strict=True)]


@pytest.mark.parametrize("name", FORMATS)
def test_the_instruction_packs_and_unpacks(name: str) -> None:
    """Through `cvt` of f32 pairs and of f16 pairs, and back to f16 pairs."""
    numbers = samples(name)[:64]
    high, low = numbers[::2], numbers[1::2]
    inputs: dict[str, Array] = {"%f1": high, "%f2": low}
    four = name == "e2m1"
    back = f"cvt.rn.f16x2.{name}x2 %r4, "
    convert = f"cvt.rn.satfinite.{name}x2.f32 "
    # An 8-bit register goes through a 16-bit one.
    pack = f".reg .b8 %b; {convert} %b, %f1, %f2; mov.b16 %h1, {{%b, %b}};" if four else f"{convert} %h1, %f1, %f2;"
    images = evaluate(f"{pack}", inputs, "%h1", np.uint16)
    width = 4 if four else 8
    wanted = [nearest(name, float(x)) << width | nearest(name, float(y)) for x, y in zip(high, low, strict=True)]
    assert images.tolist() == [image << 8 | image if four else image for image in wanted]
    unpack = f".reg .b8 %b; .reg .b8 %c; mov.b16 {{%b, %c}}, %h1; {back} %b;" if four else f"{back} %h1;"
    halves = evaluate(unpack, {"%h1": images}, "%r4", np.uint32).view(np.float16).reshape(32, 2)
    values = values_of(name)
    sign = 1 << sum(FORMATS[name][:2])

    def value(image: int) -> float:
        size = image & (sign - 1)
        number = values[size] if size < len(values) else np.nan
        return -number if image & sign else number

    for got, image in zip(halves.tolist(), wanted, strict=True):
        expected = [value(image & ((1 << width) - 1)), value(image >> width)]
        assert np.array_equal(got, expected, equal_nan=True)


def test_scales_are_powers_of_two() -> None:
    numbers = np.array(
        [1.0, 1.5, 2.0, 3.9, 2.0**-127, 2.0**-126 * 1.5, 2.0**-130, 0.0, 2.0**127 * 1.5, np.nan], np.float32
    )
    numbers = np.resize(numbers, 32)
    text = "cvt.{}.satfinite.ue8m0x2.f32 %h1, %f1, %f1; cvt.rn.bf16x2.ue8m0x2 %r4, %h1;"
    for rounding in ("rz", "rp"):
        bits = evaluate(text.format(rounding), {"%f1": numbers}, "%r4", np.uint32)
        found = ((bits >> np.uint32(16)) << np.uint32(16)).view(np.float32)[:10]
        down = [1, 1, 2, 2, 2.0**-127, 2.0**-126, 2.0**-127, 2.0**-127, 2.0**127, np.nan]
        up = [1, 2, 2, 4, 2.0**-127, 2.0**-125, 2.0**-127, 2.0**-127, 2.0**127, np.nan]
        assert np.array_equal(found, np.array(down if rounding == "rz" else up, np.float32), equal_nan=True)


def test_packing_of_saturated_integers() -> None:
    numbers = np.concatenate(
        [np.array([0, 1, 5, -1, 127, 128, -129, 255, 256, 40000, -40000]), RNG.integers(-300, 300, 21)]
    )
    a, b = numbers.astype(np.int32), np.roll(numbers, 3).astype(np.int32)
    c = RNG.integers(0, 1 << 32, 32, np.uint32)
    inputs: dict[str, Array] = {"%r1": a.view(np.uint32), "%r2": b.view(np.uint32), "%r3": c}

    def clamped(value: int, width: int, is_signed: bool) -> int:
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
        return min(max(value, low), high) & ((1 << width) - 1)

    for kind, width in (("u16", 16), ("s16", 16)):
        found = evaluate(f"cvt.pack.sat.{kind}.s32 %r4, %r1, %r2;", inputs, "%r4", np.uint32)
        wanted = [
            clamped(x, width, kind[0] == "s") << width | clamped(y, width, kind[0] == "s")
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ]
        assert found.tolist() == wanted
    for kind, width in (("u8", 8), ("s8", 8), ("s4", 4), ("u2", 2)):
        found = evaluate(f"cvt.pack.sat.{kind}.s32.b32 %r4, %r1, %r2, %r3;", inputs, "%r4", np.uint32)
        wanted = [
            (z << (2 * width) | clamped(x, width, kind[0] == "s") << width | clamped(y, width, kind[0] == "s"))
            & 0xFFFF_FFFF
            for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        ]
        assert found.tolist() == wanted
