"""Integer arithmetic: binds `machine.numbers.integer`'s functions, and NumPy's where they are the same, to
instructions.

Arithmetic wraps modulo the width. Rows that serve integers and floating-point types alike are dispatched here, those
with a carry go to `carry`. Source: PTX ISA, Integer Arithmetic Instructions.
Checked by: tests/machine/instruction/test_instructions.py, test_instructions_integer.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder, Modifiers, TypeName, expect_operands, unsupported
from tilewright.machine.core.lanes import Lanes
from tilewright.machine.core.step import LaneFunction, Plain, compute
from tilewright.machine.instruction.arithmetic import carry, floating
from tilewright.machine.numbers import integer

Operation = Callable[..., Any]


def operation(
    decoder: Decoder,
    instruction: Instruction,
    declared: TypeName,
    lane_function: LaneFunction,
    count: int,
    *,
    view: bool = False,
    last: TypeName | None = None,
    result: TypeName | None = None,
) -> Plain:
    """Bind `lane_function` to `count` sources. It depends on nothing but the modifiers and the operands' kinds (see
    `computed_form`). view: it gets and yields signed lanes where the type is signed."""
    function: Operation = lane_function
    target, *operands = expect_operands(instruction, count + 1)
    to = decoder.destination(instruction, target, result or declared)
    sources = tuple([decoder.source(instruction, operand, declared) for operand in operands[: count - 1]])
    sources += (decoder.source(instruction, operands[-1], last or declared),)
    if view and declared.is_signed:
        signed, raw = declared.view, (result or declared).raw
        inner = function

        def through(*lanes: Lanes) -> Lanes:
            return inner(*[item.view(signed) for item in lanes]).view(raw)

        function = through
    types = (result or declared, *[declared] * (count - 1), last or declared)
    decoder.remember(instruction, types, partial(compute, function))
    return compute(function, to, sources)


def refuse_float(instruction: Instruction, declared: TypeName) -> None:
    """Refuse floating-point and packed types."""
    if declared.is_float or declared.name in ("u16x2", "s16x2"):
        raise unsupported(instruction, f"type .{declared.name} is not implemented here")


def _add_like(name: str, function: Operation) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        if floating.is_floating(modifiers):
            return floating.binary(decoder, instruction, modifiers, name)
        if modifiers.flag("cc"):
            return carry.chained(decoder, instruction, modifiers, name, sets=True, uses=False)
        saturate = modifiers.flag("sat")
        declared = modifiers.take_type()
        if declared.name in ("u16x2", "s16x2"):
            return operation(decoder, instruction, declared, halves(function, np.dtype(np.uint16)), 2)
        refuse_float(instruction, declared)
        if saturate and declared.name != "s32":
            raise unsupported(instruction, ".sat is for .s32")
        if not saturate:
            return operation(decoder, instruction, declared, function, 2)
        subtract = name == "sub"
        return operation(
            decoder, instruction, declared, lambda a, b: integer.add_saturating(a, b, subtract=subtract), 2
        )

    return handler


def _twice(declared: TypeName) -> TypeName:
    """The integer type of twice the width."""
    width = declared.width_bits * 2
    return TypeName(f"{declared.name[0]}{width}", width)


def _product_24(declared: TypeName, high: bool) -> Operation:
    """The low or the high 32 bits of the 48-bit product of two 24-bit numbers."""
    shift = np.uint32(8)
    wide = np.int64 if declared.is_signed else np.uint64
    drop = wide(16 if high else 0)

    def product(a: Lanes, b: Lanes) -> Lanes:
        left = ((a << shift).view(declared.view) >> declared.view.type(8)).astype(wide)
        right = ((b << shift).view(declared.view) >> declared.view.type(8)).astype(wide)
        return ((left * right) >> drop).astype(np.uint32)

    return product


def halves(function: Operation, half: np.dtype[Any]) -> Operation:
    """`function` on the two 16-bit halves of packed lanes."""

    def packed(*lanes: Lanes) -> Lanes:
        return np.ascontiguousarray(function(*[np.ascontiguousarray(item).view(half) for item in lanes])).view(
            np.uint32
        )

    return packed


def _mul(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.binary(decoder, instruction, modifiers, "mul")
    mode = modifiers.take("lo", "hi", "wide")
    declared = modifiers.take_type()
    refuse_float(instruction, declared)
    kind: Any = declared.name
    match mode:
        case "lo":
            return operation(decoder, instruction, declared, np.multiply, 2)
        case "hi":
            return operation(decoder, instruction, declared, lambda a, b: integer.multiply_high(kind, a, b), 2)
        case "wide" if declared.width_bits < 64:
            return operation(
                decoder,
                instruction,
                declared,
                lambda a, b: integer.multiply_wide(kind, a, b),
                2,
                result=_twice(declared),
            )
        case _:
            raise unsupported(instruction, "mul needs .lo, .hi or .wide")


def _mad(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.fused(decoder, instruction, modifiers)
    if "cc" in modifiers.left:
        modifiers.flag("cc")
        return carry.multiplied(decoder, instruction, modifiers, sets=True, uses=False)
    mode = modifiers.take("lo", "hi", "wide")
    saturate = modifiers.flag("sat")
    declared = modifiers.take_type()
    refuse_float(instruction, declared)
    kind: Any = declared.name
    if saturate and (mode, kind) != ("hi", "s32"):
        raise unsupported(instruction, ".sat is for mad.hi.s32")
    match mode:
        case "lo":
            return operation(decoder, instruction, declared, lambda a, b, c: a * b + c, 3)
        case "hi" if saturate:
            return operation(
                decoder,
                instruction,
                declared,
                lambda a, b, c: integer.add_saturating(integer.multiply_high(kind, a, b), c),
                3,
            )
        case "hi":
            return operation(decoder, instruction, declared, lambda a, b, c: integer.multiply_high(kind, a, b) + c, 3)
        case "wide" if declared.width_bits < 64:
            wide = _twice(declared)
            return operation(
                decoder,
                instruction,
                declared,
                lambda a, b, c: integer.multiply_wide(kind, a, b) + c,
                3,
                last=wide,
                result=wide,
            )
        case _:
            raise unsupported(instruction, "mad needs .lo, .hi or .wide")


def _mul24(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    high = modifiers.take("lo", "hi") == "hi"
    declared = modifiers.take_type()
    return operation(decoder, instruction, declared, _product_24(declared, high), 2)


def _mad24(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    high = modifiers.take("lo", "hi") == "hi"
    saturate = modifiers.flag("sat")
    declared = modifiers.take_type()
    product = _product_24(declared, high)
    if saturate:
        if not high or declared.name != "s32":
            raise unsupported(instruction, ".sat is for mad24.hi.s32")
        return operation(decoder, instruction, declared, lambda a, b, c: integer.add_saturating(product(a, b), c), 3)
    return operation(decoder, instruction, declared, lambda a, b, c: product(a, b) + c, 3)


def _div(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.division(decoder, instruction, modifiers)
    declared = modifiers.take_type()
    kind: Any = declared.name
    return operation(decoder, instruction, declared, lambda a, b: integer.divide_integer(kind, a, b), 2)


def _rem(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    refuse_float(instruction, declared)
    kind: Any = declared.name
    return operation(decoder, instruction, declared, lambda a, b: integer.remainder_integer(kind, a, b), 2)


def _extremum(name: str, function: Operation) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        if floating.is_floating(modifiers):
            return floating.extremum(decoder, instruction, modifiers, name)
        relu = modifiers.flag("relu")
        declared = modifiers.take_type()
        if relu and declared.name not in ("s32", "s16x2"):
            raise unsupported(instruction, ".relu is for .s32 and .s16x2")

        def chosen(a: Lanes, b: Lanes) -> Lanes:
            return np.maximum(function(a, b), 0) if relu else function(a, b)

        if declared.name in ("u16x2", "s16x2"):
            half = np.dtype(np.int16 if declared.is_signed else np.uint16)
            return operation(decoder, instruction, declared, halves(chosen, half), 2)
        return operation(decoder, instruction, declared, chosen, 2, view=True)

    return handler


def _neg(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.sign_operation(decoder, instruction, modifiers, "neg")
    declared = modifiers.take_type()
    zero = declared.raw.type(0)
    return operation(decoder, instruction, declared, lambda a: zero - a, 1)


def _abs(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.sign_operation(decoder, instruction, modifiers, "abs")
    declared = modifiers.take_type()
    return operation(decoder, instruction, declared, np.abs, 1, view=True)


def _sad(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    view, raw = declared.view, declared.raw

    def distance(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        x, y = a.view(view), b.view(view)
        return np.where(x > y, a - b, b - a).astype(raw) + c

    return operation(decoder, instruction, declared, distance, 3)


def _dot(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """`dp4a` and `dp2a`: a sum of products of bytes, or of 16-bit numbers and bytes, and c."""
    four = instruction.row == "dp4a"
    upper = not four and modifiers.take("lo", "hi") == "hi"
    first, second = modifiers.take_type(), modifiers.take_type()
    if {first.name, second.name} - {"u32", "s32"}:
        raise unsupported(instruction, "it needs two of .u32 and .s32")
    result = TypeName("s32" if first.is_signed or second.is_signed else "u32", 32)
    a_dtype = np.dtype(f"{'i' if first.is_signed else 'u'}{1 if four else 2}")
    b_dtype = np.dtype("i1" if second.is_signed else "u1")

    def dot(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        left = np.ascontiguousarray(a).view(a_dtype).reshape(len(c), -1).astype(np.int64)
        right = np.ascontiguousarray(b).view(b_dtype).reshape(len(c), -1).astype(np.int64)
        if not four:
            right = right[:, 2:] if upper else right[:, :2]
        return ((left * right).sum(1) + c.astype(np.int64)).astype(np.uint32)

    return operation(decoder, instruction, result, dot, 3)


HANDLERS = {
    "add": _add_like("add", np.add),
    "sub": _add_like("sub", np.subtract),
    "mul": _mul,
    "mad": _mad,
    "fma": _mad,
    "mul24": _mul24,
    "mad24": _mad24,
    "div": _div,
    "rem": _rem,
    "min": _extremum("min", np.minimum),
    "max": _extremum("max", np.maximum),
    "neg": _neg,
    "abs": _abs,
    "sad": _sad,
    "dp4a": _dot,
    "dp2a": _dot,
    **carry.HANDLERS,
}
