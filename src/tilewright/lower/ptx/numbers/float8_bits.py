"""How four floats of 8 bits become four of 16 bits, by their bits: without conversions, of which a multiprocessor makes
few in a cycle.

A byte moves to the upper half of its sixteen bits, and its exponent to where the wider one begins; there its number is
smaller by a power of two, which one product puts right. That product is exact, of subnormal numbers too, which are
normal afterwards. What the narrow format has above its largest number, infinities and NaN, would become a number: there
all bits of the wide exponent are set, and of e4m3, whose mantissa says nothing then, the first of the mantissa.

Widening e5m2 to f16 is moving bytes alone. Source: PTX ISA, prmt (sign replication), mul; Alternate Floating-Point Data
Formats. Checked by: tests/lower/ptx/numbers/test_float8_bits.py, bit for bit over all 256 values.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lower.ptx.emit import Text

_ZERO_AND_BYTES = (0x1404, 0x3424)
"""Selectors: bytes 0 and 1, or 2 and 3, of a register, each above a byte of another."""
_SIGNS = (0x9988, 0xBBAA)
"""Selectors: the sign of each of these bytes, in all of its sixteen bits."""
_SIGN_BITS, _OTHER_BITS = 0x8000_8000, 0x7F7F_7F7F


@dataclass(frozen=True, slots=True)
class _Widening:
    """shift: of the exponent, to the right; kept: its bits and the mantissa's there, of both halves; scale: both halves
    of the power of two; beyond: what is added to a byte without its sign so that the sign is set above the largest
    number; set: bits that are set there, of both halves."""

    shift: int
    kept: int
    scale: int
    beyond: int
    set: int


_WIDENINGS = {
    ("f8e4m3", "bf16"): _Widening(4, 0x07F0_07F0, 0x7B80_7B80, 0x0101_0101, 0x7FC0_7FC0),
    ("f8e5m2", "bf16"): _Widening(3, 0x0FE0_0FE0, 0x7780_7780, 0x0404_0404, 0x7F80_7F80),
    ("f8e4m3", "f16"): _Widening(1, 0x3F80_3F80, 0x5C00_5C00, 0x0101_0101, 0x7E00_7E00),
}


def widened_word(text: Text, narrow: str, wide: str, word: str) -> list[str]:
    """The four elements of a register as two registers of 16-bit ones. Raises KeyError for others than f8e4m3 and
    f8e5m2 to f16 and bf16."""
    zero = text.into("b32", "mov.b32", 0)
    moved = [text.into("b32", "prmt.b32", word, zero, selector) for selector in _ZERO_AND_BYTES]
    if (narrow, wide) == ("f8e5m2", "f16"):
        return moved
    how = _WIDENINGS[narrow, wide]
    plain = text.into("b32", "and.b32", word, _OTHER_BITS)
    beyond = text.into("b32", "add.u32", plain, how.beyond)
    scale = text.into("b32", "mov.b32", how.scale)
    found: list[str] = []
    for register, signs in zip(moved, _SIGNS, strict=True):
        shifted = text.into("b32", "shr.u32", register, how.shift)
        number = text.into("b32", "and.b32", shifted, how.kept)
        sign = text.into("b32", "and.b32", register, _SIGN_BITS - (1 << 32))
        scaled = text.into("b32", f"mul.rn.{wide}x2", text.into("b32", "or.b32", number, sign), scale)
        special = text.into("b32", "prmt.b32", beyond, zero, signs)
        found.append(text.into("b32", "or.b32", scaled, text.into("b32", "and.b32", special, how.set)))
    return found
