"""How float32 registers become floats of 8 bits and back: `f8e4m3` and `f8e5m2`, in pairs, as PTX converts them.

`cvt` to 8 bits rounds to nearest even and saturates: what is past the largest finite number becomes that, and NaN the
canonical NaN. For f8e5m2, which has infinities, an infinity is put back afterwards, so that what was read from memory
is stored as it was; f8e4m3 has none, and an infinity becomes the largest number. Widening goes through f16, which holds
every value of both formats.
Source: PTX ISA, cvt (`.e4m3x2`, `.e5m2x2`, `.satfinite`), Alternate Floating-Point Data Formats.
Checked by: tests/lower/test_fp8_scalar.py, bit for bit over all 256 values and their midpoints.
"""

from __future__ import annotations

from tilewright.lower.ptx.emit import Text, float_literal

PTX_NAMES = {"f8e4m3": "e4m3", "f8e5m2": "e5m2"}
"""The instruction set's names of the elements."""

_INFINITY = float_literal(float("inf"))


def narrow_pair(text: Text, element: str, low: str, high: str) -> str:
    """Two float32 registers rounded to `element`, in a 16-bit register with `low` in its low byte."""
    packed = text.into("b16", f"cvt.rn.satfinite.{PTX_NAMES[element]}x2.f32", high, low)
    if element == "f8e4m3":
        return packed
    # The image of an infinity is one more than that of the largest finite number.
    for register, unit in ((low, 1), (high, 256)):
        magnitude = text.into("f32", "abs.f32", register)
        infinite = text.into("pred", "setp.eq.f32", magnitude, _INFINITY)
        more = text.into("b16", "selp.b16", unit, 0, infinite)
        packed = text.into("b16", "add.u16", packed, more)
    return packed


def narrow(text: Text, element: str, value: str) -> str:
    """One float32 register rounded to `element`, in the low byte of a 16-bit register."""
    zero = text.into("f32", "mov.f32", float_literal(0.0))
    return narrow_pair(text, element, value, zero)


def widen_pair(text: Text, element: str, packed: str) -> tuple[str, str]:
    """Both elements of a 16-bit register as float32 registers, the low byte's first."""
    pair = text.into("b32", f"cvt.rn.f16x2.{PTX_NAMES[element]}x2", packed)
    low, high = text.register("b16"), text.register("b16")
    text.emit("mov.b32", f"{{{low}, {high}}}", pair)
    return text.into("f32", "cvt.f32.f16", low), text.into("f32", "cvt.f32.f16", high)


def widen_bytes(text: Text, element: str, word: str) -> list[str]:
    """The four elements of a 32-bit register as float32 registers, the lowest byte's first."""
    low, high = text.register("b16"), text.register("b16")
    text.emit("mov.b32", f"{{{low}, {high}}}", word)
    return [*widen_pair(text, element, low), *widen_pair(text, element, high)]


def pack_bytes(text: Text, element: str, registers: list[str]) -> str:
    """Four float32 registers rounded to `element`, in a 32-bit register, the first in the lowest byte."""
    low = narrow_pair(text, element, registers[0], registers[1])
    high = narrow_pair(text, element, registers[2], registers[3])
    return text.into("b32", "mov.b32", f"{{{low}, {high}}}")
