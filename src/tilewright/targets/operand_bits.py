"""Where do the 64 bits of a matrix operand's descriptor hold its address and its distances?

wgmma (sm_90a) and tcgen05 (sm_100a) have the same fields there: start address, leading and stride offset in bits 0, 16
and 32, each 14 bits in units of 16 bytes, and the base offset in bits 49 to 51. The swizzle, at the top, differs.

Source: PTX ISA, wgmma and tcgen05: Matrix-descriptor format. Checked by tests/targets/test_operand_bits.py.
"""

from __future__ import annotations

_UNITS = 0x3FFF
_UNIT_BITS = 4
_SHIFTS = (0, 16, 32)
_BASE_SHIFT = 49
_BASE_MOST = 7

WGMMA_RESERVED = 0xFFFF_FFFF_FFFF_FFFF & ~(
    sum(_UNITS << each for each in _SHIFTS) | _BASE_MOST << _BASE_SHIFT | 3 << 62
)
"""Bits that no field of a wgmma descriptor has."""


def offsets_of(bits: int) -> tuple[int, int, int]:
    """Start address, leading offset and stride offset, in bytes."""
    start, leading, stride = ((bits >> each & _UNITS) << _UNIT_BITS for each in _SHIFTS)
    return start, leading, stride


def base_offset_of(bits: int) -> int:
    """Line of 128 bytes, modulo 8, at which the swizzle's pattern begins."""
    return bits >> _BASE_SHIFT & _BASE_MOST


def bits_of(start: int, leading: int, stride: int, base_offset: int) -> int:
    """The bits of these fields, in bytes. What a field cannot hold is lost."""
    offsets = (each >> _UNIT_BITS & _UNITS for each in (start, leading, stride))
    return sum(each << shift for each, shift in zip(offsets, _SHIFTS, strict=True)) | base_offset << _BASE_SHIFT
