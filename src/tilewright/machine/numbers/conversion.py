"""What does `cvt` compute between any two types, float or integer?

Theory: PTX ISA 9.7.9.21 "cvt": float to float rounds once; float to integer rounds to an integral value and clamps to
the destination's range; NaN becomes 0, or, from f64 or to a 64-bit integer, the image 1 << (width - 1); integer to
float rounds once; integer to integer sign- or zero-extends or truncates, and clamps with `.sat`.

Floats of 8 bits and fewer: `narrow_float`. Not handled: stochastic rounding.
Checked by: `tests/machine/numbers/test_conversion.py`, against exact fractions and Python integers;
`test_arithmetic.py`, against results of an H200.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.numbers.integer import UNSIGNED, IntegerKind, limits, read
from tilewright.machine.numbers.rounding import (
    Bits,
    Float64,
    FloatKind,
    Rounding,
    flushed,
    narrowed,
    saturated,
    widened,
)

ToIntegral = Literal["rni", "rzi", "rmi", "rpi"]

_LARGEST: dict[FloatKind, int] = {"f16": 0x7BFF, "bf16": 0x7F7F, "f32": 0x7F7F_FFFF, "f64": 0x7FEF_FFFF_FFFF_FFFF}


def float_to_float(
    target: FloatKind,
    source: FloatKind,
    a: Bits,
    rounding: Rounding = "rn",
    *,
    ftz: bool = False,
    saturate: bool = False,
    satfinite: bool = False,
    relu: bool = False,
) -> Bits:
    """`cvt.{rounding}[.ftz][.sat|.satfinite][.relu].{target}.{source}`.

    ftz flushes f32 operands and results. saturate: to [0, 1]. satfinite: an overflow, or an infinity, becomes the
    largest finite value of its sign. relu: negatives become +0. NaN becomes canonical, but keeps sign and payload, as
    on an H200, from bf16 (whose conversion to f32 is a shift) and from f64.
    """
    value = widened(flushed(a, source) if ftz and source == "f32" else a, source)
    bits = narrowed(value, target, rounding)
    if target != source and source in ("bf16", "f64"):
        bits = _with_payload(bits, np.isnan(value), target, source, a)
    if target == "f64" and rounding != "rn":
        raise EngineFault("MF007", "rounding", f"no conversion to f64 takes .{rounding}")
    one = bits.dtype.type
    if satfinite:
        largest, sign = one(_LARGEST[target]), one(1 << (bits.dtype.itemsize * 8 - 1))
        bits = np.where(np.isinf(widened(bits, target)), bits & sign | largest, bits)
    if ftz and target == "f32":
        bits = flushed(bits, target)
    if relu:
        bits = np.where(value <= 0, one(0), bits)
    return saturated(bits, target) if saturate else bits


def float_to_tf32(
    a: Bits, rounding: Literal["rn", "rz", "rna"] = "rna", *, relu: bool = False, satfinite: bool = False
) -> Bits:
    """`cvt.{rounding}[.relu][.satfinite].tf32.f32`: an f32 image whose low 13 bits are zero. `rna`: ties away.

    NaN becomes 0x7fffe000; with rna it only loses the low bits, as on an H200.
    """
    finite, is_nan = np.isfinite(a.view(np.float32)), np.isnan(a.view(np.float32))
    match rounding:
        case "rn":
            carried = a + np.uint32(0xFFF) + (a >> np.uint32(13) & np.uint32(1))
        case "rna":
            carried = a + np.uint32(0x1000)
        case "rz":
            carried = a
    bits = np.where(finite, carried, a) & np.uint32(0xFFFF_E000)
    if rounding != "rna":
        bits = np.where(is_nan, np.uint32(0x7FFF_E000), bits)
    if satfinite:
        infinite = ~is_nan & ((bits & np.uint32(0x7FFF_FFFF)) == 0x7F80_0000)
        bits = np.where(infinite, a & np.uint32(0x8000_0000) | np.uint32(0x7F7F_E000), bits)
    if relu:
        bits = np.where((bits >> np.uint32(31) == 1) & ~is_nan, np.uint32(0), bits)
    return bits


def float_to_integral(
    kind: FloatKind, a: Bits, rounding: ToIntegral, *, ftz: bool = False, saturate: bool = False
) -> Bits:
    """`cvt.{rounding}[.sat].{kind}.{kind}`: to an integral value of the same type, sign of zero kept."""
    value = widened(flushed(a, kind) if ftz else a, kind)
    bits = narrowed(np.copysign(_integral(value, rounding), value), kind)
    return saturated(bits, kind) if saturate else bits


def float_to_integer(
    target: IntegerKind, source: FloatKind, a: Bits, rounding: ToIntegral = "rzi", *, ftz: bool = False
) -> Bits:
    """`cvt.{rounding}[.ftz].{target}.{source}`: rounded, then clamped to the range of `target`."""
    value = widened(flushed(a, source) if ftz and source == "f32" else a, source)
    is_nan = np.isnan(value)
    width, low, high = limits(target)
    whole = _integral(np.where(is_nan, 0.0, value), rounding)
    # The limits themselves may not be float64s: 2^63 - 1 and 2^64 - 1 round up, so they are put in as integers.
    above, below = whole >= float(high), whole <= float(low)
    inside = np.where(above | below, 0.0, whole)
    bits = inside.astype(np.int64).view(np.uint64) if target != "u64" else inside.astype(np.uint64)
    bits = np.where(above, np.uint64(high), np.where(below, np.uint64(low & 0xFFFF_FFFF_FFFF_FFFF), bits))
    nan_image = 1 << (width - 1) if source == "f64" or width == 64 else 0
    return np.where(is_nan, np.uint64(nan_image), bits).astype(UNSIGNED[width])


def integer_to_float(
    target: FloatKind, source: IntegerKind, a: Bits, rounding: Rounding = "rn", *, saturate: bool = False
) -> Bits:
    """`cvt.{rounding}[.sat].{target}.{source}`: rounded once."""
    if target == "f64":
        from tilewright.machine.numbers import double  # exact fractions take long to load

        value = double.from_integer(rounding, read(a, source)) if rounding != "rn" else read(a, source).astype(float)
    else:
        value = _integer_to_odd(read(a, source))
    bits = narrowed(value, target, rounding)
    return saturated(bits, target) if saturate else bits


def integer_to_integer(target: IntegerKind, source: IntegerKind, a: Bits, *, saturate: bool = False) -> Bits:
    """`cvt[.sat].{target}.{source}`: extends or truncates, with `saturate` clamps to the range of `target`."""
    values = read(a, source)
    width, low, high = limits(target)
    if saturate:
        _, source_low, source_high = limits(source)
        values = np.clip(values, max(low, source_low), min(high, source_high))
    return values.astype(UNSIGNED[width])


def _with_payload(bits: Bits, is_nan: NDArray[np.bool_], target: FloatKind, source: FloatKind, a: Bits) -> Bits:
    if not is_nan.any():
        return bits
    if source == "bf16" and target == "f32":
        return np.where(is_nan, a.astype(np.uint32) << np.uint32(16), bits)
    if source == "f64" and target in ("f32", "f16"):
        # Sign, the quiet bit, and as much of the 52-bit payload as fits, from its top.
        width, fraction_bits = (32, 23) if target == "f32" else (16, 10)
        fraction = (a >> np.uint64(52 - fraction_bits)) & np.uint64((1 << fraction_bits) - 1)
        exponent = ((1 << (width - 1 - fraction_bits)) - 1) << fraction_bits | 1 << (fraction_bits - 1)
        image = (a >> np.uint64(63) << np.uint64(width - 1)) | np.uint64(exponent) | fraction
        return np.where(is_nan, image.astype(bits.dtype), bits)
    return bits


def _integral(value: Float64, rounding: ToIntegral) -> Float64:
    match rounding:
        case "rni":
            return np.rint(value)
        case "rzi":
            return np.trunc(value)
        case "rmi":
            return np.floor(value)
        case "rpi":
            return np.ceil(value)


def _integer_to_odd(values: NDArray[Any]) -> Float64:
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    # From 2^53 on, the low 11 bits are folded into bit 11: 53 bits are left, rounded to odd.
    magnitude = np.abs(values).view(np.uint64) if values.dtype == np.int64 else values
    large = magnitude >> np.uint64(53) != 0
    sticky = (magnitude & np.uint64(0x7FF) != 0).astype(np.uint64) << np.uint64(11)
    folded = np.where(large, magnitude & ~np.uint64(0x7FF) | sticky, magnitude).astype(np.float64)
    return np.where(values < 0, -folded, folded)
