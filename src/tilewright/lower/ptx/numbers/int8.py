"""How float32 registers become integers of 8 bits and back: to nearest even, what is past -128 or 127 becomes that, NaN
becomes 0.

Source: PTX ISA, cvt: conversions to integers clamp to the type's range, and give 0 for a NaN. Checked by:
tests/lower/test_int8_values.py.
"""

from __future__ import annotations

from tilewright.lower.ptx.emit import Text

_BYTE_BITS = 8
_EVEN_BYTES = "0x0040"
"""Of two words, the lowest byte of each (PTX ISA, prmt)."""
_LOW_HALVES = "0x5410"


def narrow(text: Text, value: str, kind: str = "b16") -> str:
    """One float32 register rounded, in the low byte of a register of `kind`."""
    return text.into(kind, "cvt.rni.s8.f32", value)


def widen(text: Text, register: str) -> str:
    """The low byte of a register as float32."""
    return text.into("f32", "cvt.rn.f32.s8", register)


def widen_bytes(text: Text, word: str) -> list[str]:
    """The four numbers of a 32-bit register as float32 registers, the lowest byte's first."""
    shifted = [word, *(text.into("b32", "shr.u32", word, _BYTE_BITS * place) for place in range(1, 4))]
    return [widen(text, each) for each in shifted]


def pack_bytes(text: Text, registers: list[str]) -> str:
    """Four float32 registers rounded, in a 32-bit register, the first in the lowest byte."""
    words = [narrow(text, register, "b32") for register in registers]
    low = text.into("b32", "prmt.b32", words[0], words[1], _EVEN_BYTES)
    high = text.into("b32", "prmt.b32", words[2], words[3], _EVEN_BYTES)
    return text.into("b32", "prmt.b32", low, high, _LOW_HALVES)
