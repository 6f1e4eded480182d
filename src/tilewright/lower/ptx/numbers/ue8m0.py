"""How factors of 8 bits, `ue8m0`, become float32 registers.

Code c is 2^(c - 127), which is float32's exponent field; 0 is 2^-127, a subnormal number, and 255 is NaN. Nothing is
rounded to it. Source: OCP Microscaling Formats, 5.4.1. Checked by: tests/lower/ptx/numbers/test_ue8m0.py, over all
codes.
"""

from __future__ import annotations

from tilewright.lower.ptx.emit import Text

_EXPONENT_BIT = 23
_LEAST = 0x0040_0000
"""2^-127 as float32."""
_NAN = 0x7FFF_FFFF
_NAN_CODE = 255
_BYTE_BITS = 8


def widen(text: Text, register: str) -> str:
    """A code in a 16-bit register as float32."""
    return _number(text, text.into("b32", "cvt.u32.u16", register))


def widen_bytes(text: Text, word: str) -> list[str]:
    """The four codes of a 32-bit register as float32 registers, the lowest byte's first."""
    shifted = [word, *(text.into("b32", "shr.u32", word, _BYTE_BITS * place) for place in range(1, 4))]
    return [_number(text, text.into("b32", "and.b32", each, _NAN_CODE)) for each in shifted]


def _number(text: Text, code: str) -> str:
    bits = text.into("b32", "max.u32", text.into("b32", "shl.b32", code, _EXPONENT_BIT), _LEAST)
    unknown = text.into("pred", "setp.eq.u32", code, _NAN_CODE)
    return text.into("f32", "mov.b32", text.into("b32", "selp.b32", _NAN, bits, unknown))
