"""Conversions: binds `conversion`'s exact functions to `cvt`.

Frequent conversions without a rounding difficulty (f32 to bf16 to nearest, widening, integers) are computed directly;
a NaN sends the vector to `conversion`. Pairs of narrow floats are converted by `convert_packed`. Source: PTX ISA,
`cvt`. Not handled: `cvt.rs` (stochastic rounding).
Checked by: tests/machine/instruction/test_instructions.py, test_narrow_float.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder, Modifiers, TypeName, expect_operands, type_name, unsupported
from tilewright.machine.core.lanes import Lanes
from tilewright.machine.core.step import LaneFunction, Plain, compute
from tilewright.machine.instruction.arithmetic import convert_packed
from tilewright.machine.numbers import conversion

_F32 = TypeName("f32", 32)
_FLOATS = ("f16", "bf16", "f32", "f64")
_NARROW = {*convert_packed.NARROW, convert_packed.SCALE}


def _narrowed(value: Lanes, declared: TypeName) -> Lanes:
    """A register's low bits as lanes of the type's width."""
    return value if value.dtype == declared.raw else value.astype(declared.raw)


def _widened(lane_function: LaneFunction, declared: TypeName, target: TypeName) -> LaneFunction:
    """Extend results to a wider destination register: sign-extended for signed types."""
    function: Callable[..., Any] = lane_function
    if declared.width_bits == target.width_bits:
        return function
    view = declared.raw
    if declared.is_signed:
        view = declared.view

    def extended(*lanes: Lanes) -> Lanes:
        return function(*lanes).view(view).astype(_same_kind(view, target)).view(target.raw)

    return extended


def _same_kind(view: np.dtype[Any], target: TypeName) -> np.dtype[Any]:
    """The integer dtype of the target's width that is signed if `view` is."""
    return np.dtype(f"{view.kind}{target.bytes}")


