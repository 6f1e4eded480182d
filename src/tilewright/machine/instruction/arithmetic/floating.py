"""Floating-point arithmetic: binds `arithmetic`'s exact functions to instructions.

f32 additions, multiplications and fused multiply-adds that round to nearest take NumPy's own path where it is provably
the same: one IEEE operation, with NaN made canonical; a fused multiply-add goes through float64, whose only danger is
a sum that lies exactly between two floats or is subnormal, and those lanes' vectors go through `arithmetic`.

Source: PTX ISA, Floating Point Instructions; Half Precision and Mixed Precision Floating Point Instructions. Not
handled: `fma.oob`. Checked by: tests/machine/instruction/test_instructions.py, test_instructions_floating.py.
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
from tilewright.machine.numbers import arithmetic, conversion

_KINDS = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}
_CANONICAL = np.uint32(0x7FFF_FFFF)
_LEAST_NORMAL = 2.0**-126


def is_floating(modifiers: Modifiers) -> bool:
    """Does any remaining modifier name a floating-point type?"""
    for modifier in modifiers.left:
        found = type_name(modifier)
        if found is not None and found.is_float:
            return True
    return False


def kind_of(instruction: Instruction, declared: TypeName) -> Any:
    """The name under which `arithmetic` knows a type."""
    kind = _KINDS.get(declared.name)
    if kind is None:
        raise unsupported(instruction, f"arithmetic in .{declared.name}")
    return kind


def _packed(declared: TypeName, lane_function: LaneFunction) -> LaneFunction:
    """For packed types: run on twice as many lanes of half the width."""
    function: Callable[..., Any] = lane_function
    if not declared.name.endswith("x2"):
        return function
    half = np.dtype(f"u{declared.bytes // 2}")

    def halves(*lanes: Lanes) -> Lanes:
        return function(*[np.ascontiguousarray(item).view(half) for item in lanes]).view(declared.raw)

    return halves


def _bind(decoder: Decoder, instruction: Instruction, declared: TypeName, function: LaneFunction, count: int) -> Plain:
    """`function` depends on nothing but the modifiers and the operands' kinds (see `computed_form`)."""
    target, *operands = expect_operands(instruction, count + 1)
    to = decoder.destination(instruction, target, declared)
    sources = tuple(decoder.source(instruction, operand, declared) for operand in operands)
    packed = _packed(declared, function)
    decoder.remember(instruction, (declared,) * (count + 1), partial(compute, packed))
    return compute(packed, to, sources)


def _mixed(modifiers: Modifiers) -> TypeName | None:
    """Of `add.f32.f16` and its like: take the second type, that of the narrow operands. None if there is none."""
    if "f32" not in modifiers.left:
        return None
    narrow = modifiers.take("f16", "bf16")
    return None if narrow is None else TypeName(narrow, 16)


def _bind_mixed(
    decoder: Decoder, instruction: Instruction, declared: TypeName, narrow: TypeName, function: LaneFunction, count: int
) -> Plain:
    """Operands but the last of `count` have the type `narrow`, and are widened exactly."""
    inner: Callable[..., Any] = function
    kind: Any = narrow.name
    target, *operands = expect_operands(instruction, count + 1)
    to = decoder.destination(instruction, target, declared)
    sources = tuple(
        decoder.source(instruction, operand, declared if index == count - 1 else narrow)
        for index, operand in enumerate(operands)
    )

    def widened(*lanes: Lanes) -> Lanes:
        return inner(*[conversion.float_to_float("f32", kind, item) for item in lanes[:-1]], lanes[-1])

    return compute(widened, to, sources)


def _rounding(modifiers: Modifiers) -> Any:
    return modifiers.take("rn", "rz", "rm", "rp") or "rn"


def _canonical_f32(value: Lanes) -> Lanes:
    """Bits of float32 lanes with NaN made canonical. The dot product is NaN exactly if a lane is."""
    energy = value.dot(value)
    bits = value.view(np.uint32)
    if energy != energy:
        return np.where(np.isnan(value), _CANONICAL, bits)
    return bits


def _add_f32(a: Lanes, b: Lanes) -> Lanes:
    return _canonical_f32(a.view(np.float32) + b.view(np.float32))


def _subtract_f32(a: Lanes, b: Lanes) -> Lanes:
    return _canonical_f32(a.view(np.float32) - b.view(np.float32))


def _multiply_f32(a: Lanes, b: Lanes) -> Lanes:
    return _canonical_f32(a.view(np.float32) * b.view(np.float32))


_HALFWAY = np.uint64(1 << 28)
_BELOW_FLOAT = np.uint64((1 << 29) - 1)


def fused_f32(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """`fma.rn.f32` on bit images, single rounding."""
    product = a.view(np.float32).astype(np.float64) * b.view(np.float32)
    total = product + c.view(np.float32)
    size = np.abs(total)
    doubtful = (total.view(np.uint64) & _BELOW_FLOAT) == _HALFWAY
    if np.count_nonzero(doubtful) or np.count_nonzero(size > _LEAST_NORMAL) < size.size:
        return arithmetic.fused_multiply_add("f32", a, b, c)
    return total.astype(np.float32).view(np.uint32)


_FAST: dict[str, Callable[[Lanes, Lanes], Lanes]] = {"add": _add_f32, "sub": _subtract_f32, "mul": _multiply_f32}
_EXACT: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
}


