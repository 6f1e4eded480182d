"""How does an exact real result become the bit image of f16, bf16, f32 or f64, in each of PTX's rounding modes?

Theory: an exact result is carried as a float64 rounded *to odd*: truncated, and its last bit set if anything was cut
off. Rounding it again to a format of at most 53 - 2 bits then equals one rounding of the exact value, in every mode
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008). The exact error of a float64 sum or product
is itself a float64 (TwoSum; Dekker's product), so no other arithmetic is needed.

Values are arrays of bit images: uint16 (f16, bf16), uint32 (f32), uint64 (f64). NaN results are canonical (PTX ISA
9.7.3: 0x7fffffff; 0x7fff for 16-bit types), whatever the payload of an operand was. For f64 the ISA states nothing: an
H200 passes an operand's payload on, this model does not.

Not handled: stochastic rounding (`.rs`).
Checked by: `tests/machine/numbers/test_arithmetic.py`, against exact fractions and against results of an H200.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[Any]
"""Bit images: an unsigned integer array as wide as the type."""

Float64 = NDArray[np.float64]
FloatKind = Literal["f16", "bf16", "f32", "f64"]
NativeKind = Literal["f16", "f32", "f64"]
Rounding = Literal["rn", "rz", "rm", "rp"]

CANONICAL_NAN: dict[FloatKind, int] = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFF_FFFF, "f64": 0x7FF8_0000_0000_0000}

_LEAST_NORMAL: dict[FloatKind, int] = {"f16": 0x0400, "bf16": 0x0080, "f32": 0x0080_0000, "f64": 0x0010_0000_0000_0000}
_SIGN: dict[FloatKind, int] = {"f16": 0x8000, "bf16": 0x8000, "f32": 0x8000_0000, "f64": 0x8000_0000_0000_0000}
_ONE: dict[FloatKind, int] = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F80_0000, "f64": 0x3FF0_0000_0000_0000}

_NATIVE: dict[str, type[np.floating[Any]]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_RAW: dict[str, type[np.unsignedinteger[Any]]] = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}


def widened(bits: Bits, kind: FloatKind) -> Float64:
    """The exact float64 of each image."""
    match kind:
        case "f16":
            values = bits.view(np.float16)
        case "bf16":
            values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "f32":
            values = bits.view(np.float32)
        case "f64":
            return bits.view(np.float64)
    with np.errstate(invalid="ignore"):  # signalling NaN
        return values.astype(np.float64)


def narrowed(value: Float64, kind: FloatKind, rounding: Rounding = "rn") -> Bits:
    """`value`, exact or rounded to odd, rounded once to `kind`. NaN becomes canonical. For f64: `value` itself."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        match kind:
            case "f16":
                bits = _directed(value, value.astype(np.float16), rounding).view(np.uint16)
            case "bf16":
                bits = _narrowed_bf16(value, rounding)
            case "f32":
                bits = _directed(value, value.astype(np.float32), rounding).view(np.uint32)
            case "f64":
                bits = value.view(np.uint64)
        return canonical(bits, np.isnan(value), kind)


def canonical(bits: Bits, is_nan: NDArray[np.bool_], kind: FloatKind) -> Bits:
    """`bits`, with the canonical NaN where `is_nan`."""
    if np.count_nonzero(is_nan):
        return np.where(is_nan, bits.dtype.type(CANONICAL_NAN[kind]), bits)
    return bits


def native(bits: Bits, kind: NativeKind) -> NDArray[Any]:
    """The images as NumPy's own floats, whose + - * / and sqrt are correctly rounded to nearest."""
    return bits.view(_NATIVE[kind])


def from_native(value: NDArray[Any], kind: NativeKind) -> Bits:
    """The images of NumPy's own floats, NaN made canonical."""
    return canonical(value.view(_RAW[kind]), np.isnan(value), kind)


def flushed(bits: Bits, kind: FloatKind) -> Bits:
    """`.ftz`: subnormal images become zeros of their sign."""
    sign = bits.dtype.type(_SIGN[kind])
    small = (bits & ~sign) < bits.dtype.type(_LEAST_NORMAL[kind])
    return np.where(small, bits & sign, bits) if np.count_nonzero(small) else bits


def saturated(bits: Bits, kind: FloatKind) -> Bits:
    """`.sat`: clamped to [+0, 1]; NaN becomes +0 (PTX ISA 9.7.3.1 and following)."""
    value = widened(bits, kind)
    zero, one = bits.dtype.type(0), bits.dtype.type(_ONE[kind])
    return np.where(value > 0, np.where(value < 1, bits, one), zero)


def sum_to_odd(x: Float64, y: Float64) -> Float64:
    """x + y rounded to odd."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = x + y
        part = total - x
        return to_odd(total, (x - (total - part)) + (y - part))


def to_odd(value: Float64, error: Float64) -> Float64:
    """The exact value + error rounded to odd, where `value` is its nearest float64. Only `error`'s sign matters."""
    inexact = (error != 0) & np.isfinite(error) & np.isfinite(value)
    if not inexact.any():
        return value
    bits = value.view(np.int64)
    too_large = inexact & ((error > 0) != (value > 0))
    return ((bits - too_large) | inexact).view(np.float64)


def product_error(x: Float64, y: Float64, product: Float64) -> Float64:
    """x * y - product exactly, where nothing over- or underflows (Dekker's algorithm, Veltkamp's splitting)."""
    x_high, x_low = _split(x)
    y_high, y_low = _split(y)
    return ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def _split(x: Float64) -> tuple[Float64, Float64]:
    scaled = x * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def _directed(value: Float64, nearest: NDArray[Any], rounding: Rounding) -> NDArray[Any]:
    if rounding == "rn":
        return nearest
    back = nearest.astype(np.float64)
    infinity = nearest.dtype.type(np.inf)
    below, above = np.nextafter(nearest, -infinity), np.nextafter(nearest, infinity)
    match rounding:
        case "rm":
            return np.where(back > value, below, nearest)
        case "rp":
            return np.where(back < value, above, nearest)
        case "rz":
            return np.where((value > 0) & (back > value), below, np.where((value < 0) & (back < value), above, nearest))


def _narrowed_bf16(value: Float64, rounding: Rounding) -> NDArray[np.uint16]:
    # First to f32 rounded to odd: 24 bits are enough to round to bf16's 8 as if from the exact value.
    truncated = _directed(value, value.astype(np.float32), "rz")
    inexact = (truncated.astype(np.float64) != value) & np.isfinite(value)
    bits = truncated.view(np.uint32) | inexact.astype(np.uint32)
    match rounding:
        case "rn":
            bits = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
        case "rz":
            pass
        case "rm" | "rp":
            # Away from zero where the exact value lies on that side; a NaN or infinity has no lower bits to lose.
            away = value < 0 if rounding == "rm" else value > 0
            up = away & np.isfinite(value) & ((bits & np.uint32(0xFFFF)) != 0)
            bits = bits + (up.astype(np.uint32) << np.uint32(16))
    return (bits >> np.uint32(16)).astype(np.uint16)