def bf16_from_f32(a: Lanes) -> Lanes:
    """`cvt.rn.bf16.f32` on bit images."""
    value = a.view(np.float32)
    energy = value.dot(value)
    if energy != energy:
        return conversion.float_to_float("bf16", "f32", a)
    return ((a + np.uint32(0x7FFF) + ((a >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def _bf16_pair_from_f32(high: Lanes, low: Lanes) -> Lanes:
    x, y = high.view(np.float32), low.view(np.float32)
    energy = x.dot(x) + y.dot(y)
    if energy != energy:
        return (bf16_from_f32(high).astype(np.uint32) << np.uint32(16)) | bf16_from_f32(low)
    one, half, shift = np.uint32(1), np.uint32(0x7FFF), np.uint32(16)
    upper = (high + half + ((high >> shift) & one)) & np.uint32(0xFFFF_0000)
    return upper | ((low + half + ((low >> shift) & one)) >> shift)


def _cvt(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    rounding: Any = modifiers.take("rn", "rz", "rm", "rp", "rna")
    to_integral: Any = modifiers.take("rni", "rzi", "rmi", "rpi")
    ftz, saturate = modifiers.flag("ftz"), modifiers.flag("sat")
    relu, satfinite = modifiers.flag("relu"), modifiers.flag("satfinite")
    names = list(modifiers.left)
    if len(names) != 2:
        raise unsupported(instruction, "it does not name two types")
    modifiers.left.clear()
    to_name, from_name = names
    if to_name in ("f16x2", "bf16x2") and from_name == "f32":
        return _pair(decoder, instruction, to_name[:-2], rounding, ftz or saturate, relu, satfinite)
    if {to_name, from_name} & _NARROW:
        if ftz or saturate:
            raise unsupported(instruction, "narrow floats take neither .ftz nor .sat")
        return convert_packed.convert_narrow(decoder, instruction, to_name, from_name, rounding, relu, satfinite)
    if to_name == "tf32":
        if from_name != "f32" or ftz or saturate or rounding is None:
            raise unsupported(instruction, "this conversion to tf32")
        return _bind(
            decoder, instruction, TypeName("b32", 32), _F32,
            lambda a: conversion.float_to_tf32(a, rounding, relu=relu, satfinite=satfinite),
        )  # fmt: skip
    target, source = type_name(to_name), type_name(from_name)
    if target is None or source is None or to_name.endswith("x2") or from_name.endswith("x2"):
        raise unsupported(instruction, f"types .{to_name} and .{from_name}")
    function = _function(instruction, to_name, from_name, rounding, to_integral, ftz, saturate, relu, satfinite)
    return _bind(decoder, instruction, target, source, function)


def _bind(
    decoder: Decoder, instruction: Instruction, target: TypeName, source: TypeName, function: LaneFunction
) -> Plain:
    to_operand, from_operand = expect_operands(instruction, 2)
    at = decoder.source(instruction, from_operand, source, wider=True)
    to = decoder.destination(instruction, to_operand, target, wider=True)
    exactly = decoder.type_of(at).width_bits == source.width_bits
    if not exactly:
        inner: Callable[..., Any] = function

        def from_wider(a: Lanes) -> Lanes:
            return inner(_narrowed(a, source))

        function = from_wider
    if to > 1:
        function = _widened(function, target, decoder.type_of(to))
        exactly = exactly and decoder.type_of(to).width_bits == target.width_bits
    if exactly:
        decoder.remember(instruction, (target, source), partial(compute, function))
    return compute(function, to, (at,))


def _function(
    instruction: Instruction, target: Any, source: Any, rounding: Any, to_integral: Any, ftz: bool, saturate: bool,
    relu: bool, satfinite: bool,
) -> Callable[[Any], Any]:  # fmt: skip
    integral_target, integral_source = target not in _FLOATS, source not in _FLOATS
    if (integral_target and target[0] not in "us") or (integral_source and source[0] not in "us"):
        raise unsupported(instruction, "untyped bits are not converted")
    if (relu or satfinite) and (integral_target or integral_source):
        raise unsupported(instruction, ".relu and .satfinite are for floating-point types")
    if integral_target and integral_source:
        if rounding or to_integral or ftz:
            raise unsupported(instruction, "integers are not rounded")
        return lambda a: conversion.integer_to_integer(target, source, a, saturate=saturate)
    if integral_target:
        if to_integral is None or rounding:
            raise unsupported(instruction, "it needs .rni, .rzi, .rmi or .rpi")
        # A conversion to an integer type clamps with or without .sat.
        return lambda a: conversion.float_to_integer(target, source, a, to_integral, ftz=ftz)
    if integral_source:
        if rounding is None or to_integral:
            raise unsupported(instruction, "it needs a rounding")
        return lambda a: conversion.integer_to_float(target, source, a, rounding, saturate=saturate)
    if to_integral is not None:
        if target != source or relu or satfinite:
            raise unsupported(instruction, "rounding to integral values keeps the type")
        return lambda a: conversion.float_to_integral(target, a, to_integral, ftz=ftz, saturate=saturate)
    return _float_to_float(instruction, target, source, rounding, ftz, saturate, relu, satfinite)


def _float_to_float(
    instruction: Instruction, target: Any, source: Any, rounding: Any, ftz: bool, saturate: bool, relu: bool,
    satfinite: bool,
) -> Callable[[Any], Any]:  # fmt: skip
    plain = not (ftz or saturate or relu or satfinite)
    width = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
    if width[target] < width[source] and rounding is None:
        raise unsupported(instruction, "a narrowing conversion needs a rounding")
    if rounding == "rna":
        raise unsupported(instruction, ".rna is for tf32")
    if (target, source, rounding) == ("bf16", "f32", "rn") and plain:
        return bf16_from_f32
    return lambda a: conversion.float_to_float(
        target, source, a, rounding or "rn", ftz=ftz, saturate=saturate, satfinite=satfinite, relu=relu
    )


def _pair(
    decoder: Decoder, instruction: Instruction, kind: Any, rounding: Any, refused: bool, relu: bool, satfinite: bool
) -> Plain:
    target, high, low = expect_operands(instruction, 3)
    if refused or rounding not in ("rn", "rz"):
        raise unsupported(instruction, "a packed conversion takes .rn or .rz, .relu and .satfinite")
    sources = (decoder.source(instruction, high, _F32), decoder.source(instruction, low, _F32))
    to = decoder.destination(instruction, target, TypeName("b32", 32))
    if kind == "bf16" and rounding == "rn" and not relu and not satfinite:
        decoder.remember(instruction, (TypeName("b32", 32), _F32, _F32), partial(compute, _bf16_pair_from_f32))
        return compute(_bf16_pair_from_f32, to, sources)

    def convert(a: Lanes, b: Lanes) -> Lanes:
        upper = conversion.float_to_float(kind, "f32", a, rounding, relu=relu, satfinite=satfinite)
        lower = conversion.float_to_float(kind, "f32", b, rounding, relu=relu, satfinite=satfinite)
        return (upper.astype(np.uint32) << np.uint32(16)) | lower

    return compute(convert, to, sources)


HANDLERS = {"cvt": _cvt, **convert_packed.HANDLERS}