def binary(decoder: Decoder, instruction: Instruction, modifiers: Modifiers, name: str) -> Plain:
    """`add`, `sub` and `mul` of floating-point types."""
    rounding = _rounding(modifiers)
    ftz, saturate = modifiers.flag("ftz"), modifiers.flag("sat")
    narrow = _mixed(modifiers)
    declared = modifiers.take_type()
    kind = kind_of(instruction, declared)
    exact = _EXACT[name]
    if narrow is not None:
        return _bind_mixed(
            decoder, instruction, declared, narrow, lambda a, b: exact("f32", a, b, rounding, saturate=saturate), 2
        )
    if kind == "f32" and rounding == "rn" and not ftz and not saturate:
        return _bind(decoder, instruction, declared, _FAST[name], 2)
    return _bind(
        decoder, instruction, declared, lambda a, b: exact(kind, a, b, rounding, ftz=ftz, saturate=saturate), 2
    )


def fused(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """`fma` and `mad` of floating-point types."""
    rounding = _rounding(modifiers)
    ftz, saturate, relu = modifiers.flag("ftz"), modifiers.flag("sat"), modifiers.flag("relu")
    if "oob" in modifiers.left:
        raise unsupported(instruction, "the ISA does not say which NaN is an out-of-bounds one")
    narrow = _mixed(modifiers)
    declared = modifiers.take_type()
    kind = kind_of(instruction, declared)
    if narrow is not None:
        return _bind_mixed(
            decoder, instruction, declared, narrow,
            lambda a, b, c: arithmetic.fused_multiply_add("f32", a, b, c, rounding, saturate=saturate), 3,
        )  # fmt: skip
    if kind == "f32" and rounding == "rn" and not (ftz or saturate or relu):
        return _bind(decoder, instruction, declared, fused_f32, 3)
    return _bind(
        decoder,
        instruction,
        declared,
        lambda a, b, c: arithmetic.fused_multiply_add(kind, a, b, c, rounding, ftz=ftz, saturate=saturate, relu=relu),
        3,
    )


def division(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """`div.approx`, `div.full` and `div.{rn,rz,rm,rp}`."""
    mode = modifiers.take("approx", "full")
    rounding = _rounding(modifiers)
    ftz = modifiers.flag("ftz")
    declared = modifiers.take_type()
    kind = kind_of(instruction, declared)
    if mode is not None:
        if kind != "f32":
            raise unsupported(instruction, f".{mode} is for .f32")
        full = mode == "full"
        return _bind(
            decoder, instruction, declared, lambda a, b: arithmetic.divide_approximate(a, b, ftz=ftz, full=full), 2
        )
    return _bind(decoder, instruction, declared, lambda a, b: arithmetic.divide(kind, a, b, rounding, ftz=ftz), 2)


def extremum(decoder: Decoder, instruction: Instruction, modifiers: Modifiers, name: str) -> Plain:
    """`min` and `max`."""
    ftz, nan = modifiers.flag("ftz"), modifiers.flag("NaN")
    xorsign, magnitudes = modifiers.flag("xorsign"), modifiers.flag("abs")
    declared = modifiers.take_type()
    kind = kind_of(instruction, declared)
    function = arithmetic.minimum if name == "min" else arithmetic.maximum
    if len(instruction.operands) == 4:
        return _extremum_of_three(decoder, instruction, declared, function, ftz, nan, magnitudes)
    if xorsign != magnitudes:
        raise unsupported(instruction, ".xorsign and .abs come together")
    return _bind(
        decoder,
        instruction,
        declared,
        lambda a, b: function(kind, a, b, ftz=ftz, nan=nan, xorsign_abs=xorsign),
        2,
    )


def _extremum_of_three(
    decoder: Decoder, instruction: Instruction, declared: TypeName, function: Callable[..., Lanes], ftz: bool,
    nan: bool, magnitudes: bool,
) -> Plain:  # fmt: skip
    """`min` and `max` of three f32 numbers; with `.abs`, of their magnitudes."""
    if declared.name != "f32":
        raise unsupported(instruction, "only .f32 takes three operands")

    def choose(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        if magnitudes:
            a, b, c = (item & np.uint32(0x7FFF_FFFF) for item in (a, b, c))
        return function("f32", function("f32", a, b, ftz=ftz, nan=nan), c, ftz=ftz, nan=nan)

    return _bind(decoder, instruction, declared, choose, 3)


def sign_operation(decoder: Decoder, instruction: Instruction, modifiers: Modifiers, name: str) -> Plain:
    """`neg` and `abs`."""
    ftz = modifiers.flag("ftz")
    declared = modifiers.take_type()
    kind = kind_of(instruction, declared)
    function = arithmetic.negate if name == "neg" else arithmetic.absolute
    return _bind(decoder, instruction, declared, lambda a: function(kind, a, ftz=ftz), 1)


def _approximation(name: Any) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        approximate = modifiers.flag("approx")
        rounding = modifiers.take("rn", "rz", "rm", "rp")
        ftz = modifiers.flag("ftz")
        declared = modifiers.take_type()
        kind = kind_of(instruction, declared)
        if rounding is not None and not approximate:
            exact: Any = {"rcp": arithmetic.reciprocal, "sqrt": arithmetic.square_root}.get(name)
            if exact is None:
                raise unsupported(instruction, f".{rounding} on {name}")
            return _bind(decoder, instruction, declared, lambda a: exact(kind, a, rounding, ftz=ftz), 1)
        if rounding is not None or not approximate:
            raise unsupported(instruction, "it is neither .approx nor rounded")
        return _bind(decoder, instruction, declared, lambda a: arithmetic.approximate(kind, name, a, ftz=ftz), 1)

    return handler


def _copysign(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    bit = declared.raw.type(1 << (declared.width_bits - 1))
    return _bind(decoder, instruction, declared, lambda a, b: (b & ~bit) | (a & bit), 2)


HANDLERS = {name: _approximation(name) for name in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh")} | {
    "copysign": _copysign
}
