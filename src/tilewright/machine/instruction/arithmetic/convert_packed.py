"""Conversions of pairs: floats of 4 to 8 bits, scale exponents, and `cvt.pack`.

A pair of 8- and 6-bit floats stands in 16 bits, one byte each; a pair of 4-bit floats in 8 bits. The first source is
the upper element. Source: PTX ISA, `cvt`, `cvt.pack`. Not handled: stochastic rounding (`.rs`), `.scaled`.
Checked by: tests/machine/numbers/test_narrow_float.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import WORD16, WORD32, Decoder, Modifiers, TypeName, expect_operands, unsupported
from tilewright.machine.core.lanes import Lanes
from tilewright.machine.core.step import Plain, compute
from tilewright.machine.numbers import narrow_float

NARROW = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")
SCALE = "ue8m0x2"
_F32 = TypeName("f32", 32)
_WORD8 = TypeName("b8", 8)
_WIDE = {"f16x2": "f16", "bf16x2": "bf16"}


def convert_narrow(
    decoder: Decoder, instruction: Instruction, target: str, source: str, rounding: str | None, relu: bool,
    satfinite: bool,
) -> Plain:  # fmt: skip
    """`cvt` to or from a pair in `NARROW` or `SCALE`."""
    if target in NARROW and rounding == "rn" and satfinite:
        return _to_narrow(decoder, instruction, target, source, relu)
    if source in NARROW and target in _WIDE and rounding == "rn" and not satfinite:
        return _from_narrow(decoder, instruction, target, source, relu)
    if target == SCALE and rounding in ("rz", "rp") and not relu:
        return _to_scale(decoder, instruction, source, rounding, satfinite)
    if source == SCALE and target == "bf16x2" and rounding == "rn" and not (relu or satfinite):
        to_operand, value = expect_operands(instruction, 2)
        at = decoder.source(instruction, value, WORD16)
        to = decoder.destination(instruction, to_operand, WORD32)
        return compute(lambda a: narrow_float.scale_to_bf16(_bytes(a)).view(np.uint32), to, (at,))
    raise unsupported(instruction, f"conversion from .{source} to .{target}")


def _bytes(lanes: Lanes) -> Lanes:
    return np.ascontiguousarray(lanes).view(np.uint8)


def _pair_of_floats(decoder: Decoder, instruction: Instruction, source: str) -> tuple[str, tuple[int, ...]]:
    """The elements' type and the slots of a source pair: two f32 registers, or one packed register."""
    if source == "f32":
        _, high, low = expect_operands(instruction, 3)
        return "f32", (decoder.source(instruction, high, _F32), decoder.source(instruction, low, _F32))
    if source not in _WIDE:
        raise unsupported(instruction, f"a pair of .{source}")
    _, value = expect_operands(instruction, 2)
    return _WIDE[source], (decoder.source(instruction, value, WORD32),)


def _elements(lanes: tuple[Lanes, ...]) -> tuple[Lanes, Lanes]:
    """Upper and lower elements."""
    if len(lanes) == 2:
        return lanes
    halves = np.ascontiguousarray(lanes[0]).view(np.uint16).reshape(-1, 2)
    return halves[:, 1].copy(), halves[:, 0].copy()


def _to_narrow(decoder: Decoder, instruction: Instruction, target: str, source: str, relu: bool) -> Plain:
    kind: Any = target.removesuffix("x2")
    element: Any
    element, sources = _pair_of_floats(decoder, instruction, source)
    four_bits = kind == "e2m1"
    to = decoder.destination(instruction, instruction.operands[0], _WORD8 if four_bits else WORD16)

    def convert(*lanes: Lanes) -> Lanes:
        high, low = (narrow_float.from_float(kind, element, each, relu=relu) for each in _elements(lanes))
        if four_bits:
            return (high << np.uint8(4)) | low
        return (high.astype(np.uint16) << np.uint16(8)) | low

    return compute(convert, to, sources)


def _from_narrow(decoder: Decoder, instruction: Instruction, target: str, source: str, relu: bool) -> Plain:
    kind: Any = source.removesuffix("x2")
    wide: Any = _WIDE[target]
    to_operand, value = expect_operands(instruction, 2)
    four_bits = kind == "e2m1"
    at = decoder.source(instruction, value, _WORD8 if four_bits else WORD16)
    to = decoder.destination(instruction, to_operand, WORD32)
    mask = np.uint8(0x3F if kind in ("e2m3", "e3m2") else 0xFF)

    def convert(a: Lanes) -> Lanes:
        elements = np.stack((a & np.uint8(15), a >> np.uint8(4)), 1).reshape(-1) if four_bits else _bytes(a) & mask
        return np.ascontiguousarray(narrow_float.to_float(wide, kind, elements, relu=relu)).view(np.uint32)

    return compute(convert, to, (at,))


def _to_scale(decoder: Decoder, instruction: Instruction, source: str, rounding: Any, satfinite: bool) -> Plain:
    element: Any
    element, sources = _pair_of_floats(decoder, instruction, source)
    to = decoder.destination(instruction, instruction.operands[0], WORD16)

    def one(a: Lanes) -> Lanes:
        found = narrow_float.scale_from_float(element, a, rounding)
        if satfinite:
            return found
        # Without .satfinite an infinity has no scale.
        return np.where(np.isinf(narrow_float.widened(a, element)), np.uint8(0xFF), found)

    def convert(*lanes: Lanes) -> Lanes:
        high, low = (one(each).astype(np.uint16) for each in _elements(lanes))
        return (high << np.uint16(8)) | low

    return compute(convert, to, sources)


_PACKED_INTEGERS = {"u16": 16, "s16": 16, "u8": 8, "s8": 8, "u4": 4, "s4": 4, "u2": 2, "s2": 2}


def _pack(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """Two s32 clamped to narrow integers, the first above the second, and above both the low bits of `c`."""
    saturate = modifiers.flag("sat")
    kind = modifiers.take(*_PACKED_INTEGERS)
    if not saturate or kind is None or not modifiers.flag("s32"):
        raise unsupported(instruction, "it needs .sat, a narrow integer type and .s32")
    with_rest = modifiers.flag("b32")
    target, *operands = expect_operands(instruction, 4 if with_rest else 3)
    sources = tuple(decoder.source(instruction, operand, WORD32) for operand in operands)
    to = decoder.destination(instruction, target, WORD32)
    width = _PACKED_INTEGERS[kind]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    field = (1 << width) - 1

    def convert(a: Lanes, b: Lanes, *rest: Lanes) -> Lanes:
        upper, lower = (np.clip(each.view(np.int32).astype(np.int64), low, high) & field for each in (a, b))
        packed = upper << width | lower
        if rest:
            packed = rest[0].astype(np.int64) << (2 * width) | packed
        return packed.astype(np.uint32)

    return compute(convert, to, sources)


HANDLERS = {"cvt.pack": _pack}
