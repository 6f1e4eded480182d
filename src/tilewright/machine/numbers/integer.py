"""What do the integer instructions of PTX yield, corner cases included?

Theory: PTX ISA 9.7.1 (`mul.hi`, `mul.wide`, `div`, `rem`, `add.sat`) and 9.7.8 (shifts clamp amounts to the width).
Integers are bit images: unsigned arrays of 8, 16, 32 or 64 bits, read as signed where the type says so. NumPy's own
unsigned + - * & | ^ ~ wrap as PTX's do, and need no function here.

Stated by no ISA text: division by zero is "unspecified, machine-specific"; here quotient and remainder have all bits
set, as on an H200. The least signed integer divided by -1 wraps.

Not handled: extended-precision carries, dp4a, bit-field and byte permutations.
Checked by: `tests/machine/numbers/test_integer.py`, against Python integers; `test_arithmetic.py`, against results of
an H200.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.numbers.rounding import Bits

IntegerKind = Literal["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"]

UNSIGNED: dict[int, type[np.unsignedinteger[Any]]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED: dict[int, type[np.signedinteger[Any]]] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def limits(kind: IntegerKind) -> tuple[int, int, int]:
    """Width in bits, least and largest value."""
    width = int(kind[1:])
    return (width, -(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (width, 0, (1 << width) - 1)


def read(bits: Bits, kind: IntegerKind) -> NDArray[Any]:
    """The images as NumPy integers of the kind's signedness."""
    return bits.view(SIGNED[bits.dtype.itemsize * 8]) if kind[0] == "s" else bits


def multiply_high(kind: IntegerKind, a: Bits, b: Bits) -> Bits:
    """`mul.hi.{kind}`: the upper half of the exact product."""
    width, _, _ = limits(kind)
    if width == 64:
        return _multiply_high_64(kind, a, b)
    wide = np.int64 if kind[0] == "s" else np.uint64
    product = read(a, kind).astype(wide) * read(b, kind).astype(wide)
    return (product >> wide(width)).astype(UNSIGNED[width])


def multiply_wide(kind: IntegerKind, a: Bits, b: Bits) -> Bits:
    """`mul.wide.{kind}` (16 or 32 bits): the exact product, twice as wide."""
    width, _, _ = limits(kind)
    if width not in (16, 32):
        raise EngineFault("MF007", "integer-width", f"mul.wide takes 16- and 32-bit integers, not {kind}")
    wide = (SIGNED if kind[0] == "s" else UNSIGNED)[width * 2]
    return (read(a, kind).astype(wide) * read(b, kind).astype(wide)).view(UNSIGNED[width * 2])


def divide_integer(kind: IntegerKind, a: Bits, b: Bits) -> Bits:
    """`div.{kind}`: truncated towards zero. By zero: all bits set."""
    if kind[0] == "u" and b.all():
        return a // b
    return _quotient_and_remainder(kind, a, b)[0]


def remainder_integer(kind: IntegerKind, a: Bits, b: Bits) -> Bits:
    """`rem.{kind}`: of the truncated quotient, with the dividend's sign. By zero: all bits set."""
    if kind[0] == "u" and b.all():
        return a % b
    return _quotient_and_remainder(kind, a, b)[1]


def add_saturating(a: Bits, b: Bits, *, subtract: bool = False) -> Bits:
    """`add.sat.s32`, or `sub.sat.s32`."""
    x, y = read(a, "s32").astype(np.int64), read(b, "s32").astype(np.int64)
    return np.clip(x - y if subtract else x + y, -(1 << 31), (1 << 31) - 1).astype(np.int32).view(np.uint32)


def shift_left(a: Bits, amount: NDArray[np.uint32]) -> Bits:
    """`shl.b{width}`: an amount of the width or more yields 0."""
    width = a.dtype.itemsize * 8
    kept = np.minimum(amount, np.uint32(width - 1)).astype(a.dtype)
    return np.where(amount >= width, a.dtype.type(0), a << kept)


def shift_right(kind: IntegerKind, a: Bits, amount: NDArray[np.uint32]) -> Bits:
    """`shr.{kind}`: fills with the sign for signed kinds; an amount of the width or more leaves only the fill."""
    width, _, _ = limits(kind)
    kept = np.minimum(amount, np.uint32(width - 1)).astype(a.dtype)
    if kind[0] == "s":
        return (read(a, kind) >> kept.view(SIGNED[width])).view(a.dtype)
    return np.where(amount >= width, a.dtype.type(0), a >> kept)


def _multiply_high_64(kind: IntegerKind, a: Bits, b: Bits) -> Bits:
    mask, half = np.uint64(0xFFFF_FFFF), np.uint64(32)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    cross = a_high * b_low + (a_low * b_low >> half)
    middle = a_low * b_high + (cross & mask)
    high = a_high * b_high + (cross >> half) + (middle >> half)
    if kind[0] == "s":
        # The signed high half differs by one operand for each negative factor.
        zero = np.uint64(0)
        high = high - np.where(a >> np.uint64(63) != 0, b, zero) - np.where(b >> np.uint64(63) != 0, a, zero)
    return high


def _quotient_and_remainder(kind: IntegerKind, a: Bits, b: Bits) -> tuple[Bits, Bits]:
    x, y = read(a, kind), read(b, kind)
    by_zero = y == 0
    # Magnitudes are divided as unsigned numbers: the least signed integer has one there.
    x_size, y_size = _magnitude(x, a.dtype), np.where(by_zero, a.dtype.type(1), _magnitude(y, a.dtype))
    quotient, remainder = x_size // y_size, x_size % y_size
    zero = a.dtype.type(0)
    quotient = np.where((x < 0) != (y < 0), zero - quotient, quotient)
    remainder = np.where(x < 0, zero - remainder, remainder)
    return np.where(by_zero, ~zero, quotient), np.where(by_zero, ~zero, remainder)


def _magnitude(values: NDArray[Any], raw: np.dtype[Any]) -> Bits:
    bits = values.view(raw)
    return np.where(values < 0, raw.type(0) - bits, bits)
