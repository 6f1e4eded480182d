"""What does `cvt` make of floats of 4, 6 and 8 bits: e2m1, e2m3, e3m2, e4m3, e5m2, and the scale type ue8m0?

Theory: PTX ISA, Alternate Floating-Point Data Formats; `cvt`. Elements are one byte here (the upper bits of narrower
ones are zero). Conversion to them rounds once, to the nearest, and saturates: what is too large becomes the largest
value of its sign, and a NaN the canonical NaN, or, where the type has none, the largest value. ue8m0 is an exponent
alone: the magnitude is rounded to a power of two, towards zero or up, 2^-127 to 2^127; 0xff is NaN.

Stated by no ISA text: ue8m0 of a negative number is that of its magnitude. Not handled: stochastic rounding, scaling.
Checked by: tests/machine/numbers/test_narrow_float.py (the nearest of all values) and test_conversion.py; e4m3 and e5m2
also against results of an H200 (test_arithmetic.py).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.numbers.rounding import Bits, FloatKind, narrowed, widened

NarrowKind = Literal["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"]

LARGEST: dict[NarrowKind, float] = {"e4m3": 448.0, "e5m2": 57344.0, "e2m3": 7.5, "e3m2": 28.0, "e2m1": 6.0}
_WITH_NAN: tuple[NarrowKind, ...] = ("e4m3", "e5m2")
_SCALE_NAN = 0xFF


def _dtype(kind: NarrowKind) -> type[Any]:
    import ml_dtypes  # most kernels convert to none of these

    return {
        "e4m3": ml_dtypes.float8_e4m3fn,
        "e5m2": ml_dtypes.float8_e5m2,
        "e2m3": ml_dtypes.float6_e2m3fn,
        "e3m2": ml_dtypes.float6_e3m2fn,
        "e2m1": ml_dtypes.float4_e2m1fn,
    }[kind]


def from_float(target: NarrowKind, source: FloatKind, a: Bits, *, relu: bool = False) -> NDArray[np.uint8]:
    """One element of `cvt.rn.satfinite[.relu].{target}x2.{source}`; relu: negatives become +0."""
    value = widened(a, source)
    is_nan = np.isnan(value)
    largest = LARGEST[target]
    # f32 and narrower only: clamped, the value is exact in float32, from which the cast rounds to nearest even once.
    if source == "f64":
        raise EngineFault("MF007", "conversion", f"there is no conversion from f64 to {target}")
    clamped = np.clip(np.where(is_nan, largest, value), 0.0 if relu else -largest, largest).astype(np.float32)
    bits = clamped.astype(_dtype(target)).view(np.uint8)
    if relu:
        bits = np.where(value <= 0, np.uint8(0), bits)
    return np.where(is_nan, np.uint8(0x7F), bits) if target in _WITH_NAN else bits


def to_float(target: Literal["f16", "bf16"], source: NarrowKind, a: NDArray[np.uint8], *, relu: bool = False) -> Bits:
    """One element of `cvt.rn[.relu].{target}x2.{source}x2`: exact; NaN becomes the target's canonical NaN."""
    value = a.view(_dtype(source)).astype(np.float64)
    if relu:
        value = np.where(value <= 0, 0.0, value)
    return narrowed(value, target)


def scale_from_float(source: FloatKind, a: Bits, rounding: Literal["rz", "rp"]) -> NDArray[np.uint8]:
    """One element of `cvt.{rounding}.satfinite.ue8m0x2.{source}`."""
    value = np.abs(widened(a, source))
    is_nan = np.isnan(value)
    usable = np.where(is_nan | (value == 0), 1.0, np.minimum(value, 2.0**127))
    fraction, exponent = np.frexp(usable)  # usable = fraction * 2^exponent, fraction in [1/2, 1)
    power = exponent.astype(np.int64) - 1
    if rounding == "rp":
        power = power + (fraction > 0.5)
    biased = np.clip(power + 127, 0, 254)
    return np.where(is_nan, _SCALE_NAN, np.where(value == 0, 0, biased)).astype(np.uint8)


def scale_to_bf16(a: NDArray[np.uint8]) -> Bits:
    """One element of `cvt.rn.bf16x2.ue8m0x2`: exact."""
    value = np.exp2(a.astype(np.float64) - 127.0)
    return narrowed(np.where(a == _SCALE_NAN, np.nan, value), "bf16")
